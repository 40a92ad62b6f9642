/* proxy/upstream: the addresses of one upstream as one. Its names are resolved and its addresses checked in the
   background; requests reach it by proxy/borrow. An idle connection that says anything or ends is dropped. */
#ifndef PROXY_UPSTREAM_H
#define PROXY_UPSTREAM_H

#include <stdbool.h>

#include "base/breaker.h"
#include "conf/options.h"
#include "io/loop.h"
#include "io/tls.h"

struct upstream;

struct upstream_config {
    const struct conf_upstream *conf; /* what is read of it is copied */
    struct breaker_rules breaker;     /* of each address */
    struct tls_context *tls;          /* NULL: plain; held */
    int64_t probe_interval_ms;        /* for /ready, where no health.path is set */
    bool still;                       /* nothing is resolved or checked by itself, as behind upstream_close */
};

/* With one reference. Resolving and checking begin at once. */
struct upstream *upstream_create(struct loop *l, const struct upstream_config *c);
struct upstream *upstream_hold(struct upstream *u);
/* The last one closes it; its memory goes with the last connection that is lent, or call that is not forgotten. Not
   inside a callback of its own. Whoever may still borrow (a request that has not yet) needs a reference. */
void upstream_release(struct upstream *u);
/* At any time, more than once: idle connections are dropped, lent ones when they come back; nothing goes on in the
   background but what somebody waits for. Borrowing still works. */
void upstream_close(struct upstream *u);
/* Would one made of c behave the same? (Then a new configuration can keep this one.) */
bool upstream_same(const struct upstream *u, const struct upstream_config *c);

#endif
