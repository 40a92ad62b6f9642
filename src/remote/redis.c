/* remote/redis: owns the calls to Redis: who waits for which answer, until when, and where the call goes on to when a
   node of a cluster sends it elsewhere. Called by authz (contexts) and proxy. Refuses values over 1 MiB both ways, and
   any call while its server is away or rests: those are told at the next turn of the loop that nothing is to be had. */
#include "remote/redis.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/metric.h"
#include "remote/redis_route.h"

#define MAX_VALUE_BYTES (1u << 20)
#define MAX_WORDS 4
#define MAX_HOPS 3 /* MOVED, ASK, and one more of either while slots are on their way */

enum redis_op { OP_GET, OP_SET, OP_DEL, OP_INCR, OP_PUBLISH };

typedef void on_value_fn(enum redis_outcome o, struct slice value, void *arg);

struct redis {
    struct loop *loop;
    struct redis_route *route;
    struct list calls;   /* all that are in the row of a node, told or not */
    struct list waiting; /* for the first connection to the node they were sent on to */
    struct list refused; /* to be told UNAVAILABLE at the next turn */
    uv_idle_t refuser;   /* runs while refused is not empty */
    struct deadline_list deadlines;
    bool destroyed;
    int64_t since_ms;
    unsigned open; /* the route and the refuser */
    void (*done)(void *arg);
    void *done_arg;
};

struct redis_call {
    struct redis_turn turn;
    struct list link; /* in calls, waiting or refused */
    struct deadline deadline;
    struct redis *redis;
    struct redis_node *node; /* whose row it is in, or whom it waits for */
    enum redis_op op;
    unsigned hops;
    bool asking;
    bool over;             /* told: it only keeps its place in the row of answers */
    on_value_fn *on_value; /* or NULL */
    void *arg;
    uint64_t start_ns;
    struct slice words[MAX_WORDS]; /* in bytes; in a cluster only, where it may be sent again */
    size_t words_n;
    char *bytes;
};

static void on_answer(struct redis_turn *t, const struct redis_reply *reply);
static void on_due(struct deadline *d);
static void on_refuse(uv_idle_t *handle);
static void on_up(struct redis_node *n, void *arg);
static void on_down(struct redis_node *n, enum redis_failure f, void *arg);
static void on_change(void *arg);
static void on_gone(struct redis_node *n, void *arg);
static void on_refuser_closed(uv_handle_t *handle);
static void on_part_gone(void *arg);

static const struct redis_route_events route_events = {on_up, on_down, on_change, on_gone};

/* --- metrics ---------------------------------------------------------------------------------------------------- */

static void count_failure(enum redis_failure f)
{
    static const struct slice kinds[] = {
        [REDIS_FAILURE_UNREACHABLE] = SLICE("unreachable"),
        [REDIS_FAILURE_TIMEOUT] = SLICE("timeout"),
        [REDIS_FAILURE_GARBAGE] = SLICE("garbage"),
        [REDIS_FAILURE_STATUS] = SLICE("status"),
    };
    metric_add(METRIC_DEPENDENCY_FAILURES, (struct slice[]){SLICE("redis"), kinds[f]}, 1);
}

static void count_duration(const struct redis_call *c, struct slice result)
{
    static const struct slice ops[] = {[OP_GET] = SLICE("get"),
                                       [OP_SET] = SLICE("set"),
                                       [OP_DEL] = SLICE("del"),
                                       [OP_INCR] = SLICE("incr"),
                                       [OP_PUBLISH] = SLICE("publish")};
    double seconds = (double)(uv_hrtime() - c->start_ns) / 1e9;
    metric_observe(METRIC_CACHE_DURATION, (struct slice[]){ops[c->op], result}, seconds);
}

/* --- calls ------------------------------------------------------------------------------------------------------ */

/* Tells the owner, if it still wants to know. The call itself stays: it may have to keep its place. */
static void tell(struct redis_call *c, enum redis_outcome o, struct slice value)
{
    on_value_fn *on_value = c->on_value;
    c->on_value = NULL;
    c->over = true;
    if (on_value) on_value(o, value, c->arg);
}

