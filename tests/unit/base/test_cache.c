/* Unit tests of base/cache: single rules, a naive model to compare with, and the bounds under a million puts. */
#include "base/cache.h"

#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "dies.h"

struct value {
    struct cache_entry entry;
    int number;
};

static int alive; /* values made and not destroyed */

static void destroy(struct cache_entry *e)
{
    alive--;
    free(container_of(e, struct value, entry));
}

static void key_of(uint64_t n, uint8_t key[CACHE_KEY_BYTES])
{
    memset(key, 0, CACHE_KEY_BYTES);
    memcpy(key + 24, &n, sizeof(n)); /* the last bytes: the hash must not look at the first ones alone */
}

static struct value *make(uint64_t key, int64_t stored_ms, int64_t expires_ms, uint32_t bytes)
{
    struct value *v = calloc(1, sizeof(*v));
    cache_entry_init(&v->entry);
    key_of(key, v->entry.key);
    v->entry.stored_ms = stored_ms;
    v->entry.expires_ms = expires_ms;
    v->entry.bytes = bytes;
    v->number = (int)key;
    alive++;
    return v;
}

static bool put_tagged(struct cache *c, uint64_t key, int64_t stored_ms, uint64_t tag0, uint64_t tag1, int64_t now_ms)
{
    struct value *v = make(key, stored_ms, now_ms + 1000000, 100);
    v->entry.tags[0] = tag0;
    v->entry.tags[1] = tag1;
    bool stored = cache_put(c, &v->entry, now_ms);
    cache_release(&v->entry, destroy);
    return stored;
}

static bool put(struct cache *c, uint64_t key, int64_t now_ms)
{
    return put_tagged(c, key, now_ms, 0, 0, now_ms);
}

static bool has(struct cache *c, uint64_t key, int64_t now_ms)
{
    uint8_t bytes[CACHE_KEY_BYTES];
    key_of(key, bytes);
    struct cache_entry *e = cache_get(c, bytes, now_ms);
    if (e == NULL) return false;
    assert_int_equal(container_of(e, struct value, entry)->number, (int)key);
    cache_release(e, destroy);
    return true;
}

static struct cache_stats stats_of(struct cache *c)
{
    struct cache_stats s;
    cache_stats(c, &s);
    return s;
}

static void test_put_get_drop(void **state)
{
    uint8_t key[CACHE_KEY_BYTES];
    struct cache *c = cache_create(10, 10000, destroy);
    (void)state;
    assert_false(has(c, 1, 5));
    assert_true(put(c, 1, 5));
    assert_true(has(c, 1, 6));
    assert_false(has(c, 2, 6));
    key_of(1, key);
    cache_drop(c, key);
    cache_drop(c, key);
    assert_false(has(c, 1, 6));
    struct cache_stats s = stats_of(c);
    assert_int_equal(s.hits, 1);
    assert_int_equal(s.misses, 3);
    assert_int_equal(s.entries, 0);
    assert_int_equal(s.bytes, 0);
    assert_int_equal(s.oldest_ms, 0);
    cache_destroy(c);
    cache_destroy(NULL);
    assert_int_equal(alive, 0);
}

static void test_expiry(void **state)
{
    struct cache *c = cache_create(10, 10000, destroy);
    (void)state;
    struct value *v = make(1, 0, 100, 10);
    assert_false(cache_put(c, &v->entry, 100)); /* past its time already */
    assert_false(cache_put(c, &v->entry, 101));
    assert_true(cache_put(c, &v->entry, 99));
    cache_release(&v->entry, destroy);
    assert_true(has(c, 1, 99));
    assert_false(has(c, 1, 100));
    assert_int_equal(alive, 0);
    assert_int_equal(stats_of(c).expired, 1);
    assert_int_equal(stats_of(c).evictions, 0);
    cache_destroy(c);
}

