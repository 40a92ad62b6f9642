/* proxy/proxy: what all of a running proxy shares: made by main, read by every file of this room. */
#ifndef PROXY_PROXY_H
#define PROXY_PROXY_H

#include <stdbool.h>
#include <stdint.h>

#include "authz/token.h"
#include "io/loop.h"
#include "proxy/settings.h"
#include "remote/fetch.h"
#include "remote/redis.h"

struct announce;
struct ready;
struct request;
struct listener;
struct team;

/* One request is played through and goes nowhere (proxy/eval): nothing is asked or resolved in the background, and all
   that a real request would do passes by these. */
struct rehearsal {
    void (*on_step)(struct request *r); /* before each step; may set r->step to another one */
    /* As fetch_instead has it; arg is the proxy. */
    bool (*on_fetch)(const struct fetch_request *q, struct fetch_answer *a, void *arg);
};

struct proxy {
    struct loop *loop;
    struct team *team; /* NULL: the only process */
    const struct rehearsal *rehearsal; /* NULL: it serves */
    struct settings *settings; /* of now; what begins, begins with them */
    struct list all_settings;  /* those that something still uses too */
    struct list gone_settings;
    struct deadline sweep;     /* of gone_settings */
    struct wire *first;        /* what never changes points into it */
    struct fetch *fetch;
    struct redis *redis; /* NULL: none configured */
    uint64_t evictions_seen[3]; /* of the caches, by gauges */
    struct announce *announce; /* NULL: Redis is not watched */
    struct tokens *tokens;
    struct ready *ready;
    struct listener *listeners[2];
    struct list conns;
    size_t conns_n;
    size_t large_unread; /* connections whose client has not taken a large answer of our own (own.c) */
    struct deadline_list linger_timeout;
    struct deadline_list fresh_timeout; /* while draining: the first request of a connection that has not asked yet */
    struct deadline drain_delay; /* while draining: until nobody is accepted any more */
    bool draining;        /* not ready, and every answer ends its connection */
    bool closing;         /* besides, no new connections and no idle ones */
    void (*on_drained)(struct proxy *p); /* the last connection is closed while draining; may be NULL */
};

/* loop and on_drained are set; nothing listens yet. Takes the settings, and starts the parts. False: *error is a heap
   text; proxy_finish and proxy_free are due all the same. */
bool proxy_start(struct proxy *p, struct settings *s, char **error);
/* Not ready from now on, and each answer tells its client to close. delay_ms later (0: at once; a second call only
   shortens it) no new connections but those that the kernel has taken already; idle ones closed, those that have not
   asked yet after a moment, busy ones after their answer. on_drained later, once. */
void proxy_drain(struct proxy *p, int64_t delay_ms);
/* Ends every connection at once. */
void proxy_abort(struct proxy *p);
void proxy_finish(struct proxy *p); /* after the last connection: ends the parts; their handles are let go by the loop */
void proxy_free(struct proxy *p);   /* after the loop has let all handles go */

#endif
