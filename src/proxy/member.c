/* proxy/member: the connections to one address, and what is known of it. Called by upstream and endpoint. Refuses to lend
   a connection that has ended or said something unasked. */
#include "proxy/member.h"

#include <stdlib.h>

#include "base/chance.h"
#include "base/check.h"
#include "base/log.h"
#include "base/metric.h"
#include "proxy/health.h"

#define RECENT_MS 1000

static void on_uconn_read(struct stream *s, struct slice data);
static void on_uconn_end(struct stream *s, int error);
static void on_uconn_drain(struct stream *s);
static void on_uconn_idle_due(struct deadline *d);

const struct stream_events uconn_stream_events = {on_uconn_read, on_uconn_end, on_uconn_drain};

static struct uconn *of_stream(struct stream *s)
{
    return container_of(s, struct uconn, stream);
}

static void leave_idle(struct uconn *c)
{
    list_remove(&c->link);
    deadline_stop(&c->deadline);
    c->member->idle_n--;
    c->member->group->idle_n--;
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

void uconn_closed(struct stream *s)
{
    struct uconn *c = of_stream(s);
    struct member *m = c->member;
    m->group->open_n--;
    free(c);
    member_release(m);
}

void uconn_unlend(struct uconn *c)
{
    if (!c->lent) return;
    c->lent = false;
    c->member->candidate.inflight--;
    c->member->group->inflight--;
}

static void lend(struct uconn *c, const struct uconn_events *events, void *owner)
{
    c->lent = true;
    c->events = events;
    c->owner = owner;
    c->member->candidate.inflight++;
    c->member->group->inflight++;
}

struct uconn *member_take_idle(struct member *m, enum borrow how, const struct uconn_events *events, void *owner)
{
    if (how == BORROW_FRESH || list_empty(&m->idle)) return NULL;
    struct uconn *c = container_of(m->idle.next, struct uconn, link);
    if (how == BORROW_RECENT && loop_now_ms(m->group->loop) - c->idle_since_ms > RECENT_MS) return NULL;
    leave_idle(c);
    c->reused = true;
    lend(c, events, owner);
    return c;
}

struct uconn *member_new(struct member *m, const struct uconn_events *events, void *owner)
{
    struct uconn *c = xzalloc(sizeof *c);
    list_init(&c->link);
    deadline_init(&c->deadline, on_uconn_idle_due);
    c->member = member_hold(m);
    m->group->open_n++;
    lend(c, events, owner);
    return c;
}

void uconn_give_back(struct uconn *c)
{
    struct member *m = c->member;
    struct group *g = m->group;
    uconn_unlend(c);
    c->owner = NULL;
    bool keeps = m->endpoint && !g->closed && g->conf.idle_timeout_ms && (int64_t)g->idle_n < g->conf.max_idle;
    if (!keeps || c->stream.ended || stream_queued(&c->stream)) {
        uconn_drop(c);
        return;
    }
    c->idle_since_ms = loop_now_ms(g->loop);
    list_add_first(&m->idle, &c->link);
    m->idle_n++;
    g->idle_n++;
    deadline_start(g->idle_timeout, &c->deadline);
    stream_read(&c->stream, true);
}

void uconn_drop(struct uconn *c)
{
    if (!list_empty(&c->link)) leave_idle(c);
    uconn_unlend(c);
    c->owner = NULL;
    stream_close(&c->stream, uconn_closed);
}

struct member *member_create(struct group *g, struct endpoint *e, const struct conf_endpoint *url,
                             const struct sockaddr_storage *address)
{
    unsigned slot = 0;
    while (slot < BALANCE_SLOTS && tried_has(&g->slots, slot)) slot++;
    if (slot == BALANCE_SLOTS) return NULL;
    struct member *m = xzalloc(sizeof *m);
    m->group = g;
    m->endpoint = e;
    m->refs = 1;
    m->address = *address;
    m->host = url->host;
    m->authority = url->authority;
    address_text(address, m->text);
    list_init(&m->idle);
    m->health.state = "not checked yet";
    breaker_init(&m->candidate.breaker, &g->rules);
    m->candidate.slot = slot;
    tried_add(&g->slots, slot);
    g->members_n++;
    return m;
}

struct member *member_hold(struct member *m)
{
    m->refs++;
    return m;
}

void member_release(struct member *m)
{
    struct group *g = m->group;
    if (--m->refs) return;
    CHECK(!m->endpoint && m->idle_n == 0 && m->candidate.inflight == 0, "nothing of a member is left");
    free(m);
    if (--g->members_n == 0) g->on_vacant(g);
}

void member_drop_idle(struct member *m)
{
    while (!list_empty(&m->idle)) uconn_drop(container_of(m->idle.next, struct uconn, link));
}

void member_retire(struct member *m)
{
    m->endpoint = NULL;
    tried_remove(&m->group->slots, m->candidate.slot); /* however long its requests take, another address can have it */
    health_stop(m);
    member_drop_idle(m);
    member_release(m);
}

static void say(const struct member *m, enum log_level level, const char *event, const char *why)
{
    if (m->quiet || !log_on(level)) return;
    struct log_line line;
    log_begin(&line, level, slice_str(event));
    json_field_string(&line.json, "upstream", m->group->conf.name);
    json_field_string(&line.json, "address", slice_str(m->text));
    if (why) json_field_string(&line.json, "detail", slice_str(why));
    log_end(&line);
}

static void opened(struct member *m, bool again, int64_t now, const char *why)
{
    m->candidate.opened_ms = now;
    m->candidate.proven = 0;
    m->candidate.latency_ms = 0;
    member_drop_idle(m); /* what they are good for is not known */
    if (again) return;
    if (!m->quiet) metric_add(METRIC_UPSTREAM_EJECTIONS, &m->group->conf.name, 1);
    say(m, LOG_WARN, "upstream_ejected", why);
}

void member_tell(struct member *m, uint32_t ticket, enum outcome o, double latency_ms, const char *why)
{
    struct candidate *c = &m->candidate;
    enum breaker_state before = c->breaker.state;
    int64_t now = loop_now_ms(m->group->loop);
    switch (o) {
    case OUTCOME_UNKNOWN:
        breaker_abandon(&c->breaker, ticket);
        return;
    case OUTCOME_GOOD:
        breaker_success(&c->breaker, ticket, now);
        if (latency_ms >= 0) balance_measured(c, latency_ms, now);
        if (c->proven < BALANCE_PROVEN) c->proven++;
        break;
    case OUTCOME_UNCONNECTED:
    case OUTCOME_FAILED:
        m->unconnected = o == OUTCOME_UNCONNECTED;
        breaker_failure(&c->breaker, ticket, now, chance_fraction());
        break;
    }
    if (c->breaker.state == before) return;
    if (c->breaker.state == BREAKER_OPEN)
        opened(m, before == BREAKER_HALF_OPEN, now, why);
    else if (c->breaker.state == BREAKER_CLOSED)
        say(m, LOG_INFO, "upstream_back", NULL);
}

const char *member_state(const struct member *m)
{
    if (m->candidate.out) return "unhealthy";
    enum balance_tier tier = balance_tier(&m->candidate);
    if (tier == TIER_LIMITED) return "limited";
    return tier == TIER_PROBING && m->group->conf.balance == BALANCE_FASTEST ? "probing" : "healthy";
}
