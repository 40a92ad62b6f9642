/* remote/redis: GET, SETEX, DEL, INCR on one kept connection, pipelined, each with a deadline; reconnects by itself
   with back-off; fails fast while the server is away (a breaker). Never the reason why a request fails. */
#ifndef REMOTE_REDIS_H
#define REMOTE_REDIS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"
#include "io/loop.h"

struct redis;
struct redis_call;

struct redis_config {
    struct slice url;   /* redis://[user:password@]host[:port][/db] or unix:/path[?db=N] (redis+unix:// too) */
    int64_t timeout_ms; /* of each call, and of a connect */
};

enum redis_outcome {
    REDIS_FOUND,       /* value is set, valid inside the callback only */
    REDIS_ABSENT,      /* the server answered: nothing there, or an error reply */
    REDIS_UNAVAILABLE, /* not connected, breaker open, or the deadline passed */
};

/* *error: heap text naming what is wrong with the url (no password in it); then NULL is returned. Starts to connect at
   once; works (as unavailable) without a server. */
struct redis *redis_create(struct loop *l, const struct redis_config *c, char **error);
/* No callback comes any more but done, later, when no handle is left. Safe inside a callback. */
void redis_destroy(struct redis *r, void (*done)(void *arg), void *arg);

/* Later, once; also when not connected. */
struct redis_call *redis_get(struct redis *r, struct slice key,
                             void (*on_value)(enum redis_outcome o, struct slice value, void *arg), void *arg);
void redis_cancel(struct redis_call *c); /* no callback will come */

/* No answer is awaited by the caller; lost when unavailable. Arguments are copied. */
void redis_set(struct redis *r, struct slice key, struct slice value, int64_t ttl_s);
void redis_drop(struct redis *r, struct slice key);
/* INCR: the new value as text comes as FOUND. on_value may be NULL. */
void redis_increment(struct redis *r, struct slice key,
                     void (*on_value)(enum redis_outcome o, struct slice value, void *arg), void *arg);

struct redis_state {
    bool connected;
    const char *breaker; /* its state's name */
    int64_t since_ms;    /* monotonic: connected or disconnected since */
    const char *error;   /* fixed text of the last failure, or NULL */
};
void redis_state(const struct redis *r, struct redis_state *out);

#endif
