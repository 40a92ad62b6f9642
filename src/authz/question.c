/* authz/question: called by decision. Owns the address of the engine, our word to it, and the questions that are out;
   counts each answer by what it was. */
#include "authz/question.h"

#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

#include "authz/blame.h"
#include "authz/rego_engine.h"
#include "authz/render.h"
#include "base/check.h"
#include "base/log.h"
#include "base/metric.h"

#define TELL_AGAIN_MS 1000 /* a failed evaluation, at most so often */

static void on_answer(const struct fetch_answer *fetched, void *arg);
static void on_evaluated(const struct rego_said *said, void *arg);
static void on_patience_over(struct deadline *d);

/* Of its configuration as it is now. */
static void take_config(struct engine *e)
{
    const struct decisions_config *c = e->config;
    e->calls.most = c->max_inflight;
    e->calls.most_waiting = c->max_waiting;
    e->patience = loop_timeouts(e->loop, c->timeout_ms);
    e->what_ifs.most = c->what_if_max_inflight;
    buf_init(&e->url, NULL);
    buf_add_slice(&e->url, c->url);
    buf_add_char(&e->url, c->url.n && memchr(c->url.p, '?', c->url.n) ? '&' : '?');
    buf_add_lit(&e->url, "provenance=true");
    buf_init(&e->authorization, NULL);
    if (c->authorization.n) {
        buf_reserve(&e->authorization, c->authorization.n + 32);
        buf_add_lit(&e->authorization, "Authorization: ");
        buf_add_slice(&e->authorization, c->authorization);
    }
}

static void free_texts(struct engine *e)
{
    buf_free(&e->url);
    if (e->authorization.n) OPENSSL_cleanse(e->authorization.p, e->authorization.n);
    buf_free(&e->authorization);
}

void engine_init(struct engine *e, struct loop *l, struct fetch *f, const struct decisions_config *c)
{
    *e = (struct engine){.loop = l, .fetch = f, .config = c};
    list_init(&e->questions);
    dependency_init(&e->dependency, SLICE("policy"), &c->breaker);
    if (c->rego && c->threads) e->threads = rego_threads_create(l, c->rego, c->threads);
    take_config(e);
}

void engine_adjust(struct engine *e)
{
    free_texts(e);
    take_config(e);
    breaker_adjust(&e->dependency.breaker, &e->config->breaker);
}

void engine_finish(struct engine *e)
{
    CHECK(list_empty(&e->questions), "a question knows its engine");
    if (e->gone) *e->gone = true;
    rego_threads_destroy(e->threads);
    free_texts(e);
}

/* What-if questions rest with the others, but have no say in it: who may ask them may not take the engine away. What is
   evaluated here has none either, so that nothing ever rests. */
enum dependency_word engine_begin(struct engine *e, bool what_if, bool can_wait, struct dependency_call *slot)
{
    struct dependency_cap *cap = what_if ? &e->what_ifs : &e->calls;
    int64_t now = loop_now_ms(e->loop);
    bool counts = !what_if && !e->threads;
    return can_wait ? dependency_begin_or_wait(&e->dependency, cap, counts, now, slot)
                    : dependency_begin(&e->dependency, cap, counts, now, slot);
}

/* With on_error: allow an engine that cannot be reached at all does not rest: it refuses at once by itself, and nobody
   is let through but on a refusal of its own, each time. */
static enum dependency_outcome blame(const struct question *q, const struct fetch_answer *a)
{
    if (q->hurried && a->outcome == FETCH_TIMEOUT) return DEPENDENCY_UNKNOWN; /* it was our queue that was slow */
    return question_bypasses(q, a) ? DEPENDENCY_ANSWERED : blame_of(a);
}

