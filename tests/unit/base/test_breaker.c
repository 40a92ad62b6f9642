/* Unit tests of base/breaker: stories told step by step, and random ones that must keep what the header promises. */
#include "base/breaker.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/chance.h"
#include "dies.h"

/* One step: at a time, ask (yes or no expected), or tell what became of the call that asked `who` questions ago; then
   the state. */
struct step {
    int64_t at_ms;
    enum { YES, NO, OK, BAD, GIVE_UP } what;
    enum breaker_state then;
    size_t who; /* 0: the last that was let through */
};

static void tell(struct breaker *b, const struct step *s, uint32_t ticket, double fraction)
{
    if (s->what == OK)
        breaker_success(b, ticket, s->at_ms);
    else if (s->what == BAD)
        breaker_failure(b, ticket, s->at_ms, fraction);
    else
        breaker_abandon(b, ticket);
}

static void play(const struct breaker_rules *rules, const struct step *steps, size_t count)
{
    struct breaker b;
    uint32_t tickets[64] = {0};
    size_t n = 1;
    breaker_init(&b, rules);
    assert_null(b.why);
    for (size_t i = 0; i < count; i++) {
        const struct step *s = &steps[i];
        if (s->what == YES || s->what == NO) {
            if (breaker_allows(&b, s->at_ms, &tickets[n]) != (s->what == YES)) fail_msg("step %zu: allows", i);
            n += s->what == YES;
        } else {
            assert_true(s->who < n);
            tell(&b, s, tickets[n - 1 - s->who], 0.5);
        }
        if (b.state != s->then) fail_msg("step %zu: state is %s", i, breaker_name(b.state));
    }
}

#define RUN(rules, ...) \
    do { \
        static const struct step steps[] = {__VA_ARGS__}; \
        play(&rules, steps, sizeof steps / sizeof *steps); \
    } while (0)

#define C BREAKER_CLOSED
#define O BREAKER_OPEN
#define H BREAKER_HALF_OPEN

static const struct breaker_rules three = {.failures = 3, .rest_ms = 1000, .max_rest_ms = 8000};
static const struct breaker_rules one = {.failures = 1, .rest_ms = 1000, .max_rest_ms = 8000};
static const struct breaker_rules half = {
    .failures = 1000, .ratio = 0.5, .volume = 4, .window_ms = 10000, .rest_ms = 1000, .max_rest_ms = 8000};

static void test_opens_after_failures_in_a_row(void **state)
{
    (void)state;
    RUN(three, {0, YES, C, 0}, {1, BAD, C, 0}, {2, BAD, C, 0}, {3, YES, C, 0}, {4, BAD, O, 0}, {5, NO, O, 0},
        {1003, NO, O, 0}, {1004, YES, H, 0});
    RUN(one, {0, BAD, O, 0}, {0, NO, O, 0});
    RUN(three, {0, YES, C, 0}, {1, BAD, C, 0}, {2, BAD, C, 0}, {3, OK, C, 0}, {3, YES, C, 0}, {4, BAD, C, 0},
        {5, BAD, C, 0}, {6, YES, C, 0}, {7, BAD, O, 0});
}

/* Who makes many calls that end badly at the same time does not open it as long as others are answered; failures of calls
   that began behind the last answer do. */
static void test_failures_that_began_before_a_success_are_in_no_row(void **state)
{
    (void)state;
    RUN(three, {0, YES, C, 0}, {0, YES, C, 0}, {0, YES, C, 0}, {0, YES, C, 0}, {1, YES, C, 0}, {2, OK, C, 0},
        {9, BAD, C, 1}, {9, BAD, C, 2}, {9, BAD, C, 3}, {9, BAD, C, 4}, {10, YES, C, 0}, {11, BAD, C, 0},
        {12, YES, C, 0}, {13, BAD, C, 0}, {14, YES, C, 0}, {15, BAD, O, 0});
    /* as a part of the calls they count */
    RUN(half, {0, YES, C, 0}, {0, YES, C, 0}, {0, YES, C, 0}, {0, YES, C, 0}, {1, OK, C, 0}, {2, BAD, C, 1},
        {2, BAD, C, 2}, {2, BAD, O, 3});
}

