/* proxy/probe: `doorward --probe`. Called by main instead of running. Needs no shell and no curl in the container. */
#include "proxy/probe.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define TIMEOUT_S 2

/* Where to find our own listener: a wildcard address is asked on the loopback. */
static int own_address(const struct conf *c, struct sockaddr_storage *out, socklen_t *n)
{
    const char *host = c->listen.host.p;
    if (slice_eq(c->listen.host, SLICE("0.0.0.0"))) host = "127.0.0.1";
    if (slice_eq(c->listen.host, SLICE("::"))) host = "::1";
    struct sockaddr_in *in = (struct sockaddr_in *)out;
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)out;
    memset(out, 0, sizeof *out);
    in->sin_family = AF_INET;
    in->sin_port = htons((uint16_t)c->listen.port); /* at the same place in both */
    *n = sizeof *in;
    if (inet_pton(AF_INET, host, &in->sin_addr) == 1) return AF_INET;
    in6->sin6_family = AF_INET6;
    *n = sizeof *in6;
    return inet_pton(AF_INET6, host, &in6->sin6_addr) == 1 ? AF_INET6 : -1;
}

/* The status line's code, or 0. A listed host is named, so that `listen.hosts` does not refuse the probe. */
static int ask(int fd, const struct conf *c)
{
    char text[512];
    struct slice host = c->listen.hosts.n ? c->listen.hosts.v[0] : SLICE("localhost");
    int n = snprintf(text, sizeof text, "GET /health HTTP/1.1\r\nHost: %.*s\r\nConnection: close\r\n\r\n", (int)host.n,
                     host.p);
    if (n < 0 || (size_t)n >= sizeof text || write(fd, text, (size_t)n) != n) return 0;
    size_t have = 0;
    while (have < 12) {
        ssize_t got = read(fd, text + have, sizeof text - 1 - have);
        if (got <= 0) return 0;
        have += (size_t)got;
    }
    text[have] = 0;
    int status = 0;
    return sscanf(text, "HTTP/1.%*d %3d", &status) == 1 ? status : 0;
}

int probe_health(const struct conf *c)
{
    struct sockaddr_storage address;
    socklen_t n;
    int family = own_address(c, &address, &n);
    int fd = family < 0 ? -1 : socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct timeval limit = {.tv_sec = TIMEOUT_S};
    int status = -1;
    if (fd >= 0) {
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
        if (connect(fd, (struct sockaddr *)&address, n) == 0) status = ask(fd, c);
        close(fd);
    }
    if (status == 200) return 0;
    if (status > 0)
        fprintf(stderr, "doorward: /health answered %d\n", status);
    else
        fprintf(stderr, "doorward: no answer from port %d\n", c->listen.port);
    return 1;
}
