/* Contexts: what opens the profile API's breaker and what does not, and what is refused while it rests. */
#include "identify.h"

#define RESTS_MS 1000

static void open_breaking(bool redis)
{
    struct identity_config c = base_config();
    c.breaker = (struct breaker_rules){.failures = 3, .rest_ms = RESTS_MS, .max_rest_ms = 8000};
    if (t.ids) identities_destroy(t.ids);
    open_with(c, redis);
}

static struct token nobody(void)
{
    static char names[64][16];
    static unsigned serial;
    char *name = names[serial % 64];
    snprintf(name, sizeof names[0], "u%u", serial++);
    return token_of("iss", name, name);
}

static void end_call(enum fetch_outcome o, int status)
{
    struct fetch_call *f = fake_fetch_oldest(t.fetch);
    if (o == FETCH_ANSWERED)
        fake_fetch_answer(f, status, status == 200 ? "{\"name\":1" : "");
    else
        fake_fetch_fail(f, o);
}

/* True: the API was asked. */
static bool ask_for(const struct token *k, enum fetch_outcome o, int status)
{
    struct call c;
    if (find(&c, k, "Bearer x") == OP_DONE) {
        assert_null(c.call.user);
        assert_int_equal(c.call.reason, REASON_CONTEXT_UNAVAILABLE);
        assert_string_equal(c.call.detail, "resting after failures");
        return false;
    }
    end_call(o, status);
    assert_int_equal(c.told, 1);
    drop(&c);
    return true;
}

static bool ask_one(enum fetch_outcome o, int status)
{
    struct token k = nobody();
    return ask_for(&k, o, status);
}

static double state_shown(void)
{
    struct slice label = SLICE("context");
    return metric_value(METRIC_BREAKER, &label);
}

static void test_what_opens_it(void **state)
{
    (void)state;
    static const struct {
        enum fetch_outcome outcome;
        int status;
        bool opens;
    } rows[] = {
        {FETCH_UNREACHABLE, 0, true},   {FETCH_TIMEOUT, 0, true},       {FETCH_BROKEN, 0, true},
        {FETCH_ANSWERED, 500, true},    {FETCH_ANSWERED, 503, true},    {FETCH_TOO_LARGE, 0, false},
        {FETCH_ANSWERED, 200, false},   {FETCH_ANSWERED, 302, false},   {FETCH_ANSWERED, 401, false},
        {FETCH_ANSWERED, 403, false},   {FETCH_ANSWERED, 404, false},   {FETCH_ANSWERED, 429, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        open_breaking(false);
        for (int n = 0; n < 3; n++) assert_true(ask_one(rows[i].outcome, rows[i].status));
        bool open = !ask_one(rows[i].outcome, rows[i].status);
        if (open != rows[i].opens) fail_msg("row %zu", i);
        assert_int_equal(state_shown(), open ? 2 : 0);
    }
}

/* One profile at which the API fails, asked for again and again, is not the API. */
static void test_one_bad_profile_takes_nothing_away(void **state)
{
    (void)state;
    struct token bad = nobody();
    open_breaking(false);
    for (int n = 0; n < 50; n++) assert_true(ask_for(&bad, FETCH_ANSWERED, 500));
    assert_int_equal(state_shown(), 0);
    /* nor does it take the trial from the others */
    for (int n = 0; n < 3; n++) ask_one(FETCH_TIMEOUT, 0);
    assert_int_equal(state_shown(), 2);
    loop_advance(t.loop, RESTS_MS * 6 / 5);
    assert_true(ask_for(&bad, FETCH_ANSWERED, 500));
    assert_int_equal(state_shown(), 1);
    assert_true(ask_one(FETCH_ANSWERED, 404));
    assert_int_equal(state_shown(), 0);
}

/* Nor are credentials that anybody can make up, each another one. */
static void test_made_up_credentials_take_nothing_away(void **state)
{
    (void)state;
    open_breaking(false);
    for (char n = 'A'; n <= 'Z'; n++) {
        const char digest[] = {'m', 'a', 'd', 'e', ' ', n, '\0'};
        struct token k = token_of(NULL, NULL, digest);
        assert_true(ask_for(&k, FETCH_ANSWERED, 500));
    }
    assert_int_equal(state_shown(), 0);
    for (int n = 0; n < 3; n++) { /* that it is not there is news from whomever */
        struct token k = token_of(NULL, NULL, n == 0 ? "a" : n == 1 ? "b" : "c");
        assert_true(ask_for(&k, FETCH_UNREACHABLE, 0));
    }
    assert_int_equal(state_shown(), 2);
}

static void test_rests_and_recovers(void **state)
{
    (void)state;
    struct call c;
    struct token k = nobody(), known = nobody();
    open_breaking(false);
    assert_int_equal(find(&c, &known, "Bearer x"), OP_PENDING);
    fake_fetch_answer(fake_fetch_oldest(t.fetch), 200, "{\"name\":\"x\"}");
    drop(&c);
    for (int n = 0; n < 3; n++) ask_one(FETCH_TIMEOUT, 0);
    size_t asked = fake_fetch_started(t.fetch);
    for (int n = 0; n < 100; n++) {
        assert_int_equal(find(&c, &k, "Bearer x"), OP_DONE);
        assert_in_range(c.call.retry_ms, RESTS_MS * 4 / 5 - 100, RESTS_MS * 6 / 5);
    }
    assert_int_equal(fake_fetch_started(t.fetch), asked);
    assert_int_equal(find(&c, &known, "Bearer x"), OP_DONE); /* what is known is no question */
    assert_non_null(c.call.user);
    drop(&c);
    loop_advance(t.loop, RESTS_MS * 6 / 5);
    assert_int_equal(find(&c, &k, "Bearer x"), OP_PENDING);
    assert_false(ask_one(FETCH_TIMEOUT, 0));
    fake_fetch_answer(fake_fetch_oldest(t.fetch), 200, "{\"name\":\"x\"}");
    assert_non_null(c.call.user);
    drop(&c);
    assert_int_equal(state_shown(), 0);
}

/* Redis is asked all the same; only the API rests. */
static void test_redis_does_not_rest_with_it(void **state)
{
    (void)state;
    struct call c;
    struct token k = nobody();
    open_breaking(false);
    identities_destroy(t.ids);
    t.ids = NULL;
    open_breaking(true);
    for (int n = 0; n < 4; n++) {
        struct token one = nobody();
        assert_int_equal(find(&c, &one, "Bearer x"), OP_PENDING);
        deliver();
        if (fake_fetch_open(t.fetch)) fake_fetch_fail(fake_fetch_oldest(t.fetch), FETCH_TIMEOUT);
        assert_int_equal(c.told, 1);
    }
    assert_string_equal(c.call.detail, "resting after failures");
    assert_in_range(c.call.retry_ms, 1, RESTS_MS * 6 / 5);
    assert_int_equal(find(&c, &k, "Bearer x"), OP_PENDING);
    deliver();
    assert_int_equal(c.told, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_what_opens_it),
        TEST(test_one_bad_profile_takes_nothing_away),
        TEST(test_made_up_credentials_take_nothing_away),
        TEST(test_rests_and_recovers),
        TEST(test_redis_does_not_rest_with_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
