/* Decisions over the cap: questions wait for their turn, in order, for no longer than one may take. */
#include "decide.h"

#define N 8 /* four are out at a time */

static struct call calls[N];
static struct decision_question q[N];
static char paths[N][16];

static void open_waiting(unsigned max_waiting)
{
    struct decisions_config c = base_config();
    c.max_waiting = max_waiting;
    c.breaker = (struct breaker_rules){.failures = 2, .rest_ms = 1000, .max_rest_ms = 1000};
    open_with(c);
    for (int i = 0; i < N; i++) {
        q[i] = question();
        snprintf(paths[i], sizeof paths[i], "/%d", i);
        q[i].path = slice_str(paths[i]);
    }
}

static double waiting(void)
{
    struct slice label = SLICE("policy");
    return metric_value(METRIC_DEPENDENCY_WAITING, &label);
}

static bool asks_for(const struct fetch_call *f, const char *path)
{
    char member[32];
    snprintf(member, sizeof member, "\"path\":\"%s\"", path);
    return strstr(f->body, member) != NULL;
}

static void test_in_order(void **state)
{
    (void)state;
    open_waiting(3);
    for (int i = 0; i < N; i++) assert_int_equal(find(&calls[i], &q[i]), i < 7 ? OP_PENDING : OP_DONE);
    assert_int_equal(calls[7].call.reason, REASON_POLICY_OVERLOADED);
    assert_int_equal(waiting(), 3);
    struct call joined;
    assert_int_equal(find(&joined, &q[6]), OP_PENDING); /* waits with it, and takes no place */
    assert_int_equal(waiting(), 3);
    for (int i = 0; i < 7; i++) {
        assert_in_range(fake_fetch_open(t.fetch), 1, 4);
        assert_true(asks_for(fake_fetch_oldest(t.fetch), paths[i]));
        answer("{\"result\":true}");
        assert_int_equal(calls[i].told, 1);
        assert_int_equal(calls[i].call.reason, REASON_FORWARDED);
        drop(&calls[i]);
    }
    assert_int_equal(joined.call.reason, REASON_FORWARDED);
    drop(&joined);
    assert_int_equal(waiting() + decisions_inflight(t.d), 0);
}

/* Time in the queue counts: it is asked with what is left, or not at all. */
static void test_time(void **state)
{
    (void)state;
    open_waiting(2);
    for (int i = 0; i < 6; i++) find(&calls[i], &q[i]);
    loop_advance(t.loop, 1000);
    loop_turn(t.loop);
    answer("{\"result\":true}");
    struct fetch_call *late = fake_fetch_nth(t.fetch, fake_fetch_started(t.fetch) - 1);
    assert_true(asks_for(late, paths[4]));
    assert_in_range(late->timeout_ms, 1, 1000);
    assert_int_equal(calls[5].told, 0);
    loop_advance(t.loop, 1100);
    loop_turn(t.loop);
    assert_int_equal(calls[5].told, 1);
    assert_int_equal(calls[5].call.reason, REASON_POLICY_OVERLOADED);
    while (fake_fetch_open(t.fetch)) answer("{\"result\":true}");
    for (int i = 0; i < 6; i++) drop(&calls[i]);
}

/* What had little time left when its turn came says nothing about the engine by taking longer. */
static void test_our_own_queue_opens_no_breaker(void **state)
{
    (void)state;
    open_waiting(4);
    for (int i = 0; i < N; i++) find(&calls[i], &q[i]);
    loop_advance(t.loop, 1100);
    loop_turn(t.loop);
    while (fake_fetch_started(t.fetch) < N) answer("{\"result\":true}");
    while (fake_fetch_open(t.fetch)) fake_fetch_fail(fake_fetch_oldest(t.fetch), FETCH_TIMEOUT);
    for (int i = 0; i < N; i++) {
        assert_int_equal(calls[i].call.reason, i < 4 ? REASON_FORWARDED : REASON_POLICY_TIMEOUT);
        drop(&calls[i]);
    }
    assert_int_equal(find(&calls[7], &q[7]), OP_PENDING);
    answer("{\"result\":true}");
    drop(&calls[7]);
}

/* Whoever leaves frees the place, but not while others wait for the same. */
static void test_leavers(void **state)
{
    (void)state;
    struct call same, after;
    open_waiting(1);
    for (int i = 0; i < 5; i++) find(&calls[i], &q[i]);
    find(&same, &q[4]);
    decision_cancel(&calls[4].call);
    assert_int_equal(waiting(), 1);
    assert_int_equal(find(&after, &q[5]), OP_DONE);
    decision_cancel(&same.call);
    assert_int_equal(waiting(), 0);
    assert_int_equal(find(&after, &q[5]), OP_PENDING);
    decision_cancel(&calls[0].call); /* out already: it stays out */
    assert_int_equal(decisions_inflight(t.d), 4);
    while (fake_fetch_open(t.fetch)) answer("{\"result\":true}");
    assert_int_equal(calls[4].told + same.told, 0);
    assert_int_equal(after.told, 1);
    decision_cancel(&after.call); /* harmless */
    for (int i = 1; i < 4; i++) drop(&calls[i]);
    drop(&after);
}

static void test_the_engine_fails(void **state)
{
    (void)state;
    open_waiting(4);
    for (int i = 0; i < N; i++) find(&calls[i], &q[i]);
    fake_fetch_fail(fake_fetch_oldest(t.fetch), FETCH_UNREACHABLE); /* the next takes its place */
    assert_int_equal(waiting(), 3);
    fake_fetch_fail(fake_fetch_oldest(t.fetch), FETCH_UNREACHABLE); /* it rests: nobody does any more */
    assert_int_equal(waiting(), 0);
    for (int i = 5; i < N; i++) {
        assert_int_equal(calls[i].told, 1);
        assert_int_equal(calls[i].call.reason, REASON_POLICY_UNAVAILABLE);
        assert_true(calls[i].call.retry_ms > 0);
    }
    while (fake_fetch_open(t.fetch)) answer("{\"result\":true}");
    for (int i = 0; i < 5; i++) drop(&calls[i]);
}

static void end_all(struct decision_call *c)
{
    (void)c;
    if (t.d) decisions_destroy(t.d);
    t.d = NULL;
}

/* It ends while some wait, also inside the news to one of them. */
static void test_end(void **state)
{
    (void)state;
    open_waiting(4);
    for (int i = 0; i < N; i++) find(&calls[i], &q[i]);
    decisions_destroy(t.d);
    t.d = NULL;
    for (int i = 0; i < N; i++) assert_int_equal(calls[i].call.reason, REASON_SHUTTING_DOWN);
    for (int refused = 0; refused < 2; refused++) {
        open_waiting(4);
        for (int i = 0; i < N; i++) find(&calls[i], &q[i]);
        calls[refused ? 5 : 0].call.on_done = end_all;
        if (refused) {
            fake_fetch_fail(fake_fetch_oldest(t.fetch), FETCH_UNREACHABLE);
            fake_fetch_fail(fake_fetch_oldest(t.fetch), FETCH_UNREACHABLE);
        } else {
            answer("{\"result\":true}");
        }
        assert_null(t.d);
        assert_int_equal(fake_fetch_open(t.fetch), 0);
        for (int i = 0; i < N; i++) drop(&calls[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_in_order), TEST(test_time), TEST(test_our_own_queue_opens_no_breaker),
        TEST(test_leavers), TEST(test_the_engine_fails), TEST(test_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
