/* Decisions past their time: used while they are asked for again, and what ends that. */
#include "decide.h"

#define TTL_MS 300000
#define STALE_MS 60000

static struct decisions_config stale_config(void)
{
    struct decisions_config c = base_config();
    c.stale_s = STALE_MS / 1000;
    return c;
}

/* An allow that is past its time by one second. */
static void make_stale(const struct decision_question *q)
{
    decide(q, "{\"result\":true}");
    loop_advance(t.loop, TTL_MS + 1000);
}

/* A hit of memory that allows; was it stale? */
static bool hit(const struct decision_question *q)
{
    struct call c;
    assert_int_equal(find(&c, q), OP_DONE);
    assert_int_equal(c.call.source, FOUND_MEMORY);
    assert_int_equal(c.call.reason, REASON_FORWARDED);
    assert_true(c.call.decision->allow);
    bool stale = c.call.stale;
    drop(&c);
    return stale;
}

static bool asks(const struct decision_question *q)
{
    struct call c;
    bool pending = find(&c, q) == OP_PENDING;
    decision_cancel(&c.call);
    drop(&c);
    return pending;
}

static void test_off(void **state)
{
    (void)state;
    struct decision_question q = question();
    open_with(base_config());
    make_stale(&q);
    assert_true(asks(&q));
}

static void test_used_while_asked_again(void **state)
{
    (void)state;
    struct decision_question q = question(), again = question();
    struct slice cache = SLICE("decision");
    open_with(stale_config());
    decide(&q, "{\"result\":true}");
    loop_advance(t.loop, TTL_MS - 5);
    assert_false(hit(&q));
    assert_int_equal(fake_fetch_open(t.fetch), 0);
    loop_advance(t.loop, 1000);
    again.request_id = SLICE("req-2");
    for (int i = 0; i < 5; i++)
        assert_true(hit(&again));
    assert_int_equal(fake_fetch_open(t.fetch), 1); /* one question for all of them, made of the first that hit it */
    assert_non_null(strstr(fake_fetch_oldest(t.fetch)->body, "\"id\":\"req-2\""));
    assert_int_equal(metric_value(METRIC_CACHE_STALE, &cache), 5);
    loop_advance(t.loop, 1500);
    assert_true(hit(&q));
    assert_int_equal(fake_fetch_open(t.fetch), 1); /* it is still out */
    answer("{\"result\":{\"allow\":true,\"ttl\":9}}");
    assert_false(hit(&q));
    loop_advance(t.loop, 9000);
    assert_true(hit(&q));
}

static void test_hard_end(void **state)
{
    (void)state;
    struct decision_question q = question();
    struct call c;
    open_with(stale_config());
    decide(&q, "{\"result\":true}");
    loop_advance(t.loop, TTL_MS + STALE_MS - 5);
    assert_true(hit(&q));
    loop_advance(t.loop, 10);
    assert_int_equal(find(&c, &q), OP_PENDING);
    assert_int_equal(fake_fetch_started(t.fetch), 2); /* with the one that is out already */
    answer("{\"result\":true}");
    assert_int_equal(c.told, 1);
    drop(&c);
}

/* Never past what ends a decision otherwise. */
static void test_token_and_context_end_it(void **state)
{
    (void)state;
    for (int by_token = 0; by_token < 2; by_token++) {
        struct decision_question q = question();
        struct token token = t.token;
        q.token = &token;
        loop_advance(t.loop, 1000 - loop_wall_ms(t.loop) % 1000); /* exp is in whole seconds */
        t.user->end_ms = by_token ? INT64_MAX : loop_now_ms(t.loop) + TTL_MS + 10000;
        if (by_token) token.exp_s = (loop_wall_ms(t.loop) + TTL_MS + 10000) / 1000;
        open_with(stale_config());
        make_stale(&q);
        assert_true(hit(&q));
        fake_fetch_fail(fake_fetch_oldest(t.fetch), FETCH_UNREACHABLE);
        loop_advance(t.loop, 9000);
        assert_true(asks(&q));
        fake_fetch_fail(fake_fetch_oldest(t.fetch), FETCH_UNREACHABLE);
    }
}

