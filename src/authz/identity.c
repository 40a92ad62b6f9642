/* authz/identity: who a token's bearer is to the API. Called by the identify step. Owns the contexts in memory and
   one flight per key; the calls of a lookup are lookup's. Refuses to keep a context under a name that was not verified: such a
   one stays under its credential's digest, in memory only, never past the credential's end. */
#include "authz/identity.h"

#include <stdlib.h>
#include <string.h>

#include "authz/context.h"
#include "authz/digest.h"
#include "authz/lookup.h"
#include "base/check.h"
#include "base/metric.h"

#define MEMORY_BYTES ((size_t)64 << 20) /* of all contexts in memory, whatever memory_entries says */

struct identities {
    struct loop *loop;
    struct identity_config config;
    struct sources sources;
    struct cache *memory;
    struct flights *flights;
    struct user *anonymous;
};

static void on_found(struct lookup *l, struct found f);
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
    d->config = *c;
    sources_init(&d->sources, l, f, r, &d->config);
    d->memory = cache_create(c->memory_entries ? c->memory_entries : 1, MEMORY_BYTES, context_free);
    d->flights = flights_create();
    d->anonymous = context_anonymous();
    d->anonymous->entry.expires_ms = INT64_MAX;
    return d;
}

/* Ends a lookup and tells its waiters. Takes the reference that f.user is. */
static void land(struct lookup *l, struct found f)
{
    struct identities *d = l->owner;
    struct flight *flight = l->flight;
    lookup_free(l);
    flight_land(d->flights, flight, &f); /* a waiter told may destroy the owner */
    if (f.user) user_release(f.user);
}

void identities_destroy(struct identities *d)
{
    if (!d) return;
    while (!list_empty(&d->sources.lookups)) {
        land(container_of(d->sources.lookups.next, struct lookup, link),
             (struct found){.reason = REASON_SHUTTING_DOWN});
    }
    sources_finish(&d->sources);
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

static void keep_found(struct lookup *l, const struct found *f)
{
    struct identities *d = l->owner;
    int64_t ttl_s = f->shared ? d->config.ttl_s : d->config.memory_ttl_s;
    int64_t end_ms = f->read_ms + ttl_s * 1000;
    if (!l->verified) end_ms = least(end_ms, l->credential_end_ms);
    keep(d, f->user, l->key, l->tags, l->asked_ms, f->read_ms, end_ms);
}

static void on_found(struct lookup *l, struct found f)
{
    if (f.user) keep_found(l, &f);
    land(l, f);
}

static void on_landed(struct flight_waiter *w, void *arg)
{
    struct identity_call *c = container_of(w, struct identity_call, waiter);
    const struct found *o = arg;
    if (o->user) user_hold(o->user);
    c->user = o->user;
    c->reason = o->reason;
    c->detail = o->detail;
    c->source = o->source;
    c->retry_ms = o->retry_ms;
    c->on_done(c);
}

static enum op done(struct identity_call *c, struct found o)
{
    c->user = o.user;
    c->reason = o.reason;
    c->detail = o.detail;
    c->source = o.source;
    c->retry_ms = o.retry_ms;
    return OP_DONE;
}

/* The token's own claims, through the shape, at once. */
static enum op from_claims(struct identities *d, const struct token *t, const uint8_t *key, struct identity_call *c)
{
    struct found o = {.reason = REASON_FORWARDED, .source = FOUND_TOKEN};
    int64_t now = loop_now_ms(d->loop);
    if (!t->verified) {
        return done(c, (struct found){.reason = REASON_CONTEXT_UNAVAILABLE, .detail = "context.url is not set"});
    }
    o.user = context_of(t->payload, d->config.shape, &o.detail);
    if (o.user)
        keep(d, o.user, key, t->entry.tags, now, now, lookup_credential_end(&d->sources, t));
    else
        o.reason = REASON_CONTEXT_MALFORMED;
    return done(c, o);
}

static enum op look_up(struct identities *d, const struct token *t, struct slice authorization, const uint8_t *key,
                       struct identity_call *c)
{
    uint8_t flight_key[CACHE_KEY_BYTES];
    uint64_t first;
    bool opened;
    memcpy(flight_key, key, CACHE_KEY_BYTES);
    memcpy(&first, key, sizeof first);
    first ^= d->sources.epoch;
    memcpy(flight_key, &first, sizeof first);
    c->waiter.on_landed = on_landed;
    struct flight *flight = flight_join(d->flights, flight_key, &c->waiter, &opened);
    if (!opened) return OP_PENDING;
    struct found refusal;
    struct lookup *l = lookup_create(&d->sources, t, authorization, key);
    l->owner = d;
    l->flight = flight;
    l->on_found = on_found;
    if (lookup_start(l, &refusal)) return OP_PENDING;
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
        return done(c, (struct found){.user = d->anonymous, .reason = REASON_FORWARDED});
    }
    key_of(d, token, key);
    struct cache_entry *e = cache_get(d->memory, key, loop_now_ms(d->loop));
    metric_add(e ? METRIC_CACHE_HITS : METRIC_CACHE_MISSES, &memory, 1);
    if (e) {
        struct user *u = container_of(e, struct user, entry);
        return done(c, (struct found){.user = u, .reason = REASON_FORWARDED, .source = FOUND_MEMORY});
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
    sources_flush(&d->sources, tag);
}

void identities_flush_all(struct identities *d)
{
    flush(d, 0);
    if (d->sources.redis) generation_raise(&d->sources.generation);
}

void identities_flush_issuer(struct identities *d, struct slice issuer)
{
    flush(d, token_issuer_tag(issuer));
    if (d->sources.redis) generation_raise(&d->sources.generation);
}

void identities_flush_subject(struct identities *d, struct slice issuer, struct slice subject)
{
    uint8_t key[CACHE_KEY_BYTES];
    flush(d, token_subject_tag(issuer, subject));
    key_of_name(issuer, subject, key);
    if (d->sources.redis) generation_drop(&d->sources.generation, key);
}

void identities_stats(const struct identities *d, struct cache_stats *out)
{
    cache_stats(d->memory, out);
}

unsigned identities_inflight(const struct identities *d)
{
    return d->sources.api.out;
}