/* One that says nothing keeps the trial for as long as the rest, not for ever. */
static void test_a_trial_without_an_outcome_keeps_nobody_waiting(void **state)
{
    (void)state;
    RUN(one, {0, YES, C, 0}, {0, BAD, O, 0}, {1000, YES, H, 0}, {1999, NO, H, 0}, {2000, YES, H, 0}, {2000, NO, H, 0},
        {2001, OK, C, 0}, {2002, BAD, C, 1});
    RUN(one, {0, YES, C, 0}, {0, BAD, O, 0}, {1000, YES, H, 0}, {2000, YES, H, 0}, {2001, BAD, O, 1}, {2002, OK, O, 0});
    /* given back by the first: the second has it still */
    RUN(one, {0, YES, C, 0}, {0, BAD, O, 0}, {1000, YES, H, 0}, {2000, YES, H, 0}, {2001, GIVE_UP, H, 1},
        {2002, NO, H, 0}, {2003, OK, C, 0});
    RUN(one, {0, YES, C, 0}, {0, BAD, O, 0}, {1000, YES, H, 0}, {2000, YES, H, 0}, {2001, GIVE_UP, H, 1},
        {2002, GIVE_UP, H, 0}, {2002, YES, H, 0});
}

static void test_one_trial(void **state)
{
    (void)state;
    RUN(one, {0, YES, C, 0}, {500, BAD, O, 0}, {1499, NO, O, 0}, {1500, YES, H, 0}, {1500, NO, H, 0}, {2499, NO, H, 0},
        {99999, OK, C, 0}, {99999, YES, C, 0}, {99999, YES, C, 0});
}

/* 1, 2, 4, 8 and never more than 8 seconds; once it is well it starts with one again. */
static void test_the_rest_doubles(void **state)
{
    (void)state;
    RUN(one, {0, YES, C, 0}, {0, BAD, O, 0}, {1000, YES, H, 0}, {1000, BAD, O, 0}, {2999, NO, O, 0}, {3000, YES, H, 0},
        {3000, BAD, O, 0}, {6999, NO, O, 0}, {7000, YES, H, 0}, {7000, BAD, O, 0}, {14999, NO, O, 0},
        {15000, YES, H, 0}, {15000, BAD, O, 0}, {22999, NO, O, 0}, {23000, YES, H, 0}, {23001, OK, C, 0},
        {23002, YES, C, 0}, {23002, BAD, O, 0}, {24001, NO, O, 0}, {24002, YES, H, 0});
}

/* Calls that were out when it opened end later: that neither closes it, nor makes the rest longer, nor counts as the
   outcome of the trial. */
static void test_late_news(void **state)
{
    (void)state;
    RUN(one, {0, YES, C, 0}, {0, YES, C, 0}, {0, YES, C, 0}, {1, BAD, O, 0}, {900, BAD, O, 1}, {950, OK, O, 2},
        {1000, NO, O, 0}, {1001, YES, H, 0}, {1002, OK, H, 1}, {1002, BAD, H, 2}, {1002, NO, H, 0}, {1003, OK, C, 0},
        {1004, BAD, C, 1}, {1004, BAD, C, 0});
}

/* A trial whose caller went away is given back, once; what it says later is late. */
static void test_a_trial_is_given_back(void **state)
{
    (void)state;
    RUN(one, {0, YES, C, 0}, {0, BAD, O, 0}, {1000, YES, H, 0}, {1001, GIVE_UP, H, 0}, {1002, OK, H, 0},
        {1002, BAD, H, 0}, {1003, YES, H, 0}, {1004, GIVE_UP, H, 1}, {1005, NO, H, 0}, {1006, OK, C, 0});
    RUN(one, {0, YES, C, 0}, {0, GIVE_UP, C, 0}, {1, YES, C, 0}, {2, BAD, O, 0}, {3, GIVE_UP, O, 0}, {4, NO, O, 0});
}

