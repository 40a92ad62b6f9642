/* Decisions: who waits for whom, the caps, what-if questions, on_error, and flushes. */
#include "decide.h"

/* --- who waits -------------------------------------------------------------------------------------------------- */

static void wait_many(const char *body)
{
    static struct call calls[MANY];
    struct decision_question q = question();
    size_t before = fake_fetch_started(t.fetch);
    for (size_t i = 0; i < MANY; i++)
        assert_int_equal(find(&calls[i], &q), OP_PENDING);
    for (size_t i = 0; i < MANY; i += 3)
        decision_cancel(&calls[i].call); /* the first one too */
    assert_int_equal(fake_fetch_started(t.fetch) - before, 1);
    assert_int_equal(decisions_inflight(t.d), 1);
    answer(body);
    assert_int_equal(decisions_inflight(t.d), 0);
    for (size_t i = 0; i < MANY; i++) {
        assert_int_equal(calls[i].told, i % 3 ? 1 : 0);
        if (i % 3) assert_ptr_equal(calls[i].call.decision, calls[1].call.decision);
    }
    for (size_t i = 0; i < MANY; i++)
        drop(&calls[i]);
}

static void test_many_wait_for_one_call(void **state)
{
    (void)state;
    struct decision_question q = question();
    open_with(base_config());
    wait_many("{\"result\":{\"allow\":true,\"ttl\":0}}"); /* one that is not kept serves all who wait */
    assert_false(remembered(&q));
    wait_many("{\"result\":{\"allow\":false,\"ttl\":0}}");
    wait_many("{}");
    wait_many("{\"result\":true}");
    assert_true(remembered(&q));
    struct slice labels[] = {SLICE("allow"), SLICE("timeseries")};
    assert_int_equal(metric_value(METRIC_DECISIONS, labels), 200 + 200 + 1); /* per request, not per call */
}

static void test_caps(void **state)
{
    (void)state;
    struct call calls[8], more;
    struct decision_question q[8];
    char paths[8][16];
    open_with(base_config());
    for (int i = 0; i < 8; i++) {
        q[i] = question();
        snprintf(paths[i], sizeof paths[i], "/%d", i);
        q[i].path = slice_str(paths[i]);
        assert_int_equal(find(&calls[i], &q[i]), i < 4 ? OP_PENDING : OP_DONE);
        if (i >= 4) assert_int_equal(calls[i].call.reason, REASON_POLICY_OVERLOADED);
        if (i >= 4) assert_null(calls[i].call.decision);
    }
    assert_int_equal(find(&more, &q[0]), OP_PENDING); /* who waits for a call that is out counts for nothing */
    struct decision_question what_if = question();
    what_if.uncached = true;
    struct call w[3];
    for (int i = 0; i < 3; i++)
        assert_int_equal(find(&w[i], &what_if), i < 2 ? OP_PENDING : OP_DONE);
    assert_int_equal(w[2].call.reason, REASON_POLICY_OVERLOADED);
    while (fake_fetch_open(t.fetch))
        answer("{\"result\":true}");
    for (int i = 0; i < 4; i++)
        drop(&calls[i]);
    drop(&more);
    drop(&w[0]);
    drop(&w[1]);
    decide(&q[7], "{\"result\":true}"); /* a refusal is not remembered */
}

static void test_what_if(void **state)
{
    (void)state;
    struct decision_question q = question(), real;
    struct call a, b;
    real = q;
    q.use = real.use = DECISION_AUTHORIZE;
    q.uncached = true;
    open_with(base_config());
    decide(&real, "{\"result\":true}");
    assert_int_equal(find(&a, &q), OP_PENDING); /* not read */
    assert_int_equal(find(&b, &q), OP_PENDING); /* nor joined */
    assert_int_equal(fake_fetch_open(t.fetch), 2);
    answer("{\"result\":false}");
    assert_int_equal(a.call.reason, REASON_POLICY_DENIED);
    answer("{\"result\":false}");
    drop(&a);
    drop(&b);
    struct cache_stats stats;
    decisions_stats(t.d, &stats);
    assert_int_equal(stats.entries, 1); /* not written */
    find(&a, &real);
    assert_int_equal(a.call.reason, REASON_FORWARDED);
    drop(&a);
    q.user = NULL;
    q.token = NULL;
    decide(&q, "{\"result\":true}");
}

/* --- on_error --------------------------------------------------------------------------------------------------- */