static void test_denials_are_never_stale(void **state)
{
    (void)state;
    static const enum decision_use uses[] = {DECISION_GRANT, DECISION_AUTHORIZE};
    for (int i = 0; i < 2; i++) {
        struct decision_question q = question();
        q.use = uses[i];
        open_with(stale_config());
        decide(&q, "{\"result\":false}");
        assert_true(remembered(&q));
        loop_advance(t.loop, 30000);
        assert_true(asks(&q));
        fake_fetch_fail(fake_fetch_oldest(t.fetch), FETCH_BROKEN);
    }
}

/* What nobody asks the engine for is made anew, not used past its time. */
static void test_without_policy_nothing_is_stale(void **state)
{
    (void)state;
    struct decision_question q = question();
    struct call c;
    open_with(stale_config());
    q.use = DECISION_USER_ONLY;
    assert_int_equal(find(&c, &q), OP_DONE);
    drop(&c);
    assert_true(remembered(&q));
    loop_advance(t.loop, TTL_MS);
    assert_int_equal(find(&c, &q), OP_DONE);
    assert_int_equal(c.call.source, FOUND_NONE);
    drop(&c);
    assert_int_equal(fake_fetch_started(t.fetch), 0);
}

enum after { STAYS, RENEWED, DENIED, GONE };

static void test_what_the_next_answer_does(void **state)
{
    (void)state;
    static const struct {
        enum fetch_outcome outcome;
        int status;
        const char *body;
        enum after after;
    } rows[] = {
        {FETCH_ANSWERED, 200, "{\"result\":true}", RENEWED},
        {FETCH_ANSWERED, 200, "{\"result\":{\"allow\":true,\"ttl\":0}}", GONE},
        {FETCH_ANSWERED, 200, "{\"result\":false}", DENIED},
        {FETCH_ANSWERED, 200, "{\"result\":{\"allow\":false,\"ttl\":0}}", GONE},
        {FETCH_ANSWERED, 200, "{}", GONE},
        {FETCH_ANSWERED, 200, "{\"result\":\"true\"}", GONE},
        {FETCH_ANSWERED, 200, "<html>", GONE},
        {FETCH_ANSWERED, 200, "", GONE},
        {FETCH_TOO_LARGE, 0, "", GONE},
        {FETCH_ANSWERED, 204, "", GONE},
        {FETCH_ANSWERED, 302, "", GONE},
        {FETCH_ANSWERED, 401, "", GONE},
        {FETCH_ANSWERED, 404, "", GONE},
        {FETCH_ANSWERED, 429, "", STAYS},
        {FETCH_ANSWERED, 500, "{}", STAYS},
        {FETCH_ANSWERED, 503, "", STAYS},
        {FETCH_UNREACHABLE, 0, "", STAYS},
        {FETCH_TIMEOUT, 0, "", STAYS},
        {FETCH_BROKEN, 0, "", STAYS},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (int bypass = 0; bypass < 2; bypass++) { /* policy.on_error: allow changes nothing of it */
            struct decisions_config config = stale_config();
            struct decision_question q = question();
            struct call c;
            config.on_error_allow = bypass;
            open_with(config);
            make_stale(&q);
            assert_true(hit(&q));
            struct fetch_call *f = fake_fetch_oldest(t.fetch);
            if (rows[i].outcome == FETCH_ANSWERED)
                fake_fetch_answer(f, rows[i].status, rows[i].body);
            else
                fake_fetch_fail(f, rows[i].outcome);
            enum op op = find(&c, &q);
            enum after after = op == OP_PENDING                          ? GONE
                               : c.call.reason == REASON_POLICY_DENIED ? DENIED
                               : c.call.stale                            ? STAYS
                                                                         : RENEWED;
            if (after != rows[i].after) fail_msg("row %zu: %d", i, (int)after);
            decision_cancel(&c.call);
            drop(&c);
            while (fake_fetch_open(t.fetch))
                fake_fetch_fail(fake_fetch_oldest(t.fetch), FETCH_BROKEN);
        }
    }
}

static void test_not_asked_again_and_again(void **state)
{
    (void)state;
    struct decision_question q = question();
    open_with(stale_config());
    make_stale(&q);
    for (int second = 0; second < 10; second++) {
        for (int i = 0; i < 20; i++) {
            assert_true(hit(&q));
            if (fake_fetch_open(t.fetch)) fake_fetch_fail(fake_fetch_oldest(t.fetch), FETCH_UNREACHABLE);
        }
        loop_advance(t.loop, 1000);
    }
    assert_int_equal(fake_fetch_started(t.fetch), 11);
}

