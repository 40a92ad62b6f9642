/* Unit tests of base/dependency: caps, the breaker between them, and what metrics and log say. */
#include "base/dependency.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/log.h"
#include "base/metric.h"
#include "dies.h"

static const struct breaker_rules two = {.failures = 2, .rest_ms = 1000, .max_rest_ms = 1000};
static const struct slice name = {"engine", 6};

static int set_up(void **state)
{
    (void)state;
    metric_init("t_");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    metric_finish();
    return 0;
}

static double refused(const char *kind)
{
    return metric_value(METRIC_DEPENDENCY_FAILURES, (struct slice[]){name, slice_str(kind)});
}

static enum dependency_word begin(struct dependency *d, struct dependency_cap *cap, int64_t now,
                                  struct dependency_call *c)
{
    return dependency_begin(d, cap, true, now, c);
}

static void call(struct dependency *d, struct dependency_cap *cap, enum dependency_outcome o, int64_t now)
{
    struct dependency_call c;
    assert_int_equal(begin(d, cap, now, &c), DEPENDENCY_GO);
    dependency_end(d, &c, o, now);
}

static void test_caps(void **state)
{
    struct dependency d;
    struct dependency_cap many = {.most = 2}, few = {.most = 1}, none = {0};
    struct dependency_call a, b, c;
    (void)state;
    dependency_init(&d, name, &two);
    assert_int_equal(begin(&d, &many, 0, &a), DEPENDENCY_GO);
    assert_int_equal(begin(&d, &many, 0, &b), DEPENDENCY_GO);
    assert_int_equal(begin(&d, &many, 0, &c), DEPENDENCY_FULL);
    assert_int_equal(begin(&d, &none, 0, &c), DEPENDENCY_FULL);
    assert_int_equal(refused("overloaded"), 2);
    assert_int_equal(begin(&d, &few, 0, &c), DEPENDENCY_GO); /* a cap of its own */
    assert_int_equal(metric_value(METRIC_INFLIGHT, &name), 3);
    dependency_end(&d, &a, DEPENDENCY_ANSWERED, 0);
    assert_int_equal(begin(&d, &many, 0, &a), DEPENDENCY_GO);
    dependency_end(&d, &a, DEPENDENCY_ANSWERED, 0);
    dependency_end(&d, &b, DEPENDENCY_ANSWERED, 0);
    dependency_end(&d, &c, DEPENDENCY_ANSWERED, 0);
    assert_int_equal(metric_value(METRIC_INFLIGHT, &name), 0);
    assert_int_equal(many.out + few.out + none.out, 0);
}

/* However often it is refused for the cap, that says nothing about the dependency. */
static void test_own_refusals_do_not_count(void **state)
{
    struct dependency d;
    struct dependency_cap cap = {.most = 1};
    struct dependency_call a, b;
    (void)state;
    dependency_init(&d, name, &two);
    call(&d, &cap, DEPENDENCY_FAILED, 0);
    assert_int_equal(begin(&d, &cap, 0, &a), DEPENDENCY_GO);
    for (int i = 0; i < 100; i++) assert_int_equal(begin(&d, &cap, 0, &b), DEPENDENCY_FULL);
    dependency_end(&d, &a, DEPENDENCY_UNKNOWN, 0);
    assert_int_equal(d.breaker.state, BREAKER_CLOSED);
    /* nor is it the trial that never ends */
    call(&d, &cap, DEPENDENCY_FAILED, 0);
    assert_int_equal(d.breaker.state, BREAKER_OPEN);
    cap.most = 0;
    assert_int_equal(begin(&d, &cap, 2000, &a), DEPENDENCY_FULL);
    cap.most = 1;
    call(&d, &cap, DEPENDENCY_ANSWERED, 2000);
    assert_int_equal(d.breaker.state, BREAKER_CLOSED);
}

