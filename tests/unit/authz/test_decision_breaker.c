/* Decisions: what opens the engine's breaker and what does not, and what is refused while it rests. */
#include "decide.h"

#define RESTS_MS 1000

static const struct breaker_rules rules = {
    .failures = 3, .ratio = 0.5, .volume = 10, .window_ms = 10000, .rest_ms = RESTS_MS, .max_rest_ms = 8000};

static void open_breaking(bool on_error_allow)
{
    struct decisions_config c = base_config();
    c.breaker = rules;
    c.on_error_allow = on_error_allow;
    open_with(c);
}

static struct decision_question question_of(int n)
{
    static char paths[64][16];
    struct decision_question q = question();
    snprintf(paths[n % 64], sizeof paths[0], "/%d", n);
    q.path = slice_str(paths[n % 64]);
    return q;
}

static void end_call(enum fetch_outcome o, int status, const char *body)
{
    struct fetch_call *f = fake_fetch_oldest(t.fetch);
    if (o == FETCH_ANSWERED)
        fake_fetch_answer(f, status, body);
    else
        fake_fetch_fail(f, o);
}

/* One question, another one each time. True: it was asked. */
static bool ask_one(enum fetch_outcome o, int status, const char *body)
{
    static int serial;
    struct decision_question q = question_of(serial++);
    struct call c;
    if (find(&c, &q) == OP_DONE) {
        assert_null(c.call.decision);
        assert_int_equal(c.call.reason, REASON_POLICY_UNAVAILABLE);
        assert_string_equal(c.call.detail, "resting after failures");
        return false;
    }
    end_call(o, status, body);
    assert_int_equal(c.told, 1);
    drop(&c);
    return true;
}

static double state_shown(void)
{
    struct slice label = SLICE("policy");
    return metric_value(METRIC_BREAKER, &label);
}

