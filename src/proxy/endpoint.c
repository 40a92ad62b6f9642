/* proxy/endpoint: names to members. Called by upstream, and by health with what it finds. */
#include "proxy/endpoint.h"

#include "base/chance.h"
#include "base/check.h"
#include "base/log.h"

#define AGAIN_MS 1000   /* while there is no address, and at least between two questions */
#define RETRY_MS 5000   /* after a failure, with addresses of before */

static void on_due(struct deadline *d);
static void on_resolved(int status, const struct sockaddr_storage *v, size_t n, void *arg);

static void say(const struct endpoint *e, enum log_level level, const char *event, const char *detail)
{
    if (!log_on(level)) return;
    struct log_line line;
    log_begin(&line, level, slice_str(event));
    json_field_string(&line.json, "upstream", e->group->conf.name);
    json_field_string(&line.json, "name", e->conf.host);
    json_field_int(&line.json, "addresses", (long long)e->members_n);
    if (detail) json_field_string(&line.json, "detail", slice_str(detail));
    log_end(&line);
}

static bool has_family(const struct endpoint *e, int family)
{
    for (size_t i = 0; i < e->members_n; i++)
        if (e->members[i]->address.ss_family == family) return true;
    return false;
}

static int other_family(const struct endpoint *e)
{
    return e->family == AF_INET ? AF_INET6 : AF_INET;
}

bool endpoint_has_other_family(const struct endpoint *e)
{
    return has_family(e, other_family(e));
}

bool endpoint_is_used(const struct endpoint *e, const struct member *m)
{
    return m->address.ss_family == e->family;
}

static void hush(struct endpoint *e)
{
    bool finding = !e->connected && !e->both_tried && endpoint_has_other_family(e);
    for (size_t i = 0; i < e->members_n; i++) e->members[i]->quiet = finding || !endpoint_is_used(e, e->members[i]);
}

static struct member *find(const struct endpoint *e, const struct sockaddr_storage *a)
{
    for (size_t i = 0; i < e->members_n; i++)
        if (address_same(&e->members[i]->address, a)) return e->members[i];
    return NULL;
}

static bool is_among(const struct member *m, const struct sockaddr_storage *v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (address_same(&m->address, &v[i])) return true;
    return false;
}

/* The members become those addresses; those of before stay what they are. */
static bool take(struct endpoint *e, const struct sockaddr_storage *v, size_t n)
{
    bool changed = false;
    size_t kept = 0;
    for (size_t i = 0; i < e->members_n; i++) {
        struct member *m = e->members[i];
        if (is_among(m, v, n)) {
            e->members[kept++] = m;
        } else {
            member_retire(m);
            changed = true;
        }
    }
    e->members_n = kept;
    for (size_t i = 0; i < n && e->members_n < ENDPOINT_ADDRESSES_MAX; i++) {
        if (find(e, &v[i])) continue;
        struct member *m = member_create(e->group, e, &e->conf, &v[i]);
        if (!m) break;
        e->members[e->members_n++] = m;
        changed = true;
    }
    if (!has_family(e, e->family)) {
        e->family = v[0].ss_family;
        e->connected = e->both_tried = false;
    }
    hush(e);
    return changed;
}

static void resolve_in(struct endpoint *e, int64_t ms)
{
    if (!e->group->closed) deadline_after(e->group->loop, &e->next, ms);
}

static void on_due(struct deadline *d)
{
    struct endpoint *e = container_of(d, struct endpoint, next);
    e->asked_ms = loop_now_ms(e->group->loop);
    e->question = resolve_start(e->group->loop, e->conf.host.p, e->conf.port, on_resolved, e);
}

static void on_resolved(int status, const struct sockaddr_storage *v, size_t n, void *arg)
{
    struct endpoint *e = arg;
    int64_t ttl_ms = e->group->conf.dns_ttl_s * 1000;
    int before = e->error;
    e->question = NULL;
    e->error = status;
    if (status) {
        resolve_in(e, !e->members_n ? AGAIN_MS : ttl_ms < RETRY_MS ? ttl_ms : RETRY_MS);
        if (!before)
            say(e, LOG_WARN, "name_not_resolved", e->members_n ? "the addresses of before are kept" : uv_strerror(status));
        if (!e->members_n) e->group->on_change(e->group); /* who waits is told */
        return;
    }
    resolve_in(e, (int64_t)((double)ttl_ms * (0.9 + 0.1 * chance_fraction())));
    bool changed = take(e, v, n);
    if (changed || before) say(e, LOG_INFO, "name_resolved", NULL);
    if (changed) e->group->on_change(e->group);
}

void endpoint_start(struct endpoint *e, struct group *g, struct conf_endpoint conf)
{
    struct sockaddr_storage literal;
    *e = (struct endpoint){.group = g, .conf = conf};
    deadline_init(&e->next, on_due);
    e->literal = address_literal(conf.host.p, conf.port, &literal);
    if (e->literal)
        take(e, &literal, 1);
    else if (!g->closed)
        on_due(&e->next);
}

void endpoint_ask(struct endpoint *e)
{
    if (e->literal || e->question) return;
    if (e->asked_ms && loop_now_ms(e->group->loop) - e->asked_ms < AGAIN_MS) return;
    deadline_stop(&e->next);
    on_due(&e->next);
}

void endpoint_pause(struct endpoint *e)
{
    deadline_stop(&e->next);
    if (e->question) resolve_cancel(e->question);
    e->question = NULL;
}

void endpoint_stop(struct endpoint *e)
{
    endpoint_pause(e);
    while (e->members_n) member_retire(e->members[--e->members_n]);
}

void endpoint_connected(struct member *m)
{
    struct endpoint *e = m->endpoint;
    m->unreachable = 0;
    if (!e || e->connected || !endpoint_is_used(e, m)) return;
    e->connected = true;
    e->both_tried = false;
    hush(e);
}

static bool all_failed(const struct endpoint *e, int family, unsigned times)
{
    for (size_t i = 0; i < e->members_n; i++)
        if (e->members[i]->address.ss_family == family && e->members[i]->unreachable < times) return false;
    return true;
}

void endpoint_unreachable(struct member *m)
{
    struct endpoint *e = m->endpoint;
    m->unreachable++;
    if (!e || !endpoint_is_used(e, m) || !endpoint_has_other_family(e)) return;
    if (!all_failed(e, e->family, e->connected ? 2 : 1)) return; /* where a connect succeeded before, one may fail */
    e->both_tried |= e->connected || all_failed(e, other_family(e), 1);
    e->connected = false;
    e->family = other_family(e);
    hush(e);
    e->group->on_change(e->group);
}

void endpoint_ejected(struct endpoint *e)
{
    if (!e || e->group->closed) return;
    for (size_t i = 0; i < e->members_n; i++)
        if (endpoint_is_used(e, e->members[i]) && balance_tier(&e->members[i]->candidate) != TIER_LIMITED) return;
    endpoint_ask(e);
}
