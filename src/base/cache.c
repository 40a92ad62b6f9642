/* base/cache: the table, the LRU ring and the flush generations. Called by the token, context and decision caches.
   Refuses what is too big, too old or flushed; what is expired or flushed is found out when it is touched. */
#include "base/cache.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

#define FIRST_SLOTS 64
#define FLUSH_TAGS_MAX 1024
#define FLUSH_SLOTS (FLUSH_TAGS_MAX * 2) /* open addressing, at most half full */

struct flushed_tag {
    uint64_t tag; /* 0: free */
    int64_t at_ms;
};

struct cache {
    struct cache_entry **slots;
    size_t mask;
    struct list lru; /* the coldest first */
    size_t max_entries;
    size_t max_bytes;
    void (*destroy)(struct cache_entry *);
    struct flushed_tag *flushed; /* NULL as long as no tag was flushed */
    size_t flushed_count;
    int64_t flushed_all_ms;
    struct cache_stats stats;
};

struct cache *cache_create(size_t max_entries, size_t max_bytes, void (*destroy)(struct cache_entry *))
{
    CHECK(max_entries >= 1 && max_bytes >= 1, "a cache without room");
    struct cache *c = xzalloc(sizeof(*c));
    c->slots = xzalloc(FIRST_SLOTS * sizeof(*c->slots));
    c->mask = FIRST_SLOTS - 1;
    list_init(&c->lru);
    c->max_entries = max_entries;
    c->max_bytes = max_bytes;
    c->destroy = destroy;
    c->flushed_all_ms = INT64_MIN;
    return c;
}

void cache_limit(struct cache *c, size_t max_entries, size_t max_bytes)
{
    CHECK(max_entries >= 1 && max_bytes >= 1, "a cache without room");
    c->max_entries = max_entries;
    c->max_bytes = max_bytes;
}

/* Keys are digests; the mixing is for those that are not (yet) spread over their first bytes. */
static struct cache_entry **slot_of(const struct cache *c, const uint8_t *key)
{
    uint64_t w[CACHE_KEY_BYTES / sizeof(uint64_t)];
    memcpy(w, key, sizeof(w));
    uint64_t h = (w[0] ^ w[1] * 3 ^ w[2] * 5 ^ w[3] * 7) * 0x9e3779b97f4a7c15ULL;
    return &c->slots[(h ^ h >> 32) & c->mask];
}

static void grow(struct cache *c)
{
    struct cache_entry **old = c->slots;
    size_t count = c->mask + 1;
    c->slots = xzalloc(count * 2 * sizeof(*c->slots));
    c->mask = count * 2 - 1;
    for (size_t i = 0; i < count; i++) {
        while (old[i] != NULL) {
            struct cache_entry *e = old[i];
            old[i] = e->chain;
            struct cache_entry **slot = slot_of(c, e->key);
            e->chain = *slot;
            *slot = e;
        }
    }
    free(old);
}

static struct cache_entry *find(const struct cache *c, const uint8_t *key)
{
    struct cache_entry *e = *slot_of(c, key);
    while (e != NULL && memcmp(e->key, key, CACHE_KEY_BYTES) != 0) e = e->chain;
    return e;
}

/* Takes e out of everything, then lets go of it: destroy may come back into the cache. */
static void take_out(struct cache *c, struct cache_entry *e)
{
    struct cache_entry **at = slot_of(c, e->key);
    while (*at != NULL && *at != e) at = &(*at)->chain;
    CHECK(*at == e, "the key of an entry in the cache does not change");
    *at = e->chain;
    e->chain = NULL;
    e->cache = NULL;
    list_remove(&e->lru);
    c->stats.entries--;
    c->stats.bytes -= e->bytes;
    cache_release(e, c->destroy);
}

void cache_destroy(struct cache *c)
{
    if (c == NULL) return;
    while (!list_empty(&c->lru)) take_out(c, container_of(c->lru.next, struct cache_entry, lru));
    free(c->flushed);
    free(c->slots);
    free(c);
}

/* The place of that tag, or the free one where it belongs. */
static struct flushed_tag *flushed_slot(const struct cache *c, uint64_t tag)
{
    size_t i = (size_t)(tag ^ tag >> 32) & (FLUSH_SLOTS - 1);
    while (c->flushed[i].tag != 0 && c->flushed[i].tag != tag) i = (i + 1) & (FLUSH_SLOTS - 1);
    return &c->flushed[i];
}

static bool is_flushed(const struct cache *c, const struct cache_entry *e)
{
    if (e->stored_ms <= c->flushed_all_ms) return true;
    if (c->flushed_count == 0) return false;
    for (size_t i = 0; i < sizeof(e->tags) / sizeof(*e->tags); i++) {
        if (e->tags[i] == 0) continue;
        const struct flushed_tag *f = flushed_slot(c, e->tags[i]);
        if (f->tag != 0 && e->stored_ms <= f->at_ms) return true;
    }
    return false;
}

