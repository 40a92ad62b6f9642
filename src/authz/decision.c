/* authz/decision: may this request pass? Called by the decide step. Owns the decisions in memory and one flight per
   key; the calls themselves are question's. Refuses whatever the engine did not clearly allow; keeps nothing that was
   decided before a flush, in doubt, or while the engine could not be reached. */
#include "authz/decision.h"

#include <stdlib.h>
#include <string.h>

#include "authz/blame.h"
#include "authz/digest.h"
#include "authz/question.h"
#include "authz/render.h"
#include "authz/revision.h"
#include "base/chance.h"
#include "base/check.h"
#include "base/log.h"
#include "base/metric.h"

#define ASK_AGAIN_MS 1000 /* for one stale decision, at most so often */

struct decisions {
    struct held held;
    struct loop *loop;
    struct decisions_config config;
    struct engine engine;
    struct cache *kept;
    struct flights *flights;
    struct revisions revisions;
    uint64_t epoch;          /* flushes so far; in a flight's key, so that nobody joins a question from before one */
    uint64_t what_if_serial; /* each what-if question is a flight of its own */
};

struct outcome {
    struct decision *decision;
    enum reason reason;
    const char *detail;
    struct slice resource;
    int64_t retry_ms;
};

static void on_answered(struct question *q, const struct answer *a, const struct fetch_answer *fetched);
static void on_refused(struct question *q, enum dependency_word word);
static void on_landed(struct flight_waiter *w, void *arg);
static void on_decisions_gone(struct held *h);

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
    held_init(&d->held, on_decisions_gone);
    d->config = *c;
    held_take(c->owner);
    engine_init(&d->engine, l, f, &d->config);
    d->kept = cache_create(c->max_entries ? c->max_entries : 1, c->max_bytes ? c->max_bytes : 1, render_free);
    d->flights = flights_create();
    d->revisions.grace_ms = c->revision_grace_s * 1000;
    return d;
}

static int64_t rest_ms(const struct decisions *d)
{
    return dependency_rest_ms(&d->engine.dependency, loop_now_ms(d->loop));
}

/* Ends a question and tells its waiters. Takes the reference that o.decision is. */
static void land(struct question *q, struct outcome o)
{
    struct decisions *d = q->owner;
    o.resource = q->resource;
    if (!o.decision) o.retry_ms = rest_ms(d);
    question_withdraw(q);
    flight_land(d->flights, q->flight, &o); /* a waiter told may destroy the owner */
    if (o.decision) decision_release(o.decision);
    question_free(q);
}

static void on_decisions_gone(struct held *h)
{
    struct decisions *d = container_of(h, struct decisions, held);
    while (!list_empty(&d->engine.questions)) {
        land(container_of(d->engine.questions.next, struct question, link),
             (struct outcome){.reason = REASON_SHUTTING_DOWN});
    }
    engine_finish(&d->engine);
    flights_destroy(d->flights);
    cache_destroy(d->kept);
    held_release(d->config.owner);
    free(d);
}

void decisions_hold(struct decisions *d)
{
    held_take(&d->held);
}

void decisions_destroy(struct decisions *d)
{
    if (d) held_release(&d->held);
}

