/* For the tests of remote/redis: a client and a scripted server in one loop, calls whose answers are kept. */
#ifndef TESTS_REMOTE_REDIS_BENCH_H
#define TESTS_REMOTE_REDIS_BENCH_H

#include "base/arena.h"
#include "base/metric.h"
#include "harness.h"
#include "remote/redis.h"

struct got {
    int calls;
    enum redis_outcome outcome;
    char value[100];
};

struct bench {
    struct harness h;
    struct script s;
    struct redis *redis;
};

static inline void on_value(enum redis_outcome o, struct slice value, void *arg)
{
    struct got *g = arg;
    g->calls++;
    g->outcome = o;
    assert_true((o == REDIS_FOUND) || value.n == 0);
    snprintf(g->value, sizeof g->value, "%.*s", (int)value.n, value.n ? value.p : "");
}

static inline bool connected(struct redis *r)
{
    struct redis_state s;
    redis_state(r, &s);
    return s.connected;
}

static inline const char *error_of(struct redis *r)
{
    struct redis_state s;
    redis_state(r, &s);
    return s.error ? s.error : "";
}

static inline struct redis *open_redis(struct harness *h, const char *url, int64_t timeout_ms)
{
    char *error = NULL;
    struct redis_config c = {.url = slice_str(url), .timeout_ms = timeout_ms};
    struct redis *r = redis_create(h->loop, &c, &error);
    assert_non_null(r);
    assert_null(error);
    return r;
}

static inline void open_bench(struct bench *b, const char *user, const char *tail, int64_t timeout_ms,
                              void (*on_data)(struct peer *), void *arg)
{
    char url[200];
    memset(b, 0, sizeof *b);
    harness_open(&b->h);
    script_listen(&b->s, &b->h, NULL, on_data);
    b->s.arg = arg;
    snprintf(url, sizeof url, "redis://%s127.0.0.1:%d%s", user, b->s.port, tail);
    b->redis = open_redis(&b->h, url, timeout_ms);
}

static inline void destroy_redis(struct harness *h, struct redis *r)
{
    h->gone = false;
    redis_destroy(r, harness_on_gone, &h->gone);
    assert_false(h->gone);
    harness_until(h, h->gone);
}

static inline void close_bench(struct bench *b)
{
    destroy_redis(&b->h, b->redis);
    script_close(&b->s);
    harness_close(&b->h);
}

/* --- a script: PONG for each PING, then `answers`, whole or cut, once `commands` others came -------------------- */

struct plan {
    const char *answers;
    size_t n; /* how much of it */
    int commands;
    bool drip, close, reset;
    char first[300]; /* what came with the handshake */
    int pings;
};

static inline int count(struct slice in, const char *what)
{
    int n = 0;
    for (const char *p = in.p; (p = memmem(p, (size_t)(in.p + in.n - p), what, strlen(what))); p++)
        n++;
    return n;
}

static inline void on_plan(struct peer *p)
{
    struct plan *plan = p->script->arg;
    const char *ping = memmem(p->in.p, p->in.n, "*1\r\n$4\r\nPING\r\n", 14);
    if (ping) {
        size_t n = (size_t)(ping - p->in.p) + 14;
        snprintf(plan->first, sizeof plan->first, "%.*s", (int)n, p->in.p);
        for (int i = count(slice_make(p->in.p, n), "*") - 1; i > 0; i--)
            peer_send(p, "+OK\r\n", 5);
        peer_send(p, "+PONG\r\n", 7);
        plan->pings++;
        peer_take(p, n);
    }
    if (p->answered || !plan->answers || count(buf_slice(&p->in), "*") < plan->commands) return;
    p->answered = 1;
    if (plan->drip) {
        peer_drip(p, plan->answers, plan->n, plan->close);
        return;
    }
    peer_send(p, plan->answers, plan->n);
    if (plan->reset)
        peer_reset(p);
    else if (plan->close)
        peer_close(p);
}

static inline int redis_bench_teardown(void **state)
{
    (void)state;
    metric_finish();
    arena_trim();
    return 0;
}

#endif