/* Counts why e is dead; false when it lives. */
static bool count_dead(struct cache *c, const struct cache_entry *e, int64_t now_ms)
{
    if (e->expires_ms <= now_ms) {
        c->stats.expired++;
    } else if (is_flushed(c, e)) {
        c->stats.flushed++;
    } else {
        return false;
    }
    return true;
}

struct cache_entry *cache_get(struct cache *c, const uint8_t key[CACHE_KEY_BYTES], int64_t now_ms)
{
    struct cache_entry *e = find(c, key);
    if (e != NULL && count_dead(c, e, now_ms)) {
        take_out(c, e);
        e = NULL;
    }
    if (e == NULL) {
        c->stats.misses++;
        return NULL;
    }
    c->stats.hits++;
    list_remove(&e->lru);
    list_add_last(&c->lru, &e->lru);
    cache_hold(e);
    return e;
}

bool cache_put(struct cache *c, struct cache_entry *e, int64_t now_ms)
{
    CHECK(e->cache == NULL, "an entry is put once");
    if (e->bytes > c->max_bytes || e->expires_ms <= now_ms || is_flushed(c, e)) return false;
    cache_drop(c, e->key);
    while (c->stats.entries >= c->max_entries || c->stats.bytes + e->bytes > c->max_bytes) {
        struct cache_entry *coldest = container_of(c->lru.next, struct cache_entry, lru);
        if (!count_dead(c, coldest, now_ms)) c->stats.evictions++;
        take_out(c, coldest);
    }
    if (c->stats.entries > c->mask) grow(c);
    struct cache_entry **slot = slot_of(c, e->key);
    e->chain = *slot;
    *slot = e;
    e->cache = c;
    cache_hold(e);
    list_add_last(&c->lru, &e->lru);
    c->stats.entries++;
    c->stats.bytes += e->bytes;
    return true;
}

void cache_drop(struct cache *c, const uint8_t key[CACHE_KEY_BYTES])
{
    struct cache_entry *e = find(c, key);
    if (e != NULL) take_out(c, e);
}

static void flush_all(struct cache *c, int64_t now_ms)
{
    if (now_ms > c->flushed_all_ms) c->flushed_all_ms = now_ms;
    if (c->flushed != NULL) memset(c->flushed, 0, FLUSH_SLOTS * sizeof(*c->flushed));
    c->flushed_count = 0;
}

void cache_flush(struct cache *c, uint64_t tag, int64_t now_ms)
{
    if (tag == 0) {
        flush_all(c, now_ms);
        return;
    }
    if (c->flushed == NULL) c->flushed = xzalloc(FLUSH_SLOTS * sizeof(*c->flushed));
    struct flushed_tag *f = flushed_slot(c, tag);
    if (f->tag == 0 && c->flushed_count == FLUSH_TAGS_MAX) {
        flush_all(c, now_ms);
        return;
    }
    if (f->tag == 0) {
        *f = (struct flushed_tag){tag, now_ms};
        c->flushed_count++;
    } else if (now_ms > f->at_ms) {
        f->at_ms = now_ms;
    }
}

void cache_entry_init(struct cache_entry *e)
{
    memset(e, 0, sizeof(*e));
    list_init(&e->lru);
    e->refs = 1;
}

void cache_hold(struct cache_entry *e)
{
    CHECK(e->refs > 0 && e->refs < UINT32_MAX, "only who holds an entry can hold it once more");
    e->refs++;
}

void cache_release(struct cache_entry *e, void (*destroy)(struct cache_entry *))
{
    CHECK(e->refs > 0, "an entry is released as often as it is held");
    if (--e->refs > 0) return;
    CHECK(e->cache == NULL, "the cache holds a reference of its own");
    destroy(e);
}

void cache_stats(const struct cache *c, struct cache_stats *out)
{
    *out = c->stats;
    if (!list_empty(&c->lru)) out->oldest_ms = container_of(c->lru.next, struct cache_entry, lru)->stored_ms;
}

static uint64_t fnv(uint64_t h, const void *p, size_t n)
{
    const unsigned char *bytes = p;
    for (size_t i = 0; i < n; i++) h = (h ^ bytes[i]) * 0x100000001b3ULL;
    return h;
}

uint64_t cache_tag(const void *a, size_t an, const void *b, size_t bn)
{
    uint64_t lengths[2] = {an, bn};
    uint64_t h = fnv(0xcbf29ce484222325ULL, lengths, sizeof(lengths));
    h = fnv(fnv(h, a, an), b, bn);
    return h ? h : 1;
}
