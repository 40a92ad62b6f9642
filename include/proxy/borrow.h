/* proxy/borrow: one request's way to one of the addresses of an upstream, and the connections that are lent. */
#ifndef PROXY_BORROW_H
#define PROXY_BORROW_H

#include <stdbool.h>

#include "base/op.h"
#include "io/dial.h"
#include "io/loop.h"
#include "io/stream.h"
#include "proxy/balance.h"

struct upstream;
struct member;

struct uconn_events { /* of the borrower; owner is what it gave */
    void (*on_data)(void *owner, struct slice data);
    void (*on_end)(void *owner, int error);
    void (*on_drain)(void *owner);
};

struct uconn {
    struct stream stream;
    struct list link;         /* idle list of its member */
    struct member *member;    /* held */
    struct deadline deadline; /* idle */
    const struct uconn_events *events;
    void *owner;              /* NULL while idle */
    int64_t idle_since_ms;
    bool reused;
    bool lent;                /* counted as in flight */
};

enum borrow {
    BORROW_ANY,    /* for what may be sent again if the connection turns out dead */
    BORROW_RECENT, /* only one used within the last second, else a fresh one */
    BORROW_FRESH,
};

enum borrow_fault {
    BORROW_OK,
    BORROW_FAILED,    /* error and why are of the last address that was tried */
    BORROW_NAMELESS,  /* no name of the upstream was ever resolved; error says why */
    BORROW_RESTS,     /* all of its addresses rest after failures */
    BORROW_UNHEALTHY, /* none passes its health check */
    BORROW_FULL,      /* max_inflight requests are there */
};

/* One request's use of an upstream, in memory of the request, zeroed before its first borrow. Which addresses it has
   been to is kept from one borrow to the next. Ended by upstream_forget, always. */
struct upstream_call {
    void (*on_done)(struct upstream_call *c);
    struct uconn *conn;      /* NULL: fault says why */
    enum borrow_fault fault;
    int error;               /* negative uv error or enum tls_error */
    const char *why;         /* in words; valid inside on_done */
    struct member *member;   /* the last address; held until forgotten. NULL: none yet */
    /* private */
    struct upstream *upstream;
    struct dial *dial;
    struct uconn *dialling;
    struct list link;         /* waits for a name */
    struct deadline deadline; /* of that */
    const struct uconn_events *events;
    void *owner;
    int64_t until_ms;         /* when it must be connected */
    enum borrow how;
    struct tried tried;
    uint32_t ticket;          /* of the member's breaker */
    bool untold;              /* what became of it is owed to the breaker */
    bool reused;              /* the last connection came off the pool */
};

/* DONE or PENDING (then on_done comes later, once): with c->conn, reading is on; or with c->fault. An address that
   cannot be connected is one that nothing was sent to: the next one is tried, each once, within connect_timeout_ms. A
   second borrow of the same call goes to an address it has not been to; where there is none and the connection before
   was reused, to any. */
enum op upstream_borrow(struct upstream *u, enum borrow how, const struct uconn_events *events, void *owner,
                        struct upstream_call *c);
void upstream_cancel(struct upstream_call *c);
/* May another address be borrowed from, that this call has not been to? */
bool upstream_has_other(const struct upstream_call *c);
/* What became of the request, once per borrow; later words are ignored. latency_ms: to the first byte of the answer. */
void upstream_answered(struct upstream_call *c, int status, double latency_ms);
/* No answer. silent: none in time; else closed, or malformed, which like a status of 502, 503 or 504 counts only while
   another address could do better: of the last one it may be the fault of one request, and costs nobody time. */
void upstream_failed(struct upstream_call *c, bool silent, const char *why);
/* Nothing more of it is needed. Not told: it was ended for a reason of our own. */
void upstream_forget(struct upstream_call *c);
/* A connect that failed, in fixed words for log and answers. */
const char *upstream_dial_fault(int error);
struct slice upstream_authority(const struct upstream_call *c); /* of the URL of c->member */
struct slice upstream_address(const struct upstream_call *c);   /* "192.0.2.1:80"; "" none yet */

struct deadline_list *upstream_silence(const struct uconn *c); /* response_timeout_ms */
/* Clean: nothing is owed either way. */
void uconn_give_back(struct uconn *u);
void uconn_drop(struct uconn *u);

/* For upstream: those who wait for a name have another look. */
void borrow_serve(struct upstream *u);

#endif
