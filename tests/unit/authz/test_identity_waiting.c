/* Contexts over the cap: profile calls wait for their turn, in order, for no longer than one may take. */
#include "identify.h"

#define N 8 /* four are out at a time */

static struct call calls[N];
static struct token tokens[N];
static char names[N][16];

static void open_waiting(unsigned max_waiting, bool redis)
{
    struct identity_config c = base_config();
    c.max_waiting = max_waiting;
    c.breaker = (struct breaker_rules){.failures = 2, .rest_ms = 1000, .max_rest_ms = 1000};
    if (t.ids) identities_destroy(t.ids);
    open_with(c, redis);
    for (int i = 0; i < N; i++) {
        snprintf(names[i], sizeof names[i], "u%d", i);
        tokens[i] = token_of("iss", names[i], names[i]);
    }
}

static enum op find_one(int i)
{
    return find(&calls[i], &tokens[i], "Bearer x");
}

static void answer(void)
{
    fake_fetch_answer(fake_fetch_oldest(t.fetch), 200, "{\"name\":\"x\"}");
}

static double waiting(void)
{
    struct slice label = SLICE("context");
    return metric_value(METRIC_DEPENDENCY_WAITING, &label);
}

static void test_in_order(void **state)
{
    (void)state;
    open_waiting(3, false);
    for (int i = 0; i < N; i++) assert_int_equal(find_one(i), i < 7 ? OP_PENDING : OP_DONE);
    assert_int_equal(calls[7].call.reason, REASON_CONTEXT_OVERLOADED);
    assert_int_equal(waiting(), 3);
    for (int i = 0; i < 7; i++) {
        assert_in_range(fake_fetch_open(t.fetch), 1, 4);
        answer();
        assert_int_equal(calls[i].told, 1);
        assert_non_null(calls[i].call.user);
        drop(&calls[i]);
    }
    assert_int_equal(waiting() + identities_inflight(t.ids), 0);
}

static void test_time(void **state)
{
    (void)state;
    open_waiting(2, false);
    for (int i = 0; i < 6; i++) find_one(i);
    loop_advance(t.loop, 4000);
    loop_turn(t.loop);
    answer();
    assert_in_range(fake_fetch_nth(t.fetch, fake_fetch_started(t.fetch) - 1)->timeout_ms, 1, 1000);
    loop_advance(t.loop, 1100);
    loop_turn(t.loop);
    assert_int_equal(calls[4].told, 0); /* it is out: fetch ends it */
    assert_int_equal(calls[5].told, 1);
    assert_int_equal(calls[5].call.reason, REASON_CONTEXT_OVERLOADED);
    while (fake_fetch_open(t.fetch)) answer();
    for (int i = 0; i < 6; i++) drop(&calls[i]);
}

static void test_our_own_queue_opens_no_breaker(void **state)
{
    (void)state;
    open_waiting(4, false);
    for (int i = 0; i < N; i++) find_one(i);
    loop_advance(t.loop, 4500);
    loop_turn(t.loop);
    while (fake_fetch_started(t.fetch) < N) answer();
    while (fake_fetch_open(t.fetch)) fake_fetch_fail(fake_fetch_oldest(t.fetch), FETCH_TIMEOUT);
    for (int i = 0; i < N; i++) {
        assert_int_equal(calls[i].call.user != NULL, i < 4);
        drop(&calls[i]);
    }
    assert_int_equal(find_one(7), OP_PENDING);
    answer();
    drop(&calls[7]);
}

static void test_leavers(void **state)
{
    (void)state;
    struct call same;
    open_waiting(1, false);
    for (int i = 0; i < 5; i++) find_one(i);
    find(&same, &tokens[4], "Bearer x");
    identity_cancel(&calls[4].call);
    assert_int_equal(find_one(5), OP_DONE);
    identity_cancel(&same.call);
    assert_int_equal(waiting(), 0);
    assert_int_equal(find_one(5), OP_PENDING);
    while (fake_fetch_open(t.fetch)) answer();
    assert_int_equal(calls[4].told + same.told, 0);
    for (int i = 0; i < 6; i++) drop(&calls[i]);
}

static void test_the_api_fails(void **state)
{
    (void)state;
    open_waiting(4, false);
    for (int i = 0; i < N; i++) find_one(i);
    for (int i = 0; i < 2; i++) fake_fetch_fail(fake_fetch_oldest(t.fetch), FETCH_UNREACHABLE);
    assert_int_equal(waiting(), 0);
    for (int i = 5; i < N; i++) assert_int_equal(calls[i].call.reason, REASON_CONTEXT_UNAVAILABLE);
    while (fake_fetch_open(t.fetch)) answer();
    for (int i = 0; i < 5; i++) drop(&calls[i]);
}

/* Behind Redis the same queue stands; what nobody waits for any more takes no place in it. */
static void test_behind_redis(void **state)
{
    (void)state;
    open_waiting(4, true);
    for (int i = 0; i < 6; i++) assert_int_equal(find_one(i), OP_PENDING);
    identity_cancel(&calls[5].call);
    deliver();
    assert_int_equal(fake_fetch_open(t.fetch), 4);
    assert_int_equal(waiting(), 1);
    while (fake_fetch_open(t.fetch)) answer();
    for (int i = 0; i < 6; i++) {
        assert_int_equal(calls[i].told, i < 5);
        drop(&calls[i]);
    }
}

static void end_all(struct identity_call *c)
{
    (void)c;
    if (t.ids) identities_destroy(t.ids);
    t.ids = NULL;
}

static void test_end(void **state)
{
    (void)state;
    open_waiting(4, false);
    for (int i = 0; i < N; i++) find_one(i);
    identities_destroy(t.ids);
    t.ids = NULL;
    for (int i = 0; i < N; i++) assert_int_equal(calls[i].call.reason, REASON_SHUTTING_DOWN);
    open_waiting(4, false);
    for (int i = 0; i < N; i++) find_one(i);
    calls[5].call.on_done = end_all;
    for (int i = 0; i < 2; i++) fake_fetch_fail(fake_fetch_oldest(t.fetch), FETCH_UNREACHABLE);
    assert_null(t.ids);
    assert_int_equal(fake_fetch_open(t.fetch), 0);
    for (int i = 0; i < N; i++) drop(&calls[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_in_order),      TEST(test_time),         TEST(test_our_own_queue_opens_no_breaker),
        TEST(test_leavers),
        TEST(test_the_api_fails), TEST(test_behind_redis), TEST(test_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
