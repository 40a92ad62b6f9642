/* base/flight: the table of calls that are out, by key, and who waits for each. Called by the context and decision
   lookups and by the key sets. Bounds are the caller's (max_inflight): it opens what it is asked to open. */
#include "base/flight.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

#define KEY_BYTES 32
#define FIRST_SLOTS 64

struct flight {
    struct flight *chain;
    struct list waiters; /* in the order they came */
    void *owner;
    bool closed; /* not in the table any more */
    uint8_t key[KEY_BYTES];
};

struct flights {
    struct flight **slots;
    size_t mask;
    size_t out;
};

struct flights *flights_create(void)
{
    struct flights *t = xzalloc(sizeof(*t));
    t->slots = xzalloc(FIRST_SLOTS * sizeof(*t->slots));
    t->mask = FIRST_SLOTS - 1;
    return t;
}

void flights_destroy(struct flights *t)
{
    if (t == NULL) return;
    CHECK(t->out == 0, "a flight is out: it would land on freed memory");
    free(t->slots);
    free(t);
}

/* Keys are digests; the mixing is for those that are not (yet) spread over their first bytes. */
static struct flight **slot_of(struct flights *t, const uint8_t *key)
{
    uint64_t w[KEY_BYTES / sizeof(uint64_t)];
    memcpy(w, key, sizeof(w));
    uint64_t h = (w[0] ^ w[1] * 3 ^ w[2] * 5 ^ w[3] * 7) * 0x9e3779b97f4a7c15ULL;
    return &t->slots[(h ^ h >> 32) & t->mask];
}

static void grow(struct flights *t)
{
    struct flight **old = t->slots;
    size_t count = t->mask + 1;
    t->slots = xzalloc(count * 2 * sizeof(*t->slots));
    t->mask = count * 2 - 1;
    for (size_t i = 0; i < count; i++) {
        while (old[i] != NULL) {
            struct flight *f = old[i];
            old[i] = f->chain;
            struct flight **slot = slot_of(t, f->key);
            f->chain = *slot;
            *slot = f;
        }
    }
    free(old);
}

static struct flight *open_flight(struct flights *t, const uint8_t *key)
{
    if (t->out > t->mask) grow(t);
    struct flight *f = xzalloc(sizeof(*f));
    list_init(&f->waiters);
    memcpy(f->key, key, KEY_BYTES);
    struct flight **slot = slot_of(t, key);
    f->chain = *slot;
    *slot = f;
    t->out++;
    return f;
}

struct flight *flight_join(struct flights *t, const uint8_t key[32], struct flight_waiter *w, bool *opened)
{
    struct flight *f = *slot_of(t, key);
    while (f != NULL && memcmp(f->key, key, KEY_BYTES) != 0) f = f->chain;
    *opened = f == NULL;
    if (f == NULL) f = open_flight(t, key);
    list_add_last(&f->waiters, &w->link);
    return f;
}

void flight_leave(struct flight_waiter *w)
{
    list_remove(&w->link);
}

bool flight_is_waited_for(const struct flight *f)
{
    return !list_empty(&f->waiters);
}

void flight_set_owner(struct flight *f, void *owner)
{
    f->owner = owner;
}

void *flight_owner(const struct flight *f)
{
    return f->owner;
}

static void close_flight(struct flights *t, struct flight *f)
{
    struct flight **at = slot_of(t, f->key);
    while (*at != NULL && *at != f) at = &(*at)->chain;
    CHECK(*at == f, "a flight lands once");
    *at = f->chain;
    f->closed = true;
}

void *flight_close(struct flights *t, const uint8_t key[32])
{
    struct flight *f = *slot_of(t, key);
    while (f != NULL && memcmp(f->key, key, KEY_BYTES) != 0) f = f->chain;
    if (f == NULL) return NULL;
    close_flight(t, f);
    return f->owner;
}

void flight_land(struct flights *t, struct flight *f, void *outcome)
{
    if (!f->closed) close_flight(t, f);
    t->out--;
    /* A waiter told may make others leave, and may destroy the table: only f is ours from here on. */
    while (!list_empty(&f->waiters)) {
        struct flight_waiter *w = container_of(f->waiters.next, struct flight_waiter, link);
        list_remove(&w->link);
        w->on_landed(w, outcome);
    }
    free(f);
}

size_t flights_out(const struct flights *t)
{
    return t->out;
}
