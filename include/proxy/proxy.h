/* proxy/proxy: what all of a running proxy shares: made by main, read by every file of this room. */
#ifndef PROXY_PROXY_H
#define PROXY_PROXY_H

#include <stdbool.h>
#include <stdint.h>

#include "authz/decision.h"
#include "authz/grant.h"
#include "authz/identity.h"
#include "authz/token.h"
#include "conf/options.h"
#include "conf/routes.h"
#include "http/message.h"
#include "io/loop.h"
#include "remote/fetch.h"
#include "remote/redis.h"

struct tls_context;
struct upstream;
struct ready;
struct listener;

/* A name of policy.query with its synonyms: "office_id|office". */
#define LIFT_NAMES_MAX 4
struct lift {
    struct slice names[LIFT_NAMES_MAX]; /* [0] is what the policy sees */
    size_t n;
};

struct proxy {
    struct loop *loop;
    const struct conf *conf;
    struct routes *routes;
    struct fetch *fetch;
    struct redis *redis; /* NULL: none configured */
    struct tokens *tokens;
    struct identities *identities;
    struct decisions *decisions;
    struct grant *grant;
    struct upstream **upstreams; /* in the order of conf->upstreams */
    struct tls_context **upstream_tls; /* likewise; of wire. NULL entries: plain */
    struct ready *ready;
    struct name_set *stripped;   /* the grant header and strip_headers */
    struct lift *lifts;
    size_t lifts_n;
    struct listener *listeners[2];
    struct list conns;
    size_t conns_n;
    size_t large_unread; /* connections whose client has not taken a large answer of our own (own.c) */
    struct deadline_list header_timeout, idle_timeout, body_timeout, linger_timeout, websocket_timeout;
    struct deadline_list budget; /* of each request that has one */
    struct deadline_list fresh_timeout; /* while draining: the first request of a connection that has not asked yet */
    struct deadline drain_delay; /* while draining: until nobody is accepted any more */
    bool draining;        /* not ready, and every answer ends its connection */
    bool closing;         /* besides, no new connections and no idle ones */
    void (*on_drained)(struct proxy *p); /* the last connection is closed while draining; may be NULL */
};

/* Starts nothing by itself; conf, loop and the parts are set before. Makes upstreams, ready and the deadline lists. */
void proxy_init(struct proxy *p);
/* Not ready from now on, and each answer tells its client to close. delay_ms later (0: at once; a second call only
   shortens it) no new connections but those that the kernel has taken already; idle ones closed, those that have not
   asked yet after a moment, busy ones after their answer. on_drained later, once. */
void proxy_drain(struct proxy *p, int64_t delay_ms);
/* Ends every connection at once. */
void proxy_abort(struct proxy *p);
void proxy_finish(struct proxy *p); /* after the last connection: closes pools and probes */
void proxy_free(struct proxy *p);   /* after the loop has let all handles go */

struct upstream *proxy_upstream(const struct proxy *p, const struct conf_upstream *c);

#endif