static void test_opens_by_part_of_the_calls(void **state)
{
    (void)state;
    /* fewer than the volume says nothing */
    RUN(half, {0, YES, C, 0}, {0, BAD, C, 0}, {0, BAD, C, 0}, {0, BAD, C, 0}, {0, BAD, O, 0});
    /* half of four; a success never opens it */
    RUN(half, {0, YES, C, 0}, {0, BAD, C, 0}, {0, BAD, C, 0}, {0, OK, C, 0}, {0, OK, C, 0}, {0, BAD, O, 0});
    RUN(half, {0, YES, C, 0}, {0, OK, C, 0}, {0, BAD, C, 0}, {0, OK, C, 0}, {0, BAD, O, 0});
    RUN(half, {0, YES, C, 0}, {0, OK, C, 0}, {0, OK, C, 0}, {0, OK, C, 0}, {0, BAD, C, 0}, {0, BAD, C, 0},
        {0, BAD, O, 0});
    /* a third is not half */
    RUN(half, {0, YES, C, 0}, {0, OK, C, 0}, {0, OK, C, 0}, {0, BAD, C, 0}, {0, OK, C, 0}, {0, OK, C, 0}, {0, BAD, C, 0},
        {0, OK, C, 0}, {0, OK, C, 0}, {0, BAD, C, 0});
}

static void test_what_is_old_is_forgotten(void **state)
{
    (void)state;
    RUN(half, {0, YES, C, 0}, {0, BAD, C, 0}, {0, BAD, C, 0}, {0, BAD, C, 0}, {5000, OK, C, 0}, {9999, BAD, O, 0});
    RUN(half, {0, YES, C, 0}, {0, BAD, C, 0}, {0, BAD, C, 0}, {0, BAD, C, 0}, {5000, OK, C, 0}, {10000, BAD, C, 0});
    RUN(half, {0, YES, C, 0}, {0, BAD, C, 0}, {0, BAD, C, 0}, {0, BAD, C, 0}, {10000, BAD, C, 0});
    /* good times before do not hide bad ones now */
    RUN(half, {0, YES, C, 0}, {0, OK, C, 0}, {0, OK, C, 0}, {0, OK, C, 0}, {0, OK, C, 0}, {12000, BAD, C, 0},
        {12000, BAD, C, 0}, {12000, BAD, C, 0}, {12000, BAD, O, 0});
    /* what was counted before it opened is nothing to it afterwards */
    RUN(half, {0, YES, C, 0}, {0, BAD, C, 0}, {0, BAD, C, 0}, {0, BAD, C, 0}, {0, BAD, O, 0}, {1000, YES, H, 0},
        {1000, OK, C, 0}, {1000, YES, C, 0}, {1000, BAD, C, 0}, {1000, BAD, C, 0}, {1000, BAD, C, 0}, {1000, BAD, O, 0});
}

static void test_no_rest(void **state)
{
    static const struct breaker_rules none = {.failures = 1};
    (void)state;
    RUN(none, {5, YES, C, 0}, {5, BAD, O, 0}, {5, YES, H, 0}, {5, NO, H, 0});
}

static void test_chance_moves_the_rest_by_a_fifth(void **state)
{
    static const struct {
        double fraction;
        int64_t rest_ms;
    } table[] = {{0, 800}, {0.25, 900}, {0.5, 1000}, {1, 1200}};
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct breaker b;
        uint32_t t;
        breaker_init(&b, &one);
        assert_true(breaker_allows(&b, 10, &t));
        assert_int_equal(breaker_rest_ms(&b, 10), 0);
        breaker_failure(&b, t, 10, table[i].fraction);
        assert_int_equal(breaker_rest_ms(&b, 10), table[i].rest_ms);
        assert_int_equal(breaker_rest_ms(&b, 110), table[i].rest_ms - 100);
        assert_int_equal(breaker_rest_ms(&b, 5000), 0);
    }
}

static void test_why(void **state)
{
    struct breaker b;
    uint32_t t;
    (void)state;
    breaker_init(&b, &one);
    breaker_allows(&b, 0, &t);
    breaker_failure(&b, t, 0, 0);
    assert_string_equal(b.why, "failures in a row");
    breaker_allows(&b, 1000, &t);
    assert_string_equal(b.why, "the rest is over");
    breaker_failure(&b, t, 1000, 0);
    assert_string_equal(b.why, "the trial failed");
    breaker_allows(&b, 9000, &t);
    breaker_success(&b, t, 9000);
    assert_string_equal(b.why, "the trial succeeded");
    breaker_init(&b, &half);
    breaker_allows(&b, 0, &t);
    for (int i = 0; i < 4; i++) breaker_failure(&b, t, 0, 0);
    assert_string_equal(b.why, "too many of the calls failed");
}