static void test_replaces_same_key(void **state)
{
    struct cache *c = cache_create(10, 10000, destroy);
    (void)state;
    for (int i = 0; i < 5; i++) assert_true(put(c, 1, i));
    assert_int_equal(alive, 1);
    assert_int_equal(stats_of(c).entries, 1);
    assert_int_equal(stats_of(c).bytes, 100);
    assert_int_equal(stats_of(c).evictions, 0);
    assert_int_equal(stats_of(c).oldest_ms, 4);
    cache_destroy(c);
}

static void test_evicts_least_recently_used(void **state)
{
    struct cache *c = cache_create(3, 10000, destroy);
    (void)state;
    put(c, 1, 1);
    put(c, 2, 2);
    put(c, 3, 3);
    assert_int_equal(stats_of(c).oldest_ms, 1);
    assert_true(has(c, 1, 4)); /* now 2 is the coldest */
    assert_int_equal(stats_of(c).oldest_ms, 2);
    put(c, 4, 5);
    assert_false(has(c, 2, 6));
    assert_true(has(c, 1, 6) && has(c, 3, 6) && has(c, 4, 6));
    assert_int_equal(stats_of(c).evictions, 1);
    cache_destroy(c);
    assert_int_equal(alive, 0);
}

static void test_bytes_bound(void **state)
{
    struct cache *c = cache_create(1000, 1000, destroy);
    (void)state;
    for (uint64_t i = 0; i < 10; i++) assert_true(put(c, i, 0)); /* 100 bytes each: exactly full */
    assert_int_equal(stats_of(c).bytes, 1000);
    struct value *big = make(50, 0, 10, 950);
    assert_true(cache_put(c, &big->entry, 0));
    cache_release(&big->entry, destroy);
    assert_int_equal(stats_of(c).entries, 1);
    struct value *whole = make(51, 0, 10, 1000), *over = make(50, 0, 10, 1001);
    assert_false(cache_put(c, &over->entry, 0));
    assert_true(has(c, 50, 0)); /* a refusal leaves what was there */
    assert_true(cache_put(c, &whole->entry, 0));
    cache_release(&whole->entry, destroy);
    cache_release(&over->entry, destroy);
    assert_int_equal(stats_of(c).bytes, 1000);
    cache_destroy(c);
    assert_int_equal(alive, 0);
}

static void test_held_entry_outlives_its_removal(void **state)
{
    uint8_t key[CACHE_KEY_BYTES];
    struct cache *c = cache_create(1, 1000, destroy);
    (void)state;
    put(c, 1, 0);
    key_of(1, key);
    struct cache_entry *held = cache_get(c, key, 0);
    assert_ptr_equal(held->cache, c);
    put(c, 2, 0);
    assert_null(held->cache);
    assert_int_equal(alive, 2);
    assert_int_equal(container_of(held, struct value, entry)->number, 1);
    cache_hold(held);
    cache_destroy(c);
    assert_int_equal(alive, 1);
    cache_release(held, destroy);
    assert_int_equal(alive, 1);
    cache_release(held, destroy);
    assert_int_equal(alive, 0);
}

static void test_flush_all(void **state)
{
    struct cache *c = cache_create(10, 10000, destroy);
    (void)state;
    put(c, 1, 10);
    put(c, 2, 11);
    cache_flush(c, 0, 10);
    assert_false(has(c, 1, 12));
    assert_true(has(c, 2, 12));
    cache_flush(c, 0, 20);
    cache_flush(c, 0, 15); /* an earlier one takes nothing back */
    assert_false(has(c, 2, 21));
    /* asked before the flush, answered after it */
    assert_false(put_tagged(c, 3, 19, 0, 0, 25));
    assert_false(put_tagged(c, 3, 20, 0, 0, 25));
    assert_true(put_tagged(c, 3, 21, 0, 0, 25));
    assert_int_equal(stats_of(c).flushed, 2);
    assert_int_equal(stats_of(c).entries, 1);
    cache_destroy(c);
    assert_int_equal(alive, 0);
}