static void test_on_error(void **state)
{
    (void)state;
    static const struct {
        bool on, what_if;
        enum fetch_outcome outcome;
        int status;
        bool allowed;
    } rows[] = {
        {true, false, FETCH_UNREACHABLE, 0, true}, {false, false, FETCH_UNREACHABLE, 0, false},
        {true, true, FETCH_UNREACHABLE, 0, false}, {true, false, FETCH_TIMEOUT, 0, false},
        {true, false, FETCH_TOO_LARGE, 0, false},  {true, false, FETCH_BROKEN, 0, false},
        {true, false, FETCH_ANSWERED, 500, false}, {true, false, FETCH_ANSWERED, 200, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct decisions_config config = base_config();
        struct decision_question q = question();
        struct call c[2];
        double before = metric_value(METRIC_BYPASSED, NULL);
        config.on_error_allow = rows[i].on;
        open_with(config);
        q.uncached = rows[i].what_if;
        find(&c[0], &q);
        find(&c[1], &q);
        while (fake_fetch_open(t.fetch)) {
            struct fetch_call *f = fake_fetch_oldest(t.fetch);
            if (rows[i].outcome == FETCH_ANSWERED)
                fake_fetch_answer(f, rows[i].status, "{}");
            else
                fake_fetch_fail(f, rows[i].outcome);
        }
        for (int k = 0; k < 2; k++) {
            assert_int_equal(c[k].call.decision != NULL, rows[i].allowed);
            if (rows[i].allowed) {
                assert_int_equal(c[k].call.reason, REASON_FORWARDED);
                assert_true(c[k].call.decision->allow && c[k].call.decision->bypassed);
                assert_non_null(strstr(c[k].call.decision->rendered.p, "\"bypassed\":true"));
            }
            drop(&c[k]);
        }
        assert_int_equal(metric_value(METRIC_BYPASSED, NULL) - before, rows[i].allowed ? 2 : 0); /* once per request */
        q.uncached = false;
        assert_false(remembered(&q));
    }
    struct decisions_config config = base_config(); /* nor to our own cap */
    struct decision_question q = question();
    struct call c;
    config.on_error_allow = true;
    config.max_inflight = 0;
    open_with(config);
    assert_int_equal(find(&c, &q), OP_DONE);
    assert_int_equal(c.call.reason, REASON_POLICY_OVERLOADED);
}

/* --- flushes ---------------------------------------------------------------------------------------------------- */

static void test_flush(void **state)
{
    (void)state;
    static const struct {
        uint64_t tag;
        bool kept;
    } rows[] = {{0, false}, {11, false}, {12, false}, {13, true}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct decision_question q = question();
        open_with(base_config());
        decide(&q, "{\"result\":true}");
        loop_advance(t.loop, 1);
        decisions_flush(t.d, rows[i].tag);
        assert_int_equal(remembered(&q), rows[i].kept);
    }
}

/* Asked before the flush, answered after it: handed to those who waited, not kept, joined by nobody. */
static void test_flush_during_a_flight(void **state)
{
    (void)state;
    static const uint64_t tags[] = {0, 11, 12};
    for (size_t i = 0; i < 3; i++) {
        struct decision_question q = question();
        struct call before, after;
        open_with(base_config());
        find(&before, &q);
        decisions_flush(t.d, tags[i]);
        loop_advance(t.loop, 1);
        assert_int_equal(find(&after, &q), OP_PENDING);
        assert_int_equal(fake_fetch_open(t.fetch), 2);
        answer("{\"result\":true}");
        assert_int_equal(before.told, 1);
        assert_int_equal(after.told, 0);
        drop(&before);
        answer("{\"result\":false}");
        assert_int_equal(after.call.reason, REASON_POLICY_DENIED);
        drop(&after);
        find(&after, &q);
        assert_int_equal(after.call.reason, REASON_POLICY_DENIED);
        assert_int_equal(after.call.source, FOUND_MEMORY);
        drop(&after);
    }
}

static void test_destroy_with_calls_out(void **state)
{
    (void)state;
    struct decision_question q = question(), what_if = question();
    struct call a, b;
    what_if.uncached = true;
    open_with(base_config());
    find(&a, &q);
    find(&b, &what_if);
    decisions_destroy(t.d);
    t.d = NULL;
    assert_int_equal(a.told + b.told, 2);
    assert_null(a.call.decision);
    assert_int_equal(a.call.reason, REASON_SHUTTING_DOWN);
    assert_int_equal(fake_fetch_open(t.fetch), 0);
}

/* A decision that is held outlives its cache. */
static void test_held_decision(void **state)
{
    (void)state;
    struct decision_question q = question();
    struct call c;
    open_with(base_config());
    find(&c, &q);
    answer("{\"result\":true}");
    decision_hold(c.call.decision);
    decision_release(c.call.decision);
    decisions_destroy(t.d);
    t.d = NULL;
    assert_true(c.call.decision->allow);
    drop(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_many_wait_for_one_call),
        TEST(test_caps),
        TEST(test_what_if),
        TEST(test_on_error),
        TEST(test_flush),
        TEST(test_flush_during_a_flight),
        TEST(test_destroy_with_calls_out),
        TEST(test_held_decision),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
