/* See fakes/fake_redis.h. A cancel of a call that is not out fails a CHECK. */
#include "fakes/fake_redis.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"

struct redis *redis_create(struct loop *l, const struct redis_config *c, char **error)
{
    (void)l;
    if (error) *error = NULL;
    struct redis *r = xzalloc(sizeof *r);
    if (!c || c->track_prefix.n == 0) return r;
    r->watched = true;
    r->on_invalidated = c->on_invalidated;
    r->on_message = c->on_message;
    r->watch_arg = c->watch_arg;
    return r;
}

static void free_item(struct fake_redis_item *i)
{
    free(i->key);
    free(i->value);
    free(i);
}

static void free_call(struct redis_call *c)
{
    free(c->key);
    free(c);
}

void redis_destroy(struct redis *r, void (*done)(void *arg), void *arg)
{
    while (r->items) {
        struct fake_redis_item *i = r->items;
        r->items = i->next;
        free_item(i);
    }
    while (r->calls) {
        struct redis_call *c = r->calls;
        r->calls = c->next;
        free_call(c);
    }
    free(r->published);
    free(r);
    if (done) done(arg);
}

static char *copy(struct slice s)
{
    char *p = xmalloc(s.n + 1);
    if (s.n) memcpy(p, s.p, s.n);
    p[s.n] = '\0';
    return p;
}

static struct redis_call *queue(struct redis *r, struct slice key, bool increment,
                                void (*on_value)(enum redis_outcome o, struct slice value, void *arg), void *arg)
{
    struct redis_call *c = xzalloc(sizeof *c);
    c->key = copy(key);
    c->increment = increment;
    c->on_value = on_value;
    c->arg = arg;
    struct redis_call **last = &r->calls;
    while (*last)
        last = &(*last)->next;
    *last = c;
    return c;
}

struct redis_call *redis_get(struct redis *r, struct slice key,
                             void (*on_value)(enum redis_outcome o, struct slice value, void *arg), void *arg)
{
    r->gets++;
    return queue(r, key, false, on_value, arg);
}

void redis_cancel(struct redis_call *c)
{
    CHECK(c->on_value, "only a call that is out can be cancelled");
    c->on_value = NULL; /* freed when its turn comes */
}

static void remove_item(struct redis *r, const char *key)
{
    for (struct fake_redis_item **at = &r->items; *at; at = &(*at)->next) {
        if (strcmp((*at)->key, key) != 0) continue;
        struct fake_redis_item *i = *at;
        *at = i->next;
        free_item(i);
        return;
    }
}

static void store(struct redis *r, const char *key, struct slice value, int64_t ttl_s)
{
    remove_item(r, key);
    struct fake_redis_item *i = xzalloc(sizeof *i);
    i->key = xstrdup(key);
    i->value = copy(value);
    i->value_n = value.n;
    i->ttl_s = ttl_s;
    i->next = r->items;
    r->items = i;
}

void redis_set(struct redis *r, struct slice key, struct slice value, int64_t ttl_s)
{
    r->sets++;
    if (r->unavailable) return;
    char *k = copy(key);
    store(r, k, value, ttl_s);
    free(k);
}

void redis_drop(struct redis *r, struct slice key)
{
    r->drops++;
    if (r->unavailable) return;
    char *k = copy(key);
    remove_item(r, k);
    free(k);
}

static void ignore(enum redis_outcome o, struct slice value, void *arg)
{
    (void)o;
    (void)value;
    (void)arg;
}

struct redis_call *redis_increment(struct redis *r, struct slice key,
                                   void (*on_value)(enum redis_outcome o, struct slice value, void *arg), void *arg)
{
    return queue(r, key, true, on_value ? on_value : ignore, arg);
}

void redis_publish(struct redis *r, struct slice payload)
{
    if (!r->watched) return;
    r->publishes++;
    free(r->published);
    r->published = copy(payload);
}

void fake_redis_invalidate(struct redis *r, const char *key)
{
    if (r->on_invalidated) r->on_invalidated(slice_str(key), r->watch_arg);
}

void fake_redis_message(struct redis *r, const char *payload)
{
    if (r->on_message) r->on_message(slice_str(payload), r->watch_arg);
}

void redis_state(const struct redis *r, struct redis_state *out)
{
    *out = (struct redis_state){.connected = !r->unavailable,
                                .breaker = r->unavailable ? "open" : "closed",
                                .error = r->unavailable ? "made unavailable by the test" : NULL,
                                .masters = 1,
                                .tracking = r->watched && !r->unavailable};
}

static void answer(struct redis *r, struct redis_call *c)
{
    if (r->unavailable) {
        c->on_value(REDIS_UNAVAILABLE, slice_make(NULL, 0), c->arg);
        return;
    }
    if (c->increment) {
        const struct fake_redis_item *old = fake_redis_find(r, c->key);
        char text[24];
        snprintf(text, sizeof text, "%lld", (old ? atoll(old->value) : 0) + 1);
        store(r, c->key, slice_str(text), 0);
    }
    const struct fake_redis_item *i = fake_redis_find(r, c->key);
    if (!i) {
        c->on_value(REDIS_ABSENT, slice_make(NULL, 0), c->arg);
        return;
    }
    char *value = copy(slice_make(i->value, i->value_n)); /* gone after the callback, as in the real one */
    c->on_value(REDIS_FOUND, slice_make(value, i->value_n), c->arg);
    free(value);
}

size_t fake_redis_deliver(struct redis *r)
{
    size_t out = fake_redis_waiting(r), answered = 0;
    for (; out && r->calls; out--) {
        struct redis_call *c = r->calls;
        r->calls = c->next;
        if (c->on_value) {
            answered++;
            answer(r, c);
        }
        free_call(c);
    }
    return answered;
}

size_t fake_redis_waiting(const struct redis *r)
{
    size_t n = 0;
    for (const struct redis_call *c = r->calls; c; c = c->next)
        n++;
    return n;
}

const struct fake_redis_item *fake_redis_find(const struct redis *r, const char *key)
{
    const struct fake_redis_item *i = r->items;
    while (i && strcmp(i->key, key) != 0)
        i = i->next;
    return i;
}

void fake_redis_put(struct redis *r, const char *key, const char *value, int64_t ttl_s)
{
    store(r, key, slice_str(value), ttl_s);
}

const struct fake_redis_item *fake_redis_nth(const struct redis *r, size_t n)
{
    const struct fake_redis_item *i = r->items;
    while (i && n--)
        i = i->next;
    return i;
}