static void test_flush_by_tag(void **state)
{
    uint64_t issuer = cache_tag("https://a", 9, NULL, 0), ann = cache_tag("https://a", 9, "ann", 3),
             bob = cache_tag("https://a", 9, "bob", 3), other = cache_tag("https://b", 9, NULL, 0);
    struct cache *c = cache_create(10, 10000, destroy);
    (void)state;
    put_tagged(c, 1, 1, issuer, ann, 1);
    put_tagged(c, 2, 1, issuer, bob, 1);
    put_tagged(c, 3, 1, other, 0, 1);
    put_tagged(c, 4, 1, 0, 0, 1);
    cache_flush(c, ann, 5);
    assert_false(has(c, 1, 6));
    assert_true(has(c, 2, 6) && has(c, 3, 6) && has(c, 4, 6));
    assert_false(put_tagged(c, 1, 5, issuer, ann, 6));
    assert_true(put_tagged(c, 1, 6, issuer, ann, 6));
    cache_flush(c, issuer, 7);
    cache_flush(c, issuer, 3);
    assert_false(has(c, 1, 8) || has(c, 2, 8));
    assert_true(has(c, 3, 8) && has(c, 4, 8));
    cache_destroy(c);
    assert_int_equal(alive, 0);
}

static void test_too_many_tags_flush_everything(void **state)
{
    struct cache *c = cache_create(10, 10000, destroy);
    (void)state;
    put_tagged(c, 1, 5000, 77, 78, 5000);
    for (uint64_t i = 1; i <= 1024; i++) cache_flush(c, i << 32 | 1, 6000);
    for (uint64_t i = 1; i <= 1024; i++) cache_flush(c, i << 32 | 1, 6000); /* known ones take no room */
    assert_true(has(c, 1, 6000));
    for (uint64_t i = 1; i <= 1024; i++) assert_false(put_tagged(c, 2, 6000, 0, i << 32 | 1, 6000));
    cache_flush(c, 1025ULL << 32 | 1, 7000);
    assert_false(has(c, 1, 7001));
    assert_false(put_tagged(c, 2, 7000, 0, 0, 7001));
    assert_true(put_tagged(c, 2, 7001, 1ULL << 32 | 1, 0, 7001));
    cache_flush(c, 1ULL << 32 | 1, 7001); /* and single tags work again */
    assert_false(has(c, 2, 7002));
    cache_destroy(c);
    assert_int_equal(alive, 0);
}

static void test_tags(void **state)
{
    (void)state;
    assert_true(cache_tag(NULL, 0, NULL, 0) != 0);
    assert_true(cache_tag("a", 1, NULL, 0) == cache_tag("a", 1, "", 0));
    assert_true(cache_tag("ab", 2, "c", 1) != cache_tag("a", 1, "bc", 2));
    assert_true(cache_tag("ab", 2, NULL, 0) != cache_tag("a", 1, "b", 1));
    assert_true(cache_tag("a", 1, "b", 1) != cache_tag("b", 1, "a", 1));
}

/* --- a naive cache to compare with: an array, the coldest first */
struct model {
    struct {
        uint64_t key, tags[2];
        int64_t stored_ms, expires_ms;
        uint32_t bytes;
    } rows[16];
    size_t n, bytes;
    int64_t flushed_ms[5]; /* all, and of the tags 1 to 4 */
};

static void model_cut(struct model *m, size_t i)
{
    m->bytes -= m->rows[i].bytes;
    m->n--;
    memmove(&m->rows[i], &m->rows[i + 1], (m->n - i) * sizeof(m->rows[0]));
}

static size_t model_find(const struct model *m, uint64_t key)
{
    size_t i = 0;
    while (i < m->n && m->rows[i].key != key) i++;
    return i;
}

static bool model_stale(const struct model *m, const uint64_t tags[2], int64_t stored_ms)
{
    return stored_ms <= m->flushed_ms[0] || (tags[0] && stored_ms <= m->flushed_ms[tags[0]]) ||
           (tags[1] && stored_ms <= m->flushed_ms[tags[1]]);
}

