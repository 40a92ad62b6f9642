/* authz/identity: who a token's bearer is to the API. Called by the identify step. Owns the contexts in memory, one
   flight per key, and the lookups that are out. Refuses to keep a context under a name that was not verified: such a
   one stays under its credential's digest, in memory only, never past the credential's end. */
#include "authz/identity.h"

#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

#include "authz/context.h"
#include "authz/digest.h"
#include "authz/generation.h"
#include "authz/profile.h"
#include "base/check.h"
#include "base/metric.h"

#define MEMORY_BYTES ((size_t)64 << 20) /* of all contexts in memory, whatever memory_entries says */

struct identities {
    struct loop *loop;
    struct fetch *fetch;
    struct redis *redis; /* or NULL */
    struct identity_config config;
    struct cache *memory;
    struct flights *flights;
    struct list lookups;
    struct user *anonymous;
    struct generation generation;
    uint64_t epoch; /* flushes so far; in a flight's key, so that nobody joins a lookup from before a flush */
    unsigned calls_out;
};

struct lookup { /* one miss on its way through Redis and the API */
    struct list link;
    struct identities *owner;
    struct flight *flight;
    uint8_t key[CACHE_KEY_BYTES];
    uint64_t tags[2];
    bool verified;
    bool service;
    bool flushed;   /* since it was asked */
    uint64_t epoch; /* when it was asked */
    int64_t asked_ms, asked_wall_ms;
    int64_t credential_end_ms; /* monotonic; INT64_MAX none */
    struct buf texts;          /* issuer, name, authorization (secret), one after the other */
    struct subject subject;
    struct slice authorization;
    struct buf redis_key; /* empty: Redis is left alone */
    struct redis_call *redis_call;
    struct fetch_call *fetch_call;
};

struct outcome {
    struct user *user;
    enum reason reason;
    const char *detail;
    enum found_in source;
};

static void on_generation(enum redis_outcome o, struct slice value, void *arg);
static void on_stored(enum redis_outcome o, struct slice value, void *arg);
static void on_profile(const struct fetch_answer *a, void *arg);
static void on_landed(struct flight_waiter *w, void *arg);

const char *found_in_name(enum found_in f)
{
    static const char *const names[] = {"none", "memory", "redis", "api", "token"};
    return (unsigned)f < sizeof names / sizeof names[0] ? names[f] : "none";
}

void user_hold(struct user *u)
{
    cache_hold(&u->entry);
}

void user_release(struct user *u)
{
    cache_release(&u->entry, context_free);
}

struct identities *identities_create(struct loop *l, struct fetch *f, struct redis *r, const struct identity_config *c)
{
    struct identities *d = xzalloc(sizeof *d);
    d->loop = l;
    d->fetch = f;
    d->redis = r;
    d->config = *c;
    d->memory = cache_create(c->memory_entries ? c->memory_entries : 1, MEMORY_BYTES, context_free);
    d->flights = flights_create();
    list_init(&d->lookups);
    d->anonymous = context_anonymous();
    d->anonymous->entry.expires_ms = INT64_MAX;
    generation_init(&d->generation, l, r, c->key_prefix);
    return d;
}

static void set_calls_out(struct identities *d, int change)
{
    struct slice label = SLICE("context");
    d->calls_out = (unsigned)((int)d->calls_out + change);
    metric_set(METRIC_INFLIGHT, &label, d->calls_out);
}

/* Ends a lookup and tells its waiters. Takes the reference that o.user is. */
static void land(struct lookup *l, struct outcome o)
{
    struct identities *d = l->owner;
    struct flight *flight = l->flight;
    list_remove(&l->link);
    if (l->texts.n) OPENSSL_cleanse(l->texts.p, l->texts.n);
    buf_free(&l->texts);
    buf_free(&l->redis_key);
    free(l);
    flight_land(d->flights, flight, &o);
    if (o.user) user_release(o.user);
}

