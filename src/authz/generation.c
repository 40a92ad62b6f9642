/* authz/generation: called by identity before it makes a Redis key. Refuses a stored generation that is not a number:
   then Redis is not used, rather than used under a key that a flush would not reach. */
#include "authz/generation.h"

#include <stdlib.h>
#include <string.h>

#include "authz/digest.h"
#include "base/check.h"

struct drop {
    struct list link;
    struct generation *owner;
    uint8_t digest[32];
    struct redis_call *call;
};

struct raise {
    struct list link;
    struct generation *owner;
    struct redis_call *call;
};

static void on_raise(enum redis_outcome o, struct slice value, void *arg);
static void on_drop_generation(enum redis_outcome o, struct slice value, void *arg);

void generation_init(struct generation *g, struct loop *l, struct redis *r, struct slice prefix,
                     void (*on_raised)(void *arg), void *arg)
{
    *g = (struct generation){
        .loop = l, .redis = r, .prefix = prefix, .number = -1, .on_raised = on_raised, .arg = arg};
    list_init(&g->drops);
    list_init(&g->raises);
}

static void drop_free(struct drop *d)
{
    list_remove(&d->link);
    free(d);
}

void generation_finish(struct generation *g)
{
    while (!list_empty(&g->drops)) {
        struct drop *d = container_of(g->drops.next, struct drop, link);
        redis_cancel(d->call);
        drop_free(d);
    }
    while (!list_empty(&g->raises)) {
        struct raise *r = container_of(g->raises.next, struct raise, link);
        redis_cancel(r->call);
        list_remove(&r->link);
        free(r);
    }
}

bool generation_known(const struct generation *g)
{
    struct redis_state s;
    if (!g->fresh || !list_empty(&g->drops) || loop_now_ms(g->loop) - g->read_ms >= GENERATION_MS) return false;
    redis_state(g->redis, &s);
    return s.since_ms <= g->read_ms;
}

static void name_of(const struct generation *g, struct buf *out)
{
    buf_init(out, NULL);
    buf_add_slice(out, g->prefix);
    buf_add_lit(out, "generation");
}

static void increment(struct generation *g)
{
    struct raise *r = xzalloc(sizeof *r);
    struct buf name;
    r->owner = g;
    list_add_last(&g->raises, &r->link);
    name_of(g, &name);
    r->call = redis_increment(g->redis, buf_slice(&name), on_raise, r);
    buf_free(&name);
}

/* One more than was known is our own raise and nothing else: no news when it is read. */
static void on_raise(enum redis_outcome o, struct slice value, void *arg)
{
    struct raise *r = arg;
    struct generation *g = r->owner;
    long long number = 0;
    if (o == REDIS_FOUND && slice_to_int(value, &number) && g->number >= 0 && number == g->number + 1)
        g->number = number;
    list_remove(&r->link);
    free(r);
}

struct redis_call *generation_ask(struct generation *g, void (*on_value)(enum redis_outcome, struct slice, void *),
                                  void *arg)
{
    struct buf name;
    name_of(g, &name);
    struct redis_call *c = redis_get(g->redis, buf_slice(&name), on_value, arg);
    buf_free(&name);
    return c;
}

/* Did Redis get the raise that is owed? If not, it is asked for again, and the number is not known until the
   next read. */
static bool settled(struct generation *g, long long number)
{
    if (!g->owed) return true;
    g->owed = g->floor < 0 || number < g->floor;
    if (!g->owed) return true;
    increment(g);
    g->floor = number + 1;
    return false;
}

bool generation_take(struct generation *g, enum redis_outcome o, struct slice value)
{
    long long number = 0;
    g->fresh = false;
    if (o == REDIS_UNAVAILABLE) return false;
    if (o == REDIS_FOUND && (!slice_to_int(value, &number) || number == INT64_MAX)) return false;
    if (!settled(g, number)) return false;
    bool raised = g->number >= 0 && g->number != number;
    g->number = number;
    g->fresh = true;
    g->read_ms = loop_now_ms(g->loop);
    if (raised && g->on_raised) g->on_raised(g->arg);
    return true;
}

void generation_doubt(struct generation *g)
{
    g->fresh = false;
}

void generation_raise(struct generation *g)
{
    increment(g);
    g->owed = true;
    g->floor = g->number < 0 ? -1 : g->number + 1;
    g->fresh = false;
}

void generation_drop(struct generation *g, const uint8_t digest[32])
{
    struct drop *d = xzalloc(sizeof *d);
    d->owner = g;
    memcpy(d->digest, digest, sizeof d->digest);
    list_add_last(&g->drops, &d->link);
    /* Read first: another instance may have raised it. Lookups that start now read it behind this one, so that their
       GET comes behind the DEL. */
    g->fresh = false;
    d->call = generation_ask(g, on_drop_generation, d);
}

static void on_drop_generation(enum redis_outcome o, struct slice value, void *arg)
{
    struct drop *d = arg;
    struct generation *g = d->owner;
    struct buf key;
    if (generation_take(g, o, value)) {
        buf_init(&key, NULL);
        generation_key(g, d->digest, &key);
        redis_drop(g->redis, buf_slice(&key));
        buf_free(&key);
    } else if (!g->owed) {
        generation_raise(g);
    }
    drop_free(d);
}

void generation_key(const struct generation *g, const uint8_t digest[32], struct buf *out)
{
    char hex[DIGEST_HEX_BYTES];
    CHECK(g->number >= 0, "a key is made in a generation");
    digest_hex(digest, hex);
    buf_add_slice(out, g->prefix);
    buf_printf(out, "v1:%lld:%s", g->number, hex);
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool generation_digest(const struct generation *g, struct slice key, uint8_t digest[32])
{
    size_t at = g->prefix.n, hex_n = DIGEST_HEX_BYTES - 1;
    if (!slice_starts(key, g->prefix) || key.n < at + hex_n + 1 || key.p[key.n - hex_n - 1] != ':') return false;
    if (!slice_starts(slice_make(key.p + at, key.n - at), SLICE("v1:"))) return false;
    for (size_t i = 0; i < 32; i++) {
        const char *p = key.p + key.n - hex_n + i * 2;
        int high = hex_digit(p[0]), low = hex_digit(p[1]);
        if (high < 0 || low < 0) return false;
        digest[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

bool generation_is_name(const struct generation *g, struct slice key)
{
    return slice_starts(key, g->prefix) &&
           slice_eq(slice_make(key.p + g->prefix.n, key.n - g->prefix.n), SLICE("generation"));
}
