/* proxy/balance: who is next, by each policy; tiers; trials; nobody twice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/balance.h"

#define MANY 6

static const struct breaker_rules rules = {.failures = 2, .rest_ms = 1000, .max_rest_ms = 30000};

static struct {
    struct candidate candidates[MANY];
    struct candidate *v[MANY];
    struct balance balance;
    size_t n;
    size_t picked[MANY]; /* how often */
} t;

static void start(enum conf_balance policy, size_t n)
{
    memset(&t, 0, sizeof t);
    t.balance.policy = policy;
    t.n = n;
    for (size_t i = 0; i < n; i++) {
        breaker_init(&t.candidates[i].breaker, &rules);
        t.candidates[i].slot = (unsigned)(i * 25); /* across both words */
        t.candidates[i].proven = BALANCE_PROVEN;
        t.v[i] = &t.candidates[i];
    }
}

static int pick_of(const struct tried *tried, bool trial, int64_t now)
{
    struct candidate *c = balance_pick(&t.balance, t.v, t.n, tried, trial, now);
    if (!c) return -1;
    size_t at = (size_t)(c - t.candidates);
    t.picked[at]++;
    return (int)at;
}

static int pick(int64_t now)
{
    static const struct tried none;
    return pick_of(&none, true, now);
}

static void eject(size_t i, int64_t now)
{
    struct candidate *c = &t.candidates[i];
    uint32_t ticket = c->breaker.ticket;
    while (c->breaker.state == BREAKER_CLOSED) breaker_failure(&c->breaker, ticket, now, 0.5);
    c->opened_ms = now;
}

static void round_robin(void **state)
{
    (void)state;
    start(BALANCE_ROUND_ROBIN, 3);
    t.candidates[1].inflight = 100; /* is not looked at */
    for (int i = 0; i < 9; i++) assert_int_equal(pick(0), i % 3);
    t.candidates[0].out = true;
    for (int i = 0; i < 6; i++) assert_int_equal(pick(0), 1 + i % 2);
}

static void least_inflight(void **state)
{
    (void)state;
    start(BALANCE_LEAST_INFLIGHT, 3);
    for (int i = 0; i < 9; i++) assert_int_equal(pick(0), i % 3); /* the same number: in turn */
    t.candidates[0].inflight = 2, t.candidates[1].inflight = 1, t.candidates[2].inflight = 2;
    for (int i = 0; i < 3; i++) assert_int_equal(pick(0), 1);
    t.candidates[1].out = true;
    int first = pick(0);
    assert_true(first == 0 || first == 2);
    assert_int_equal(pick(0), 2 - first);
}

/* Kept busy by requests of one length each, all have the same share; one that takes thrice as long, a third of it. */
static void least_inflight_is_fair(void **state)
{
    (void)state;
    static const int64_t length[] = {30, 10, 10};
    int64_t ends[300][2];
    size_t out = 0;
    start(BALANCE_LEAST_INFLIGHT, 3);
    for (int64_t now = 0; now < 10000; now++) {
        for (size_t i = 0; i < out; i++) {
            if (ends[i][0] > now) continue;
            t.candidates[ends[i][1]].inflight--;
            ends[i][0] = ends[--out][0];
            ends[i--][1] = ends[out][1];
        }
        while (out < 30) {
            int at = pick(now);
            t.candidates[at].inflight++;
            ends[out][0] = now + length[at];
            ends[out++][1] = at;
        }
    }
    assert_true(t.picked[1] * 10 > t.picked[2] * 9 && t.picked[2] * 10 > t.picked[1] * 9);
    assert_true(t.picked[0] * 2 < t.picked[1] && t.picked[0] * 5 > t.picked[1]);
}

static void fastest_by_latency(void **state)
{
    (void)state;
    start(BALANCE_FASTEST, 3);
    balance_measured(&t.candidates[0], 50, 0);
    balance_measured(&t.candidates[1], 10, 0);
    balance_measured(&t.candidates[2], 20, 0);
    assert_int_equal(pick(0), 1);
    t.candidates[1].inflight = 1; /* 20: no better than the third, which is earlier in the turn */
    assert_int_equal(pick(0), 2);
    t.candidates[1].inflight = 2;
    assert_int_equal(pick(0), 2);
    t.candidates[2].inflight = 2;
    assert_int_equal(pick(0), 1);
    t.candidates[1].inflight = t.candidates[2].inflight = 9; /* what is slow has nothing to do */
    assert_int_equal(pick(0), 0);
}

/* Latencies that change are followed, and what was slow once is tried again. */
static void fastest_follows(void **state)
{
    (void)state;
    start(BALANCE_FASTEST, 2);
    balance_measured(&t.candidates[0], 10, 0);
    balance_measured(&t.candidates[1], 100, 0);
    int64_t now = 0;
    while (now < 600000 && pick(now) == 0) {
        now += 100;
        balance_measured(&t.candidates[0], 10, now);
    }
    assert_in_range(now, 9 * BALANCE_FADE_MS, 9 * BALANCE_FADE_MS + 200); /* 100 / (1 + 9) is 10 */
    for (int i = 0; i < 20; i++) balance_measured(&t.candidates[1], 1, now);
    assert_true(t.candidates[1].latency_ms < 2);
    for (int i = 0; i < 5; i++) assert_int_equal(pick(now), 1);
}

