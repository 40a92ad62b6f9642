/* remote/redis_link: one connection to one Redis that keeps itself up: resolves, connects, authenticates, selects the
   database, asks for a PONG, and starts again with back-off when any of it fails or the connection is lost. Commands go
   out in order and answers come back in that order; whose they are is the owner's business (remote/redis). */
#ifndef REMOTE_REDIS_LINK_H
#define REMOTE_REDIS_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"
#include "io/loop.h"
#include "remote/redis_conn.h"
#include "remote/redis_url.h"

struct redis_link;

/* All of them run from the loop, never inside redis_link_create or redis_link_send, none after redis_link_destroy. */
struct redis_link_events {
    void (*on_up)(void *arg);
    /* An attempt failed, or the link was lost: then no command that is out will be answered. error: a fixed text. */
    void (*on_down)(enum redis_failure f, const char *error, void *arg);
    void (*on_reply)(const struct redis_reply *reply, void *arg);
};

/* url must live as long as the link. timeout_ms: of one attempt, handshake included. */
struct redis_link *redis_link_create(struct loop *l, const struct redis_url *url, int64_t timeout_ms,
                                     const struct redis_link_events *events, void *arg);
/* done runs later, when no handle is left. */
void redis_link_destroy(struct redis_link *k, void (*done)(void *arg), void *arg);

bool redis_link_up(const struct redis_link *k);
/* Queues one command; all that are queued in one turn of the loop leave together. False when the link is not up or too
   much is out already. */
bool redis_link_send(struct redis_link *k, const struct slice *args, size_t n);

#endif
