/* authz/lookup: called by identity. Owns the calls of each lookup to Redis and to the API, and what the credential is
   copied to. Refuses to write to Redis what was asked before a flush, and what is nobody's name. */
#include "authz/lookup.h"

#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

#include "authz/blame.h"
#include "authz/profile.h"
#include "base/chance.h"
#include "base/check.h"
#include "base/flight.h"

static void on_generation(enum redis_outcome o, struct slice value, void *arg);
static void on_stored(enum redis_outcome o, struct slice value, void *arg);
static void on_profile(const struct fetch_answer *a, void *arg);
static void on_patience_over(struct deadline *d);

static void take_limits(struct sources *s)
{
    s->calls.most = s->config->max_inflight;
    s->calls.most_waiting = s->config->max_waiting;
    s->patience = loop_timeouts(s->loop, s->config->timeout_ms);
}

void sources_init(struct sources *s, struct loop *l, struct fetch *f, struct redis *r, const struct identity_config *c,
                  void (*on_raised)(void *arg), void *arg)
{
    *s = (struct sources){.loop = l, .fetch = f, .redis = r, .config = c, .on_raised = on_raised, .arg = arg};
    list_init(&s->lookups);
    dependency_init(&s->api, SLICE("context"), &c->breaker);
    take_limits(s);
    generation_init(&s->generation, l, r, c->key_prefix, on_raised, arg);
}

void sources_adjust(struct sources *s)
{
    take_limits(s);
    s->generation.prefix = s->config->key_prefix;
    breaker_adjust(&s->api.breaker, &s->config->breaker);
}

void sources_finish(struct sources *s)
{
    CHECK(list_empty(&s->lookups), "a lookup knows its sources");
    if (s->reading) redis_cancel(s->reading);
    if (s->gone) *s->gone = true;
    generation_finish(&s->generation);
}

void sources_flush(struct sources *s, uint64_t tag)
{
    for (struct list *n = s->lookups.next; n != &s->lookups; n = n->next) {
        struct lookup *l = container_of(n, struct lookup, link);
        if (tag == 0 || l->tags[0] == tag || l->tags[1] == tag) l->flushed = true;
    }
    s->epoch++;
}

static void on_read_again(enum redis_outcome o, struct slice value, void *arg)
{
    struct sources *s = arg;
    bool told = s->told;
    s->reading = NULL;
    s->told = false;
    if (!generation_take(&s->generation, o, value) && told && s->on_raised) s->on_raised(s->arg);
}

void sources_doubt(struct sources *s, bool told)
{
    if (!s->redis) return;
    if (s->reading) redis_cancel(s->reading);
    s->told = s->told || told;
    generation_doubt(&s->generation);
    s->reading = generation_ask(&s->generation, on_read_again, s);
}

/* A 5xx may come of this one profile: the same one again says no more than once; and of a credential that was not verified,
   since anybody can make up another one, nothing. */
static enum dependency_outcome blame(struct lookup *l, const struct fetch_answer *a)
{
    if (l->hurried && a->outcome == FETCH_TIMEOUT) return DEPENDENCY_UNKNOWN; /* it was our queue that was slow */
    enum dependency_outcome o = blame_of(a);
    uint64_t whose, last = l->sources->last_500;
    if (a->outcome != FETCH_ANSWERED || a->status < 500 || o == DEPENDENCY_FAILED) return o;
    if (!l->verified) return DEPENDENCY_UNKNOWN;
    memcpy(&whose, l->key, sizeof whose);
    l->sources->last_500 = whose;
    return whose == last ? DEPENDENCY_UNKNOWN : DEPENDENCY_FAILED;
}

static void end_call(struct lookup *l, enum dependency_outcome o)
{
    l->fetch_call = NULL;
    dependency_end(&l->sources->api, &l->slot, o, loop_now_ms(l->sources->loop));
}

static int64_t rest_ms(const struct sources *s)
{
    return dependency_rest_ms(&s->api, loop_now_ms(s->loop));
}

/* Hands over what was found, or why nothing was. */
static void end(struct lookup *l, struct found f)
{
    list_remove(&l->link);
    if (!f.user) f.retry_ms = rest_ms(l->sources);
    l->on_found(l, f);
}

static struct found refusal_of(const struct sources *s, enum dependency_word word)
{
    bool full = word == DEPENDENCY_FULL;
    return (struct found){.reason = full ? REASON_CONTEXT_OVERLOADED : REASON_CONTEXT_UNAVAILABLE,
                          .detail = full ? "context.max_inflight calls are out" : "resting after failures",
                          .nothing_said = true,
                          .retry_ms = rest_ms(s)};
}

