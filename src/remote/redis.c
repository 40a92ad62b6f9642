/* remote/redis: owns the calls to Redis: who waits for which answer, until when, and whether to ask at all. Called by
   authz (contexts) and proxy/admin. Refuses values over 1 MiB both ways, and any call while the link is down or the
   breaker rests it: those are told at the next turn of the loop that nothing is to be had. */
#include "remote/redis.h"

#include <stdlib.h>
#include <stdio.h>

#include "base/breaker.h"
#include "base/buf.h"
#include "base/chance.h"
#include "base/check.h"
#include "base/log.h"
#include "base/metric.h"
#include "remote/redis_link.h"

#define MAX_VALUE_BYTES (1u << 20)

static const struct breaker_rules breaker_rules = {.failures = 5, .rest_ms = 1000};

enum redis_op { OP_GET, OP_SET, OP_DEL, OP_INCR, OP_PUBLISH };

typedef void on_value_fn(enum redis_outcome o, struct slice value, void *arg);

struct redis {
    struct loop *loop;
    struct redis_url url;
    struct buf channel; /* of redis_publish; empty: none */
    struct redis_link *link;
    struct breaker breaker;
    struct list sent;    /* calls that await their answer, oldest first, told or not */
    struct list refused; /* calls to be told UNAVAILABLE at the next turn */
    uv_idle_t refuser;   /* runs while refused is not empty */
    struct deadline_list deadlines;
    bool destroyed;
    bool complained; /* the loss is logged: once, not once per attempt */
    int64_t since_ms;
    const char *error;
    unsigned open; /* the link and the refuser */
    void (*done)(void *arg);
    void *done_arg;
};

struct redis_call {
    struct list link; /* in sent or refused */
    struct deadline deadline;
    struct redis *redis;
    enum redis_op op;
    uint32_t ticket;       /* of the breaker */
    bool over;             /* told: it only keeps its place in the row of answers */
    on_value_fn *on_value; /* or NULL */
    void *arg;
    uint64_t start_ns;
};

static void on_up(void *arg);
static void on_down(enum redis_failure f, const char *error, void *arg);
static void on_reply(const struct redis_reply *reply, void *arg);
static void on_due(struct deadline *d);
static void on_refuse(uv_idle_t *handle);
static void on_refuser_closed(uv_handle_t *handle);
static void on_part_gone(void *arg);

static const struct redis_link_events link_events = {on_up, on_down, on_reply};

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
    static const struct slice ops[] = {
        [OP_GET] = SLICE("get"), [OP_SET] = SLICE("set"), [OP_DEL] = SLICE("del"),
        [OP_INCR] = SLICE("incr"), [OP_PUBLISH] = SLICE("publish")};
    double seconds = (double)(uv_hrtime() - c->start_ns) / 1e9;
    metric_observe(METRIC_CACHE_DURATION, (struct slice[]){ops[c->op], result}, seconds);
}

static void show_breaker(const struct redis *r)
{
    static const double values[] = {[BREAKER_CLOSED] = 0, [BREAKER_HALF_OPEN] = 1, [BREAKER_OPEN] = 2};
    metric_set(METRIC_BREAKER, (struct slice[]){SLICE("redis")}, values[r->breaker.state]);
}

static void reset_breaker(struct redis *r)
{
    breaker_init(&r->breaker, &breaker_rules);
    show_breaker(r);
}

static void count_loss(struct redis *r, enum redis_failure f, uint32_t ticket)
{
    breaker_failure(&r->breaker, ticket, loop_now_ms(r->loop), chance_fraction());
    show_breaker(r);
    count_failure(f);
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
    free(c);
}

static struct redis_call *first(const struct list *calls)
{
    return list_empty(calls) ? NULL : container_of(calls->next, struct redis_call, link);
}

static void refuse(struct redis_call *c)
{
    struct redis *r = c->redis;
    deadline_stop(&c->deadline);
    list_remove(&c->link);
    list_add_last(&r->refused, &c->link);
    uv_idle_start(&r->refuser, on_refuse);
}

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
    list_init(&c->link);
    deadline_init(&c->deadline, on_due);
    /* The link is asked first: a trial that the breaker lets through must have an outcome. */
    if (redis_link_up(r->link) && breaker_allows(&r->breaker, loop_now_ms(r->loop), &c->ticket)) {
        show_breaker(r);
        if (redis_link_send(r->link, args, n)) {
            list_add_last(&r->sent, &c->link);
            deadline_start(&r->deadlines, &c->deadline);
            return c;
        }
        breaker_failure(&r->breaker, c->ticket, loop_now_ms(r->loop), chance_fraction());
    }
    count_failure(REDIS_FAILURE_UNREACHABLE);
    if (on_value) {
        refuse(c);
        return c;
    }
    free(c);
    return NULL;
}

