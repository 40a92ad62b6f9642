/* authz/decision: may this request pass? Called by the decide step. Owns the decisions in memory, one flight per key,
   and the questions that are out. Refuses whatever the engine did not clearly allow; keeps nothing that was decided
   before a flush, in doubt, or while the engine could not be reached. */
#include "authz/decision.h"

#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

#include "authz/answer.h"
#include "authz/digest.h"
#include "authz/input.h"
#include "authz/render.h"
#include "authz/revision.h"
#include "base/check.h"
#include "base/log.h"
#include "base/metric.h"

struct decisions {
    struct loop *loop;
    struct fetch *fetch;
    struct decisions_config config;
    struct buf url;           /* with provenance=true */
    struct buf authorization; /* header line, secret; empty none */
    struct cache *kept;
    struct flights *flights;
    struct list questions;
    struct revisions revisions;
    uint64_t epoch;          /* flushes so far; in a flight's key, so that nobody joins a question from before one */
    uint64_t what_if_serial; /* each what-if question is a flight of its own */
    unsigned calls_out, what_ifs_out;
};

struct question { /* one call to the engine, out */
    struct list link;
    struct decisions *owner;
    struct flight *flight;
    struct fetch_call *call;
    enum decision_use use;
    bool what_if;
    uint8_t key[CACHE_KEY_BYTES];
    uint64_t tags[2];
    int64_t asked_ms;
    int64_t limit_ms; /* monotonic: the token's and the context's end */
    int64_t route_ttl_ms;
    struct buf front; /* see render_front */
    struct buf texts; /* resource and action */
    struct slice resource, action;
};

struct outcome {
    struct decision *decision;
    enum reason reason;
    const char *detail;
    struct slice resource;
};

static void on_answer(const struct fetch_answer *a, void *arg);
static void on_landed(struct flight_waiter *w, void *arg);

void decision_hold(struct decision *d)
{
    cache_hold(&d->entry);
}

void decision_release(struct decision *d)
{
    cache_release(&d->entry, render_free);
}

struct decisions *decisions_create(struct loop *l, struct fetch *f, const struct decisions_config *c)
{
    struct decisions *d = xzalloc(sizeof *d);
    d->loop = l;
    d->fetch = f;
    d->config = *c;
    d->kept = cache_create(c->max_entries ? c->max_entries : 1, c->max_bytes ? c->max_bytes : 1, render_free);
    d->flights = flights_create();
    list_init(&d->questions);
    d->revisions.grace_ms = c->revision_grace_s * 1000;
    buf_init(&d->url, NULL);
    buf_add_slice(&d->url, c->url);
    buf_add_char(&d->url, c->url.n && memchr(c->url.p, '?', c->url.n) ? '&' : '?');
    buf_add_lit(&d->url, "provenance=true");
    buf_init(&d->authorization, NULL);
    if (c->authorization.n) {
        buf_reserve(&d->authorization, c->authorization.n + 32);
        buf_add_lit(&d->authorization, "Authorization: ");
        buf_add_slice(&d->authorization, c->authorization);
    }
    return d;
}

static void set_calls_out(struct decisions *d, bool what_if, int change)
{
    struct slice label = SLICE("policy");
    unsigned *out = what_if ? &d->what_ifs_out : &d->calls_out;
    *out = (unsigned)((int)*out + change);
    metric_set(METRIC_INFLIGHT, &label, d->calls_out + d->what_ifs_out);
}

/* Ends a question and tells its waiters. Takes the reference that o.decision is. */
static void land(struct question *q, struct outcome o)
{
    list_remove(&q->link);
    o.resource = q->resource;
    flight_land(q->owner->flights, q->flight, &o); /* a waiter told may destroy the owner */
    if (o.decision) decision_release(o.decision);
    buf_free(&q->front);
    buf_free(&q->texts);
    free(q);
}

