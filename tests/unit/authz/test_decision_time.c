/* Decisions: how long they are kept, and when a new policy ends them. */
#include "decide.h"

#include "authz/revision.h"

/* --- how long --------------------------------------------------------------------------------------------------- */

static void test_lifetime(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        int64_t route_ttl_ms, token_ms, context_ms; /* 0: none */
        int64_t lives_ms;
    } rows[] = {
        {"{\"result\":true}", 0, 0, 0, 300000},
        {"{\"result\":false}", 0, 0, 0, 30000},
        {"{\"result\":{\"allow\":true}}", 0, 0, 0, 300000},
        {"{\"result\":{\"allow\":true,\"ttl\":7}}", 0, 0, 0, 7000},
        {"{\"result\":{\"allow\":false,\"ttl\":7}}", 0, 0, 0, 7000},
        {"{\"result\":{\"allow\":true,\"ttl\":1.5}}", 0, 0, 0, 1500},
        {"{\"result\":{\"allow\":true,\"ttl\":1000}}", 0, 0, 0, 1000000},
        {"{\"result\":true}", 5000, 0, 0, 5000},
        {"{\"result\":false}", 5000, 0, 0, 5000},
        {"{\"result\":{\"allow\":true,\"ttl\":7}}", 5000, 0, 0, 7000},
        {"{\"result\":true}", 0, 20000, 0, 20000},
        {"{\"result\":true}", 0, 0, 4000, 4000},
        {"{\"result\":true}", 0, 20000, 4000, 4000},
        {"{\"result\":{\"allow\":true,\"ttl\":1e9}}", 0, 20000, 90000, 20000},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct decision_question q = question();
        struct token token = t.token;
        struct call c;
        q.token = &token;
        q.route_ttl_ms = rows[i].route_ttl_ms;
        t.user->end_ms = rows[i].context_ms ? loop_now_ms(t.loop) + rows[i].context_ms : INT64_MAX;
        /* exp is in whole seconds: bring the clock to one */
        if (rows[i].token_ms) loop_advance(t.loop, 1000 - loop_wall_ms(t.loop) % 1000);
        if (rows[i].token_ms) token.exp_s = (loop_wall_ms(t.loop) + rows[i].token_ms) / 1000;
        if (rows[i].context_ms) t.user->end_ms = loop_now_ms(t.loop) + rows[i].context_ms;
        open_with(base_config());
        find(&c, &q);
        answer(rows[i].body);
        int64_t lives = c.call.decision->entry.expires_ms - loop_now_ms(t.loop);
        if (lives > rows[i].lives_ms || lives < rows[i].lives_ms - 2) fail_msg("row %zu: %lld", i, (long long)lives);
        drop(&c);
        assert_true(remembered(&q));
        loop_advance(t.loop, rows[i].lives_ms);
        if (remembered(&q)) fail_msg("row %zu lives on", i);
    }
}

static void test_expired_token_keeps_nothing(void **state)
{
    (void)state;
    struct decision_question q = question();
    t.token.exp_s = loop_wall_ms(t.loop) / 1000 - 5; /* within the leeway of tokens */
    open_with(base_config());
    decide(&q, "{\"result\":true}");
    assert_false(remembered(&q));
}

static void test_jitter_shortens(void **state)
{
    (void)state;
    struct decisions_config config = base_config();
    int64_t least = INT64_MAX, most = 0;
    config.jitter = 0.1;
    open_with(config);
    for (int i = 0; i < 200; i++) {
        struct decision_question q = question();
        struct call c;
        char path[16];
        snprintf(path, sizeof path, "/%d", i);
        q.path = slice_str(path);
        find(&c, &q);
        answer("{\"result\":true}");
        int64_t lives = c.call.decision->entry.expires_ms - loop_now_ms(t.loop);
        if (lives < least) least = lives;
        if (lives > most) most = lives;
        drop(&c);
    }
    assert_true(most <= 300000 && most > 297000);
    assert_true(least >= 270000 && least < 273000);
}

static void test_bounds(void **state)
{
    (void)state;
    struct decisions_config config = base_config();
    struct cache_stats stats;
    config.max_entries = 10;
    open_with(config);
    for (int i = 0; i < 50; i++) {
        struct decision_question q = question();
        char path[16];
        snprintf(path, sizeof path, "/%d", i);
        q.path = slice_str(path);
        decide(&q, "{\"result\":true}");
    }
    decisions_stats(t.d, &stats);
    assert_int_equal(stats.entries, 10);
    assert_int_equal(stats.evictions, 40);
    assert_true(stats.bytes > 10 * (sizeof(struct decision) + 100));
}

#define OF_REVISION(rev) "{\"result\":true,\"provenance\":{\"bundles\":{\"b\":{\"revision\":\"" rev "\"}}}}"

