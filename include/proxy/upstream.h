/* proxy/upstream: connections to one upstream: borrow, give back, drop, expire. An idle one that says anything or ends
   is dropped. */
#ifndef PROXY_UPSTREAM_H
#define PROXY_UPSTREAM_H

#include <stdbool.h>

#include "base/op.h"
#include "conf/options.h"
#include "io/dial.h"
#include "io/loop.h"
#include "io/stream.h"

struct upstream;

struct uconn_events { /* of the borrower; owner is what it gave */
    void (*on_data)(void *owner, struct slice data);
    void (*on_end)(void *owner, int error);
    void (*on_drain)(void *owner);
};

struct uconn {
    struct stream stream;
    struct list link;         /* idle list, or the list of those lent */
    struct upstream *upstream;
    struct deadline deadline; /* idle */
    const struct uconn_events *events;
    void *owner;              /* NULL while idle */
    int64_t idle_since_ms;
    bool reused;
};

enum borrow {
    BORROW_ANY,    /* for what may be sent again if the connection turns out dead */
    BORROW_RECENT, /* only one used within the last second, else a fresh one */
    BORROW_FRESH,
};

struct upstream_call {
    void (*on_done)(struct upstream_call *c);
    struct uconn *conn; /* NULL: error says why */
    int error;          /* negative uv error or enum tls_error */
    const char *why;    /* in words; valid inside on_done */
    /* private */
    struct dial *dial;
    struct uconn *dialling;
    struct upstream *upstream;
};

/* With one reference. What is read of c is copied. tls: for https; held. */
struct upstream *upstream_create(struct loop *l, const struct conf_upstream *c, struct tls_context *tls);
struct upstream *upstream_hold(struct upstream *u);
/* The last one drops the idle connections, and the lent ones when they come back; then its memory goes. Whoever may
   still borrow needs a reference. */
void upstream_release(struct upstream *u);
struct deadline_list *upstream_silence(struct upstream *u); /* response_timeout_ms */
size_t upstream_idle(const struct upstream *u);
size_t upstream_open(const struct upstream *u);

/* DONE with c->conn, or PENDING. Reading is on. */
enum op upstream_borrow(struct upstream *u, enum borrow how, const struct uconn_events *events, void *owner,
                        struct upstream_call *c);
void upstream_cancel(struct upstream_call *c);
/* Clean: nothing is owed either way. */
void uconn_give_back(struct uconn *u);
void uconn_drop(struct uconn *u);

#endif