static void free_call(struct redis_call *c)
{
    deadline_stop(&c->deadline);
    list_remove(&c->link);
    free(c->bytes);
    free(c);
}

static struct redis_call *first(const struct list *calls)
{
    return list_empty(calls) ? NULL : container_of(calls->next, struct redis_call, link);
}

static void put(struct list *calls, struct redis_call *c)
{
    list_remove(&c->link);
    list_add_last(calls, &c->link);
}

static void refuse(struct redis_call *c)
{
    struct redis *r = c->redis;
    deadline_stop(&c->deadline);
    put(&r->refused, c);
    uv_idle_start(&r->refuser, on_refuse);
}

static void keep_words(struct redis_call *c, const struct slice *args, size_t n)
{
    size_t bytes = 0, at = 0;
    for (size_t i = 0; i < n; i++)
        bytes += args[i].n;
    c->bytes = xmalloc(bytes + 1);
    c->words_n = n;
    for (size_t i = 0; i < n; i++) {
        if (args[i].n) memcpy(c->bytes + at, args[i].p, args[i].n);
        c->words[i] = slice_make(c->bytes + at, args[i].n);
        at += args[i].n;
    }
}

static bool send_to(struct redis_call *c, struct redis_node *n, const struct slice *args, size_t args_n)
{
    if (!n || !redis_node_send(n, args, args_n, c->asking, &c->turn)) return false;
    c->node = n;
    put(&c->redis->calls, c);
    return true;
}

/* args[1] is the key, or the channel. */
static struct redis_call *ask(struct redis *r, enum redis_op op, const struct slice *args, size_t n,
                              on_value_fn *on_value, void *arg)
{
    CHECK(!r->destroyed, "no call after redis_destroy");
    struct redis_call *c = xzalloc(sizeof *c);
    c->redis = r;
    c->op = op;
    c->on_value = on_value;
    c->arg = arg;
    c->start_ns = uv_hrtime();
    c->turn.on_answer = on_answer;
    list_init(&c->link);
    list_init(&c->turn.link);
    deadline_init(&c->deadline, on_due);
    struct redis_node *node = op == OP_PUBLISH ? redis_route_any(r->route, args[1]) : redis_route_of(r->route, args[1]);
    if (send_to(c, node, args, n)) {
        if (redis_route_redirects(r->route)) keep_words(c, args, n);
        deadline_start(&r->deadlines, &c->deadline);
        return c;
    }
    count_failure(REDIS_FAILURE_UNREACHABLE);
    if (on_value) {
        refuse(c);
        return c;
    }
    free(c);
    return NULL;
}

/* True: it is out again, or waits for the first connection to where it was sent on to. */
static bool go_on(struct redis_call *c, struct slice error)
{
    static const struct slice kinds[] = {[REDIS_MOVED] = SLICE("moved"), [REDIS_ASK] = SLICE("ask")};
    struct redis *r = c->redis;
    struct redis_place place;
    unsigned slot;
    enum redis_redirection kind = redis_redirection_read(error, redis_node_host(c->node), &slot, &place);
    if (kind == REDIS_STAYS) return false;
    metric_add(METRIC_REDIS_REDIRECTS, &kinds[kind], 1);
    struct redis_node *n = redis_route_to(r->route, &place, kind == REDIS_MOVED, slot);
    if (!n || !c->bytes || ++c->hops > MAX_HOPS) return false;
    c->asking = kind == REDIS_ASK;
    c->node = n;
    if (send_to(c, n, c->words, c->words_n)) return true;
    if (!redis_node_fresh(n)) return false;
    put(&r->waiting, c);
    return true;
}

/* Errors that say nothing of the key, but that it cannot be had now. */
static bool passes(struct redis_call *c, struct slice error)
{
    bool replica = slice_starts(error, SLICE("READONLY"));
    if (replica || slice_starts(error, SLICE("CLUSTERDOWN")) || slice_starts(error, SLICE("MASTERDOWN"))) {
        redis_route_doubt(c->redis->route, c->node, replica);
        return true;
    }
    return slice_starts(error, SLICE("TRYAGAIN")) || slice_starts(error, SLICE("LOADING")) ||
           slice_starts(error, SLICE("MOVED")) || slice_starts(error, SLICE("ASK"));
}

