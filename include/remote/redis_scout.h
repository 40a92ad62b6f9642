/* remote/redis_scout: asks one question of one of several servers, again and again: of the next when one is gone or of no
   use. So the master is learned from sentinels, and the map of a cluster from its nodes. */
#ifndef REMOTE_REDIS_SCOUT_H
#define REMOTE_REDIS_SCOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"
#include "io/loop.h"
#include "remote/redis_greeting.h"
#include "remote/redis_slots.h"

struct redis_scout;

struct redis_scout_config {
    struct loop *loop;
    struct redis_login login;
    int64_t timeout_ms;
    struct slice question[3]; /* words of the command; what they point to lives as long */
    size_t question_n;
    int64_t every_ms; /* while nothing is in doubt */
    /* Inside a turn of the loop. from: who answered. False: of no use, the next server is asked. */
    bool (*on_answer)(const struct redis_reply *reply, const struct redis_place *from, void *arg);
    /* All of them were asked in vain. error: valid inside the call. */
    void (*on_failed)(const char *error, void *arg);
    void *arg;
};

/* Begins once there is a place to ask. */
struct redis_scout *redis_scout_create(const struct redis_scout_config *c);
void redis_scout_destroy(struct redis_scout *s, void (*done)(void *arg), void *arg);

/* One more that is always asked (host and port are copied). */
void redis_scout_seed(struct redis_scout *s, const char *host, int port);
/* Those learned, in place of the ones learned before. */
void redis_scout_learn(struct redis_scout *s, const struct redis_place *masters, size_t masters_n,
                       const struct redis_place *replicas, size_t replicas_n);
/* Something is in doubt: the question is asked at once (five times a second at most), once. */
void redis_scout_hurry(struct redis_scout *s);

#endif