static void end_call(struct question *q, enum dependency_outcome o)
{
    q->call = NULL;
    q->task = NULL;
    dependency_end(&q->engine->dependency, &q->slot, o, loop_now_ms(q->engine->loop));
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

/* Its time runs on: it may have to wait for a thread too. */
static void give_to_threads(struct question *q, struct slice body)
{
    const struct decisions_config *c = q->engine->config;
    q->task = rego_threads_evaluate(q->engine->threads, input_value(body), c->eval_limit_ms, c->max_response_bytes,
                                    on_evaluated, q);
}

/* timeout_ms: what is left of it. */
static void send_question(struct question *q, struct slice body, int64_t timeout_ms)
{
    struct engine *e = q->engine;
    struct slice headers[] = {SLICE("Content-Type: application/json"), buf_slice(&e->authorization)};
    struct fetch_request r = {
        .method = SLICE("POST"),
        .url = buf_slice(&e->url),
        .headers = headers,
        .headers_n = e->authorization.n ? 2 : 1,
        .body = body,
        .timeout_ms = timeout_ms > 1 ? timeout_ms : 1,
        .max_bytes = e->config->max_response_bytes,
        .tls = &e->config->tls,
    };
    q->call = fetch_start(e->fetch, &r, on_answer, q);
}

static void send_late(struct question *q)
{
    int64_t timeout_ms = q->engine->config->timeout_ms;
    int64_t left_ms = q->asked_ms + timeout_ms - loop_now_ms(q->engine->loop);
    if (q->engine->threads) {
        give_to_threads(q, buf_slice(&q->body));
        return;
    }
    deadline_stop(&q->patience);
    q->hurried = left_ms < timeout_ms / 2;
    send_question(q, buf_slice(&q->body), left_ms);
}

/* Those whose turn has come. Whoever is told may end the engine: then *gone, which e->gone points to. */
static void take_turns(struct engine *e, const bool *gone)
{
    enum dependency_word word;
    struct dependency_call *slot;
    while (!*gone && (slot = dependency_turn(&e->dependency, &e->calls, loop_now_ms(e->loop), &word))) {
        struct question *q = container_of(slot, struct question, slot);
        if (word == DEPENDENCY_GO)
            send_late(q);
        else
            q->on_refused(q, word);
    }
}

void engine_take_turns(struct engine *e)
{
    bool gone = false;
    if (e->gone) return; /* inside an answer: it is done behind it */
    e->gone = &gone;
    take_turns(e, &gone);
    if (!gone) e->gone = NULL;
}

/* Tells the asker; then it is the turn of others. */
static void tell(struct question *q, struct answer *a, const struct fetch_answer *fetched, int64_t elapsed_us)
{
    struct engine *e = q->engine;
    bool gone = false;
    count_call(q, a, elapsed_us);
    e->gone = &gone;
    q->on_answered(q, a, fetched);
    answer_free(a);
    if (!gone) take_turns(e, &gone);
    if (!gone) e->gone = NULL;
}

static void on_answer(const struct fetch_answer *fetched, void *arg)
{
    struct question *q = arg;
    struct answer a;
    end_call(q, blame(q, fetched));
    answer_read(fetched, &a);
    tell(q, &a, fetched, fetched->elapsed_us);
}

/* No thread has begun it, or one is at it for longer than policy.timeout_ms leave: its end is not waited for. */
static void give_up(struct question *q)
{
    struct answer a;
    rego_task_cancel(q->task);
    end_call(q, DEPENDENCY_UNKNOWN);
    answer_of_silence(&a);
    tell(q, &a, NULL, (loop_now_ms(q->engine->loop) - q->asked_ms) * 1000);
}

static void on_patience_over(struct deadline *d)
{
    struct question *q = container_of(d, struct question, patience);
    if (q->task) {
        give_up(q);
        return;
    }
    dependency_leave(&q->engine->dependency, &q->slot, true);
    q->on_refused(q, DEPENDENCY_FULL);
}

bool question_bypasses(const struct question *q, const struct fetch_answer *a)
{
    return a && q->engine->config->on_error_allow && a->outcome == FETCH_UNREACHABLE && !q->what_if;
}

int64_t question_limit(const struct engine *e, const struct decision_question *q)
{
    int64_t limit = q->user ? q->user->end_ms : INT64_MAX;
    if (!q->token || q->token->exp_s > INT64_MAX / 2000) return limit;
    int64_t end = loop_now_ms(e->loop) + (q->token->exp_s * 1000 - loop_wall_ms(e->loop));
    return limit < end ? limit : end;
}

static struct slice append(struct buf *b, struct slice s)
{
    size_t at = b->n;
    buf_add_slice(b, s);
    return slice_make(b->p + at, s.n);
}

struct question *question_create(struct engine *e, struct dependency_call slot, const struct decision_question *q,
                                 const uint8_t *key)
{
    struct question *out = xzalloc(sizeof *out);
    out->engine = e;
    out->slot = slot;
    deadline_init(&out->patience, on_patience_over);
    buf_init(&out->body, NULL);
    out->use = q->use;
    out->what_if = q->uncached;
    memcpy(out->key, key, CACHE_KEY_BYTES);
    if (q->token) memcpy(out->tags, q->token->entry.tags, sizeof out->tags);
    out->asked_ms = loop_now_ms(e->loop);
    out->limit_ms = question_limit(e, q);
    out->route_ttl_ms = q->route_ttl_ms;
    front_init(&out->front, q);
    buf_init(&out->texts, NULL);
    buf_reserve(&out->texts, q->resource.n + q->action.n + 1); /* slices point into it */
    out->resource = append(&out->texts, q->resource);
    out->action = append(&out->texts, q->action);
    list_add_last(&e->questions, &out->link);
    return out;
}

static void write_body(const struct engine *e, const struct decision_question *q, const struct input *in,
                       struct buf *body)
{
    char time[LOG_TIME_BYTES];
    log_time(loop_wall_ms(e->loop), time);
    input_body(in, slice_str(time), q->request_id, body);
}

void question_ask(struct question *out, const struct decision_question *q, const struct input *in, struct arena *a)
{
    struct buf body;
    buf_init(&body, a);
    write_body(out->engine, q, in, &body);
    if (!out->engine->threads) {
        send_question(out, buf_slice(&body), out->engine->config->timeout_ms);
        return;
    }
    deadline_start(out->engine->patience, &out->patience);
    give_to_threads(out, buf_slice(&body));
}

/* FILE:LINE:COLUMN at the front of a finding; empty: there is none. What follows can have parts of the input in it. */
static struct slice place_of(struct slice text)
{
    size_t colons = 0, i = 0;
    for (; i < text.n && text.p[i] != '\n'; i++) {
        bool digit = text.p[i] >= '0' && text.p[i] <= '9';
        if (text.p[i] == ':' && ++colons == 3) return slice_make(text.p, i);
        if (colons && text.p[i] != ':' && !digit) break;
    }
    return SLICE("");
}

/* Whole only where everything is told. */
static void tell_failure(struct engine *e, const struct rego_said *said)
{
    int64_t now = loop_now_ms(e->loop);
    struct slice text = slice_make(said->text, said->n), place = place_of(text);
    if (log_on(LOG_DEBUG)) {
        log_event(LOG_DEBUG, "policy_evaluation_failed", text);
    } else if (!e->told_ms || now - e->told_ms >= TELL_AGAIN_MS) {
        e->told_ms = now;
        if (said->word == REGO_SAID_LIMIT) place = SLICE("over policy.eval_limit_ms or policy.max_response_bytes");
        log_event(LOG_WARN, "policy_evaluation_failed", place.n ? place : SLICE("log.level debug says more"));
    }
}

/* What it is to whoever asked; counted and told by its caller. */
static void read_said(struct engine *e, const struct rego_said *said, struct answer *out)
{
    answer_of_evaluation(said, rego_engine_revision(e->config->rego), out);
    if (said->word == REGO_SAID_FAILED || said->word == REGO_SAID_LIMIT) tell_failure(e, said);
}

static void on_evaluated(const struct rego_said *said, void *arg)
{
    struct question *q = arg;
    struct answer a;
    deadline_stop(&q->patience);
    end_call(q, DEPENDENCY_UNKNOWN);
    read_said(q->engine, said, &a);
    tell(q, &a, NULL, said->took_us);
}

void question_evaluate(struct question *asked, const struct decision_question *q, const struct input *in, struct arena *a,
                       struct answer *out)
{
    struct engine *e = asked->engine;
    const struct decisions_config *c = e->config;
    struct rego_said said;
    struct buf body;
    buf_init(&body, a);
    write_body(e, q, in, &body);
    rego_engine_evaluate(c->rego, input_value(buf_slice(&body)), c->eval_limit_ms, c->max_response_bytes, &said);
    read_said(e, &said, out);
    count_call(asked, out, said.took_us);
    rego_said_free(&said);
}

void question_wait(struct question *out, const struct decision_question *q, const struct input *in)
{
    struct engine *e = out->engine;
    write_body(e, q, in, &out->body);
    dependency_wait(&e->dependency, &e->calls, &out->slot);
    deadline_start(e->patience, &out->patience);
}

bool question_waits(const struct question *q)
{
    return q->slot.waits_for || (q->task && rego_task_waits(q->task));
}

void question_withdraw(struct question *q)
{
    if (q->call) fetch_cancel(q->call);
    if (q->task) rego_task_cancel(q->task);
    if (q->slot.cap) end_call(q, DEPENDENCY_UNKNOWN);
    dependency_leave(&q->engine->dependency, &q->slot, false);
    deadline_stop(&q->patience);
    list_remove(&q->link);
}

void question_free(struct question *q)
{
    question_withdraw(q);
    buf_free(&q->body);
    front_free(&q->front);
    buf_free(&q->texts);
    free(q);
}