/* An error reply: tells the owner, unless the call goes on elsewhere. */
static void fail(struct redis_call *c, struct slice error)
{
    if (redis_route_redirects(c->redis->route) && go_on(c, error)) return;
    count_failure(REDIS_FAILURE_STATUS);
    count_duration(c, SLICE("error"));
    tell(c, passes(c, error) ? REDIS_UNAVAILABLE : REDIS_ABSENT, slice_make(NULL, 0));
    free_call(c);
}

static void succeed(struct redis_call *c, const struct redis_reply *reply)
{
    static const struct slice hits[] = {SLICE("redis")};
    char number[24];
    struct slice value = {NULL, 0}, result = SLICE("ok");
    enum redis_outcome o = REDIS_ABSENT;
    if (c->op == OP_GET) {
        if (reply->kind == REDIS_KIND_STRING && reply->text.n <= MAX_VALUE_BYTES)
            o = REDIS_FOUND;
        else if (reply->kind != REDIS_KIND_NIL)
            count_failure(REDIS_FAILURE_GARBAGE);
        if (o == REDIS_FOUND) value = reply->text;
        result = o == REDIS_FOUND ? SLICE("hit") : SLICE("miss");
        metric_add(o == REDIS_FOUND ? METRIC_CACHE_HITS : METRIC_CACHE_MISSES, hits, 1);
    } else if (c->op == OP_INCR && reply->kind == REDIS_KIND_INTEGER) {
        o = REDIS_FOUND;
        value = slice_make(number, (size_t)snprintf(number, sizeof number, "%lld", reply->integer));
    }
    count_duration(c, result);
    tell(c, o, value);
    free_call(c);
}

static void on_answer(struct redis_turn *t, const struct redis_reply *reply)
{
    struct redis_call *c = container_of(t, struct redis_call, turn);
    if (c->over || c->redis->destroyed) { /* timed out and counted; an answer that comes late is no success */
        free_call(c);
        return;
    }
    if (!reply) {
        count_failure(REDIS_FAILURE_UNREACHABLE);
        count_duration(c, SLICE("error"));
        refuse(c);
        return;
    }
    redis_node_judge(c->node, t, true);
    if (reply->kind == REDIS_KIND_ERROR)
        fail(c, reply->text);
    else
        succeed(c, reply);
}

/* The answer may still come: the call keeps its place in the row, told. */
static void on_due(struct deadline *d)
{
    struct redis_call *c = container_of(d, struct redis_call, deadline);
    bool waits = list_empty(&c->turn.link);
    if (!waits) redis_node_judge(c->node, &c->turn, false);
    count_failure(REDIS_FAILURE_TIMEOUT);
    count_duration(c, SLICE("error"));
    if (waits) list_remove(&c->link);
    tell(c, REDIS_UNAVAILABLE, slice_make(NULL, 0));
    if (waits) free_call(c);
}

static void on_refuse(uv_idle_t *handle)
{
    struct redis *r = container_of(handle, struct redis, refuser);
    size_t n = 0;
    for (const struct list *i = r->refused.next; i != &r->refused; i = i->next)
        n++;
    /* Only those that are in the row now: one that a callback adds waits for its own turn. */
    struct redis_call *c;
    while (n-- > 0 && (c = first(&r->refused))) {
        list_remove(&c->link);
        tell(c, REDIS_UNAVAILABLE, slice_make(NULL, 0));
        free_call(c);
    }
    if (list_empty(&r->refused)) uv_idle_stop(handle);
}

/* --- the servers ------------------------------------------------------------------------------------------------ */

/* Those who waited for the node's first connection: sent, or refused. */
static void settle(struct redis *r, const struct redis_node *n, bool up)
{
    for (struct list *i = r->waiting.next, *after; i != &r->waiting; i = after) {
        struct redis_call *c = container_of(i, struct redis_call, link);
        after = i->next;
        if (c->node != n || (up && send_to(c, c->node, c->words, c->words_n))) continue;
        count_failure(REDIS_FAILURE_UNREACHABLE);
        count_duration(c, SLICE("error"));
        refuse(c);
    }
}

