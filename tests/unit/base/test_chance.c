/* Unit tests of base/chance: within its bounds, spread, and not the same twice. */
#include "base/chance.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static void test_is_spread_within_bounds(void **state)
{
    unsigned tenths[10] = {0};
    (void)state;
    for (int i = 0; i < 10000; i++) {
        double f = chance_fraction();
        assert_true(f >= 0 && f < 1);
        tenths[(int)(f * 10)]++;
    }
    for (int i = 0; i < 10; i++) assert_in_range(tenths[i], 800, 1200);
}

static void test_differs_from_call_to_call(void **state)
{
    (void)state;
    double first = chance_fraction(), second = chance_fraction();
    assert_true(first < second || second < first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_is_spread_within_bounds),
        cmocka_unit_test(test_differs_from_call_to_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
