/* See common/net.h. */
#include "common/net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define BACKLOG 16384

_Noreturn void die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(1);
}

int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

struct sockaddr_in net_address(const char *text)
{
    char host[64];
    unsigned port = 0;
    struct sockaddr_in a = {.sin_family = AF_INET};
    if (sscanf(text, "%63[0-9.]:%u", host, &port) != 2 || port == 0 || port > 65535 ||
        inet_pton(AF_INET, host, &a.sin_addr) != 1)
        die("%s: not an address like 127.0.0.1:8080", text);
    a.sin_port = htons((uint16_t)port);
    return a;
}

void net_no_delay(int fd)
{
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

static int open_socket(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) die("socket: %s", strerror(errno));
    return fd;
}

int net_listen(const struct sockaddr_in *a)
{
    int on = 1, fd = open_socket();
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (const struct sockaddr *)(const void *)a, sizeof *a) || listen(fd, BACKLOG))
        die("cannot listen on port %u: %s", ntohs(a->sin_port), strerror(errno));
    return fd;
}

int net_connect(const struct sockaddr_in *a)
{
    int fd = open_socket();
    net_no_delay(fd);
    if (connect(fd, (const struct sockaddr *)(const void *)a, sizeof *a) && errno != EINPROGRESS) {
        int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

void net_raise_files(void)
{
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r)) return;
    r.rlim_cur = r.rlim_max;
    setrlimit(RLIMIT_NOFILE, &r);
}

int timer_create_fd(void)
{
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (fd < 0) die("timerfd: %s", strerror(errno));
    return fd;
}

void timer_set(int fd, int64_t due_ns)
{
    if (due_ns < 1) due_ns = 1; /* zero would disarm it */
    struct itimerspec t = {.it_value = {due_ns / INT64_C(1000000000), due_ns % INT64_C(1000000000)}};
    if (timerfd_settime(fd, TFD_TIMER_ABSTIME, &t, NULL)) die("timerfd: %s", strerror(errno));
}