/* A new one gets one request in BALANCE_SHARE, one at a time, until it is proven. */
static void probing_share(void **state)
{
    (void)state;
    start(BALANCE_FASTEST, 3);
    balance_measured(&t.candidates[0], 10, 0);
    balance_measured(&t.candidates[1], 10, 0);
    t.candidates[2].proven = 0; /* latency unknown: it would be the fastest */
    for (int i = 0; i < 100; i++) pick(0);
    assert_int_equal(t.picked[2], 100 / BALANCE_SHARE);
    t.candidates[2].inflight = 1;
    for (int i = 0; i < 100; i++) assert_int_not_equal(pick(0), 2);
    t.candidates[2].inflight = 0;
    assert_int_equal(pick(0), 2);
    t.candidates[2].proven = BALANCE_PROVEN;
    balance_measured(&t.candidates[2], 1, 0);
    for (int i = 0; i < 10; i++) assert_int_equal(pick(0), 2);
}

/* All are new: they share. */
static void all_probing(void **state)
{
    (void)state;
    start(BALANCE_FASTEST, 3);
    for (size_t i = 0; i < 3; i++) t.candidates[i].proven = 0;
    for (int i = 0; i < 9; i++) assert_int_equal(pick(0), i % 3);
}

static void limited(void **state)
{
    (void)state;
    for (enum conf_balance policy = BALANCE_LEAST_INFLIGHT; policy <= BALANCE_FASTEST; policy++) {
        static const struct tried none;
        uint32_t ticket;
        start(policy, 3);
        for (size_t i = 0; i < 3; i++) balance_measured(&t.candidates[i], 10, 0);
        eject(1, 1000);
        assert_int_equal(balance_tier(&t.candidates[1]), TIER_LIMITED);
        for (int i = 0; i < 20; i++) assert_int_not_equal(pick(1999), 1);
        for (int i = 0; i < 20; i++) assert_int_not_equal(pick_of(&none, false, 2000), 1); /* not for this request */
        assert_int_equal(pick(2000), 1); /* the rest is over: the next one tries */
        assert_true(breaker_allows(&t.candidates[1].breaker, 2000, &ticket));
        for (int i = 0; i < 20; i++) assert_int_not_equal(pick(9999), 1); /* until its outcome is known */
        breaker_failure(&t.candidates[1].breaker, ticket, 2000, 0.5);
        t.candidates[1].opened_ms = 2000;
        for (int i = 0; i < 20; i++) assert_int_not_equal(pick(3999), 1); /* twice as long now */
        assert_int_equal(pick(4000), 1);
        t.candidates[1].out = true;
        for (int i = 0; i < 20; i++) assert_int_not_equal(pick(5000), 1);
    }
}

/* Nobody is left: one is tried each rest_ms, however long its own rest has grown, the one that rests the longest first. */
static void all_limited(void **state)
{
    (void)state;
    static const struct tried none;
    uint32_t ticket;
    start(BALANCE_LEAST_INFLIGHT, 2);
    eject(0, 0);
    eject(1, 100);
    for (int64_t now = 1000; now < 60000; now += 1100) {
        int at = pick_of(&none, false, now);
        assert_true(at >= 0);
        struct candidate *c = &t.candidates[at];
        assert_true(c->opened_ms <= t.candidates[1 - at].opened_ms);
        assert_true(breaker_allows(&c->breaker, now, &ticket));
        breaker_failure(&c->breaker, ticket, now, 0.5);
        c->opened_ms = now;
    }
    assert_int_equal(pick(t.candidates[0].opened_ms + 50), -1);
    start(BALANCE_LEAST_INFLIGHT, 1);
    eject(0, 0);
    assert_int_equal(pick(999), -1);
    assert_int_equal(pick(1000), 0);
    /* one whose trial is long in coming is not given up for it, where there is nobody else */
    assert_true(breaker_allows(&t.candidates[0].breaker, 1000, &ticket));
    assert_int_equal(pick(1999), -1);
    assert_int_equal(pick(2000), 0);
    t.candidates[0].out = true;
    assert_int_equal(pick(2000), -1);
}

/* No address is met twice by one request, and all are met. */
static void each_once(void **state)
{
    (void)state;
    for (enum conf_balance policy = BALANCE_LEAST_INFLIGHT; policy <= BALANCE_FASTEST; policy++) {
        struct tried tried = {0};
        start(policy, MANY);
        t.candidates[2].proven = 0;
        for (size_t i = 0; i < MANY; i++) {
            int at = pick_of(&tried, true, 0);
            assert_true(at >= 0 && t.picked[at] == 1);
            tried_add(&tried, t.candidates[at].slot);
        }
        assert_int_equal(pick_of(&tried, true, 0), -1);
        tried_remove(&tried, t.candidates[5].slot);
        assert_int_equal(pick_of(&tried, true, 0), 5);
    }
    start(BALANCE_FASTEST, 0);
    assert_int_equal(pick(0), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_robin),        cmocka_unit_test(least_inflight),
        cmocka_unit_test(least_inflight_is_fair), cmocka_unit_test(fastest_by_latency),
        cmocka_unit_test(fastest_follows),    cmocka_unit_test(probing_share),
        cmocka_unit_test(all_probing),        cmocka_unit_test(limited),
        cmocka_unit_test(all_limited),        cmocka_unit_test(each_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
