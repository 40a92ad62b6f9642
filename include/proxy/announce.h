/* proxy/announce: flushes, told between the instances that share a Redis and watch it. Each flush raises a counter there
   and is published with its number, as tags, without a name; who misses a number, or was cut off and finds another
   number than it knew, drops all that it keeps: tokens, contexts and decisions. So does who cannot read the number
   within a few seconds after it was cut off. */
#ifndef PROXY_ANNOUNCE_H
#define PROXY_ANNOUNCE_H

#include "base/op.h"
#include "proxy/flush.h"

struct announce;
struct announcement;

/* Of a proxy whose Redis is watched with that prefix (kept by pointer). */
struct announce *announce_create(struct proxy *p, struct slice prefix);
void announce_destroy(struct announce *a); /* no flush waits any more */

struct announce_call {
    void (*on_done)(struct announce_call *c);
    bool published; /* Redis has counted it, and was given it for all who watch */
    /* private */
    struct announcement *out;
};

/* Tells the others; goes on when nobody waits for it any more. DONE without a watched Redis (a NULL). */
enum op announce_flush(struct announce *a, const struct flush_scope *s, struct announce_call *c);
void announce_cancel(struct announce_call *c); /* harmless when it is not pending */

/* Hooks of the watch and of identities; arg: the proxy. */
void announce_on_invalidated(struct slice key, void *arg);
void announce_on_message(struct slice payload, void *arg);
void announce_on_raised(void *arg);

#endif
