/* Decisions under limits that change: what is kept stays. */
#include "decide.h"

static int freed;

static void on_gone(struct held *h)
{
    (void)h;
    freed++;
}

static void test_limits(void **state)
{
    (void)state;
    struct held first, second;
    struct call a, b;
    struct decision_question q = question(), other = question(), third = question();
    other.path = SLICE("/other");
    third.path = SLICE("/third");
    freed = 0;
    held_init(&first, on_gone);
    held_init(&second, on_gone);
    struct decisions_config c = base_config();
    c.owner = &first;
    c.authorization = SLICE("Bearer first");
    open_with(c);
    held_release(&first);
    decide(&q, "{\"result\":true}");
    c.owner = &second;
    c.authorization = SLICE("Bearer second");
    c.max_inflight = 1;
    decisions_adjust(t.d, &c);
    assert_int_equal(freed, 1);
    held_release(&second);
    assert_true(remembered(&q));
    assert_int_equal(find(&a, &other), OP_PENDING);
    assert_int_equal(find(&b, &third), OP_DONE);
    assert_int_equal(b.call.reason, REASON_POLICY_OVERLOADED);
    answer("{\"result\":true}");
    drop(&a);
    c.max_entries = 1;
    decisions_adjust(t.d, &c);
    decide(&third, "{\"result\":true}");
    assert_false(remembered(&q) || remembered(&other));
    decisions_hold(t.d);
    decisions_destroy(t.d);
    assert_int_equal(freed, 1);
    decisions_destroy(t.d);
    t.d = NULL;
    assert_int_equal(freed, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(test_limits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