static void test_rests(void **state)
{
    struct dependency d;
    struct dependency_cap cap = {.most = 9};
    struct dependency_call a, b;
    (void)state;
    dependency_init(&d, name, &two);
    assert_int_equal(metric_value(METRIC_BREAKER, &name), 0);
    call(&d, &cap, DEPENDENCY_FAILED, 0);
    call(&d, &cap, DEPENDENCY_FAILED, 0);
    assert_int_equal(metric_value(METRIC_BREAKER, &name), 2);
    assert_int_equal(metric_value(METRIC_BREAKER_OPENED, &name), 1);
    assert_in_range(dependency_rest_ms(&d, 0), 800, 1000);
    assert_int_equal(begin(&d, &cap, 10, &a), DEPENDENCY_RESTS);
    assert_int_equal(refused("resting"), 1);
    assert_int_equal(begin(&d, &cap, 1000, &a), DEPENDENCY_GO);
    assert_int_equal(metric_value(METRIC_BREAKER, &name), 1);
    assert_int_equal(begin(&d, &cap, 1000, &b), DEPENDENCY_RESTS);
    dependency_end(&d, &a, DEPENDENCY_UNKNOWN, 1001); /* given back */
    assert_int_equal(begin(&d, &cap, 1001, &a), DEPENDENCY_GO);
    dependency_end(&d, &a, DEPENDENCY_FAILED, 1001);
    assert_int_equal(metric_value(METRIC_BREAKER_OPENED, &name), 2);
    call(&d, &cap, DEPENDENCY_ANSWERED, 2001);
    assert_int_equal(metric_value(METRIC_BREAKER, &name), 0);
    assert_int_equal(dependency_rest_ms(&d, 2001), 0);
}

/* Calls without a say: they neither open nor close it, take nobody's trial, and are refused with the others. */
static void test_calls_without_a_say(void **state)
{
    struct dependency d;
    struct dependency_cap cap = {.most = 9};
    struct dependency_call a, b;
    (void)state;
    dependency_init(&d, name, &two);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(dependency_begin(&d, &cap, false, 0, &a), DEPENDENCY_GO);
        dependency_end(&d, &a, DEPENDENCY_FAILED, 0);
    }
    assert_int_equal(d.breaker.state, BREAKER_CLOSED);
    call(&d, &cap, DEPENDENCY_FAILED, 0);
    call(&d, &cap, DEPENDENCY_FAILED, 0);
    assert_int_equal(dependency_begin(&d, &cap, false, 500, &a), DEPENDENCY_RESTS);
    assert_int_equal(dependency_begin(&d, &cap, false, 1000, &a), DEPENDENCY_GO); /* the rest is over */
    assert_int_equal(d.breaker.state, BREAKER_OPEN);
    assert_int_equal(begin(&d, &cap, 1000, &b), DEPENDENCY_GO);
    dependency_end(&d, &a, DEPENDENCY_ANSWERED, 1000);
    assert_int_equal(d.breaker.state, BREAKER_HALF_OPEN);
    assert_int_equal(dependency_begin(&d, &cap, false, 1000, &a), DEPENDENCY_RESTS);
    dependency_end(&d, &b, DEPENDENCY_ANSWERED, 1000);
    assert_int_equal(d.breaker.state, BREAKER_CLOSED);
}

static double waiting(void)
{
    return metric_value(METRIC_DEPENDENCY_WAITING, &name);
}

static enum dependency_word queue(struct dependency *d, struct dependency_cap *cap, struct dependency_call *c)
{
    enum dependency_word word = dependency_begin_or_wait(d, cap, true, 0, c);
    if (word == DEPENDENCY_WAITS) dependency_wait(d, cap, c);
    return word;
}

static void test_turns(void **state)
{
    struct dependency d;
    struct dependency_cap cap = {.most = 1, .most_waiting = 3};
    struct dependency_call out, c[3], more;
    enum dependency_word word;
    (void)state;
    dependency_init(&d, name, &two);
    assert_int_equal(queue(&d, &cap, &out), DEPENDENCY_GO);
    for (int i = 0; i < 3; i++) assert_int_equal(queue(&d, &cap, &c[i]), DEPENDENCY_WAITS);
    assert_int_equal(waiting(), 3);
    assert_int_equal(queue(&d, &cap, &more), DEPENDENCY_FULL);
    assert_int_equal(refused("overloaded"), 1);
    assert_null(dependency_turn(&d, &cap, 0, &word));
    dependency_leave(&d, &c[0], false); /* its place is free */
    dependency_leave(&d, &c[0], false);
    assert_int_equal(queue(&d, &cap, &c[0]), DEPENDENCY_WAITS);
    dependency_end(&d, &out, DEPENDENCY_ANSWERED, 0);
    assert_int_equal(begin(&d, &cap, 0, &more), DEPENDENCY_FULL); /* nobody overtakes those who wait */
    static const int order[] = {1, 2, 0};
    for (int i = 0; i < 3; i++) {
        assert_ptr_equal(dependency_turn(&d, &cap, 0, &word), &c[order[i]]);
        assert_int_equal(word, DEPENDENCY_GO);
        assert_null(dependency_turn(&d, &cap, 0, &word));
        dependency_end(&d, &c[order[i]], DEPENDENCY_ANSWERED, 0);
    }
    assert_null(dependency_turn(&d, &cap, 0, &word));
    assert_int_equal(waiting() + cap.out + cap.waiting, 0);
}

