/* io/accept: a listening TCP socket: hands out accepted streams with the address of their peer. */
#ifndef IO_ACCEPT_H
#define IO_ACCEPT_H

#include <stdint.h>

#include "io/loop.h"
#include "io/stream.h"

struct address {
    char text[48];     /* without port; "" when the peer is gone already */
    uint8_t bytes[16]; /* network order; IPv4 in the first four, also when it came mapped in IPv6 */
    uint8_t family;    /* 4 or 6, 0 unknown */
    uint16_t port;
};

struct acceptor;

/* on_waiting: a connection waits: call accept_take. on_error: the kernel would not hand one out (out of descriptors …);
   told at most once a second. host: an address literal. NULL: *error is a static text. */
struct acceptor *accept_open(struct loop *l, const char *host, int port, void (*on_waiting)(void *arg),
                             void (*on_error)(const char *text, void *arg), void *arg, const char **error);
/* The same on a socket of accept_socket; it is the acceptor's from here on. */
struct acceptor *accept_adopt(struct loop *l, int fd, void (*on_waiting)(void *arg),
                              void (*on_error)(const char *text, void *arg), void *arg, const char **error);
/* `n` sockets that listen on one port, between which the kernel spreads the connections, closed on exec, for processes
   to be forked. Port 0 gives all the same; *port gets it. A port that anybody listens on already is refused. False: none is
   open, *error is a static text. */
bool accept_sockets(const char *host, int *port, int *fds, size_t n, const char **error);
/* Makes s of the waiting connection; a negative uv error when it could not be taken: s is to be closed all the same. */
int accept_take(struct acceptor *a, struct stream *s, const struct stream_events *events, struct address *peer);
int accept_port(const struct acceptor *a); /* the one bound, also when 0 was asked for */
/* Before the end: on_waiting for each in the kernel's queue, which closing the socket would reset. last: no other process
   goes on with the socket: no connection begins any more. */
void accept_rest(struct acceptor *a, bool last);
void accept_close(struct acceptor *a);

#endif
