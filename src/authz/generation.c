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

static void on_drop_generation(enum redis_outcome o, struct slice value, void *arg);

void generation_init(struct generation *g, struct loop *l, struct redis *r, struct slice prefix)
{
    *g = (struct generation){.loop = l, .redis = r, .prefix = prefix, .number = -1};
    list_init(&g->drops);
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

static void increment(const struct generation *g)
{
    struct buf name;
    name_of(g, &name);
    redis_increment(g->redis, buf_slice(&name), NULL, NULL);
    buf_free(&name);
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
    g->number = number;
    g->fresh = true;
    g->read_ms = loop_now_ms(g->loop);
    return true;
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