/* Once the breaker opens, those who wait are refused with all others. */
static void test_whoever_waits_rests_too(void **state)
{
    struct dependency d;
    struct dependency_cap cap = {.most = 2, .most_waiting = 9};
    struct dependency_call out[2], c[2];
    enum dependency_word word;
    (void)state;
    dependency_init(&d, name, &two);
    for (int i = 0; i < 2; i++) assert_int_equal(queue(&d, &cap, &out[i]), DEPENDENCY_GO);
    for (int i = 0; i < 2; i++) assert_int_equal(queue(&d, &cap, &c[i]), DEPENDENCY_WAITS);
    dependency_end(&d, &out[0], DEPENDENCY_FAILED, 0);
    dependency_end(&d, &out[1], DEPENDENCY_FAILED, 0);
    for (int i = 0; i < 2; i++) {
        assert_ptr_equal(dependency_turn(&d, &cap, 0, &word), &c[i]);
        assert_int_equal(word, DEPENDENCY_RESTS);
    }
    assert_null(dependency_turn(&d, &cap, 0, &word));
    assert_int_equal(refused("resting"), 2);
    assert_int_equal(cap.out, 0);
}

static void test_waited_in_vain(void **state)
{
    struct dependency d;
    struct dependency_cap cap = {.most = 1, .most_waiting = 1};
    struct dependency_call out, c;
    (void)state;
    dependency_init(&d, name, &two);
    queue(&d, &cap, &out);
    queue(&d, &cap, &c);
    dependency_leave(&d, &c, true);
    assert_int_equal(refused("overloaded"), 1);
    assert_int_equal(waiting(), 0);
    dependency_end(&d, &out, DEPENDENCY_ANSWERED, 0);
}

static void test_the_log_tells_each_change(void **state)
{
    struct dependency d;
    struct dependency_cap cap = {.most = 9};
    char text[4096];
    (void)state;
    FILE *file = tmpfile();
    assert_non_null(file);
    log_open(fileno(file), LOG_INFO);
    dependency_init(&d, name, &two);
    call(&d, &cap, DEPENDENCY_FAILED, 0);
    call(&d, &cap, DEPENDENCY_FAILED, 0);
    call(&d, &cap, DEPENDENCY_ANSWERED, 5000);
    dependency_show(SLICE("fresh"), &(struct breaker){0}, BREAKER_OPEN); /* made anew: nothing made it so */
    log_close();
    ssize_t n = pread(fileno(file), text, sizeof text - 1, 0);
    assert_true(n > 0);
    text[n] = '\0';
    fclose(file);
    static const char *const lines[4] = {
        "\"event\":\"breaker\",\"dependency\":\"engine\",\"state\":\"open\",\"why\":\"failures in a row\"",
        "\"event\":\"breaker\",\"dependency\":\"engine\",\"state\":\"half_open\",\"why\":\"the rest is over\"",
        "\"event\":\"breaker\",\"dependency\":\"engine\",\"state\":\"closed\",\"why\":\"the trial succeeded\"",
        "\"event\":\"breaker\",\"dependency\":\"fresh\",\"state\":\"closed\"}"};
    const char *at = text;
    for (size_t i = 0; i < 4; i++) {
        at = strstr(at, lines[i]);
        if (!at) fail_msg("no line %zu in %s", i, text);
    }
    assert_null(strstr(at + strlen(lines[3]), "\"breaker\""));
}

static void end_twice(void *arg)
{
    struct dependency_cap cap = {.most = 1};
    struct dependency_call c;
    dependency_begin(arg, &cap, true, 0, &c);
    dependency_end(arg, &c, DEPENDENCY_ANSWERED, 0);
    dependency_end(arg, &c, DEPENDENCY_ANSWERED, 0);
}

static void test_a_call_ends_once(void **state)
{
    struct dependency d;
    (void)state;
    dependency_init(&d, name, &two);
    assert_true(dies(end_twice, &d));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_turns),
        TEST(test_whoever_waits_rests_too),
        TEST(test_waited_in_vain),
        TEST(test_caps),
        TEST(test_own_refusals_do_not_count),
        TEST(test_rests),
        TEST(test_calls_without_a_say),
        TEST(test_the_log_tells_each_change),
        TEST(test_a_call_ends_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
