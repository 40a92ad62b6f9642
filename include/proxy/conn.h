/* proxy/conn: a client connection: its stream, the bytes read and not yet used, its parser, and one request at a time. */
#ifndef PROXY_CONN_H
#define PROXY_CONN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "http/parser.h"
#include "io/accept.h"
#include "io/stream.h"
#include "proxy/proxy.h"

struct request;

enum conn_state {
    CONN_READY,   /* waits for a head, or has part of one */
    CONN_REQUEST, /* one request is under way */
    CONN_LINGER,  /* answered and ended on our side; what still comes is thrown away for a moment */
    CONN_SECURES, /* shakes hands in TLS, before anything else */
    CONN_CLOSED,
};

struct conn {
    struct stream stream;
    struct proxy *proxy;
    struct list link;
    struct deadline deadline; /* of the state, in one of the proxy's lists */
    struct parser parser;
    struct arena arena;       /* of the request */
    struct request *request;
    struct slice pending;     /* bytes read and not yet used: in saved, or in the reader's buffer inside on_read */
    char *saved;              /* heap */
    size_t saved_cap;
    size_t scanned;           /* of pending, while looking for the end of a head */
    size_t unsent;            /* what the client had not taken when last looked at */
    uint64_t lingered;        /* bytes thrown away */
    unsigned served;          /* requests begun */
    uint64_t revision;        /* of the settings that say whether it is trusted */
    enum conn_state state;
    enum reason refused;      /* while it secures: what it is told behind that; FORWARDED: nothing */
    const struct tls_context *tls; /* NULL: plain; its stream holds it */
    bool admin;               /* came in on the admin address */
    bool trusted;             /* the peer is one of trusted_proxies */
    bool counted;             /* by admission, under its address */
    bool half_closed;         /* the client ended its side */
    bool head_begun;          /* the time for a head runs */
    bool pumping;
    bool large_unread;        /* one of proxy->large_unread */
    struct address peer;
};

/* Takes a connection whose stream is open (memory of its own: freed by its last close callback). */
struct conn *conn_create(struct proxy *p, bool admin);
extern const struct stream_events conn_events;
/* The stream is connected and peer_* are set: starts to read. */
void conn_begin(struct conn *c);
/* Likewise, with TLS first, all within header_timeout_ms. refused: FORWARDED, or as conn_refuse once it is secured. */
void conn_secure(struct conn *c, struct tls_context *tls, enum reason refused);
/* The listener asks more of whoever comes now, or another thing: a certificate of other authorities, TLS at all. Such a
   connection ends with its next answer. */
bool conn_is_outdated(const struct conn *c);
/* Instead of conn_begin: answers with that reason before anything is read, and ends. */
void conn_refuse(struct conn *c, enum reason reason);

/* The request is answered and finished: keep_alive goes on to the next, else the connection is ended, lingering when
   the client may still be sending. */
void conn_request_done(struct conn *c, bool keep_alive);
/* No further requests are wanted: closes it when idle, soon when it has not asked yet (its first request may be on its
   way); one with a request, or part of one, is left to it. */
void conn_drain(struct conn *c);
/* There is another idle_timeout: where it waits for a request it has that from now on. */
void conn_adjust(struct conn *c);
/* At once, without lingering: the client must see a broken answer. */
void conn_close(struct conn *c);

/* The client has body_idle_timeout_ms to take some of what is queued for it, again and again. */
void conn_await_reader(struct conn *c);

void conn_consume(struct conn *c, size_t n); /* n bytes of pending are used */
/* Reading on or off, as state, request and what is pending ask for. */
void conn_update_reading(struct conn *c);

#endif
