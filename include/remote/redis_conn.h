/* remote/redis_conn: one connection to Redis, from dialling to close: commands out, parsed answers in. Knows nothing of
   who asked what, of time or of trying again (remote/redis_link does). */
#ifndef REMOTE_REDIS_CONN_H
#define REMOTE_REDIS_CONN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/slice.h"
#include "io/dial.h"
#include "io/loop.h"

struct redis_conn;

enum redis_kind {
    REDIS_KIND_OTHER, /* a status such as OK, and what has no other kind here */
    REDIS_KIND_STRING,
    REDIS_KIND_INTEGER,
    REDIS_KIND_NIL,
    REDIS_KIND_ERROR,
    REDIS_KIND_ARRAY,
};

struct redis_reply {
    enum redis_kind kind;
    struct slice text; /* of a string, an error or a status, valid inside on_reply only. An error may quote what was
                          sent, also a password: it goes into no log */
    long long integer;
    const struct redis_reply *items; /* of an array, valid inside on_reply only */
    size_t n;
};

enum redis_failure { REDIS_FAILURE_UNREACHABLE, REDIS_FAILURE_TIMEOUT, REDIS_FAILURE_GARBAGE, REDIS_FAILURE_STATUS };

struct redis_conn_events {
    void (*on_connected)(void *arg);
    void (*on_reply)(const struct redis_reply *reply, void *arg);
    /* Once, and then only on_closed comes. error: valid inside the call. The owner must call redis_conn_close in it. */
    void (*on_lost)(enum redis_failure f, const char *error, void *arg);
    /* Its memory and handle are gone. */
    void (*on_closed)(void *arg);
};

/* target as for dial_start, which it is given to with timeout_ms. No event comes before this returned. */
struct redis_conn *redis_conn_open(struct loop *l, const struct dial_target *target, int64_t timeout_ms,
                                   const struct redis_conn_events *events, void *arg);
/* No event but on_closed comes any more, and that later. Safe inside any event. */
void redis_conn_close(struct redis_conn *c);

/* Queues a command; redis_conn_flush writes what is queued. A failure is told later. */
void redis_conn_add(struct redis_conn *c, const struct slice *args, size_t n);
void redis_conn_flush(struct redis_conn *c);
size_t redis_conn_queued(const struct redis_conn *c); /* bytes not yet with the kernel */

#endif