void decisions_adjust(struct decisions *d, const struct decisions_config *c)
{
    struct held *before = d->config.owner;
    held_take(c->owner);
    d->config = *c;
    held_release(before);
    engine_adjust(&d->engine);
    cache_limit(d->kept, c->max_entries ? c->max_entries : 1, c->max_bytes ? c->max_bytes : 1);
    d->revisions.grace_ms = c->revision_grace_s * 1000;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Sets the ends of a verdict. ttl_ms: the answer's; -1 none. What is not to be kept at all is not kept stale either. */
static void set_ends(const struct decisions *d, struct verdict *v, int64_t ttl_ms, int64_t route_ttl_ms,
                     int64_t limit_ms)
{
    const struct decisions_config *c = &d->config;
    if (ttl_ms < 0) ttl_ms = route_ttl_ms > 0 ? route_ttl_ms : (v->allow ? c->ttl_s : c->deny_ttl_s) * 1000;
    ttl_ms -= (int64_t)((double)ttl_ms * c->jitter * chance_fraction());
    v->fresh_ms = v->end_ms = least(v->now_ms + ttl_ms, limit_ms);
    if (v->allow && v->use != DECISION_USER_ONLY && ttl_ms > 0)
        v->end_ms = least(v->fresh_ms + c->stale_s * 1000, limit_ms);
}

/* In place of what is kept under that key, also when it is not to be kept itself. */
static void keep(struct decisions *d, struct decision *made, const uint8_t *key, const uint64_t tags[2],
                 int64_t asked_ms)
{
    memcpy(made->entry.key, key, CACHE_KEY_BYTES);
    memcpy(made->entry.tags, tags, sizeof made->entry.tags);
    made->entry.stored_ms = asked_ms;
    if (!cache_put(d->kept, &made->entry, loop_now_ms(d->loop))) cache_drop(d->kept, key);
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
    set_ends(d, &v, bypass ? 0 : a->has_ttl ? a->ttl_ms : -1, q->route_ttl_ms, q->limit_ms);
    o.decision = render_decision(&d->config, &v, &q->front, &o.reason, &o.detail);
    return o;
}

/* The engine spoke: what was kept, perhaps stale, gives way to what it said, if only to a doubt. */
static void take(struct decisions *d, const struct question *q, struct decision *made)
{
    if (made)
        keep(d, made, q->key, q->tags, q->asked_ms);
    else
        cache_drop(d->kept, q->key);
}

/* Of an evaluation in this process. */
static bool says_nothing(const struct answer *a)
{
    return a->reason == REASON_POLICY_FAILED || a->reason == REASON_POLICY_LIMIT || a->reason == REASON_POLICY_TIMEOUT;
}

static void on_answered(struct question *q, const struct answer *a, const struct fetch_answer *fetched)
{
    struct decisions *d = q->owner;
    revisions_see(&d->revisions, a->revision, loop_now_ms(d->loop));
    struct outcome o = judge(q, a, question_bypasses(q, fetched));
    if (!q->what_if && !(fetched ? blame_nothing_said(fetched) : says_nothing(a))) take(d, q, o.decision);
    land(q, o);
}

static struct outcome refusal(enum dependency_word word)
{
    if (word == DEPENDENCY_FULL)
        return (struct outcome){.reason = REASON_POLICY_OVERLOADED, .detail = "policy.max_inflight calls are out"};
    return (struct outcome){.reason = REASON_POLICY_UNAVAILABLE, .detail = "resting after failures"};
}

/* It had waited for its turn. */
static void on_refused(struct question *q, enum dependency_word word)
{
    land(q, refusal(word));
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
    c->stale = false;
    c->retry_ms = o->retry_ms;
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
    c->stale = false;
    c->retry_ms = 0;
    return OP_DONE;
}

static enum op refused(struct decisions *d, enum dependency_word word, struct decision_call *c)
{
    struct outcome o = refusal(word);
    done(c, NULL, o.reason, o.detail, FOUND_NONE);
    c->retry_ms = rest_ms(d);
    return OP_DONE;
}

/* GO: it is out, or waits for its turn (only where it can_wait). */
static enum dependency_word ask(struct decisions *d, const struct decision_question *q, const struct input *in,
                                const uint8_t *key, struct arena *a, struct flight *flight, bool can_wait)
{
    struct dependency_call slot;
    enum dependency_word word = engine_begin(&d->engine, q->uncached, can_wait, &slot);
    if (word != DEPENDENCY_GO && word != DEPENDENCY_WAITS) return word;
    struct question *out = question_create(&d->engine, slot, q, key);
    out->owner = d;
    out->flight = flight;
    out->on_answered = on_answered;
    out->on_refused = on_refused;
    flight_set_owner(flight, out);
    if (word == DEPENDENCY_WAITS)
        question_wait(out, q, in);
    else
        question_ask(out, q, in, a);
    return DEPENDENCY_GO;
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
    c->flight = flight;
    if (!opened) return OP_PENDING;
    enum dependency_word word = ask(d, q, in, key, a, flight, true);
    if (word == DEPENDENCY_GO) return OP_PENDING;
    count_decision(NULL, q->resource);
    flight_leave(&c->waiter);
    flight_land(d->flights, flight, NULL);
    return refused(d, word, c);
}

/* By the engine in this process, on the loop: no flight, nothing to wait for. The reference is the caller's. */
static struct outcome evaluate(struct decisions *d, const struct decision_question *q, const struct input *in,
                               const uint8_t *key, struct arena *a, bool *said)
{
    struct answer answer;
    struct question *asked = question_create(&d->engine, (struct dependency_call){.cap = NULL}, q, key);
    asked->owner = d;
    question_evaluate(asked, q, in, a, &answer);
    revisions_see(&d->revisions, answer.revision, loop_now_ms(d->loop));
    struct outcome o = judge(asked, &answer, false);
    *said = !says_nothing(&answer);
    if (!q->uncached && *said) take(d, asked, o.decision);
    answer_free(&answer);
    question_free(asked);
    return o;
}

static enum op decide_here(struct decisions *d, const struct decision_question *q, const struct input *in,
                           const uint8_t *key, struct arena *a, struct decision_call *c)
{
    bool said;
    struct outcome o = evaluate(d, q, in, key, a, &said);
    count_decision(o.decision, q->resource);
    return done(c, o.decision, o.reason, o.detail, FOUND_REMOTE);
}

/* An authenticated route: no question, the grant with policy null. */
static enum op user_only(struct decisions *d, const struct decision_question *q, const uint8_t *key,
                         struct decision_call *c)
{
    uint64_t tags[2] = {0, 0};
    char id[DIGEST_UUID_BYTES];
    struct front front;
    int64_t now = loop_now_ms(d->loop);
    struct verdict v = {.use = DECISION_USER_ONLY, .allow = true, .id = id, .now_ms = now};
    v.wall_ms = loop_wall_ms(d->loop);
    set_ends(d, &v, -1, q->route_ttl_ms, question_limit(&d->engine, q));
    digest_uuid(id);
    front_init(&front, q);
    c->detail = NULL;
    struct decision *made = render_decision(&d->config, &v, &front, &c->reason, &c->detail);
    front_free(&front);
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

/* Evaluates again what is stale; what comes of it is the answer, in place of `stale` (its reference is ours). Where nothing
   comes of it, stale still is, and that is not tried again and again. */
static enum op decide_again(struct decisions *d, const struct decision_question *q, const struct input *in,
                            const uint8_t *key, struct arena *a, struct decision *stale, struct decision_call *c)
{
    int64_t now = loop_now_ms(d->loop);
    bool tries = !stale->asked_again_ms || now - stale->asked_again_ms >= ASK_AGAIN_MS, said = false;
    struct outcome o = {.decision = NULL};
    if (tries) {
        stale->asked_again_ms = now;
        o = evaluate(d, q, in, key, a, &said);
    }
    if (said) {
        decision_release(stale);
        count_decision(o.decision, q->resource);
        return done(c, o.decision, o.reason, o.detail, FOUND_REMOTE);
    }
    count_decision(stale, q->resource);
    metric_add(METRIC_CACHE_STALE, &(struct slice){"decision", 8}, 1);
    done(c, stale, REASON_FORWARDED, NULL, FOUND_MEMORY);
    c->stale = true;
    return OP_DONE;
}

/* Asks again in the background, if nobody does already: a flight without waiters. Not over the cap, not while the engine
   rests, and not again and again while it is away. */
static void ask_again(struct decisions *d, const struct decision_question *q, const struct input *in,
                      const uint8_t *key, struct arena *a, struct decision *stale)
{
    struct flight_waiter nobody;
    uint8_t fkey[CACHE_KEY_BYTES];
    bool opened;
    int64_t now = loop_now_ms(d->loop);
    if (stale->asked_again_ms && now - stale->asked_again_ms < ASK_AGAIN_MS) return;
    stale->asked_again_ms = now;
    flight_key(d, q, key, fkey);
    struct flight *flight = flight_join(d->flights, fkey, &nobody, &opened);
    flight_leave(&nobody);
    if (opened && ask(d, q, in, key, a, flight, false) != DEPENDENCY_GO) flight_land(d->flights, flight, NULL);
}

/* Else it is asked, and waited for: an engine elsewhere, or the threads. */
static bool evaluates_at_once(const struct decisions *d)
{
    return d->config.rego && d->config.threads == 0;
}

static enum op from_memory(struct decisions *d, const struct decision_question *q, const struct input *in,
                           const uint8_t *key, struct arena *a, struct decision *found, struct decision_call *c)
{
    static const struct slice cache = {"decision", 8};
    bool stale = loop_now_ms(d->loop) >= found->fresh_ms;
    if (stale && evaluates_at_once(d) && q->use != DECISION_USER_ONLY) return decide_again(d, q, in, key, a, found, c);
    done(c, found, found->allow ? REASON_FORWARDED : REASON_POLICY_DENIED, NULL, FOUND_MEMORY);
    if (q->use == DECISION_USER_ONLY) return OP_DONE;
    count_decision(found, q->resource);
    c->stale = stale;
    if (!stale) return OP_DONE;
    metric_add(METRIC_CACHE_STALE, &cache, 1);
    ask_again(d, q, in, key, a, found);
    return OP_DONE;
}

static enum op ask_engine(struct decisions *d, const struct decision_question *q, const struct input *in, const uint8_t *key,
                          struct arena *a, struct decision_call *c)
{
    return evaluates_at_once(d) ? decide_here(d, q, in, key, a, c) : join(d, q, in, key, a, c);
}

enum op decision_find(struct decisions *d, const struct decision_question *q, struct arena *a, struct decision_call *c)
{
    struct input in;
    uint8_t key[CACHE_KEY_BYTES] = {0};
    list_init(&c->waiter.link);
    input_write(q, a, &in);
    if (q->uncached) return ask_engine(d, q, &in, key, a, c);
    input_key(&in, q, key);
    struct decision *found = remembered(d, key);
    if (q->use != DECISION_USER_ONLY) metric_add(found ? METRIC_OPA_CACHE_HITS : METRIC_OPA_CACHE_MISSES, NULL, 1);
    if (found) return from_memory(d, q, &in, key, a, found, c);
    if (q->use == DECISION_USER_ONLY) return user_only(d, q, key, c);
    return ask_engine(d, q, &in, key, a, c);
}

void decision_cancel(struct decision_call *c)
{
    if (list_empty(&c->waiter.link)) return; /* it was told */
    flight_leave(&c->waiter);
    struct question *q = flight_owner(c->flight);
    if (!question_waits(q) || flight_is_waited_for(c->flight)) return;
    struct decisions *d = q->owner;
    land(q, (struct outcome){.reason = REASON_CLIENT_GONE}); /* nobody is told; its place is free */
    engine_take_turns(&d->engine);
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

void decisions_wake(struct decisions *d)
{
    breaker_wake(&d->engine.dependency.breaker, loop_now_ms(d->loop));
}

unsigned decisions_inflight(const struct decisions *d)
{
    return d->engine.dependency.out;
}