/* --- random stories ----------------------------------------------------------------------------------------------- */

struct call {
    uint32_t ticket;
    bool trial;
};

#define CALLS_MAX 40

struct story {
    struct breaker b;
    struct call out[CALLS_MAX];
    size_t n;
    int trials_out;
    int64_t now_ms, trial_ms;
};

static size_t any_of(size_t n)
{
    return (size_t)(chance_fraction() * (double)n);
}

static void ask(struct story *s)
{
    enum breaker_state before = s->b.state;
    int64_t until_ms = s->b.until_ms;
    uint32_t ticket = 0;
    bool expected = breaker_would_allow(&s->b, s->now_ms);
    bool allowed = breaker_allows(&s->b, s->now_ms, &ticket);
    assert_int_equal(allowed, expected);
    if (before == BREAKER_CLOSED) assert_true(allowed);
    if (before == BREAKER_OPEN) assert_int_equal(allowed, s->now_ms >= until_ms);
    /* the trial is lent to one, always when none has it, and to one more when the last is long in coming */
    bool long_out = s->now_ms - s->trial_ms >= s->b.rules.rest_ms;
    if (before == BREAKER_HALF_OPEN) assert_int_equal(allowed, s->trials_out == 0 || long_out);
    if (!allowed) return;
    bool trial = s->b.state == BREAKER_HALF_OPEN;
    if (trial) s->trial_ms = s->now_ms;
    s->trials_out += trial;
    s->out[s->n++] = (struct call){ticket, trial};
}

static void tell_one(struct story *s)
{
    size_t i = any_of(s->n);
    struct call c = s->out[i];
    struct breaker before = s->b;
    double kind = chance_fraction();
    s->out[i] = s->out[--s->n];
    if (kind < 0.1)
        breaker_abandon(&s->b, c.ticket);
    else if (kind < 0.5)
        breaker_success(&s->b, c.ticket, s->now_ms);
    else
        breaker_failure(&s->b, c.ticket, s->now_ms, chance_fraction());
    /* late news of whatever kind changes nothing at all */
    bool late = c.ticket < before.changed;
    if (late) assert_memory_equal(&before, &s->b, sizeof before);
    if (c.trial && !late) s->trials_out--;
    if (s->b.state != before.state) s->trials_out = 0; /* those that are out are late now */
    if (before.state == BREAKER_OPEN) assert_int_equal(s->b.state, BREAKER_OPEN);
    if (before.state != BREAKER_OPEN && s->b.state == BREAKER_OPEN) {
        int64_t rest = s->b.until_ms - s->now_ms;
        assert_in_range(rest, s->b.rules.rest_ms * 4 / 5, s->b.rules.max_rest_ms);
    }
}

static void test_random_stories(void **state)
{
    (void)state;
    for (int n = 0; n < 300; n++) {
        struct breaker_rules rules = {.failures = 1 + (unsigned)any_of(5),
                                      .ratio = chance_fraction(),
                                      .volume = (unsigned)any_of(20),
                                      .window_ms = (int64_t)any_of(2000),
                                      .rest_ms = 1 + (int64_t)any_of(1000)};
        rules.max_rest_ms = rules.rest_ms + (int64_t)any_of(5000);
        struct story s;
        memset(&s, 0, sizeof s); /* padding too: breakers are compared by bytes */
        breaker_init(&s.b, &rules);
        for (int i = 0; i < 2000; i++) {
            s.now_ms += (int64_t)any_of(40);
            if (s.n == 0 || (s.n < CALLS_MAX && chance_fraction() < 0.6))
                ask(&s);
            else
                tell_one(&s);
        }
        /* whatever happened, it comes back: all news told, the rest over, a trial that succeeds */
        while (s.n) tell_one(&s);
        s.now_ms += rules.max_rest_ms;
        uint32_t ticket;
        assert_true(breaker_allows(&s.b, s.now_ms, &ticket));
        breaker_success(&s.b, ticket, s.now_ms);
        assert_int_equal(s.b.state, BREAKER_CLOSED);
    }
}