static void test_what_opens_it(void **state)
{
    (void)state;
    static const struct {
        enum fetch_outcome outcome;
        int status;
        const char *body;
        bool opens;
    } rows[] = {
        {FETCH_UNREACHABLE, 0, NULL, true},
        {FETCH_TIMEOUT, 0, NULL, true},
        {FETCH_BROKEN, 0, NULL, true},
        {FETCH_ANSWERED, 502, "", true},
        {FETCH_ANSWERED, 503, "", true},
        {FETCH_ANSWERED, 504, "", true},
        /* what may come of one question must not take the engine away from everybody */
        {FETCH_TOO_LARGE, 0, NULL, false},
        {FETCH_ANSWERED, 500, "{\"code\":\"internal_error\"}", false},
        {FETCH_ANSWERED, 200, "no JSON", false},
        {FETCH_ANSWERED, 200, "{}", false},
        {FETCH_ANSWERED, 200, "{\"result\":1}", false},
        {FETCH_ANSWERED, 200, "{\"result\":false}", false},
        {FETCH_ANSWERED, 400, "", false},
        {FETCH_ANSWERED, 401, "", false},
        {FETCH_ANSWERED, 404, "", false},
        {FETCH_ANSWERED, 429, "", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        open_breaking(false);
        for (int n = 0; n < 3; n++) assert_true(ask_one(rows[i].outcome, rows[i].status, rows[i].body));
        bool open = !ask_one(rows[i].outcome, rows[i].status, rows[i].body);
        if (open != rows[i].opens) fail_msg("row %zu", i);
        assert_int_equal(state_shown(), open ? 2 : 0);
        for (int n = 0; !open && n < 30; n++) assert_true(ask_one(rows[i].outcome, rows[i].status, rows[i].body));
    }
}

static void open_it(void)
{
    for (int n = 0; n < 3; n++) assert_true(ask_one(FETCH_TIMEOUT, 0, NULL));
    assert_false(ask_one(FETCH_TIMEOUT, 0, NULL));
}

/* Refused at once, with what is left of the rest; then one question goes, and only its end lets more through. */
static void test_rests_and_recovers(void **state)
{
    (void)state;
    struct call a, b;
    struct decision_question q = question_of(1000), other = question_of(1001);
    struct slice resting[] = {SLICE("policy"), SLICE("resting")};
    open_breaking(false);
    decide(&other, "{\"result\":true}"); /* what is known is no question */
    open_it();
    size_t asked = fake_fetch_started(t.fetch);
    double before = metric_value(METRIC_DEPENDENCY_FAILURES, resting);
    for (int n = 0; n < 100; n++) {
        assert_int_equal(find(&a, &q), OP_DONE);
        assert_in_range(a.call.retry_ms, RESTS_MS * 4 / 5 - 100, RESTS_MS * 6 / 5);
    }
    assert_int_equal(metric_value(METRIC_DEPENDENCY_FAILURES, resting) - before, 100);
    assert_int_equal(fake_fetch_started(t.fetch), asked);
    assert_true(remembered(&other));
    loop_advance(t.loop, RESTS_MS * 6 / 5);
    other = question_of(1002);
    assert_int_equal(find(&a, &q), OP_PENDING);
    assert_int_equal(state_shown(), 1);
    assert_int_equal(find(&b, &other), OP_DONE);
    assert_int_equal(b.call.retry_ms, 0);
    assert_int_equal(find(&b, &q), OP_PENDING); /* who asks the same waits with it */
    answer("{\"result\":true}");
    assert_true(a.call.decision && b.call.decision);
    drop(&a);
    drop(&b);
    assert_int_equal(state_shown(), 0);
    assert_true(ask_one(FETCH_ANSWERED, 200, "{\"result\":true}"));
}

static void test_a_trial_that_fails(void **state)
{
    (void)state;
    struct call a;
    struct decision_question q = question_of(1000);
    open_breaking(false);
    open_it();
    loop_advance(t.loop, RESTS_MS * 6 / 5);
    assert_int_equal(find(&a, &q), OP_PENDING);
    fake_fetch_fail(fake_fetch_oldest(t.fetch), FETCH_UNREACHABLE);
    assert_in_range(a.call.retry_ms, 2 * RESTS_MS * 4 / 5 - 100, 2 * RESTS_MS * 6 / 5);
    assert_false(ask_one(FETCH_TIMEOUT, 0, NULL));
    loop_advance(t.loop, RESTS_MS * 6 / 5);
    assert_false(ask_one(FETCH_TIMEOUT, 0, NULL));
}

/* A probe that was answered does not close it, but the rest is over: the next question is the trial. */
static void test_woken(void **state)
{
    (void)state;
    open_breaking(false);
    open_it();
    assert_false(ask_one(FETCH_ANSWERED, 200, "{\"result\":true}"));
    decisions_wake(t.d);
    assert_int_equal(state_shown(), 2);
    assert_true(ask_one(FETCH_ANSWERED, 200, "{\"result\":true}"));
    assert_int_equal(state_shown(), 0);
    decisions_wake(t.d); /* and of one that does not rest nothing changes */
    assert_int_equal(state_shown(), 0);
}

/* The waiters of a trial leave: the question goes on, and its end is the trial's. */
static void test_nobody_waits_for_the_trial(void **state)
{
    (void)state;
    struct call a;
    struct decision_question q = question_of(1000);
    open_breaking(false);
    open_it();
    loop_advance(t.loop, RESTS_MS * 6 / 5);
    assert_int_equal(find(&a, &q), OP_PENDING);
    decision_cancel(&a.call);
    answer("{\"result\":false}");
    assert_int_equal(state_shown(), 0);
}

static void test_own_cap_does_not_open_it(void **state)
{
    (void)state;
    struct call calls[4], more;
    struct decision_question q[4], late = question_of(50);
    open_breaking(false);
    for (int n = 0; n < 4; n++) {
        q[n] = question_of(n);
        assert_int_equal(find(&calls[n], &q[n]), OP_PENDING);
    }
    for (int n = 0; n < 100; n++) {
        assert_int_equal(find(&more, &late), OP_DONE);
        assert_int_equal(more.call.reason, REASON_POLICY_OVERLOADED);
    }
    for (int n = 0; n < 4; n++) {
        answer("{\"result\":true}");
        drop(&calls[n]);
    }
    assert_int_equal(state_shown(), 0);
}

/* Whoever may ask what-if questions does not take the engine away from the others. */
static void test_what_if_has_no_say(void **state)
{
    (void)state;
    struct call c;
    struct decision_question q = question();
    q.uncached = true;
    open_breaking(false);
    for (int n = 0; n < 50; n++) {
        assert_int_equal(find(&c, &q), OP_PENDING);
        fake_fetch_fail(fake_fetch_oldest(t.fetch), FETCH_TIMEOUT);
    }
    assert_int_equal(state_shown(), 0);
    open_it();
    assert_int_equal(find(&c, &q), OP_DONE);
    assert_int_equal(c.call.reason, REASON_POLICY_UNAVAILABLE);
    loop_advance(t.loop, RESTS_MS * 6 / 5);
    assert_int_equal(find(&c, &q), OP_PENDING); /* and are not refused for ever when nobody else asks */
    answer("{\"result\":true}");
    drop(&c);
    assert_int_equal(state_shown(), 2);
    assert_true(ask_one(FETCH_ANSWERED, 200, "{\"result\":true}"));
    assert_int_equal(state_shown(), 0);
}

/* policy.on_error: allow: an engine that refuses at once does not rest, and each one let through was refused; a silent
   one rests, and nobody is let through for that. */
static void test_on_error_allow(void **state)
{
    (void)state;
    struct call c;
    struct decision_question q;
    open_breaking(true);
    for (int n = 0; n < 50; n++) {
        q = question_of(n);
        assert_int_equal(find(&c, &q), OP_PENDING);
        fake_fetch_fail(fake_fetch_oldest(t.fetch), FETCH_UNREACHABLE);
        assert_true(c.call.decision && c.call.decision->bypassed);
        drop(&c);
    }
    assert_int_equal(state_shown(), 0);
    open_it();
    q = question_of(60);
    assert_int_equal(find(&c, &q), OP_DONE);
    assert_null(c.call.decision);
    assert_int_equal(c.call.reason, REASON_POLICY_UNAVAILABLE);
    loop_advance(t.loop, RESTS_MS * 6 / 5);
    assert_int_equal(find(&c, &q), OP_PENDING);
    fake_fetch_fail(fake_fetch_oldest(t.fetch), FETCH_UNREACHABLE);
    assert_true(c.call.decision && c.call.decision->bypassed);
    drop(&c);
    assert_int_equal(state_shown(), 0);
}

static void test_ends_while_a_trial_is_out(void **state)
{
    (void)state;
    struct call c;
    struct decision_question q = question_of(1);
    open_breaking(false);
    open_it();
    loop_advance(t.loop, RESTS_MS * 6 / 5);
    assert_int_equal(find(&c, &q), OP_PENDING);
    decisions_destroy(t.d);
    t.d = NULL;
    assert_int_equal(c.call.reason, REASON_SHUTTING_DOWN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_what_opens_it),
        TEST(test_rests_and_recovers),
        TEST(test_a_trial_that_fails),
        TEST(test_woken),
        TEST(test_nobody_waits_for_the_trial),
        TEST(test_own_cap_does_not_open_it),
        TEST(test_what_if_has_no_say),
        TEST(test_on_error_allow),
        TEST(test_ends_while_a_trial_is_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
