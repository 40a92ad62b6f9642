/* remote/redis_link: one connection to one Redis that keeps itself up: dials, greets, and starts again with back-off when
   any of it fails or the connection is lost. Commands go out in order and answers come back in that order; whose they
   are is the owner's business. Where it leads may be changed at any time. */
#ifndef REMOTE_REDIS_LINK_H
#define REMOTE_REDIS_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"
#include "io/loop.h"
#include "remote/redis_conn.h"
#include "remote/redis_greeting.h"

struct redis_link;

/* All of them run from the loop, never inside a function of this header, none after redis_link_destroy. */
struct redis_link_events {
    void (*on_up)(void *arg);
    /* An attempt failed, or the link was lost: then no command that is out will be answered. error: lives as long as
       the link, and changes with the next. */
    void (*on_down)(enum redis_failure f, const char *error, void *arg);
    void (*on_reply)(const struct redis_reply *reply, void *arg);
    /* What a subscriber was sent; NULL for a link without channels. payload: a string, an array, or nil. */
    void (*on_message)(struct slice channel, const struct redis_reply *payload, void *arg);
};

struct redis_link_config { /* what it points to must live as long as the link */
    struct redis_login login;
    int64_t timeout_ms; /* of one attempt to connect, and again of the greeting */
    bool master;        /* a server that is none is left again */
    struct slice channels[REDIS_CHANNELS]; /* to subscribe to: then PING is the only command */
    size_t channels_n;
    const struct redis_link_events *events;
    void *arg;
};

/* Stays down until it is aimed. */
struct redis_link *redis_link_create(struct loop *l, const struct redis_link_config *c);
/* done runs later, when no handle is left. */
void redis_link_destroy(struct redis_link *k, void (*done)(void *arg), void *arg);

/* Leads to path (of a UNIX socket) or host and port, which are copied, from now on; both NULL: nowhere. What it led to
   before is dropped without on_down, also when it is the same, and no command that is out will be answered. Safe
   inside any event. */
void redis_link_aim(struct redis_link *k, const char *path, const char *host, int port);
/* Drops the connection, in a later turn, as if it had been lost with that error, a fixed text. */
void redis_link_leave(struct redis_link *k, const char *error);

bool redis_link_up(const struct redis_link *k);
/* What the greeting told. */
const struct redis_greeting *redis_link_greeting(const struct redis_link *k);
/* Queues one command; all that are queued in one turn of the loop leave together. False when the link is not up or too
   much is out already. */
bool redis_link_send(struct redis_link *k, const struct slice *args, size_t n);

#endif
