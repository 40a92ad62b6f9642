/* remote/redis_watch: what others change on one server, told as it happens: a second connection that is subscribed, and
   CLIENT TRACKING (Redis 6) of the first one redirected to it, for all keys with a prefix. Both are PINGed, so that the
   silent death of either is seen. A server or an ACL that refuses it costs one warning, and all else works. */
#ifndef REMOTE_REDIS_WATCH_H
#define REMOTE_REDIS_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"
#include "io/loop.h"
#include "remote/redis_greeting.h"

struct redis_node;
struct redis_watch;

struct redis_watch_config { /* copied; what it points to lives longer */
    struct loop *loop;
    const struct redis_login *login;
    int64_t timeout_ms;
    struct slice prefix, channel;
    struct redis_node *node; /* it is asked for the tracking; on_tracking is told with it */
    /* May be NULL both. */
    void (*on_invalidated)(struct slice key, void *arg);
    void (*on_message)(struct slice payload, void *arg);
    void *arg;
    void (*on_tracking)(void *node);
};

struct redis_watch *redis_watch_create(const struct redis_watch_config *c);
/* No event comes any more, and it asks for nothing. */
void redis_watch_stop(struct redis_watch *w);
/* After redis_watch_stop, when its node has emptied its row. */
void redis_watch_destroy(struct redis_watch *w, void (*done)(void *arg), void *arg);

void redis_watch_aim(struct redis_watch *w, const char *path, const char *host, int port);
/* The connection whose commands are tracked came up, or was lost. */
void redis_watch_main(struct redis_watch *w, bool up);
bool redis_watch_tracking(const struct redis_watch *w, const char **why_not);

#endif
