/* proxy/upstream: the pool of connections to one upstream. Called by the connect step and relay. Refuses to lend a
   connection that has ended or said something unasked. */
#include "proxy/upstream.h"

#include <stdlib.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/metric.h"

#define RECENT_MS 1000

struct upstream {
    struct loop *loop;
    struct arena arena; /* of the texts of conf */
    struct conf_upstream conf;
    struct conf_endpoint endpoint;
    struct tls_context *tls; /* NULL: plain */
    unsigned holders;
    struct list idle; /* most recently used first */
    size_t idle_n;
    size_t open_n;
    struct deadline_list *idle_timeout;
    struct deadline_list *silence;
    bool closed;
};

static void on_uconn_read(struct stream *s, struct slice data);
static void on_uconn_end(struct stream *s, int error);
static void on_uconn_drain(struct stream *s);
static void on_uconn_idle_due(struct deadline *d);
static void on_dialled(struct stream *s, int status, const char *why, void *arg);
static void on_uconn_closed(struct stream *s);

static const struct stream_events uconn_stream_events = {on_uconn_read, on_uconn_end, on_uconn_drain};

static struct uconn *of_stream(struct stream *s)
{
    return container_of(s, struct uconn, stream);
}

static void destroy(struct upstream *u)
{
    tls_context_release(u->tls);
    arena_reset(&u->arena);
    free(u);
}

static void count_dial(struct upstream *u, const char *result)
{
    struct slice labels[] = {u->conf.name, slice_str(result)};
    metric_add(METRIC_UPSTREAM_DIALS, labels, 1);
}

static void leave_idle(struct uconn *c)
{
    list_remove(&c->link);
    deadline_stop(&c->deadline);
    c->upstream->idle_n--;
}

static void on_uconn_read(struct stream *s, struct slice data)
{
    struct uconn *c = of_stream(s);
    if (c->owner)
        c->events->on_data(c->owner, data);
    else
        uconn_drop(c); /* an answer nobody asked for */
}

static void on_uconn_end(struct stream *s, int error)
{
    struct uconn *c = of_stream(s);
    if (c->owner)
        c->events->on_end(c->owner, error);
    else
        uconn_drop(c);
}

static void on_uconn_drain(struct stream *s)
{
    struct uconn *c = of_stream(s);
    if (c->owner) c->events->on_drain(c->owner);
}

static void on_uconn_idle_due(struct deadline *d)
{
    uconn_drop(container_of(d, struct uconn, deadline));
}

static void on_dialled(struct stream *s, int status, const char *why, void *arg)
{
    struct upstream_call *call = arg;
    struct uconn *c = of_stream(s);
    call->dial = NULL;
    call->dialling = NULL;
    call->error = status;
    call->why = status ? why : NULL;
    count_dial(call->upstream, status ? "error" : "ok");
    if (status) {
        on_uconn_closed(s);
    } else {
        call->conn = c;
        stream_read(s, true);
    }
    call->on_done(call);
}

static void on_uconn_closed(struct stream *s)
{
    struct uconn *c = of_stream(s);
    struct upstream *u = c->upstream;
    free(c);
    u->open_n--;
    if (u->closed && u->open_n == 0) destroy(u);
}

static struct uconn *find_idle(struct upstream *u, enum borrow how)
{
    if (how == BORROW_FRESH || list_empty(&u->idle)) return NULL;
    struct uconn *c = container_of(u->idle.next, struct uconn, link);
    if (how == BORROW_RECENT && loop_now_ms(u->loop) - c->idle_since_ms > RECENT_MS) return NULL;
    return c;
}

struct upstream *upstream_create(struct loop *l, const struct conf_upstream *conf, struct tls_context *tls)
{
    CHECK(conf->secure == (tls != NULL), "https is spoken where it is asked for");
    struct upstream *u = xzalloc(sizeof *u);
    u->loop = l;
    u->tls = tls ? tls_context_hold(tls) : NULL;
    u->holders = 1;
    arena_init(&u->arena);
    u->conf = *conf;
    u->endpoint = conf->endpoints[0];
    u->conf.endpoints = &u->endpoint;
    u->conf.endpoints_n = 1;
    u->conf.name = arena_copy(&u->arena, conf->name);
    u->conf.tls_server_name = arena_copy(&u->arena, conf->tls_server_name);
    u->endpoint.host = arena_copy(&u->arena, conf->endpoints[0].host);
    list_init(&u->idle);
    u->idle_timeout = loop_timeouts(l, conf->idle_timeout_ms ? conf->idle_timeout_ms : 1); /* 0: none is kept */
    u->silence = loop_timeouts(l, conf->response_timeout_ms);
    return u;
}

struct upstream *upstream_hold(struct upstream *u)
{
    u->holders++;
    return u;
}

void upstream_release(struct upstream *u)
{
    if (--u->holders) return;
    u->closed = true;
    while (!list_empty(&u->idle)) uconn_drop(container_of(u->idle.next, struct uconn, link));
    if (u->open_n == 0) destroy(u);
}

struct deadline_list *upstream_silence(struct upstream *u)
{
    return u->silence;
}

size_t upstream_idle(const struct upstream *u)
{
    return u->idle_n;
}

size_t upstream_open(const struct upstream *u)
{
    return u->open_n;
}

enum op upstream_borrow(struct upstream *u, enum borrow how, const struct uconn_events *events, void *owner,
                        struct upstream_call *call)
{
    call->upstream = u;
    call->conn = find_idle(u, how);
    call->error = 0;
    call->why = NULL;
    if (call->conn) {
        leave_idle(call->conn);
        call->conn->events = events;
        call->conn->owner = owner;
        call->conn->reused = true;
        metric_add(METRIC_UPSTREAM_REUSED, &u->conf.name, 1);
        return OP_DONE;
    }
    struct uconn *c = xzalloc(sizeof *c);
    list_init(&c->link);
    deadline_init(&c->deadline, on_uconn_idle_due);
    c->upstream = u;
    c->events = events;
    c->owner = owner;
    u->open_n++;
    call->dialling = c;
    struct dial_target target = {.host = u->endpoint.host.p, .port = u->endpoint.port, .tls = u->tls};
    if (u->conf.tls_server_name.n) target.tls_name = u->conf.tls_server_name.p;
    call->dial = dial_start(u->loop, &target, u->conf.connect_timeout_ms, &c->stream, &uconn_stream_events, on_dialled,
                            call);
    return OP_PENDING;
}

void upstream_cancel(struct upstream_call *call)
{
    if (!call->dial) return;
    struct dial *d = call->dial;
    call->dial = NULL;
    call->dialling = NULL;
    dial_cancel(d, on_uconn_closed);
}

void uconn_give_back(struct uconn *c)
{
    struct upstream *u = c->upstream;
    c->owner = NULL;
    bool keeps = !u->closed && u->conf.idle_timeout_ms && (int64_t)u->idle_n < u->conf.max_idle;
    if (!keeps || c->stream.ended || stream_queued(&c->stream)) {
        uconn_drop(c);
        return;
    }
    c->idle_since_ms = loop_now_ms(u->loop);
    list_add_first(&u->idle, &c->link);
    u->idle_n++;
    deadline_start(u->idle_timeout, &c->deadline);
    stream_read(&c->stream, true);
}

void uconn_drop(struct uconn *c)
{
    if (!list_empty(&c->link)) leave_idle(c);
    c->owner = NULL;
    stream_close(&c->stream, on_uconn_closed);
}
