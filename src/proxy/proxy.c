/* proxy/proxy: what all of a running proxy shares: made, drained and ended. Called by main (and by the flow tests). */
#include "proxy/proxy.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/log.h"
#include "base/metric.h"
#include "proxy/conn.h"
#include "proxy/listener.h"
#include "proxy/ready.h"
#include "proxy/request.h"
#include "proxy/upstream.h"

#define LINGER_MS 2000
#define FRESH_MS 500

static void on_drain_delay(struct deadline *d);

static void read_lifts(struct proxy *p)
{
    const struct conf_list *query = &p->conf->policy.query;
    CHECK(query->n <= REQUEST_LIFTED_MAX, "the configuration has no more names than a request has room for");
    p->lifts = xzalloc((query->n + 1) * sizeof *p->lifts);
    for (size_t i = 0; i < query->n; i++) {
        struct slice rest = query->v[i], name;
        struct lift *lift = &p->lifts[p->lifts_n++];
        while (lift->n < LIFT_NAMES_MAX && slice_next(&rest, '|', &name)) lift->names[lift->n++] = name;
    }
}

/* Some servers take these for the target or the method: then the API would do what was not judged. */
static const struct slice overrides[] = {
#define NAME(lit) {lit, sizeof lit - 1}
    NAME("x-original-url"), NAME("x-original-uri"),         NAME("x-rewrite-url"),
    NAME("x-http-method"),  NAME("x-http-method-override"), NAME("x-method-override"),
#undef NAME
};
#define OVERRIDES_N (sizeof overrides / sizeof *overrides)

static void read_stripped(struct proxy *p)
{
    const struct conf *conf = p->conf;
    struct slice *names = xzalloc((conf->strip_headers.n + 1 + OVERRIDES_N) * sizeof *names);
    size_t n = 0;
    for (size_t i = 0; i < OVERRIDES_N; i++) names[n++] = overrides[i];
    if (conf->grant.header.n) names[n++] = conf->grant.header;
    for (size_t i = 0; i < conf->strip_headers.n; i++) names[n++] = conf->strip_headers.v[i];
    p->stripped = name_set_create(names, n);
    free(names);
}

void proxy_init(struct proxy *p)
{
    const struct conf *conf = p->conf;
    list_init(&p->conns);
    deadline_init(&p->drain_delay, on_drain_delay);
    metric_set(METRIC_DRAINING, NULL, 0);
    read_lifts(p);
    read_stripped(p);
    p->routes = routes_create(conf->routes, conf->routes_n);
    p->upstreams = xzalloc((conf->upstreams_n + 1) * sizeof *p->upstreams);
    for (size_t i = 0; i < conf->upstreams_n; i++)
        p->upstreams[i] = upstream_create(p->loop, &conf->upstreams[i], p->upstream_tls[i]);
    deadline_list_init(&p->header_timeout, p->loop, conf->listen.header_timeout_ms);
    deadline_list_init(&p->idle_timeout, p->loop, conf->listen.idle_timeout_ms);
    deadline_list_init(&p->body_timeout, p->loop, conf->listen.body_idle_timeout_ms);
    deadline_list_init(&p->budget, p->loop, conf->listen.budget_ms ? conf->listen.budget_ms : 1);
    deadline_list_init(&p->websocket_timeout, p->loop, conf->listen.websocket_idle_timeout_ms);
    deadline_list_init(&p->linger_timeout, p->loop, LINGER_MS);
    deadline_list_init(&p->fresh_timeout, p->loop, FRESH_MS);
    p->ready = ready_create(p);
}

struct upstream *proxy_upstream(const struct proxy *p, const struct conf_upstream *c)
{
    return p->upstreams[c - p->conf->upstreams];
}

static void close_listeners(struct proxy *p)
{
    for (size_t i = 0; i < 2; i++) {
        listener_close(p->listeners[i]);
        p->listeners[i] = NULL;
    }
}

static void close_down(struct proxy *p)
{
    p->closing = true;
    for (size_t i = 0; i < 2; i++) listener_rest(p->listeners[i]);
    close_listeners(p);
    struct list *next;
    for (struct list *at = p->conns.next; at != &p->conns; at = next) {
        struct conn *c = container_of(at, struct conn, link);
        next = at->next;
        conn_drain(c);
    }
    if (p->conns_n == 0 && p->on_drained) p->on_drained(p);
}

static void on_drain_delay(struct deadline *d)
{
    close_down(container_of(d, struct proxy, drain_delay));
}

void proxy_drain(struct proxy *p, int64_t delay_ms)
{
    if (p->closing) return;
    bool again = p->draining;
    p->draining = true;
    metric_set(METRIC_DRAINING, NULL, 1);
    if (delay_ms == 0) {
        deadline_stop(&p->drain_delay);
        close_down(p);
    } else if (!again || p->drain_delay.due_ms > loop_now_ms(p->loop) + delay_ms) {
        deadline_after(p->loop, &p->drain_delay, delay_ms);
    }
}

void proxy_abort(struct proxy *p)
{
    p->closing = p->draining;
    deadline_stop(&p->drain_delay);
    close_listeners(p);
    struct list *next;
    for (struct list *at = p->conns.next; at != &p->conns; at = next) {
        struct conn *c = container_of(at, struct conn, link);
        next = at->next;
        if (c->request) request_abort(c->request, REASON_SHUTTING_DOWN);
        conn_close(c);
    }
}

void proxy_finish(struct proxy *p)
{
    ready_stop(p->ready);
    for (size_t i = 0; i < p->conf->upstreams_n; i++) upstream_close(p->upstreams[i]);
}

void proxy_free(struct proxy *p)
{
    ready_free(p->ready);
    for (size_t i = 0; i < p->conf->upstreams_n; i++) upstream_free(p->upstreams[i]);
    free(p->upstreams);
    routes_destroy(p->routes);
    name_set_destroy(p->stripped);
    free(p->lifts);
}
