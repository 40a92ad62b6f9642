/* remote/redis_route: which server a key is at: the only one, the master that sentinels name, or the master that has the
   key's slot in a cluster; and the connections to all of them. */
#ifndef REMOTE_REDIS_ROUTE_H
#define REMOTE_REDIS_ROUTE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/slice.h"
#include "io/loop.h"
#include "remote/redis.h"
#include "remote/redis_node.h"
#include "remote/redis_slots.h"

struct redis_route;

struct redis_route_events { /* all from the loop */
    /* Connected, or a first attempt failed: who waited for it may go on. */
    void (*on_up)(struct redis_node *n, void *arg);
    void (*on_down)(struct redis_node *n, enum redis_failure f, void *arg);
    /* A connection was made or lost, or other servers have the keys now. */
    void (*on_change)(void *arg);
    /* It will be destroyed, and those who wait for its first connection must not. */
    void (*on_gone)(struct redis_node *n, void *arg);
};

/* c: as for redis_create; all of it is copied but the hooks' arg. *error: heap text, no password in it; then NULL. */
struct redis_route *redis_route_create(struct loop *l, const struct redis_config *c,
                                       const struct redis_route_events *events, void *arg, char **error);
/* Everybody who waits in the row of a node is told NULL first. done runs later. */
void redis_route_destroy(struct redis_route *r, void (*done)(void *arg), void *arg);

bool redis_route_redirects(const struct redis_route *r); /* it is a cluster: MOVED and ASK may come */
/* NULL: not known (yet). */
struct redis_node *redis_route_of(struct redis_route *r, struct slice key);
/* For what any server may be told: one that is up. */
struct redis_node *redis_route_any(struct redis_route *r, struct slice key);
/* The node at a place that a server named, made when it is new; moved: it has the slot from now on, and the map is asked
   for. NULL: too many. */
struct redis_node *redis_route_to(struct redis_route *r, const struct redis_place *place, bool moved, unsigned slot);
/* It said by READONLY or CLUSTERDOWN that things have changed. */
void redis_route_doubt(struct redis_route *r, struct redis_node *n, bool replica);
struct slice redis_route_channel(const struct redis_route *r); /* of redis_publish; empty: none */

/* All but since_ms. */
void redis_route_state(const struct redis_route *r, struct redis_state *out);

#endif
