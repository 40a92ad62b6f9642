/* proxy/upstream: the life of an upstream: its addresses come and go with its names, and its memory goes with the last
   connection. Called by proxy, relay, ready and gauges. */
#include "proxy/upstream.h"

#include <stdlib.h>

#include "base/check.h"
#include "proxy/borrow.h"
#include "proxy/health.h"
#include "proxy/upstream_parts.h"
#include "proxy/upstream_report.h"

static void on_change(struct group *g);
static void on_vacant(struct group *g);

static void on_change(struct group *g)
{
    struct upstream *u = upstream_of(g);
    u->active_n = 0;
    for (size_t i = 0; i < g->conf.endpoints_n; i++) {
        struct endpoint *e = &u->endpoints[i];
        for (size_t k = 0; k < e->members_n; k++) {
            bool used = endpoint_is_used(e, e->members[k]);
            if (used) u->active[u->active_n++] = &e->members[k]->candidate;
            if (used && !g->closed)
                health_start(e->members[k]);
            else
                health_stop(e->members[k]);
        }
    }
    borrow_serve(u);
}

static void destroy(struct upstream *u)
{
    CHECK(list_empty(&u->waiting), "who waits for a name has a reference");
    tls_context_release(u->group.tls);
    free(u->endpoints);
    arena_reset(&u->memory);
    free(u);
}

static void on_vacant(struct group *g)
{
    struct upstream *u = upstream_of(g);
    if (!u->refs) destroy(u);
}

/* What is read while running: the configuration it came from may go before the last connection is back. */
static void copy_conf(struct upstream *u, const struct conf_upstream *from)
{
    struct conf_upstream *to = &u->group.conf;
    struct arena *a = &u->memory;
    *to = *from;
    to->url = SLICE("");
    to->urls = (struct conf_list){0};
    to->tls = (struct conf_tls){0};
    to->name = arena_copy(a, from->name);
    to->base_path = arena_copy(a, from->base_path);
    to->health_path = arena_copy(a, from->health_path);
    to->tls_server_name = arena_copy(a, from->tls_server_name);
    to->endpoints = arena_zalloc(a, (from->endpoints_n + 1) * sizeof *to->endpoints);
    for (size_t i = 0; i < from->endpoints_n; i++) {
        const struct conf_endpoint *e = &from->endpoints[i];
        to->endpoints[i] = (struct conf_endpoint){arena_copy(a, e->url), arena_copy(a, e->host), e->port,
                                                  arena_copy(a, e->authority)};
    }
}

struct upstream *upstream_create(struct loop *l, const struct upstream_config *c)
{
    CHECK(c->conf->secure == (c->tls != NULL), "https is spoken where it is asked for");
    struct upstream *u = xzalloc(sizeof *u);
    struct group *g = &u->group;
    arena_init(&u->memory);
    copy_conf(u, c->conf);
    g->loop = l;
    g->rules = c->breaker;
    g->tls = c->tls ? tls_context_hold(c->tls) : NULL;
    g->probe_interval_ms = c->probe_interval_ms;
    g->closed = c->still;
    g->on_change = on_change;
    g->on_vacant = on_vacant;
    u->balance.policy = g->conf.balance;
    u->refs = 1;
    list_init(&u->waiting);
    g->idle_timeout = loop_timeouts(l, g->conf.idle_timeout_ms ? g->conf.idle_timeout_ms : 1); /* 0: none is kept */
    u->silence = loop_timeouts(l, g->conf.response_timeout_ms);
    u->name_timeout = loop_timeouts(l, g->conf.connect_timeout_ms);
    u->endpoints = xzalloc((g->conf.endpoints_n + 1) * sizeof *u->endpoints);
    for (size_t i = 0; i < g->conf.endpoints_n; i++) endpoint_start(&u->endpoints[i], g, g->conf.endpoints[i]);
    on_change(g);
    return u;
}

struct upstream *upstream_hold(struct upstream *u)
{
    u->refs++;
    return u;
}

void upstream_close(struct upstream *u)
{
    struct group *g = &u->group;
    g->closed = true;
    for (size_t i = 0; i < g->conf.endpoints_n; i++) {
        struct endpoint *e = &u->endpoints[i];
        deadline_stop(&e->next);
        if (list_empty(&u->waiting)) endpoint_pause(e);
        for (size_t k = 0; k < e->members_n; k++) {
            health_stop(e->members[k]);
            member_drop_idle(e->members[k]);
        }
    }
}

void upstream_release(struct upstream *u)
{
    if (u->refs > 1) {
        u->refs--;
        return;
    }
    upstream_close(u);
    u->active_n = 0;
    for (size_t i = 0; i < u->group.conf.endpoints_n; i++) endpoint_stop(&u->endpoints[i]);
    upstream_gauges(u); /* none of what it was is left in the metrics */
    u->refs = 0;
    if (u->group.members_n == 0) destroy(u);
}

static bool same_rules(const struct breaker_rules *a, const struct breaker_rules *b)
{
    return a->failures == b->failures && a->ratio == b->ratio && a->volume == b->volume &&
           a->window_ms == b->window_ms && a->rest_ms == b->rest_ms && a->max_rest_ms == b->max_rest_ms;
}

bool upstream_same(const struct upstream *u, const struct upstream_config *c)
{
    const struct conf_upstream *a = &u->group.conf, *b = c->conf;
    bool same = slice_eq(a->name, b->name) && a->endpoints_n == b->endpoints_n && a->secure == b->secure &&
                slice_eq(a->base_path, b->base_path) && a->preserve_host == b->preserve_host &&
                a->balance == b->balance && a->connect_timeout_ms == b->connect_timeout_ms &&
                a->response_timeout_ms == b->response_timeout_ms && a->idle_timeout_ms == b->idle_timeout_ms &&
                a->max_idle == b->max_idle && a->max_inflight == b->max_inflight && a->dns_ttl_s == b->dns_ttl_s &&
                slice_eq(a->health_path, b->health_path) && a->health_interval_ms == b->health_interval_ms &&
                a->health_timeout_ms == b->health_timeout_ms && slice_eq(a->tls_server_name, b->tls_server_name) &&
                tls_context_same(u->group.tls, c->tls) && u->group.probe_interval_ms == c->probe_interval_ms &&
                same_rules(&u->group.rules, &c->breaker);
    for (size_t i = 0; same && i < a->endpoints_n; i++)
        same = slice_eq(a->endpoints[i].url, b->endpoints[i].url);
    return same;
}