static void test_over_the_cap_and_at_rest(void **state)
{
    (void)state;
    struct decision_question q = question(), others[4];
    struct decisions_config config = stale_config();
    struct call calls[4];
    char paths[4][16];
    config.breaker = (struct breaker_rules){.failures = 4, .rest_ms = 20000, .max_rest_ms = 20000};
    open_with(config);
    make_stale(&q);
    for (int i = 0; i < 4; i++) {
        snprintf(paths[i], sizeof paths[i], "/%d", i);
        others[i] = question();
        others[i].path = slice_str(paths[i]);
        assert_int_equal(find(&calls[i], &others[i]), OP_PENDING);
    }
    assert_true(hit(&q));
    assert_int_equal(fake_fetch_open(t.fetch), 4); /* no fifth, and it is used all the same */
    while (fake_fetch_open(t.fetch))
        fake_fetch_fail(fake_fetch_oldest(t.fetch), FETCH_TIMEOUT);
    loop_advance(t.loop, 2000);
    assert_true(hit(&q));
    assert_int_equal(fake_fetch_open(t.fetch), 0); /* the engine rests */
    loop_advance(t.loop, 30000);
    assert_true(hit(&q));
    assert_int_equal(fake_fetch_open(t.fetch), 1); /* the trial */
    answer("{\"result\":true}");
    assert_false(hit(&q));
}

static void test_flush_ends_it(void **state)
{
    (void)state;
    static const uint64_t tags[] = {0, 11, 12};
    for (int i = 0; i < 3; i++) {
        struct decision_question q = question();
        struct call c;
        open_with(stale_config());
        make_stale(&q);
        assert_true(hit(&q)); /* a question is out */
        decisions_flush(t.d, tags[i]);
        loop_advance(t.loop, 1);
        assert_int_equal(find(&c, &q), OP_PENDING);
        assert_int_equal(fake_fetch_open(t.fetch), 2); /* one of its own: nobody joins the one from before */
        answer("{\"result\":true}");                   /* the one from before puts nothing */
        assert_int_equal(c.told, 0);
        assert_true(asks(&q));
        answer("{\"result\":false}");
        assert_int_equal(c.call.reason, REASON_POLICY_DENIED);
        drop(&c);
    }
}

#define OF_REVISION(rev) "{\"result\":true,\"provenance\":{\"bundles\":{\"b\":{\"revision\":\"" rev "\"}}}}"

static void test_a_new_revision_ends_it(void **state)
{
    (void)state;
    struct decision_question q = question(), other = question();
    open_with(stale_config());
    decide(&q, OF_REVISION("one"));
    loop_advance(t.loop, TTL_MS + 1000);
    assert_true(hit(&q));
    fake_fetch_fail(fake_fetch_oldest(t.fetch), FETCH_UNREACHABLE);
    other.path = SLICE("/other");
    decide(&other, OF_REVISION("two"));
    loop_advance(t.loop, 9000);
    assert_true(hit(&q)); /* within the grace */
    fake_fetch_fail(fake_fetch_oldest(t.fetch), FETCH_UNREACHABLE);
    loop_advance(t.loop, 1001);
    assert_true(asks(&q));
}

/* A signed grant must live as long as the decision may be used. */
static void test_kept_to_the_hard_end(void **state)
{
    (void)state;
    struct decision_question q = question();
    struct call c;
    open_with(stale_config());
    find(&c, &q);
    answer("{\"result\":true}");
    assert_int_equal(c.call.decision->entry.expires_ms - c.call.decision->fresh_ms, STALE_MS);
    assert_false(c.call.stale);
    drop(&c);
}

static void test_end_with_a_question_out(void **state)
{
    (void)state;
    struct decision_question q = question();
    open_with(stale_config());
    make_stale(&q);
    assert_true(hit(&q));
    decisions_destroy(t.d);
    t.d = NULL;
    assert_int_equal(fake_fetch_open(t.fetch), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_off),
        TEST(test_used_while_asked_again),
        TEST(test_hard_end),
        TEST(test_token_and_context_end_it),
        TEST(test_denials_are_never_stale),
        TEST(test_without_policy_nothing_is_stale),
        TEST(test_what_the_next_answer_does),
        TEST(test_not_asked_again_and_again),
        TEST(test_over_the_cap_and_at_rest),
        TEST(test_flush_ends_it),
        TEST(test_a_new_revision_ends_it),
        TEST(test_kept_to_the_hard_end),
        TEST(test_end_with_a_question_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
