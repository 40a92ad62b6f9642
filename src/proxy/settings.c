/* proxy/settings: made by main for each configuration, held by the requests that began with it. Refuses what wire
   refuses. */
#include "proxy/settings.h"

#include <stdlib.h>

#include "authz/digest.h"
#include "base/check.h"
#include "conf/compare.h"
#include "proxy/keypair.h"
#include "proxy/proxy.h"
#include "proxy/request.h"
#include "proxy/upstream.h"
#include "proxy/wire.h"

static void on_settings_gone(struct held *h);
static void on_sweep(struct deadline *d);

static void read_lifts(struct settings *s)
{
    const struct conf_list *query = &s->conf->policy.query;
    CHECK(query->n <= REQUEST_LIFTED_MAX, "the configuration has no more names than a request has room for");
    s->lifts = xzalloc((query->n + 1) * sizeof *s->lifts);
    for (size_t i = 0; i < query->n; i++) {
        struct slice rest = query->v[i], name;
        struct lift *lift = &s->lifts[s->lifts_n++];
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

static void read_stripped(struct settings *s)
{
    const struct conf *conf = s->conf;
    struct slice *names = xzalloc((conf->strip_headers.n + 1 + OVERRIDES_N) * sizeof *names);
    size_t n = 0;
    for (size_t i = 0; i < OVERRIDES_N; i++) names[n++] = overrides[i];
    if (conf->grant.header.n) names[n++] = conf->grant.header;
    for (size_t i = 0; i < conf->strip_headers.n; i++) names[n++] = conf->strip_headers.v[i];
    s->stripped = name_set_create(names, n);
    free(names);
}

static void take_digest(struct settings *s)
{
    struct buf text;
    uint8_t digest[DIGEST_BYTES];
    buf_init(&text, NULL);
    conf_canonical(s->conf, &text);
    struct slice whole = buf_slice(&text);
    digest_parts(&whole, 1, digest);
    digest_hex(digest, s->digest);
    buf_free(&text);
}

struct settings *settings_create(struct conf *conf, char **error)
{
    struct wire *wire = wire_create(conf, error);
    if (!wire) return NULL;
    struct settings *s = xzalloc(sizeof *s);
    held_init(&s->held, on_settings_gone);
    list_init(&s->link);
    s->wire = wire;
    s->conf = wire_conf(wire);
    s->grant = wire_grant(wire);
    s->keypair = wire_keypair(wire);
    take_digest(s);
    read_lifts(s);
    read_stripped(s);
    s->routes = routes_create(s->conf->routes, s->conf->routes_n);
    return s;
}

/* Do contexts of one mean the same in the other, and live as long? */
static bool same_contexts(const struct conf *a, const struct conf *b)
{
    bool by_service = a->context.service_authorization.n > 0;
    return conf_same(a, b, "context.url") && conf_same(a, b, "context.service_url") && conf_same(a, b, "context.shape") &&
           conf_same(a, b, "context.ttl_s") && conf_same(a, b, "context.memory_ttl_s") &&
           conf_same(a, b, "context.stale_s") && conf_same(a, b, "context.tls.ca_file") &&
           conf_same(a, b, "tokens.anonymous") && conf_same(a, b, "tokens.name_claim") && by_service == (b->context.service_authorization.n > 0);
}

/* A decision says how long it is kept, and by which route's word. */
static bool same_route_ttls(const struct conf *a, const struct conf *b)
{
    if (a->routes_n != b->routes_n) return false;
    for (size_t i = 0; i < a->routes_n; i++) {
        const struct conf_route *x = &a->routes[i], *y = &b->routes[i];
        if (x->decision_ttl_s != y->decision_ttl_s || x->prefix != y->prefix || !slice_eq(x->path, y->path)) return false;
    }
    return true;
}

static bool has_route_ttls(const struct conf *c)
{
    bool any = false;
    for (size_t i = 0; i < c->routes_n; i++) any |= c->routes[i].decision_ttl_s != 0;
    return any;
}

static bool same_decisions(const struct conf *a, const struct conf *b)
{
    return conf_same(a, b, "policy.url") && conf_same(a, b, "policy.path") && conf_same(a, b, "policy.rule") && conf_same(a, b, "policy.threads") &&
           conf_same(a, b, "policy.tls.ca_file") && conf_same(a, b, "policy.on_error") &&
           conf_same(a, b, "grant.") && conf_same(a, b, "authorize.shape") && conf_same(a, b, "decisions.ttl_s") &&
           conf_same(a, b, "decisions.deny_ttl_s") && conf_same(a, b, "decisions.stale_s") &&
           (same_route_ttls(a, b) || (!has_route_ttls(a) && !has_route_ttls(b)));
}

/* Of that name; NULL: none. */
static struct upstream *pool_named(const struct settings *s, struct slice name)
{
    for (size_t i = 0; s && i < s->conf->upstreams_n; i++)
        if (slice_eq(s->conf->upstreams[i].name, name)) return s->upstreams[i];
    return NULL;
}

static void attach_upstreams(struct settings *s, const struct settings *before)
{
    const struct conf *c = s->conf;
    s->upstreams = xzalloc((c->upstreams_n + 1) * sizeof *s->upstreams);
    for (size_t i = 0; i < c->upstreams_n; i++)
        s->upstreams[i] = wire_upstream(s->wire, s->proxy, i, pool_named(before, c->upstreams[i].name));
}

/* Who began with those before may still borrow of them; all that goes on by itself ends. */
static void close_upstreams(const struct settings *before, const struct settings *s)
{
    for (size_t i = 0; i < before->conf->upstreams_n; i++) {
        bool kept = false;
        for (size_t k = 0; k < s->conf->upstreams_n; k++) kept |= before->upstreams[i] == s->upstreams[k];
        if (!kept) upstream_close(before->upstreams[i]);
    }
}

void settings_attach(struct settings *s, struct proxy *p, const struct settings *before)
{
    const struct conf *c = s->conf;
    s->proxy = p;
    s->revision = before ? before->revision + 1 : 1;
    s->loaded_wall_ms = loop_wall_ms(p->loop);
    if (before) keypair_stop(before->keypair); /* what it shows is shown to nobody new */
    if (s->keypair) keypair_watch(s->keypair, p->loop);
    list_add_last(&p->all_settings, &s->link);
    bool contexts = before && same_contexts(before->conf, c), decisions = before && same_decisions(before->conf, c);
    s->identities = wire_identities(s->wire, p, contexts ? before->identities : NULL);
    s->decisions = wire_decisions(s->wire, p, decisions ? before->decisions : NULL);
    attach_upstreams(s, before);
    if (before) close_upstreams(before, s);
    s->header_timeout = loop_timeouts(p->loop, c->listen.header_timeout_ms);
    s->idle_timeout = loop_timeouts(p->loop, c->listen.idle_timeout_ms);
    s->body_timeout = loop_timeouts(p->loop, c->listen.body_idle_timeout_ms);
    s->budget = c->listen.budget_ms ? loop_timeouts(p->loop, c->listen.budget_ms) : NULL;
    s->websocket_timeout = loop_timeouts(p->loop, c->listen.websocket_idle_timeout_ms);
}

void settings_hold(struct settings *s)
{
    held_take(&s->held);
}

void settings_release(struct settings *s)
{
    held_release(&s->held);
}

static void end_parts(struct settings *s)
{
    keypair_stop(s->keypair);
    decisions_destroy(s->decisions);
    identities_destroy(s->identities);
    for (size_t i = 0; i < s->conf->upstreams_n; i++) upstream_release(s->upstreams[i]);
    free(s->upstreams);
}

static void destroy(struct settings *s)
{
    list_remove(&s->link);
    if (s->proxy) end_parts(s);
    routes_destroy(s->routes);
    name_set_destroy(s->stripped);
    free(s->lifts);
    wire_release(s->wire);
    free(s);
}

/* Often the last to let go is a request inside a callback of one of the parts: those end when nobody is in them. */
static void on_settings_gone(struct held *h)
{
    struct settings *s = container_of(h, struct settings, held);
    if (!s->proxy) {
        destroy(s);
        return;
    }
    list_remove(&s->link);
    list_add_last(&s->proxy->gone_settings, &s->link);
    if (deadline_running(&s->proxy->sweep)) return;
    deadline_init(&s->proxy->sweep, on_sweep);
    deadline_after(s->proxy->loop, &s->proxy->sweep, 1);
}

static void on_sweep(struct deadline *d)
{
    settings_sweep(container_of(d, struct proxy, sweep));
}

void settings_sweep(struct proxy *p)
{
    deadline_stop(&p->sweep);
    while (!list_empty(&p->gone_settings)) destroy(container_of(p->gone_settings.next, struct settings, link));
}

struct upstream *settings_upstream(const struct settings *s, const struct conf_upstream *c)
{
    return s->upstreams[c - s->conf->upstreams];
}
