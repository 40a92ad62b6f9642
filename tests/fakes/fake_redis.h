/* fakes/fake_redis: remote/redis.h as a map in memory. A get or an increment is answered when the test says so
   (fake_redis_deliver), never before the starter returned; until then it is delayed. Linked into a test program before
   the remote library. Everything is freed by redis_destroy. */
#ifndef FAKES_FAKE_REDIS_H
#define FAKES_FAKE_REDIS_H

#include <stdbool.h>
#include <stddef.h>

#include "remote/redis.h"

struct fake_redis_item {
    struct fake_redis_item *next;
    char *key;
    char *value;
    size_t value_n;
    int64_t ttl_s; /* as given with the value; nothing expires here. 0: none */
};

struct redis_call {
    struct redis_call *next;
    char *key;
    bool increment;
    void (*on_value)(enum redis_outcome o, struct slice value, void *arg);
    void *arg;
};

struct redis {
    bool unavailable; /* set by the test: gets give UNAVAILABLE, sets, drops and increments are lost */
    struct fake_redis_item *items;
    struct redis_call *calls; /* not answered yet, oldest first */
    size_t gets, sets, drops; /* how many were asked for */
    bool watched;             /* made with a track_prefix: tracking while it is available */
    void (*on_invalidated)(struct slice key, void *arg);
    void (*on_message)(struct slice payload, void *arg);
    void *watch_arg;
    char *published; /* the last payload, or NULL */
    size_t publishes;
};

/* Answers all calls that are out now, oldest first; how many. Calls started by their callbacks stay out. */
size_t fake_redis_deliver(struct redis *r);
size_t fake_redis_waiting(const struct redis *r); /* calls not answered yet */

/* The watch tells of a key; "" stands for everything. Nothing when it was made without one. */
void fake_redis_invalidate(struct redis *r, const char *key);
/* Somebody published. */
void fake_redis_message(struct redis *r, const char *payload);

/* What is stored under key, or NULL. */
const struct fake_redis_item *fake_redis_find(const struct redis *r, const char *key);
void fake_redis_put(struct redis *r, const char *key, const char *value, int64_t ttl_s);
/* The nth item, newest first (to find a key that the code made); NULL when there are fewer. */
const struct fake_redis_item *fake_redis_nth(const struct redis *r, size_t n);

#endif
