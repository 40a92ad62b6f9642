/* Unit tests of base/breaker: stories told step by step. */
#include "base/breaker.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "dies.h"

/* One step: at a time, ask (yes or no expected) or tell an outcome; then the state. */
struct step {
    int64_t at_ms;
    enum { YES, NO, OK, BAD } what;
    enum breaker_state then;
};

static void play(unsigned failures, int64_t rest_ms, const struct step *steps, size_t count)
{
    struct breaker b;
    breaker_init(&b, failures, rest_ms);
    for (size_t i = 0; i < count; i++) {
        switch (steps[i].what) {
        case YES:
        case NO:
            if (breaker_allows(&b, steps[i].at_ms) != (steps[i].what == YES)) fail_msg("step %zu: allows", i);
            break;
        case OK:
            breaker_success(&b);
            break;
        case BAD:
            breaker_failure(&b, steps[i].at_ms);
            break;
        }
        if (b.state != steps[i].then) fail_msg("step %zu: state is %s", i, breaker_name(b.state));
    }
}

#define PLAY(failures, rest_ms, ...) \
    do { \
        static const struct step steps[] = {__VA_ARGS__}; \
        play(failures, rest_ms, steps, sizeof(steps) / sizeof(*steps)); \
    } while (0)

#define C BREAKER_CLOSED
#define O BREAKER_OPEN
#define H BREAKER_HALF_OPEN

static void test_opens_after_failures_in_a_row(void **state)
{
    (void)state;
    PLAY(3, 1000, {0, YES, C}, {1, BAD, C}, {2, BAD, C}, {3, YES, C}, {4, BAD, O}, {5, NO, O}, {1003, NO, O});
    PLAY(1, 1000, {0, BAD, O}, {0, NO, O});
    PLAY(3, 1000, {1, BAD, C}, {2, BAD, C}, {3, OK, C}, {4, BAD, C}, {5, BAD, C}, {6, YES, C}, {7, BAD, O});
}

static void test_one_trial(void **state)
{
    (void)state;
    PLAY(1, 1000, {500, BAD, O}, {1499, NO, O}, {1500, YES, H}, {1500, NO, H}, {9999, NO, H}, {9999, OK, C},
         {9999, YES, C}, {9999, YES, C});
    PLAY(2, 1000, {0, BAD, C}, {0, BAD, O}, {1000, YES, H}, {1200, BAD, O}, {2199, NO, O}, {2200, YES, H},
         {2201, OK, C}, {2202, BAD, C}, {2203, BAD, O});
}

/* Calls that were out when it opened end later: that neither closes it nor makes the rest longer. */
static void test_late_news(void **state)
{
    (void)state;
    PLAY(1, 1000, {0, BAD, O}, {900, BAD, O}, {950, OK, O}, {999, NO, O}, {1000, YES, H}, {1001, OK, C});
}

static void test_no_rest(void **state)
{
    (void)state;
    PLAY(1, 0, {5, BAD, O}, {5, YES, H}, {5, NO, H});
}

static void init_without_threshold(void *arg)
{
    breaker_init(arg, 0, 1000);
}

static void test_names_and_refusal(void **state)
{
    struct breaker b;
    (void)state;
    assert_string_equal(breaker_name(BREAKER_CLOSED), "closed");
    assert_string_equal(breaker_name(BREAKER_OPEN), "open");
    assert_string_equal(breaker_name(BREAKER_HALF_OPEN), "half_open");
    assert_true(dies(init_without_threshold, &b));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_opens_after_failures_in_a_row),
        cmocka_unit_test(test_one_trial),
        cmocka_unit_test(test_late_news),
        cmocka_unit_test(test_no_rest),
        cmocka_unit_test(test_names_and_refusal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