static bool model_get(struct model *m, uint64_t key, int64_t now)
{
    size_t i = model_find(m, key);
    if (i == m->n) return false;
    bool live = m->rows[i].expires_ms > now && !model_stale(m, m->rows[i].tags, m->rows[i].stored_ms);
    m->rows[15] = m->rows[i];
    model_cut(m, i);
    if (live) {
        m->bytes += m->rows[15].bytes;
        m->rows[m->n++] = m->rows[15];
    }
    return live;
}

static uint64_t random_next(uint64_t *x)
{
    *x ^= *x << 13;
    *x ^= *x >> 7;
    *x ^= *x << 17;
    return *x >> 20;
}

static void model_step(struct model *m, struct cache *c, uint64_t *x, int64_t now)
{
    uint64_t key = random_next(x) % 20, what = random_next(x) % 100;
    uint8_t bytes[CACHE_KEY_BYTES];
    if (what < 45) {
        assert_int_equal(has(c, key, now), model_get(m, key, now));
    } else if (what < 90) {
        struct value *v = make(key, now - (int64_t)(random_next(x) % 8), now + (int64_t)(random_next(x) % 40),
                               (uint32_t)(random_next(x) % 220));
        v->entry.tags[0] = random_next(x) % 5;
        v->entry.tags[1] = random_next(x) % 5;
        bool want = v->entry.bytes <= 200 && v->entry.expires_ms > now &&
                    !model_stale(m, v->entry.tags, v->entry.stored_ms);
        if (want) {
            size_t i = model_find(m, key);
            if (i < m->n) model_cut(m, i);
            while (m->n >= 8 || m->bytes + v->entry.bytes > 200) model_cut(m, 0);
            m->rows[m->n].key = key;
            memcpy(m->rows[m->n].tags, v->entry.tags, sizeof(v->entry.tags));
            m->rows[m->n].stored_ms = v->entry.stored_ms;
            m->rows[m->n].expires_ms = v->entry.expires_ms;
            m->rows[m->n++].bytes = v->entry.bytes;
            m->bytes += v->entry.bytes;
        }
        assert_int_equal(cache_put(c, &v->entry, now), want);
        cache_release(&v->entry, destroy);
    } else if (what < 97) {
        key_of(key, bytes);
        cache_drop(c, bytes);
        size_t i = model_find(m, key);
        if (i < m->n) model_cut(m, i);
    } else {
        uint64_t tag = random_next(x) % 5;
        cache_flush(c, tag, now);
        if (now > m->flushed_ms[tag]) m->flushed_ms[tag] = now;
    }
}

static void test_agrees_with_a_naive_one(void **state)
{
    struct model m = {.flushed_ms = {-1, -1, -1, -1, -1}};
    struct cache *c = cache_create(8, 200, destroy);
    uint64_t x = 88172645463325252ULL;
    (void)state;
    for (int64_t step = 0; step < 200000; step++) {
        model_step(&m, c, &x, 100 + step / 3);
        struct cache_stats s = stats_of(c);
        assert_int_equal(s.entries, m.n);
        assert_int_equal(s.bytes, m.bytes);
        assert_int_equal(s.oldest_ms, m.n ? m.rows[0].stored_ms : 0);
        assert_int_equal(alive, m.n);
    }
    struct cache_stats s = stats_of(c);
    assert_true(s.hits > 1000 && s.expired > 100 && s.flushed > 100 && s.evictions > 1000);
    cache_destroy(c);
    assert_int_equal(alive, 0);
}

