/* base/cache: bounded, TTL, LRU table of ref-counted entries under 32-byte keys. Values embed struct cache_entry
   as their first member and are allocated and sized by their owner; an entry that someone still holds outlives its
   removal. Flushing is by generation, so it is O(1): all, or by one of an entry's two tags (issuer, subject). */
#ifndef BASE_CACHE_H
#define BASE_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"

#define CACHE_KEY_BYTES 32

struct cache_entry {
    struct list lru;
    struct cache_entry *chain;
    struct cache *cache; /* NULL once removed */
    uint8_t key[CACHE_KEY_BYTES];
    uint64_t tags[2];    /* e.g. issuer and subject; 0 = none */
    int64_t stored_ms;   /* when the question was asked, not when the answer came: a flush in between drops it */
    int64_t expires_ms;  /* monotonic; the entry is gone at this time */
    uint32_t bytes;      /* what it counts for, the struct itself included */
    uint32_t refs;
};

struct cache_stats {
    uint64_t hits, misses, evictions, expired, flushed;
    size_t entries, bytes; /* what is expired or flushed counts until it is touched */
    int64_t oldest_ms;     /* stored_ms of the least recently used entry; 0 when empty */
};

struct cache;

/* destroy frees one value when its last reference goes. It may come back into the cache,
   though not to put. max_entries and max_bytes are both at least 1. */
struct cache *cache_create(size_t max_entries, size_t max_bytes, void (*destroy)(struct cache_entry *));
/* Other bounds from now on; what is over them goes with the next put. */
void cache_limit(struct cache *c, size_t max_entries, size_t max_bytes);
/* Removes all entries; values held elsewhere live on until released. */
void cache_destroy(struct cache *c);

/* The live entry with one more reference (release it), now the most recently used; or NULL. An expired or
   flushed one is removed and counts as a miss. */
struct cache_entry *cache_get(struct cache *c, const uint8_t key[CACHE_KEY_BYTES], int64_t now_ms);

/* Takes a reference of its own: the caller keeps the one it has. key, tags, stored_ms, expires_ms and bytes are set
   before. Replaces an entry of the same key; evicts from the cold end. Refused (false) when the entry alone is over
   max_bytes, is past its time or was flushed since stored_ms. */
bool cache_put(struct cache *c, struct cache_entry *e, int64_t now_ms);

/* Removes the entry of that key, if any. */
void cache_drop(struct cache *c, const uint8_t key[CACHE_KEY_BYTES]);

/* Entries with stored_ms up to now_ms and that tag (0: all entries) are gone. More than 1024 remembered tags become one
   flush of everything (doubt denies). */
void cache_flush(struct cache *c, uint64_t tag, int64_t now_ms);

/* A fresh entry has refs 1 (set by cache_entry_init). */
void cache_entry_init(struct cache_entry *e);
void cache_hold(struct cache_entry *e);
void cache_release(struct cache_entry *e, void (*destroy)(struct cache_entry *));

void cache_stats(const struct cache *c, struct cache_stats *out);

/* 64-bit FNV-1a over the parts with their lengths, never 0: for tags. */
uint64_t cache_tag(const void *a, size_t an, const void *b, size_t bn);

#endif