static void on_up(struct redis_node *n, void *arg)
{
    settle(arg, n, true);
}

static void on_down(struct redis_node *n, enum redis_failure f, void *arg)
{
    count_failure(f);
    settle(arg, n, false);
}

static void on_change(void *arg)
{
    struct redis *r = arg;
    r->since_ms = loop_now_ms(r->loop);
}

static void on_gone(struct redis_node *n, void *arg)
{
    settle(arg, n, false);
}

static void on_refuser_closed(uv_handle_t *handle)
{
    on_part_gone(container_of((uv_idle_t *)handle, struct redis, refuser));
}

static void on_part_gone(void *arg)
{
    struct redis *r = arg;
    if (--r->open) return;
    deadline_list_finish(&r->deadlines);
    void (*done)(void *arg) = r->done;
    void *done_arg = r->done_arg;
    free(r);
    if (done) done(done_arg);
}

/* --- the contract ----------------------------------------------------------------------------------------------- */

struct redis *redis_create(struct loop *l, const struct redis_config *c, char **error)
{
    struct redis *r = xzalloc(sizeof *r);
    r->loop = l;
    r->since_ms = loop_now_ms(l);
    list_init(&r->calls);
    list_init(&r->waiting);
    list_init(&r->refused);
    r->route = redis_route_create(l, c, &route_events, r, error);
    if (!r->route) {
        free(r);
        return NULL;
    }
    deadline_list_init(&r->deadlines, l, c->timeout_ms);
    CHECK(uv_idle_init(loop_uv(l), &r->refuser) == 0, "idle handle");
    r->open = 2;
    return r;
}

void redis_destroy(struct redis *r, void (*done)(void *arg), void *arg)
{
    CHECK(!r->destroyed, "destroyed once");
    r->destroyed = true;
    r->done = done;
    r->done_arg = arg;
    while (!list_empty(&r->waiting))
        free_call(first(&r->waiting));
    while (!list_empty(&r->refused))
        free_call(first(&r->refused));
    for (struct list *i = r->calls.next; i != &r->calls; i = i->next)
        deadline_stop(&container_of(i, struct redis_call, link)->deadline);
    redis_route_destroy(r->route, on_part_gone, r); /* empties the rows: each call frees itself */
    uv_close((uv_handle_t *)&r->refuser, on_refuser_closed);
}

struct redis_call *redis_get(struct redis *r, struct slice key,
                             void (*on_value)(enum redis_outcome o, struct slice value, void *arg), void *arg)
{
    return ask(r, OP_GET, (struct slice[]){SLICE("GET"), key}, 2, on_value, arg);
}

void redis_cancel(struct redis_call *c)
{
    CHECK(!c->over, "a call that was told is gone");
    c->on_value = NULL;
}

void redis_set(struct redis *r, struct slice key, struct slice value, int64_t ttl_s)
{
    if (value.n > MAX_VALUE_BYTES || ttl_s < 1) return;
    char ttl[24];
    int n = snprintf(ttl, sizeof ttl, "%lld", (long long)ttl_s);
    ask(r, OP_SET, (struct slice[]){SLICE("SETEX"), key, slice_make(ttl, (size_t)n), value}, 4, NULL, NULL);
}

void redis_drop(struct redis *r, struct slice key)
{
    ask(r, OP_DEL, (struct slice[]){SLICE("DEL"), key}, 2, NULL, NULL);
}

struct redis_call *redis_increment(struct redis *r, struct slice key,
                                   void (*on_value)(enum redis_outcome o, struct slice value, void *arg), void *arg)
{
    return ask(r, OP_INCR, (struct slice[]){SLICE("INCR"), key}, 2, on_value, arg);
}

void redis_publish(struct redis *r, struct slice payload)
{
    struct slice channel = redis_route_channel(r->route);
    if (channel.n) ask(r, OP_PUBLISH, (struct slice[]){SLICE("PUBLISH"), channel, payload}, 3, NULL, NULL);
}

void redis_state(const struct redis *r, struct redis_state *out)
{
    redis_route_state(r->route, out);
    out->since_ms = r->since_ms;
}