/* What a flood of different callers brings: neither bound is ever passed, by the books or in memory. */
static void test_a_million_puts_stay_within_bounds(void **state)
{
    enum { ENTRIES = 1000, BYTES = 300000 };
    struct cache *c = cache_create(ENTRIES, BYTES, destroy);
    uint64_t x = 362436069362436069ULL, puts = 0;
    int most = 0;
    (void)state;
    for (int64_t i = 0; i < 1000000; i++) {
        struct value *v = make(random_next(&x) % 100000, i, i + 1 + (int64_t)(random_next(&x) % 4000),
                               (uint32_t)(100 + random_next(&x) % (i & 0x10000 ? 1000 : 150)));
        puts += cache_put(c, &v->entry, i);
        cache_release(&v->entry, destroy);
        struct cache_stats s = stats_of(c);
        if (s.entries > ENTRIES || s.bytes > BYTES || alive != (int)s.entries) fail_msg("out of bounds at %d", (int)i);
        if (alive > most) most = alive;
    }
    assert_int_equal(puts, 1000000);
    assert_int_equal(most, ENTRIES);
    cache_destroy(c);
    assert_int_equal(alive, 0);
}

static struct cache *reentered;

static void destroy_and_come_back(struct cache_entry *e)
{
    destroy(e);
    has(reentered, 1, 0); /* may even find, use or miss others */
    has(reentered, 3, 0);
}

static void test_destroy_may_come_back(void **state)
{
    (void)state;
    reentered = cache_create(2, 10000, destroy_and_come_back);
    for (uint64_t i = 0; i < 50; i++) put(reentered, i % 5, 0);
    assert_int_equal(stats_of(reentered).entries, 2);
    cache_destroy(reentered);
    assert_int_equal(alive, 0);
}

static void release_too_often(void *arg)
{
    cache_release(arg, destroy);
    cache_release(arg, destroy);
}

static void test_other_bounds(void **state)
{
    (void)state;
    struct cache *c = cache_create(100, 1 << 20, destroy);
    struct cache_stats s;
    for (uint64_t i = 0; i < 50; i++) put(c, i, 1);
    cache_limit(c, 10, 1 << 20);
    cache_stats(c, &s);
    assert_int_equal(s.entries, 50);
    put(c, 99, 2);
    cache_stats(c, &s);
    assert_int_equal(s.entries, 10);
    cache_limit(c, 10, 300);
    put(c, 98, 2);
    cache_stats(c, &s);
    assert_int_equal(s.entries, 3);
    cache_limit(c, 100, 1 << 20);
    for (uint64_t i = 0; i < 50; i++) put(c, i, 3);
    cache_stats(c, &s);
    assert_int_equal(s.entries, 52); /* one of them was there still */
    cache_destroy(c);
    assert_int_equal(alive, 0);
}

static void put_twice(void *arg)
{
    struct cache *c = cache_create(10, 1000, destroy);
    cache_put(c, arg, 0);
    cache_put(c, arg, 0);
}

static void no_room(void *arg)
{
    cache_create(0, 100, arg ? destroy : NULL);
}

static void test_refusals(void **state)
{
    (void)state;
    struct value *v = make(1, 0, 10, 10);
    struct cache *c = cache_create(10, 1000, destroy);
    assert_true(dies(put_twice, &v->entry));
    cache_put(c, &v->entry, 0);
    assert_true(dies(release_too_often, &v->entry)); /* the second would be the cache's own */
    assert_true(dies(no_room, NULL));
    cache_release(&v->entry, destroy);
    cache_destroy(c);
    assert_int_equal(alive, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_put_get_drop),
        cmocka_unit_test(test_expiry),
        cmocka_unit_test(test_replaces_same_key),
        cmocka_unit_test(test_evicts_least_recently_used),
        cmocka_unit_test(test_bytes_bound),
        cmocka_unit_test(test_held_entry_outlives_its_removal),
        cmocka_unit_test(test_flush_all),
        cmocka_unit_test(test_flush_by_tag),
        cmocka_unit_test(test_too_many_tags_flush_everything),
        cmocka_unit_test(test_tags),
        cmocka_unit_test(test_agrees_with_a_naive_one),
        cmocka_unit_test(test_a_million_puts_stay_within_bounds),
        cmocka_unit_test(test_destroy_may_come_back),
        cmocka_unit_test(test_other_bounds),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