static void call_api(struct lookup *l)
{
    struct sources *s = l->sources;
    int64_t left_ms = l->api_due_ms - loop_now_ms(s->loop);
    l->hurried = left_ms < s->config->timeout_ms / 2;
    l->fetch_call = profile_ask(s->fetch, s->config, l->service, l->subject.name, l->authorization,
                                left_ms > 1 ? left_ms : 1, on_profile, l);
}

/* False: refused at once, nothing is out. */
static bool ask_api(struct lookup *l, struct found *refusal)
{
    struct sources *s = l->sources;
    l->service = profile_by_service(s->config, l->verified);
    if (l->service && !profile_can_name(l->subject.name)) {
        *refusal = (struct found){.reason = REASON_CONTEXT_UNKNOWN, .detail = "the subject is a dot segment"};
        return false;
    }
    if (!l->service && s->config->url.n == 0) {
        *refusal = (struct found){.reason = REASON_CONTEXT_UNAVAILABLE, .detail = "context.url is not set"};
        return false;
    }
    int64_t now = loop_now_ms(s->loop);
    /* what is only asked for in the background takes nobody's place */
    enum dependency_word word = flight_is_waited_for(l->flight)
                                    ? dependency_begin_or_wait(&s->api, &s->calls, true, now, &l->slot)
                                    : dependency_begin(&s->api, &s->calls, true, now, &l->slot);
    l->api_due_ms = now + s->config->timeout_ms;
    if (word == DEPENDENCY_GO) {
        call_api(l);
        return true;
    }
    if (word == DEPENDENCY_WAITS) {
        dependency_wait(&s->api, &s->calls, &l->slot);
        deadline_start(s->patience, &l->patience);
        return true;
    }
    *refusal = refusal_of(s, word);
    return false;
}

/* Those whose turn has come. Whoever is told may end the sources: then *gone, which s->gone points to. */
static void take_turns(struct sources *s, const bool *gone)
{
    enum dependency_word word;
    struct dependency_call *slot;
    while (!*gone && (slot = dependency_turn(&s->api, &s->calls, loop_now_ms(s->loop), &word))) {
        struct lookup *l = container_of(slot, struct lookup, slot);
        deadline_stop(&l->patience);
        if (word == DEPENDENCY_GO)
            call_api(l);
        else
            end(l, refusal_of(s, word));
    }
}

static void on_patience_over(struct deadline *d)
{
    struct lookup *l = container_of(d, struct lookup, patience);
    dependency_leave(&l->sources->api, &l->slot, true);
    end(l, refusal_of(l->sources, DEPENDENCY_FULL));
}

static void ask_api_or_end(struct lookup *l)
{
    struct found refusal;
    if (!ask_api(l, &refusal)) end(l, refusal);
}

static void ask_redis(struct lookup *l)
{
    generation_key(&l->sources->generation, l->key, &l->redis_key);
    l->redis_call = redis_get(l->sources->redis, buf_slice(&l->redis_key), on_stored, l);
}

/* It has just learnt that others flushed, and has read nothing yet: it is as if it began now. */
static void begin_anew(struct lookup *l)
{
    l->flushed = false;
    l->epoch = l->sources->epoch;
    l->asked_ms = loop_now_ms(l->sources->loop);
    l->asked_wall_ms = loop_wall_ms(l->sources->loop);
}

static void on_generation(enum redis_outcome o, struct slice value, void *arg)
{
    struct lookup *l = arg;
    l->redis_call = NULL;
    /* after a flush, of whomever, the answer may be the number from before it */
    if (l->epoch == l->sources->epoch && generation_take(&l->sources->generation, o, value)) {
        if (l->epoch != l->sources->epoch) begin_anew(l);
        ask_redis(l);
    } else {
        ask_api_or_end(l);
    }
}

static void on_stored(enum redis_outcome o, struct slice value, void *arg)
{
    struct lookup *l = arg;
    struct sources *s = l->sources;
    int64_t stored_wall = 0;
    l->redis_call = NULL;
    if (o == REDIS_UNAVAILABLE) buf_free(&l->redis_key);
    l->subject.made_by = s->config->made_by;
    struct user *u = o == REDIS_FOUND && !l->flushed ? context_load(value, &l->subject, &stored_wall) : NULL;
    int64_t age = loop_wall_ms(s->loop) - stored_wall;
    if (u && age >= s->config->ttl_s * 1000) {
        user_release(u);
        u = NULL;
    }
    if (!u) {
        ask_api_or_end(l);
        return;
    }
    end(l, (struct found){.user = u,
                          .reason = REASON_FORWARDED,
                          .source = FOUND_REDIS,
                          .shared = true,
                          .read_ms = loop_now_ms(s->loop) - (age > 0 ? age : 0)});
}

