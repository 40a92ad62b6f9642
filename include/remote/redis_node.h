/* remote/redis_node: one server that holds data: the link to it, the row of those who await its answers, its breaker, and
   the watch over it. Which server that is may be changed (redis_node_aim). */
#ifndef REMOTE_REDIS_NODE_H
#define REMOTE_REDIS_NODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/breaker.h"
#include "base/list.h"
#include "base/slice.h"
#include "io/loop.h"
#include "remote/redis_greeting.h"
#include "remote/redis_link.h"

struct redis_node;

/* One command that is out. */
struct redis_turn {
    struct list link;
    uint32_t ticket; /* of the node's breaker */
    /* Once; it is out of the row then. NULL: the link was lost, or the node's end came; no answer will come. */
    void (*on_answer)(struct redis_turn *t, const struct redis_reply *reply);
};

struct redis_node_events { /* none comes inside a function of this header but aim and destroy */
    void (*on_up)(struct redis_node *n, void *arg);
    /* An attempt failed, or it was lost; those who waited know already. */
    void (*on_down)(struct redis_node *n, enum redis_failure f, void *arg);
    void (*on_tracking)(struct redis_node *n, void *arg); /* it began or ended */
    void (*on_invalidated)(struct slice key, void *arg);  /* as in remote/redis.h */
    void (*on_message)(struct slice payload, void *arg);
};

struct redis_node_config { /* the same for all; lives longer than they */
    struct loop *loop;
    struct redis_login login;
    int64_t timeout_ms;
    bool master; /* who is none is refused */
    struct breaker_rules breaker;
    struct slice prefix, channel; /* of the watch; prefix empty: none */
    const struct redis_node_events *events;
    void *arg;
};

struct redis_node *redis_node_create(const struct redis_node_config *c);
/* Everybody in the row is told first; then no event comes. done runs later, when no handle is left. */
void redis_node_destroy(struct redis_node *n, void (*done)(void *arg), void *arg);

/* As redis_link_aim, for the watch too; everybody in the row is told NULL. */
void redis_node_aim(struct redis_node *n, const char *path, const char *host, int port);
/* It is not what it should be: the connection is dropped in a later turn. error: a fixed text. */
void redis_node_leave(struct redis_node *n, const char *error);

/* False: the link is down, the breaker rests it, or too much is out. Else t is in the row, and its owner tells once what
   became of it: redis_node_judge. asking: ASKING goes before it. */
bool redis_node_send(struct redis_node *n, const struct slice *args, size_t args_n, bool asking, struct redis_turn *t);
void redis_node_judge(struct redis_node *n, const struct redis_turn *t, bool good);
/* A command whose answer nobody wants to know, past the breaker. */
void redis_node_tell(struct redis_node *n, const struct slice *args, size_t args_n);
/* The same with an answer; judged by nobody. */
bool redis_node_ask(struct redis_node *n, const struct slice *args, size_t args_n, struct redis_turn *t);

bool redis_node_up(const struct redis_node *n);
bool redis_node_fresh(const struct redis_node *n); /* the first attempt to reach it is not over */
const char *redis_node_host(const struct redis_node *n); /* or NULL */
enum breaker_state redis_node_breaker(const struct redis_node *n);
const char *redis_node_error(const struct redis_node *n); /* of its last failure, or NULL; as in redis_link_events */
bool redis_node_tracking(const struct redis_node *n, const char **why_not); /* a fixed text */

#endif