static void on_reply(const struct redis_reply *reply, void *arg)
{
    struct redis *r = arg;
    struct redis_call *c = first(&r->sent);
    CHECK(c, "the link knows how many answers are awaited");
    deadline_stop(&c->deadline);
    list_remove(&c->link);
    if (c->over) { /* timed out and counted; an answer that comes late is no success */
        free(c);
        return;
    }
    enum breaker_state before = r->breaker.state;
    breaker_success(&r->breaker, c->ticket, loop_now_ms(r->loop));
    if (r->breaker.state != before) show_breaker(r);
    static const struct slice hits[] = {SLICE("redis")};
    char number[24];
    struct slice value = {NULL, 0}, result = SLICE("ok");
    enum redis_outcome o = REDIS_ABSENT;
    if (reply->kind == REDIS_KIND_ERROR) {
        result = SLICE("error");
        count_failure(REDIS_FAILURE_STATUS);
    } else if (c->op == OP_GET) {
        if (reply->kind == REDIS_KIND_STRING && reply->text.n <= MAX_VALUE_BYTES)
            o = REDIS_FOUND;
        else if (reply->kind != REDIS_KIND_NIL)
            count_failure(REDIS_FAILURE_GARBAGE);
        if (o == REDIS_FOUND) value = reply->text;
        result = o == REDIS_FOUND ? SLICE("hit") : SLICE("miss");
    } else if (c->op == OP_INCR && reply->kind == REDIS_KIND_INTEGER) {
        o = REDIS_FOUND;
        value = slice_make(number, (size_t)snprintf(number, sizeof number, "%lld", reply->integer));
    }
    if (c->op == OP_GET) metric_add(o == REDIS_FOUND ? METRIC_CACHE_HITS : METRIC_CACHE_MISSES, hits, 1);
    count_duration(c, result);
    tell(c, o, value);
    free(c);
}

/* The answer may still come: the call keeps its place in the row, told. */
static void on_due(struct deadline *d)
{
    struct redis_call *c = container_of(d, struct redis_call, deadline);
    count_loss(c->redis, REDIS_FAILURE_TIMEOUT, c->ticket);
    count_duration(c, SLICE("error"));
    tell(c, REDIS_UNAVAILABLE, slice_make(NULL, 0));
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
        free(c);
    }
    if (list_empty(&r->refused)) uv_idle_stop(handle);
}

/* --- the link --------------------------------------------------------------------------------------------------- */

static struct slice where(const struct redis *r, char *out, size_t size)
{
    int n = r->url.path ? snprintf(out, size, "unix:%s, database %d", r->url.path, r->url.db)
                        : snprintf(out, size, "%s port %d, database %d", r->url.host, r->url.port, r->url.db);
    return slice_make(out, n < (int)size ? (size_t)n : size - 1);
}

static void on_up(void *arg)
{
    struct redis *r = arg;
    char text[400];
    r->since_ms = loop_now_ms(r->loop);
    r->complained = false;
    reset_breaker(r); /* the handshake was the trial */
    if (log_on(LOG_INFO)) log_event(LOG_INFO, "redis_connected", where(r, text, sizeof text));
}

static void on_down(enum redis_failure f, const char *error, void *arg)
{
    struct redis *r = arg;
    r->error = error;
    count_loss(r, f, r->breaker.ticket);
    if (!r->complained) {
        r->complained = true;
        r->since_ms = loop_now_ms(r->loop);
        if (log_on(LOG_WARN)) log_event(LOG_WARN, "redis_unavailable", slice_str(error));
    }
    struct redis_call *c;
    while ((c = first(&r->sent))) {
        if (c->over) {
            free_call(c);
            continue;
        }
        count_failure(f);
        count_duration(c, SLICE("error"));
        refuse(c);
    }
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
    redis_url_finish(&r->url);
    void (*done)(void *arg) = r->done;
    void *done_arg = r->done_arg;
    buf_free(&r->channel);
    free(r);
    if (done) done(done_arg);
}

/* --- the contract ----------------------------------------------------------------------------------------------- */

struct redis *redis_create(struct loop *l, const struct redis_config *c, char **error)
{
    struct redis *r = xzalloc(sizeof *r);
    const char *wrong = redis_url_parse(c->url, &r->url);
    if (wrong) {
        free(r);
        *error = xstrdup(wrong);
        return NULL;
    }
    r->loop = l;
    r->since_ms = loop_now_ms(l);
    r->error = "not yet connected";
    buf_init(&r->channel, NULL);
    if (c->track_prefix.n) buf_printf(&r->channel, "%.*sflush", (int)c->track_prefix.n, c->track_prefix.p);
    list_init(&r->sent);
    list_init(&r->refused);
    reset_breaker(r);
    deadline_list_init(&r->deadlines, l, c->timeout_ms);
    CHECK(uv_idle_init(loop_uv(l), &r->refuser) == 0, "idle handle");
    r->link = redis_link_create(l, &r->url, c->timeout_ms, &link_events, r);
    r->open = 2;
    return r;
}

void redis_destroy(struct redis *r, void (*done)(void *arg), void *arg)
{
    CHECK(!r->destroyed, "destroyed once");
    r->destroyed = true;
    r->done = done;
    r->done_arg = arg;
    while (!list_empty(&r->sent))
        free_call(first(&r->sent));
    while (!list_empty(&r->refused))
        free_call(first(&r->refused));
    redis_link_destroy(r->link, on_part_gone, r);
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

void redis_increment(struct redis *r, struct slice key,
                     void (*on_value)(enum redis_outcome o, struct slice value, void *arg), void *arg)
{
    ask(r, OP_INCR, (struct slice[]){SLICE("INCR"), key}, 2, on_value, arg);
}

void redis_publish(struct redis *r, struct slice payload)
{
    if (r->channel.n)
        ask(r, OP_PUBLISH, (struct slice[]){SLICE("PUBLISH"), buf_slice(&r->channel), payload}, 3, NULL, NULL);
}

void redis_state(const struct redis *r, struct redis_state *out)
{
    memset(out, 0, sizeof *out);
    out->connected = redis_link_up(r->link);
    out->breaker = breaker_name(r->breaker.state);
    out->since_ms = r->since_ms;
    out->error = out->connected ? NULL : r->error;
    out->masters = 1;
    out->tracking_error = "not watched";
}
