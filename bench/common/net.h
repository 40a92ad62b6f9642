/* bench/common/net: sockets, clock and timer of the measuring programs. What cannot be done ends the program with a
   line that says what. */
#ifndef BENCH_COMMON_NET_H
#define BENCH_COMMON_NET_H

#include <netinet/in.h>
#include <stdint.h>

_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

int64_t now_ns(void); /* monotonic */

struct sockaddr_in net_address(const char *text); /* 127.0.0.1:8080 */
int net_listen(const struct sockaddr_in *a);      /* non-blocking */
int net_connect(const struct sockaddr_in *a);     /* non-blocking, under way; -1 with errno: refused at once */
void net_no_delay(int fd);
void net_raise_files(void); /* as many open files as may be */

int timer_create_fd(void);                   /* a timerfd; edge-triggered epoll needs no read of it */
void timer_set(int fd, int64_t due_ns);      /* absolute, once; replaces what was set; a time that is past fires at once */

#endif
