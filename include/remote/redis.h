/* remote/redis: GET, SETEX, DEL, INCR on kept connections, pipelined, each with a deadline; reconnects by itself with
   back-off; fails fast while the server is away (a breaker). Never the reason why a request fails. One server, the
   master that sentinels name, or the masters of a cluster: the calls are the same. A watch tells what others changed. */
#ifndef REMOTE_REDIS_H
#define REMOTE_REDIS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/breaker.h"
#include "base/slice.h"
#include "io/loop.h"

struct redis;
struct redis_call;
struct tls_context;

struct redis_config {
    /* redis[s]://[user:password@]host[:port][/db] or unix:/path[?db=N] (redis+unix:// too). With sentinels the host is
       the master's name; with cluster it is a seed. User, password, db and TLS are for the servers that hold data. */
    struct slice url;
    int64_t timeout_ms; /* of each call, and of a connect */

    const struct slice *sentinels; /* "host:port" each; none: no sentinels */
    size_t sentinels_n;
    struct slice sentinel_user, sentinel_password; /* may be empty */

    struct breaker_rules breaker; /* of each server; all zero: the usual ones */

    bool cluster;              /* no database but 0 */
    const struct slice *nodes; /* "host:port": more seeds */
    size_t nodes_n;

    struct tls_context *tls; /* for rediss:// (and then for sentinels too), held while redis lives; else NULL */
    struct slice tls_name;   /* the name that certificates must have; empty: that of each server's address */

    /* The watch: all of it is off while track_prefix is empty. Servers then tell which keys with that prefix changed
       by others than this process, and pass on what is published on the channel "<track_prefix>flush". */
    struct slice track_prefix;
    /* key empty: everything may have changed (the watch broke, or began after a while without; FLUSHDB). Inside a turn
       of the loop, never inside a call of redis_…; it may make calls but not destroy. May be NULL. */
    void (*on_invalidated)(struct slice key, void *arg);
    /* Also what this process published itself; in a cluster once for each master. Foreign bytes. May be NULL. */
    void (*on_message)(struct slice payload, void *arg);
    void *watch_arg;
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
/* INCR: the new value as text comes as FOUND. on_value may be NULL; only else is there something to cancel. */
struct redis_call *redis_increment(struct redis *r, struct slice key,
                                   void (*on_value)(enum redis_outcome o, struct slice value, void *arg), void *arg);

/* To all who watch with the same prefix. Lost when unavailable. */
void redis_publish(struct redis *r, struct slice payload);

struct redis_state {
    bool connected;      /* to all masters */
    const char *breaker; /* its state's name; of several that of the worst */
    int64_t since_ms;    /* monotonic: since when no connection was lost or made */
    const char *error;   /* of the last failure, or NULL; valid until the loop goes on */
    const char *master;  /* "host:port" that sentinels named, or NULL; valid until the loop goes on */
    size_t masters;      /* how many are known */
    bool tracking;       /* each change is told as it happens */
    const char *tracking_error; /* why not, a fixed text, or NULL */
};
void redis_state(const struct redis *r, struct redis_state *out);

#endif