static void test_revisions(void **state)
{
    (void)state;
    struct decision_question q[4] = {question(), question(), question(), question()};
    q[1].path = SLICE("/1");
    q[2].path = SLICE("/2");
    q[3].path = SLICE("/3");
    open_with(base_config());
    decide(&q[0], OF_REVISION("one"));
    decide(&q[3], "{\"result\":true}");
    loop_advance(t.loop, 60000);
    assert_true(remembered(&q[0])); /* no newer one was seen */
    decide(&q[1], OF_REVISION("two"));
    loop_advance(t.loop, 9000);
    assert_true(remembered(&q[0]));    /* within the grace */
    decide(&q[2], OF_REVISION("one")); /* an engine that still has the old one */
    loop_advance(t.loop, 9000);
    assert_true(remembered(&q[0]));
    q[0].action = SLICE("update");
    decide(&q[0], OF_REVISION("two"));
    q[0].action = SLICE("read");
    loop_advance(t.loop, 1001);
    assert_false(remembered(&q[0])); /* 10 s after it was last seen */
    assert_false(remembered(&q[2]));
    assert_true(remembered(&q[1]));
    assert_true(remembered(&q[3])); /* no revision: its time alone */
}

/* One step a row, on one table. */
static void test_revision_table(void **state)
{
    (void)state;
    static const struct {
        int64_t at_ms;
        uint64_t seen; /* 0: nothing */
        bool one, two; /* current afterwards */
    } rows[] = {
        {0, 1, true, false},     {5000, 0, true, false},   {500000, 0, true, false}, /* alone, it never ends */
        {500000, 2, true, true}, {509999, 0, true, true},  {510000, 0, false, true},
        {511000, 1, true, true}, /* rolled back to it: new once more */
        {520999, 0, true, true}, {521000, 0, true, false}, {522000, 2, true, true},
        {523000, 1, true, true}, /* both, in turn */
        {531000, 2, true, true}, {532000, 1, true, true},
    };
    struct revisions r = {.grace_ms = 10000};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        revisions_see(&r, rows[i].seen, rows[i].at_ms);
        if (revisions_current(&r, 1, rows[i].at_ms) != rows[i].one) fail_msg("row %zu: one", i);
        if (revisions_current(&r, 2, rows[i].at_ms) != rows[i].two) fail_msg("row %zu: two", i);
        assert_true(revisions_current(&r, 0, rows[i].at_ms));
    }
    for (uint64_t id = 3; id < 20; id++)
        revisions_see(&r, id, 533000);
    assert_false(revisions_current(&r, 1, 533000)); /* pushed out */
    assert_true(revisions_current(&r, 19, 533000));
}

static void test_revision_of_an_answer(void **state)
{
    (void)state;
    static const char *const same[] = {
        "{\"result\":true,\"provenance\":{\"bundles\":{\"a\":{\"revision\":\"1\"},\"b\":{\"revision\":\"2\"}}}}",
        "{\"result\":true,\"provenance\":{\"version\":\"x\",\"bundles\":{\"b\":{\"revision\":\"2\"},\"a\":{"
        "\"revision\":\"1\"}}}}",
    };
    static const char *const others[] = {
        "{\"result\":true,\"provenance\":{\"bundles\":{\"a\":{\"revision\":\"2\"},\"b\":{\"revision\":\"1\"}}}}",
        "{\"result\":true,\"provenance\":{\"bundles\":{\"a\":{\"revision\":\"1\"}}}}",
        "{\"result\":true,\"provenance\":{\"revision\":\"1\"}}",
    };
    static const char *const none[] = {
        "{\"result\":true}",
        "{\"result\":true,\"provenance\":{}}",
        "{\"result\":true,\"provenance\":{\"bundles\":{\"a\":{\"revision\":\"\"},\"b\":{}}}}",
        "{\"result\":true,\"provenance\":{\"bundles\":{\"a\":5},\"revision\":7}}",
        "{\"result\":true,\"provenance\":[]}",
    };
    const char *all[10];
    uint64_t revision[10];
    size_t n = 0;
    for (size_t i = 0; i < 2; i++)
        all[n++] = same[i];
    for (size_t i = 0; i < 3; i++)
        all[n++] = others[i];
    for (size_t i = 0; i < 5; i++)
        all[n++] = none[i];
    for (size_t i = 0; i < n; i++) {
        struct decision_question q = question();
        struct call c;
        open_with(base_config());
        find(&c, &q);
        answer(all[i]);
        revision[i] = c.call.decision->revision;
        drop(&c);
    }
    assert_int_equal(revision[0], revision[1]);
    for (size_t i = 1; i < 5; i++) {
        assert_int_not_equal(revision[i], 0);
        for (size_t k = i + 1; k < 5; k++)
            assert_int_not_equal(revision[i], revision[k]);
    }
    for (size_t i = 5; i < 10; i++)
        assert_int_equal(revision[i], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_lifetime),
        TEST(test_expired_token_keeps_nothing),
        TEST(test_jitter_shortens),
        TEST(test_bounds),
        TEST(test_revisions),
        TEST(test_revision_table),
        TEST(test_revision_of_an_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
