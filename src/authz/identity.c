/* authz/identity: who a token's bearer is to the API. Called by the identify step. Owns the contexts in memory and
   one flight per key; the calls of a lookup are lookup's. Refuses to keep a context under a name that was not verified: such a
   one stays under its credential's digest, in memory only, never past the credential's end. */
#include "authz/identity.h"

#include <stdlib.h>
#include <string.h>

#include "authz/context.h"
#include "authz/digest.h"
#include "authz/lookup.h"
#include "base/chance.h"
#include "base/check.h"
#include "base/metric.h"

#define LOOK_AGAIN_MS 1000 /* for one stale context, at most so often */
#define MEMORY_BYTES ((size_t)64 << 20) /* of all contexts in memory, whatever memory_entries says */

struct identities {
    struct held held;
    struct loop *loop;
    struct identity_config config;
    struct sources sources;
    struct cache *memory;
    struct flights *flights;
    struct user *anonymous;
};

static void on_found(struct lookup *l, struct found f);
static void on_landed(struct flight_waiter *w, void *arg);
static void on_identities_gone(struct held *h);
static void on_raised(void *arg);

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
    held_init(&d->held, on_identities_gone);
    d->config = *c;
    held_take(c->owner);
    sources_init(&d->sources, l, f, r, &d->config, on_raised, d);
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

static void on_identities_gone(struct held *h)
{
    struct identities *d = container_of(h, struct identities, held);
    while (!list_empty(&d->sources.lookups)) {
        land(container_of(d->sources.lookups.next, struct lookup, link),
             (struct found){.reason = REASON_SHUTTING_DOWN});
    }
    sources_finish(&d->sources);
    flights_destroy(d->flights);
    cache_destroy(d->memory);
    user_release(d->anonymous);
    held_release(d->config.owner);
    free(d);
}

void identities_hold(struct identities *d)
{
    held_take(&d->held);
}

void identities_destroy(struct identities *d)
{
    if (d) held_release(&d->held);
}