void decisions_destroy(struct decisions *d)
{
    if (!d) return;
    while (!list_empty(&d->questions)) {
        struct question *q = container_of(d->questions.next, struct question, link);
        if (q->call) {
            fetch_cancel(q->call);
            set_calls_out(d, q->what_if, -1);
        }
        land(q, (struct outcome){.reason = REASON_SHUTTING_DOWN});
    }
    flights_destroy(d->flights);
    cache_destroy(d->kept);
    buf_free(&d->url);
    if (d->authorization.n) OPENSSL_cleanse(d->authorization.p, d->authorization.n);
    buf_free(&d->authorization);
    free(d);
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Monotonic: no decision on this token and context is kept longer. */
static int64_t limit_of(const struct decisions *d, const struct decision_question *q)
{
    int64_t limit = q->user ? q->user->end_ms : INT64_MAX;
    if (!q->token || q->token->exp_s > INT64_MAX / 2000) return limit;
    return least(limit, loop_now_ms(d->loop) + (q->token->exp_s * 1000 - loop_wall_ms(d->loop)));
}

/* ttl_ms: the answer's; -1 none. */
static int64_t end_of(const struct decisions *d, bool allow, int64_t ttl_ms, int64_t route_ttl_ms, int64_t limit_ms)
{
    const struct decisions_config *c = &d->config;
    if (ttl_ms < 0) ttl_ms = route_ttl_ms > 0 ? route_ttl_ms : (allow ? c->ttl_s : c->deny_ttl_s) * 1000;
    ttl_ms -= (int64_t)((double)ttl_ms * c->jitter * digest_fraction());
    return least(loop_now_ms(d->loop) + ttl_ms, limit_ms);
}

static void keep(struct decisions *d, struct decision *made, const uint8_t *key, const uint64_t tags[2],
                 int64_t asked_ms)
{
    memcpy(made->entry.key, key, CACHE_KEY_BYTES);
    memcpy(made->entry.tags, tags, sizeof made->entry.tags);
    made->entry.stored_ms = asked_ms;
    cache_put(d->kept, &made->entry, loop_now_ms(d->loop));
}

static struct slice outcome_name(const struct decision *d)
{
    if (!d) return SLICE("error");
    return d->allow ? SLICE("allow") : SLICE("deny");
}

static void count_decision(const struct decision *d, struct slice resource)
{
    struct slice labels[] = {outcome_name(d), resource};
    metric_add(METRIC_DECISIONS, labels, 1);
}

static void count_call(const struct question *q, const struct answer *a, int64_t elapsed_us)
{
    struct slice outcome = a->reason != REASON_FORWARDED ? SLICE("error") : a->allow ? SLICE("allow") : SLICE("deny");
    struct slice labels[] = {q->resource, q->action, outcome};
    struct slice failure[] = {SLICE("policy"), slice_str(a->kind)};
    metric_add(METRIC_OPA_EVALUATIONS, labels, 1);
    metric_observe(METRIC_OPA_DURATION, labels, (double)elapsed_us / 1e6);
    if (a->kind) metric_add(METRIC_DEPENDENCY_FAILURES, failure, 1);
}

/* policy.on_error: allow is for an engine that cannot be reached at all, and never for a question that
   opens nothing. */
static bool bypasses(const struct question *q, const struct fetch_answer *a)
{
    return q->owner->config.on_error_allow && a->outcome == FETCH_UNREACHABLE && !q->what_if;
}

static struct outcome judge(struct question *q, const struct answer *a, bool bypass)
{
    struct decisions *d = q->owner;
    struct outcome o = {.reason = a->reason, .detail = a->detail};
    char id[DIGEST_UUID_BYTES];
    if (a->reason != REASON_FORWARDED && !bypass) return o;
    digest_uuid(id);
    struct verdict v = {
        .use = q->use,
        .allow = a->allow || bypass,
        .bypassed = bypass,
        .id = id,
        .message = buf_slice(&a->message),
        .members = buf_slice(&a->members),
        .revision = a->revision,
        .now_ms = loop_now_ms(d->loop),
        .wall_ms = loop_wall_ms(d->loop),
    };
    v.end_ms = bypass ? v.now_ms : end_of(d, v.allow, a->has_ttl ? a->ttl_ms : -1, q->route_ttl_ms, q->limit_ms);
    o.decision = render_decision(&d->config, &v, buf_slice(&q->front), &o.reason, &o.detail);
    return o;
}

static void on_answer(const struct fetch_answer *fetched, void *arg)
{
    struct question *q = arg;
    struct decisions *d = q->owner;
    struct answer a;
    q->call = NULL;
    set_calls_out(d, q->what_if, -1);
    answer_read(fetched, &a);
    count_call(q, &a, fetched->elapsed_us);
    revisions_see(&d->revisions, a.revision, loop_now_ms(d->loop));
    struct outcome o = judge(q, &a, bypasses(q, fetched));
    if (o.decision && !q->what_if) keep(d, o.decision, q->key, q->tags, q->asked_ms);
    answer_free(&a);
    land(q, o);
}

static void on_landed(struct flight_waiter *w, void *arg)
{
    struct decision_call *c = container_of(w, struct decision_call, waiter);
    const struct outcome *o = arg;
    if (o->decision) decision_hold(o->decision);
    c->decision = o->decision;
    c->reason = o->reason;
    c->detail = o->detail;
    c->source = FOUND_REMOTE;
    count_decision(o->decision, o->resource);
    if (o->decision && o->decision->bypassed) {
        metric_add(METRIC_BYPASSED, NULL, 1);
        log_event(LOG_WARN, "authorization_bypassed",
                  SLICE("the policy engine cannot be reached and policy.on_error is allow"));
    }
    c->on_done(c);
}

static enum op done(struct decision_call *c, struct decision *d, enum reason reason, const char *detail,
                    enum found_in source)
{
    c->decision = d;
    c->reason = reason;
    c->detail = detail;
    c->source = source;
    return OP_DONE;
}

static struct slice append(struct buf *b, struct slice s)
{
    size_t at = b->n;
    buf_add_slice(b, s);
    return slice_make(b->p + at, s.n);
}

static struct question *question_create(struct decisions *d, const struct decision_question *q, const uint8_t *key,
                                        struct flight *flight)
{
    struct question *out = xzalloc(sizeof *out);
    out->owner = d;
    out->flight = flight;
    out->use = q->use;
    out->what_if = q->uncached;
    memcpy(out->key, key, CACHE_KEY_BYTES);
    if (q->token) memcpy(out->tags, q->token->entry.tags, sizeof out->tags);
    out->asked_ms = loop_now_ms(d->loop);
    out->limit_ms = limit_of(d, q);
    out->route_ttl_ms = q->route_ttl_ms;
    buf_init(&out->front, NULL);
    render_front(q, &out->front);
    buf_init(&out->texts, NULL);
    buf_reserve(&out->texts, q->resource.n + q->action.n + 1); /* slices point into it */
    out->resource = append(&out->texts, q->resource);
    out->action = append(&out->texts, q->action);
    list_add_last(&d->questions, &out->link);
    return out;
}

static void ask(struct question *out, const struct decision_question *q, const struct input *in, struct arena *a)
{
    struct decisions *d = out->owner;
    char time[LOG_TIME_BYTES];
    struct buf body;
    buf_init(&body, a);
    log_time(loop_wall_ms(d->loop), time);
    input_body(in, slice_str(time), q->request_id, &body);
    struct slice headers[] = {SLICE("Content-Type: application/json"), buf_slice(&d->authorization)};
    struct fetch_request r = {
        .method = SLICE("POST"),
        .url = buf_slice(&d->url),
        .headers = headers,
        .headers_n = d->authorization.n ? 2 : 1,
        .body = buf_slice(&body),
        .timeout_ms = d->config.timeout_ms,
        .max_bytes = d->config.max_response_bytes,
    };
    out->call = fetch_start(d->fetch, &r, on_answer, out);
    set_calls_out(d, out->what_if, 1);
}

static bool overloaded(const struct decisions *d, bool what_if)
{
    return what_if ? d->what_ifs_out >= d->config.what_if_max_inflight : d->calls_out >= d->config.max_inflight;
}

static void flight_key(struct decisions *d, const struct decision_question *q, const uint8_t *key, uint8_t *out)
{
    uint64_t first;
    memset(out, 0, CACHE_KEY_BYTES);
    if (!q->uncached) memcpy(out, key, CACHE_KEY_BYTES);
    memcpy(&first, out, sizeof first);
    first ^= q->uncached ? ++d->what_if_serial : d->epoch;
    memcpy(out, &first, sizeof first);
}

static enum op join(struct decisions *d, const struct decision_question *q, const struct input *in, const uint8_t *key,
                    struct arena *a, struct decision_call *c)
{
    uint8_t fkey[CACHE_KEY_BYTES];
    bool opened;
    flight_key(d, q, key, fkey);
    c->waiter.on_landed = on_landed;
    struct flight *flight = flight_join(d->flights, fkey, &c->waiter, &opened);
    if (!opened) return OP_PENDING;
    if (!overloaded(d, q->uncached)) {
        ask(question_create(d, q, key, flight), q, in, a);
        return OP_PENDING;
    }
    struct slice failure[] = {SLICE("policy"), SLICE("overloaded")};
    metric_add(METRIC_DEPENDENCY_FAILURES, failure, 1);
    count_decision(NULL, q->resource);
    flight_leave(&c->waiter);
    flight_land(d->flights, flight, NULL);
    return done(c, NULL, REASON_POLICY_OVERLOADED, "policy.max_inflight calls are out", FOUND_NONE);
}

/* An authenticated route: no question, the grant with policy null. */
static enum op user_only(struct decisions *d, const struct decision_question *q, const uint8_t *key,
                         struct decision_call *c)
{
    uint64_t tags[2] = {0, 0};
    char id[DIGEST_UUID_BYTES];
    struct buf front;
    int64_t now = loop_now_ms(d->loop);
    struct verdict v = {.use = DECISION_USER_ONLY, .allow = true, .id = id, .now_ms = now};
    v.wall_ms = loop_wall_ms(d->loop);
    v.end_ms = end_of(d, true, -1, q->route_ttl_ms, limit_of(d, q));
    digest_uuid(id);
    buf_init(&front, NULL);
    render_front(q, &front);
    c->detail = NULL;
    struct decision *made = render_decision(&d->config, &v, buf_slice(&front), &c->reason, &c->detail);
    buf_free(&front);
    if (q->token) memcpy(tags, q->token->entry.tags, sizeof tags);
    if (made) keep(d, made, key, tags, now);
    return done(c, made, c->reason, c->detail, FOUND_NONE);
}

/* From memory, with a reference; NULL: not there, or of a policy revision that is gone. */
static struct decision *remembered(struct decisions *d, const uint8_t *key)
{
    int64_t now = loop_now_ms(d->loop);
    struct cache_entry *e = cache_get(d->kept, key, now);
    if (!e) return NULL;
    struct decision *found = container_of(e, struct decision, entry);
    if (revisions_current(&d->revisions, found->revision, now)) return found;
    cache_drop(d->kept, key);
    decision_release(found);
    return NULL;
}

enum op decision_find(struct decisions *d, const struct decision_question *q, struct arena *a, struct decision_call *c)
{
    struct input in;
    uint8_t key[CACHE_KEY_BYTES] = {0};
    list_init(&c->waiter.link);
    input_write(q, a, &in);
    if (q->uncached) return join(d, q, &in, key, a, c);
    input_key(&in, q, key);
    struct decision *found = remembered(d, key);
    if (q->use != DECISION_USER_ONLY) metric_add(found ? METRIC_OPA_CACHE_HITS : METRIC_OPA_CACHE_MISSES, NULL, 1);
    if (found) {
        if (q->use != DECISION_USER_ONLY) count_decision(found, q->resource);
        return done(c, found, found->allow ? REASON_FORWARDED : REASON_POLICY_DENIED, NULL, FOUND_MEMORY);
    }
    if (q->use == DECISION_USER_ONLY) return user_only(d, q, key, c);
    return join(d, q, &in, key, a, c);
}

void decision_cancel(struct decision_call *c)
{
    flight_leave(&c->waiter);
}

void decisions_flush(struct decisions *d, uint64_t tag)
{
    cache_flush(d->kept, tag, loop_now_ms(d->loop));
    d->epoch++;
}

void decisions_stats(const struct decisions *d, struct cache_stats *out)
{
    cache_stats(d->kept, out);
}

unsigned decisions_inflight(const struct decisions *d)
{
    return d->calls_out + d->what_ifs_out;
}
