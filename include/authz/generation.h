/* authz/generation: the number in every Redis key of ours. Raising it makes everything stored before it unreachable,
   for all who share the Redis; they notice when they read it next: within GENERATION_MS, or at once when Redis tells
   what changed. */
#ifndef AUTHZ_GENERATION_H
#define AUTHZ_GENERATION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/list.h"
#include "io/loop.h"
#include "remote/redis.h"

#define GENERATION_MS 10000

struct generation {
    struct loop *loop;
    struct redis *redis;
    struct slice prefix; /* kept by pointer */
    long long number;    /* last read; -1 never */
    bool fresh;          /* nothing was raised or dropped since it was read */
    bool owed;           /* a raise that Redis may not have got */
    long long floor;     /* the number that proves it did; -1 unknown */
    int64_t read_ms;     /* monotonic */
    struct list drops;   /* keys to be deleted once the number is read */
    struct list raises;  /* of ours, that Redis has not answered */
    /* The number read is another than the one known, by no raise of ours: others flushed. Inside generation_take. */
    void (*on_raised)(void *arg);
    void *arg;
};

void generation_init(struct generation *g, struct loop *l, struct redis *r, struct slice prefix,
                     void (*on_raised)(void *arg), void *arg);
void generation_finish(struct generation *g);

/* False: it must be read (generation_ask) before a key is made: first use, GENERATION_MS ago, or a reconnect since. */
bool generation_known(const struct generation *g);
struct redis_call *generation_ask(struct generation *g, void (*on_value)(enum redis_outcome, struct slice, void *),
                                  void *arg);
/* What generation_ask's callback was given, if nothing was raised or dropped since it was asked. False: still not
   known; leave Redis alone this time. */
bool generation_take(struct generation *g, enum redis_outcome o, struct slice value);
/* What was read is not trusted any more: others may have raised it. */
void generation_doubt(struct generation *g);
/* INCR. Tried again later when Redis is away now. */
void generation_raise(struct generation *g);
/* DEL of one digest's key in the generation of now; when Redis is away the generation is raised later instead. */
void generation_drop(struct generation *g, const uint8_t digest[32]);

/* prefix v1: generation : hex digits of the digest. Only after a take that was true. */
void generation_key(const struct generation *g, const uint8_t digest[32], struct buf *out);
/* Is it such a key, of whichever generation? */
bool generation_digest(const struct generation *g, struct slice key, uint8_t digest[32]);
/* Is it the key under which the number is? */
bool generation_is_name(const struct generation *g, struct slice key);

#endif