static void store(struct lookup *l, const struct user *u)
{
    struct sources *s = l->sources;
    struct buf value;
    buf_init(&value, NULL);
    l->subject.made_by = s->config->made_by;
    context_store(u, &l->subject, l->asked_wall_ms, &value);
    int64_t ttl_s = s->config->ttl_s - (int64_t)((double)s->config->ttl_s * s->config->jitter * chance_fraction());
    redis_set(s->redis, buf_slice(&l->redis_key), buf_slice(&value), ttl_s > 0 ? ttl_s : 1);
    buf_free(&value);
}

static void on_profile(const struct fetch_answer *a, void *arg)
{
    struct lookup *l = arg;
    struct sources *s = l->sources;
    bool gone = false;
    struct found f = {.reason = REASON_FORWARDED, .source = FOUND_REMOTE, .read_ms = l->asked_ms};
    end_call(l, blame(l, a));
    f.user = profile_read(l->sources->config, l->service, a, &f.reason, &f.detail);
    f.nothing_said = blame_nothing_said(a);
    f.shared = f.user && l->redis_key.n > 0 && !l->flushed && !f.user->anonymous;
    if (f.shared) store(l, f.user);
    s->gone = &gone;
    end(l, f);
    if (!gone) take_turns(s, &gone);
    if (!gone) s->gone = NULL;
}

int64_t lookup_credential_end(const struct sources *s, const struct token *t)
{
    int64_t now = loop_now_ms(s->loop), wall = loop_wall_ms(s->loop);
    if (t->exp_s > INT64_MAX / 2000) return INT64_MAX;
    return now + (t->exp_s * 1000 - wall);
}

static struct slice append(struct buf *b, struct slice s)
{
    size_t at = b->n;
    buf_add_slice(b, s);
    return slice_make(b->p + at, s.n);
}

struct lookup *lookup_create(struct sources *s, const struct token *t, struct slice authorization, const uint8_t *key)
{
    struct lookup *l = xzalloc(sizeof *l);
    l->sources = s;
    deadline_init(&l->patience, on_patience_over);
    l->epoch = s->epoch;
    memcpy(l->key, key, CACHE_KEY_BYTES);
    memcpy(l->tags, t->entry.tags, sizeof l->tags);
    l->verified = t->verified;
    l->asked_ms = loop_now_ms(s->loop);
    l->asked_wall_ms = loop_wall_ms(s->loop);
    l->credential_end_ms = lookup_credential_end(s, t);
    buf_init(&l->texts, NULL);
    buf_init(&l->redis_key, NULL);
    buf_reserve(&l->texts, t->issuer.n + t->subject.n + authorization.n + 1); /* slices point into it */
    l->subject.issuer = append(&l->texts, t->issuer);
    l->subject.name = append(&l->texts, t->subject);
    l->authorization = append(&l->texts, authorization);
    list_add_last(&s->lookups, &l->link);
    return l;
}

bool lookup_start(struct lookup *l, struct found *refusal)
{
    struct sources *s = l->sources;
    if (!s->redis || !l->verified) return ask_api(l, refusal);
    if (generation_known(&s->generation))
        ask_redis(l);
    else
        l->redis_call = generation_ask(&s->generation, on_generation, l);
    return true;
}

bool lookup_waits(const struct lookup *l)
{
    return l->slot.waits_for != NULL;
}

void lookup_withdraw(struct lookup *l)
{
    dependency_leave(&l->sources->api, &l->slot, false);
    deadline_stop(&l->patience);
    if (l->redis_call) redis_cancel(l->redis_call);
    l->redis_call = NULL;
    if (l->fetch_call) {
        fetch_cancel(l->fetch_call);
        end_call(l, DEPENDENCY_UNKNOWN);
    }
    list_remove(&l->link);
}

void lookup_free(struct lookup *l)
{
    lookup_withdraw(l);
    if (l->texts.n) OPENSSL_cleanse(l->texts.p, l->texts.n);
    buf_free(&l->texts);
    buf_free(&l->redis_key);
    free(l);
}