static void init_with_a_negative_rest(void *arg)
{
    breaker_init(arg, &(struct breaker_rules){.failures = 1, .rest_ms = -1});
}

static void test_rules_that_are_off(void **state)
{
    static const struct breaker_rules off[] = {
        {0}, {.ratio = 1, .volume = 1, .window_ms = 1000}, {.volume = 1, .window_ms = 1000}};
    (void)state;
    for (size_t i = 0; i < sizeof off / sizeof *off; i++) {
        struct breaker b;
        uint32_t t;
        breaker_init(&b, &off[i]);
        for (int n = 0; n < 1000; n++) {
            assert_true(breaker_allows(&b, n, &t));
            breaker_failure(&b, t, n, 0.5);
        }
    }
}

/* Somebody knows better: the rest ends, one trial is let through; nothing else is changed by it. */
static void test_woken(void **state)
{
    (void)state;
    struct breaker b;
    uint32_t ticket;
    breaker_init(&b, &(struct breaker_rules){.failures = 1, .rest_ms = 1000, .max_rest_ms = 1000});
    breaker_wake(&b, 0);
    assert_true(breaker_allows(&b, 0, &ticket));
    breaker_failure(&b, ticket, 0, 0.5);
    assert_false(breaker_would_allow(&b, 10));
    breaker_wake(&b, 10);
    assert_true(breaker_allows(&b, 10, &ticket));
    breaker_wake(&b, 11);
    assert_false(breaker_would_allow(&b, 11)); /* the trial is out */
    breaker_success(&b, ticket, 12);
    assert_int_equal(b.state, BREAKER_CLOSED);
}

static void test_other_rules(void **state)
{
    (void)state;
    struct breaker_rules rules = {.failures = 5, .rest_ms = 100, .max_rest_ms = 100}, other = {.failures = 2, .rest_ms = 500};
    struct breaker b;
    uint32_t ticket = 0;
    breaker_init(&b, &rules);
    assert_true(breaker_allows(&b, 0, &ticket));
    breaker_failure(&b, ticket, 0, 0.5);
    breaker_adjust(&b, &other); /* what was counted stays */
    assert_true(breaker_allows(&b, 0, &ticket));
    breaker_failure(&b, ticket, 0, 0.5);
    assert_int_equal(b.state, BREAKER_OPEN);
    assert_int_equal(breaker_rest_ms(&b, 0), 500);
    breaker_adjust(&b, &rules);
    assert_int_equal(b.state, BREAKER_OPEN);
}

static void test_names_and_refusal(void **state)
{
    struct breaker b;
    (void)state;
    assert_string_equal(breaker_name(BREAKER_CLOSED), "closed");
    assert_string_equal(breaker_name(BREAKER_OPEN), "open");
    assert_string_equal(breaker_name(BREAKER_HALF_OPEN), "half_open");
    assert_true(dies(init_with_a_negative_rest, &b));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_opens_after_failures_in_a_row),
        cmocka_unit_test(test_failures_that_began_before_a_success_are_in_no_row),
        cmocka_unit_test(test_a_trial_without_an_outcome_keeps_nobody_waiting),
        cmocka_unit_test(test_one_trial),
        cmocka_unit_test(test_the_rest_doubles),
        cmocka_unit_test(test_late_news),
        cmocka_unit_test(test_a_trial_is_given_back),
        cmocka_unit_test(test_opens_by_part_of_the_calls),
        cmocka_unit_test(test_what_is_old_is_forgotten),
        cmocka_unit_test(test_no_rest),
        cmocka_unit_test(test_chance_moves_the_rest_by_a_fifth),
        cmocka_unit_test(test_why),
        cmocka_unit_test(test_random_stories),
        cmocka_unit_test(test_rules_that_are_off),
        cmocka_unit_test(test_woken),
        cmocka_unit_test(test_other_rules),
        cmocka_unit_test(test_names_and_refusal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