void identities_destroy(struct identities *d)
{
    if (!d) return;
    while (!list_empty(&d->lookups)) {
        struct lookup *l = container_of(d->lookups.next, struct lookup, link);
        if (l->redis_call) redis_cancel(l->redis_call);
        if (l->fetch_call) {
            fetch_cancel(l->fetch_call);
            set_calls_out(d, -1);
        }
        land(l, (struct outcome){.reason = REASON_SHUTTING_DOWN});
    }
    generation_finish(&d->generation);
    flights_destroy(d->flights);
    cache_destroy(d->memory);
    user_release(d->anonymous);
    free(d);
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static bool claims_are_context(const struct identities *d)
{
    return d->config.url.n == 0 && d->config.service_url.n == 0;
}

static void key_of_name(struct slice issuer, struct slice name, uint8_t key[CACHE_KEY_BYTES])
{
    struct slice fields[] = {SLICE("context v1 name"), issuer, name};
    digest_fields(fields, 3, key);
}

/* A name stands for itself only when it was verified and the context is looked up by it; claims are the token's own. */
static void key_of(const struct identities *d, const struct token *t, uint8_t key[CACHE_KEY_BYTES])
{
    if (t->verified && !claims_are_context(d)) {
        key_of_name(t->issuer, t->subject, key);
        return;
    }
    struct slice digest = slice_make((const char *)t->entry.key, CACHE_KEY_BYTES);
    struct slice fields[] = {SLICE("context v1 credential"), digest};
    digest_fields(fields, 2, key);
}

static int64_t credential_end(const struct identities *d, const struct token *t)
{
    int64_t now = loop_now_ms(d->loop), wall = loop_wall_ms(d->loop);
    if (t->exp_s > INT64_MAX / 2000) return INT64_MAX;
    return now + (t->exp_s * 1000 - wall);
}

/* Times, key and tags of a fresh user, and its place in memory. */
static void keep(struct identities *d, struct user *u, const uint8_t *key, const uint64_t tags[2], int64_t asked_ms,
                 int64_t read_ms, int64_t end_ms)
{
    int64_t now = loop_now_ms(d->loop);
    memcpy(u->entry.key, key, CACHE_KEY_BYTES);
    memcpy(u->entry.tags, tags, sizeof u->entry.tags);
    u->entry.stored_ms = asked_ms;
    u->entry.expires_ms = least(now + d->config.memory_ttl_s * 1000, end_ms);
    u->read_ms = read_ms;
    u->end_ms = end_ms;
    cache_put(d->memory, &u->entry, now);
}

static void keep_found(struct lookup *l, struct user *u, int64_t read_ms, bool shared)
{
    struct identities *d = l->owner;
    int64_t ttl_s = shared ? d->config.ttl_s : d->config.memory_ttl_s;
    int64_t end_ms = read_ms + ttl_s * 1000;
    if (!l->verified) end_ms = least(end_ms, l->credential_end_ms);
    keep(d, u, l->key, l->tags, l->asked_ms, read_ms, end_ms);
}

/* False: refused at once, nothing is out. */
static bool ask_api(struct lookup *l, struct outcome *refusal)
{
    struct identities *d = l->owner;
    if (d->calls_out >= d->config.max_inflight) {
        struct slice labels[] = {SLICE("context"), SLICE("overloaded")};
        metric_add(METRIC_DEPENDENCY_FAILURES, labels, 1);
        *refusal =
            (struct outcome){.reason = REASON_CONTEXT_OVERLOADED, .detail = "context.max_inflight calls are out"};
        return false;
    }
    l->service = profile_by_service(&d->config, l->verified);
    if (l->service && !profile_can_name(l->subject.name)) {
        *refusal = (struct outcome){.reason = REASON_CONTEXT_UNKNOWN, .detail = "the subject is a dot segment"};
        return false;
    }
    if (!l->service && d->config.url.n == 0) {
        *refusal = (struct outcome){.reason = REASON_CONTEXT_UNAVAILABLE, .detail = "context.url is not set"};
        return false;
    }
    l->fetch_call = profile_ask(d->fetch, &d->config, l->service, l->subject.name, l->authorization, on_profile, l);
    set_calls_out(d, 1);
    return true;
}

static void ask_api_or_land(struct lookup *l)
{
    struct outcome refusal;
    if (!ask_api(l, &refusal)) land(l, refusal);
}

static void ask_redis(struct lookup *l)
{
    generation_key(&l->owner->generation, l->key, &l->redis_key);
    l->redis_call = redis_get(l->owner->redis, buf_slice(&l->redis_key), on_stored, l);
}

/* False: refused at once. */
static bool begin(struct lookup *l, struct outcome *refusal)
{
    struct identities *d = l->owner;
    if (!d->redis || !l->verified) return ask_api(l, refusal);
    if (generation_known(&d->generation))
        ask_redis(l);
    else
        l->redis_call = generation_ask(&d->generation, on_generation, l);
    return true;
}

static void on_generation(enum redis_outcome o, struct slice value, void *arg)
{
    struct lookup *l = arg;
    l->redis_call = NULL;
    /* after a flush, of whomever, the answer may be the number from before it */
    if (l->epoch == l->owner->epoch && generation_take(&l->owner->generation, o, value))
        ask_redis(l);
    else
        ask_api_or_land(l);
}

static void on_stored(enum redis_outcome o, struct slice value, void *arg)
{
    struct lookup *l = arg;
    struct identities *d = l->owner;
    int64_t stored_wall = 0;
    l->redis_call = NULL;
    if (o == REDIS_UNAVAILABLE) buf_free(&l->redis_key);
    struct user *u = o == REDIS_FOUND && !l->flushed ? context_load(value, &l->subject, &stored_wall) : NULL;
    int64_t age = loop_wall_ms(d->loop) - stored_wall;
    if (u && age >= d->config.ttl_s * 1000) {
        user_release(u);
        u = NULL;
    }
    if (!u) {
        ask_api_or_land(l);
        return;
    }
    keep_found(l, u, loop_now_ms(d->loop) - (age > 0 ? age : 0), true);
    land(l, (struct outcome){.user = u, .reason = REASON_FORWARDED, .source = FOUND_REDIS});
}

static void store(struct lookup *l, const struct user *u)
{
    struct identities *d = l->owner;
    struct buf value;
    buf_init(&value, NULL);
    context_store(u, &l->subject, l->asked_wall_ms, &value);
    redis_set(d->redis, buf_slice(&l->redis_key), buf_slice(&value), d->config.ttl_s);
    buf_free(&value);
}

static void on_profile(const struct fetch_answer *a, void *arg)
{
    struct lookup *l = arg;
    struct outcome o = {.reason = REASON_FORWARDED, .source = FOUND_REMOTE};
    l->fetch_call = NULL;
    set_calls_out(l->owner, -1);
    o.user = profile_read(&l->owner->config, l->service, a, &o.reason, &o.detail);
    if (o.user) {
        bool shared = l->redis_key.n > 0 && !l->flushed && !o.user->anonymous;
        keep_found(l, o.user, l->asked_ms, shared);
        if (shared) store(l, o.user);
    }
    land(l, o);
}

static void on_landed(struct flight_waiter *w, void *arg)
{
    struct identity_call *c = container_of(w, struct identity_call, waiter);
    const struct outcome *o = arg;
    if (o->user) user_hold(o->user);
    c->user = o->user;
    c->reason = o->reason;
    c->detail = o->detail;
    c->source = o->source;
    c->on_done(c);
}

static enum op done(struct identity_call *c, struct outcome o)
{
    c->user = o.user;
    c->reason = o.reason;
    c->detail = o.detail;
    c->source = o.source;
    return OP_DONE;
}

/* The token's own claims, through the shape, at once. */
static enum op from_claims(struct identities *d, const struct token *t, const uint8_t *key, struct identity_call *c)
{
    struct outcome o = {.reason = REASON_FORWARDED, .source = FOUND_TOKEN};
    int64_t now = loop_now_ms(d->loop);
    if (!t->verified) {
        return done(c, (struct outcome){.reason = REASON_CONTEXT_UNAVAILABLE, .detail = "context.url is not set"});
    }
    o.user = context_of(t->payload, d->config.shape, &o.detail);
    if (o.user)
        keep(d, o.user, key, t->entry.tags, now, now, credential_end(d, t));
    else
        o.reason = REASON_CONTEXT_MALFORMED;
    return done(c, o);
}

static struct slice append(struct buf *b, struct slice s)
{
    size_t at = b->n;
    buf_add_slice(b, s);
    return slice_make(b->p + at, s.n);
}

static struct lookup *lookup_create(struct identities *d, const struct token *t, struct slice authorization,
                                    const uint8_t *key, struct flight *flight)
{
    struct lookup *l = xzalloc(sizeof *l);
    l->owner = d;
    l->flight = flight;
    l->epoch = d->epoch;
    memcpy(l->key, key, CACHE_KEY_BYTES);
    memcpy(l->tags, t->entry.tags, sizeof l->tags);
    l->verified = t->verified;
    l->asked_ms = loop_now_ms(d->loop);
    l->asked_wall_ms = loop_wall_ms(d->loop);
    l->credential_end_ms = credential_end(d, t);
    buf_init(&l->texts, NULL);
    buf_init(&l->redis_key, NULL);
    buf_reserve(&l->texts, t->issuer.n + t->subject.n + authorization.n + 1); /* slices point into it */
    l->subject.issuer = append(&l->texts, t->issuer);
    l->subject.name = append(&l->texts, t->subject);
    l->authorization = append(&l->texts, authorization);
    list_add_last(&d->lookups, &l->link);
    return l;
}

static enum op look_up(struct identities *d, const struct token *t, struct slice authorization, const uint8_t *key,
                       struct identity_call *c)
{
    uint8_t flight_key[CACHE_KEY_BYTES];
    uint64_t first;
    bool opened;
    memcpy(flight_key, key, CACHE_KEY_BYTES);
    memcpy(&first, key, sizeof first);
    first ^= d->epoch;
    memcpy(flight_key, &first, sizeof first);
    c->waiter.on_landed = on_landed;
    struct flight *flight = flight_join(d->flights, flight_key, &c->waiter, &opened);
    if (!opened) return OP_PENDING;
    struct outcome refusal;
    struct lookup *l = lookup_create(d, t, authorization, key, flight);
    if (begin(l, &refusal)) return OP_PENDING;
    flight_leave(&c->waiter);
    land(l, refusal);
    return done(c, refusal);
}

enum op identity_find(struct identities *d, const struct token *token, struct slice authorization,
                      struct identity_call *c)
{
    static const struct slice memory = {"memory", 6};
    uint8_t key[CACHE_KEY_BYTES];
    list_init(&c->waiter.link);
    if (!token) {
        user_hold(d->anonymous);
        return done(c, (struct outcome){.user = d->anonymous, .reason = REASON_FORWARDED});
    }
    key_of(d, token, key);
    struct cache_entry *e = cache_get(d->memory, key, loop_now_ms(d->loop));
    metric_add(e ? METRIC_CACHE_HITS : METRIC_CACHE_MISSES, &memory, 1);
    if (e) {
        struct user *u = container_of(e, struct user, entry);
        return done(c, (struct outcome){.user = u, .reason = REASON_FORWARDED, .source = FOUND_MEMORY});
    }
    if (claims_are_context(d)) return from_claims(d, token, key, c);
    return look_up(d, token, authorization, key, c);
}

void identity_cancel(struct identity_call *c)
{
    flight_leave(&c->waiter);
}

/* tag 0: all. Lookups that are out are told, and nobody joins them from now on. */
static void flush(struct identities *d, uint64_t tag)
{
    cache_flush(d->memory, tag, loop_now_ms(d->loop));
    for (struct list *n = d->lookups.next; n != &d->lookups; n = n->next) {
        struct lookup *l = container_of(n, struct lookup, link);
        if (tag == 0 || l->tags[0] == tag || l->tags[1] == tag) l->flushed = true;
    }
    d->epoch++;
}

void identities_flush_all(struct identities *d)
{
    flush(d, 0);
    if (d->redis) generation_raise(&d->generation);
}

void identities_flush_issuer(struct identities *d, struct slice issuer)
{
    flush(d, token_issuer_tag(issuer));
    if (d->redis) generation_raise(&d->generation);
}

void identities_flush_subject(struct identities *d, struct slice issuer, struct slice subject)
{
    uint8_t key[CACHE_KEY_BYTES];
    flush(d, token_subject_tag(issuer, subject));
    key_of_name(issuer, subject, key);
    if (d->redis) generation_drop(&d->generation, key);
}

void identities_stats(const struct identities *d, struct cache_stats *out)
{
    cache_stats(d->memory, out);
}

unsigned identities_inflight(const struct identities *d)
{
    return d->calls_out;
}