void identities_adjust(struct identities *d, const struct identity_config *c)
{
    struct held *before = d->config.owner;
    held_take(c->owner);
    d->config = *c;
    held_release(before);
    sources_adjust(&d->sources);
    cache_limit(d->memory, c->memory_entries ? c->memory_entries : 1, MEMORY_BYTES);
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static bool claims_are_context(const struct identities *d)
{
    return d->config.url.n == 0 && d->config.service_url.n == 0;
}

/* A name stands for itself only when it was verified and the context is looked up by it; claims are the token's own. */
static void key_of(const struct identities *d, const struct token *t, uint8_t key[CACHE_KEY_BYTES])
{
    if (t->verified && !claims_are_context(d)) {
        if (t->has_name_key)
            memcpy(key, t->name_key, CACHE_KEY_BYTES);
        else
            token_name_key(t->issuer, t->subject, key);
        return;
    }
    struct slice digest = slice_make((const char *)t->entry.key, CACHE_KEY_BYTES);
    struct slice fields[] = {SLICE("context v1 credential"), digest};
    digest_fields(fields, 2, key);
}

/* Key, tags and times of a fresh user, all but its ends, which are set before; and its place in memory, in place of
   what is there under that key, also when it is not to be kept itself. */
static void keep(struct identities *d, struct user *u, const uint8_t *key, const uint64_t tags[2], int64_t asked_ms,
                 int64_t read_ms)
{
    memcpy(u->entry.key, key, CACHE_KEY_BYTES);
    memcpy(u->entry.tags, tags, sizeof u->entry.tags);
    u->entry.stored_ms = asked_ms;
    u->read_ms = read_ms;
    if (!cache_put(d->memory, &u->entry, loop_now_ms(d->loop))) cache_drop(d->memory, key);
}

/* The end in memory of what is used until end_ms at most. */
static int64_t end_in_memory(const struct identities *d, int64_t end_ms)
{
    int64_t ttl_ms = d->config.memory_ttl_s * 1000;
    ttl_ms -= (int64_t)((double)ttl_ms * d->config.jitter * chance_fraction());
    return least(loop_now_ms(d->loop) + ttl_ms, end_ms);
}

/* stale_s goes behind the end in memory, and behind that of the context itself where they are the same; a credential
   that was not verified ends all. */
static void keep_found(struct lookup *l, const struct found *f)
{
    struct identities *d = l->owner;
    struct user *u = f->user;
    int64_t ttl_s = f->shared ? d->config.ttl_s : d->config.memory_ttl_s;
    int64_t credential_end_ms = l->verified ? INT64_MAX : l->credential_end_ms;
    u->end_ms = least(f->read_ms + ttl_s * 1000, credential_end_ms);
    u->fresh_ms = u->entry.expires_ms = end_in_memory(d, u->end_ms);
    if (u->fresh_ms > loop_now_ms(d->loop))
        u->entry.expires_ms = least(u->fresh_ms + d->config.stale_s * 1000, credential_end_ms);
    if (u->end_ms < u->entry.expires_ms) u->end_ms = u->entry.expires_ms;
    keep(d, u, l->key, l->tags, l->asked_ms, f->read_ms);
}

static void on_found(struct lookup *l, struct found f)
{
    struct identities *d = l->owner;
    if (f.user && !l->flushed)
        keep_found(l, &f);
    else if (!f.user && !f.nothing_said)
        cache_drop(d->memory, l->key);
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
    c->stale = false;
    c->retry_ms = o->retry_ms;
    c->on_done(c);
}

static enum op done(struct identity_call *c, struct found o)
{
    c->user = o.user;
    c->reason = o.reason;
    c->detail = o.detail;
    c->source = o.source;
    c->stale = false;
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
    if (!o.user) {
        o.reason = REASON_CONTEXT_MALFORMED;
        return done(c, o);
    }
    o.user->end_ms = lookup_credential_end(&d->sources, t);
    o.user->fresh_ms = o.user->entry.expires_ms = end_in_memory(d, o.user->end_ms);
    keep(d, o.user, key, t->entry.tags, now, now);
    return done(c, o);
}

static void flight_key(const struct identities *d, const uint8_t *key, uint8_t *out)
{
    uint64_t first;
    memcpy(out, key, CACHE_KEY_BYTES);
    memcpy(&first, key, sizeof first);
    first ^= d->sources.epoch;
    memcpy(out, &first, sizeof first);
}

static struct flight *join(struct identities *d, const uint8_t *key, struct flight_waiter *w, bool *opened)
{
    uint8_t fkey[CACHE_KEY_BYTES];
    flight_key(d, key, fkey);
    return flight_join(d->flights, fkey, w, opened);
}

static struct lookup *lookup_for(struct identities *d, const struct token *t, struct slice authorization,
                                 const uint8_t *key, struct flight *flight)
{
    struct lookup *l = lookup_create(&d->sources, t, authorization, key);
    l->owner = d;
    l->flight = flight;
    l->on_found = on_found;
    flight_set_owner(flight, l);
    return l;
}

static enum op look_up(struct identities *d, const struct token *t, struct slice authorization, const uint8_t *key,
                       struct identity_call *c)
{
    struct found refusal;
    bool opened;
    c->waiter.on_landed = on_landed;
    struct flight *flight = join(d, key, &c->waiter, &opened);
    c->flight = flight;
    if (!opened) return OP_PENDING;
    struct lookup *l = lookup_for(d, t, authorization, key, flight);
    if (lookup_start(l, &refusal)) return OP_PENDING;
    flight_leave(&c->waiter);
    land(l, refusal);
    return done(c, refusal);
}

/* Asks again in the background, if nobody does already: a flight without waiters. Not again and again while the API is
   away, over its cap or resting. */
static void look_again(struct identities *d, const struct token *t, struct slice authorization, const uint8_t *key,
                       struct user *stale)
{
    struct flight_waiter nobody;
    struct found refusal;
    bool opened;
    int64_t now = loop_now_ms(d->loop);
    if (stale->asked_again_ms && now - stale->asked_again_ms < LOOK_AGAIN_MS) return;
    stale->asked_again_ms = now;
    struct flight *flight = join(d, key, &nobody, &opened);
    flight_leave(&nobody);
    if (!opened) return;
    struct lookup *l = lookup_for(d, t, authorization, key, flight);
    if (!lookup_start(l, &refusal)) on_found(l, refusal);
}

static enum op from_memory(struct identities *d, const struct token *t, struct slice authorization,
                           const uint8_t *key, struct user *u, struct identity_call *c)
{
    static const struct slice memory = {"memory", 6};
    done(c, (struct found){.user = u, .reason = REASON_FORWARDED, .source = FOUND_MEMORY});
    c->stale = loop_now_ms(d->loop) >= u->fresh_ms;
    if (!c->stale) return OP_DONE;
    metric_add(METRIC_CACHE_STALE, &memory, 1);
    look_again(d, t, authorization, key, u);
    return OP_DONE;
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
    if (e) return from_memory(d, token, authorization, key, container_of(e, struct user, entry), c);
    if (claims_are_context(d)) return from_claims(d, token, key, c);
    return look_up(d, token, authorization, key, c);
}

void identity_cancel(struct identity_call *c)
{
    if (list_empty(&c->waiter.link)) return; /* it was told */
    flight_leave(&c->waiter);
    struct lookup *l = flight_owner(c->flight);
    if (lookup_waits(l) && !flight_is_waited_for(c->flight))
        land(l, (struct found){.reason = REASON_CLIENT_GONE}); /* nobody is told; its place is free */
}

/* tag 0: all. Lookups that are out are told, and nobody joins them from now on. */
static void flush(struct identities *d, uint64_t tag)
{
    cache_flush(d->memory, tag, loop_now_ms(d->loop));
    sources_flush(&d->sources, tag);
}

void identities_flush(struct identities *d, uint64_t tag, const uint8_t *context)
{
    flush(d, tag);
    if (!d->sources.redis) return;
    if (context)
        generation_drop(&d->sources.generation, context);
    else
        generation_raise(&d->sources.generation);
}

void identities_flush_told(struct identities *d, uint64_t tag, const uint8_t *context)
{
    flush(d, tag);
    if (!d->sources.redis) return;
    if (context)
        generation_drop(&d->sources.generation, context);
    else
        generation_doubt(&d->sources.generation);
}

void identities_context(struct slice issuer, struct slice subject, uint8_t out[CACHE_KEY_BYTES])
{
    token_name_key(issuer, subject, out);
}

static void on_raised(void *arg)
{
    struct identities *d = arg;
    flush(d, 0);
    if (d->config.on_raised) d->config.on_raised(d->config.raised_arg);
}

static void forget(struct identities *d, const uint8_t *key)
{
    uint8_t fkey[CACHE_KEY_BYTES];
    cache_drop(d->memory, key);
    flight_key(d, key, fkey);
    struct lookup *l = flight_close(d->flights, fkey);
    if (l) l->flushed = true;
}

void identities_invalidated(struct identities *d, struct slice key)
{
    uint8_t digest[CACHE_KEY_BYTES];
    if (key.n == 0) {
        flush(d, 0);
        sources_doubt(&d->sources, false);
    } else if (generation_is_name(&d->sources.generation, key)) {
        sources_doubt(&d->sources, true);
    } else if (generation_digest(&d->sources.generation, key, digest)) {
        forget(d, digest);
    }
}

void identities_stats(const struct identities *d, struct cache_stats *out)
{
    cache_stats(d->memory, out);
}

unsigned identities_inflight(const struct identities *d)
{
    return d->sources.api.out;
}
