/* Key sets over time: fetched, refreshed, kept while the source fails, stale at last. */
#include "authz/jwks.h"

#include <unistd.h>

#include "base/log.h"
#include "base/metric.h"
#include "token_fixture.h"

struct source {
    struct fixture x;
    struct jwks *jwks;
    int settled;
    const char *keys; /* a good document */
};

static EVP_PKEY *key;

static void on_settled(void *arg)
{
    ((struct source *)arg)->settled++;
}

static void start(struct source *s, int64_t max_stale_ms)
{
    *s = (struct source){0};
    fixture_init(&s->x);
    s->keys = maker_jwks(&s->x.arena, maker_kid_jwk(&s->x.arena, key, "a"), NULL, NULL);
    s->jwks = jwks_create(s->x.loop, s->x.fetch,
                          &(struct jwks_config){.issuer = SLICE(ISSUER),
                                                .url = SLICE(JWKS_URL),
                                                .max_stale_ms = max_stale_ms,
                                                .on_settled = on_settled,
                                                .arg = s});
}

static void finish(struct source *s)
{
    jwks_destroy(s->jwks);
    fixture_finish(&s->x);
}

static struct fetch_call *open_call(struct source *s)
{
    assert_int_equal(fake_fetch_open(s->x.fetch), 1);
    return fake_fetch_oldest(s->x.fetch);
}

static int64_t until_next_fetch(struct source *s, int64_t step_ms, int64_t most_ms)
{
    int64_t passed = 0;
    while (fake_fetch_open(s->x.fetch) == 0 && passed <= most_ms) {
        fixture_pass(&s->x, step_ms);
        passed += step_ms;
    }
    return passed;
}

static void test_first_fetch(void **state)
{
    (void)state;
    struct source s;
    start(&s, 86400000);
    struct fetch_call *c = open_call(&s);
    assert_string_equal(c->method, "GET");
    assert_string_equal(c->url, JWKS_URL);
    assert_int_equal(c->timeout_ms, 5000);
    assert_int_equal(c->max_bytes, 1048576);
    assert_int_equal(c->body_n, 0);
    assert_true(jwks_never_loaded(s.jwks) && jwks_fetching(s.jwks) && !jwks_usable(s.jwks));
    assert_int_equal(jwks_age_ms(s.jwks), -1);
    fake_fetch_answer(c, 200, s.keys);
    assert_true(!jwks_never_loaded(s.jwks) && !jwks_fetching(s.jwks) && jwks_usable(s.jwks));
    assert_null(jwks_error(s.jwks));
    assert_int_equal(s.settled, 1);
    assert_int_equal(jwks_keys(s.jwks)->n, 1);
    fixture_pass(&s.x, 1500);
    assert_in_range(jwks_age_ms(s.jwks), 1500, 3000);
    finish(&s);
}

static void test_refresh_follows_cache_control(void **state)
{
    (void)state;
    static const struct {
        const char *cache_control;
        int64_t after_s;
    } rows[] = {
        {NULL, 600},
        {"", 600},
        {"public", 600},
        {"max-age=120", 120},
        {"public, max-age=120, must-revalidate", 120},
        {"Max-Age=\"120\"", 120},
        {"no-cache,max-age=0", 60},
        {"max-age=59", 60},
        {"max-age=3600", 3600},
        {"max-age=3601", 3600},
        {"max-age=9223372036854775807", 3600},
        {"max-age=99999999999999999999999", 600},
        {"max-age=-5", 600},
        {"max-age=", 600},
        {"s-maxage=120", 600},
        {"xmax-age=120", 600},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct source s;
        start(&s, 86400000);
        fake_fetch_answer_cached(open_call(&s), 200, s.keys, rows[i].cache_control);
        int64_t least_s = rows[i].after_s * 9 / 10 > 60 ? rows[i].after_s * 9 / 10 : 60; /* chance takes a tenth off */
        fixture_pass(&s.x, (least_s - 1) * 1000);
        if (fake_fetch_open(s.x.fetch)) fail_msg("too early: %s", rows[i].cache_control);
        fixture_pass(&s.x, (rows[i].after_s - least_s) * 1000 + 1100);
        if (!fake_fetch_open(s.x.fetch)) fail_msg("too late: %s", rows[i].cache_control);
        finish(&s);
    }
}

/* 0.1 s to 5 s, each wait at least half of twice the last. */
static void test_back_off(void **state)
{
    (void)state;
    struct source s;
    start(&s, 86400000);
    int64_t least = 100, most = 200;
    for (int i = 0; i < 12; i++) {
        fake_fetch_fail(open_call(&s), FETCH_UNREACHABLE);
        int64_t waited = until_next_fetch(&s, 20, 6000);
        assert_in_range(waited, least, most + 60);
        most = most * 2 > 5000 ? 5000 : most * 2;
        least = most / 2;
    }
    /* a good load starts it over */
    fake_fetch_answer(open_call(&s), 200, s.keys);
    fixture_pass(&s.x, 601000);
    fake_fetch_fail(open_call(&s), FETCH_UNREACHABLE);
    assert_in_range(until_next_fetch(&s, 20, 6000), 100, 260);
    finish(&s);
}

static void test_bad_answers_keep_the_old_keys(void **state)
{
    (void)state;
    static const struct {
        int status; /* 0: an outcome */
        const char *body;
        enum fetch_outcome outcome;
        const char *kind;
    } rows[] = {
        {500, "", FETCH_ANSWERED, "status"},
        {404, "{\"keys\":[]}", FETCH_ANSWERED, "status"},
        {302, "", FETCH_ANSWERED, "status"},
        {204, "", FETCH_ANSWERED, "status"},
        {200, "", FETCH_ANSWERED, "garbage"},
        {200, "{\"keys\":[]}", FETCH_ANSWERED, "garbage"},
        {200, "{\"keys\":[{\"kty\":\"oct\",\"k\":\"AAAA\"}]}", FETCH_ANSWERED, "garbage"},
        {200, "<html></html>", FETCH_ANSWERED, "garbage"},
        {0, NULL, FETCH_UNREACHABLE, "unreachable"},
        {0, NULL, FETCH_TIMEOUT, "timeout"},
        {0, NULL, FETCH_TOO_LARGE, "garbage"},
        {0, NULL, FETCH_BROKEN, "garbage"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct source s;
        start(&s, 86400000);
        fake_fetch_answer(open_call(&s), 200, s.keys);
        const struct jwk *before = jwks_keys(s.jwks)->keys[0];
        fixture_pass(&s.x, 601000);
        if (rows[i].status)
            fake_fetch_answer(open_call(&s), rows[i].status, rows[i].body);
        else
            fake_fetch_fail(open_call(&s), rows[i].outcome);
        assert_int_equal(s.settled, 2);
        assert_non_null(jwks_error(s.jwks));
        assert_true(jwks_usable(s.jwks));
        assert_ptr_equal(jwks_keys(s.jwks)->keys[0], before);
        assert_false(before->gone);
        const struct slice labels[] = {SLICE("issuer"), slice_str(rows[i].kind)};
        assert_int_equal((int)metric_value(METRIC_DEPENDENCY_FAILURES, labels), 1);
        until_next_fetch(&s, 50, 1000);
        fake_fetch_answer(open_call(&s), 200, s.keys);
        assert_null(jwks_error(s.jwks));
        assert_ptr_equal(jwks_keys(s.jwks)->keys[0], before);
        finish(&s);
    }
}

static void test_stale(void **state)
{
    (void)state;
    struct source s;
    start(&s, 3600000);
    fake_fetch_answer(open_call(&s), 200, s.keys);
    fixture_pass(&s.x, 601000);
    fake_fetch_fail(open_call(&s), FETCH_TIMEOUT);
    fixture_pass(&s.x, 2900000);
    assert_true(jwks_usable(s.jwks));
    fixture_pass(&s.x, 100000);
    assert_false(jwks_usable(s.jwks));
    assert_false(jwks_never_loaded(s.jwks));
    if (fake_fetch_open(s.x.fetch) == 0) until_next_fetch(&s, 50, 6000);
    fake_fetch_answer(open_call(&s), 200, s.keys);
    assert_true(jwks_usable(s.jwks));
    finish(&s);
}

/* Those that started together do not ask together for ever. */
static void test_refreshes_drift_apart(void **state)
{
    (void)state;
    int64_t least = INT64_MAX, most = 0;
    for (int i = 0; i < 20; i++) {
        struct source s;
        start(&s, 86400000);
        fake_fetch_answer(open_call(&s), 200, s.keys);
        int64_t after = until_next_fetch(&s, 1000, 601000);
        if (after < least) least = after;
        if (after > most) most = after;
        finish(&s);
    }
    assert_in_range(least, 539000, 601000);
    assert_true(most - least >= 5000);
}

/* Its back-off shows as any other breaker does. */
static void test_shown_as_a_breaker(void **state)
{
    (void)state;
    struct source s;
    struct slice name = SLICE("issuer " ISSUER);
    start(&s, 86400000);
    assert_int_equal(jwks_retry_ms(s.jwks), 0);
    assert_int_equal(metric_value(METRIC_BREAKER, &name), 0);
    assert_int_equal(metric_value(METRIC_INFLIGHT, &name), 1);
    fake_fetch_fail(open_call(&s), FETCH_TIMEOUT);
    assert_int_equal(metric_value(METRIC_BREAKER, &name), 2);
    assert_int_equal(metric_value(METRIC_INFLIGHT, &name), 0);
    assert_in_range(jwks_retry_ms(s.jwks), 50, 200);
    until_next_fetch(&s, 10, 300);
    assert_int_equal(metric_value(METRIC_BREAKER, &name), 1);
    fake_fetch_answer(open_call(&s), 500, "");
    assert_int_equal(metric_value(METRIC_BREAKER, &name), 2);
    assert_int_equal(metric_value(METRIC_BREAKER_OPENED, &name), 1);
    until_next_fetch(&s, 10, 600);
    fake_fetch_answer(open_call(&s), 200, s.keys);
    assert_int_equal(metric_value(METRIC_BREAKER, &name), 0);
    finish(&s);
}

/* A short bound on staleness asks more often: keys do not run out between two refreshes. */
static void test_refreshed_before_stale(void **state)
{
    (void)state;
    struct source s;
    start(&s, 30000);
    fake_fetch_answer_cached(open_call(&s), 200, s.keys, "max-age=3600");
    assert_in_range(until_next_fetch(&s, 500, 30000), 14500, 16000);
    assert_true(jwks_usable(s.jwks));
    finish(&s);
}

static void test_refetch_once_in_30_s(void **state)
{
    (void)state;
    struct source s;
    start(&s, 86400000);
    assert_true(jwks_refetch(s.jwks)); /* joins the first */
    fake_fetch_answer(open_call(&s), 200, s.keys);
    assert_true(jwks_refetch(s.jwks));
    assert_true(jwks_refetch(s.jwks));
    assert_int_equal(fake_fetch_started(s.x.fetch), 2);
    fake_fetch_answer(open_call(&s), 200, s.keys);
    assert_false(jwks_refetch(s.jwks));
    fixture_pass(&s.x, 29000);
    assert_false(jwks_refetch(s.jwks));
    fixture_pass(&s.x, 1100);
    assert_true(jwks_refetch(s.jwks));
    fake_fetch_answer(open_call(&s), 200, s.keys);
    /* the schedule goes on from there, with one fetch */
    fixture_pass(&s.x, 538000);
    assert_int_equal(fake_fetch_open(s.x.fetch), 0);
    fixture_pass(&s.x, 63000);
    assert_int_equal(fake_fetch_open(s.x.fetch), 1);
    finish(&s);
}

static void test_fixed(void **state)
{
    (void)state;
    struct source s;
    start(&s, 86400000);
    const char *error = NULL;
    struct jwks *fixed = jwks_create_fixed(s.x.loop, SLICE(ISSUER), slice_str(s.keys), &error);
    assert_non_null(fixed);
    assert_true(jwks_usable(fixed));
    assert_false(jwks_refetch(fixed));
    fixture_pass(&s.x, INT64_C(1000) * 86400 * 365);
    assert_true(jwks_usable(fixed));
    jwks_destroy(fixed);
    assert_null(jwks_create_fixed(s.x.loop, SLICE(ISSUER), SLICE("{\"keys\":[]}"), &error));
    assert_string_equal(error, "the key set is empty");
    finish(&s);
}

static size_t count(const char *text, const char *what)
{
    size_t n = 0;
    for (const char *at = text; (at = strstr(at, what)); at++)
        n++;
    return n;
}

/* One line for a load, one for the first failure in a row, one for the recovery. */
static void test_log_lines(void **state)
{
    (void)state;
    FILE *file = tmpfile();
    assert_non_null(file);
    log_open(fileno(file), LOG_INFO);
    struct source s;
    start(&s, 86400000);
    fake_fetch_answer(open_call(&s), 200, s.keys);
    fixture_pass(&s.x, 601000);
    for (int i = 0; i < 3; i++) {
        fake_fetch_answer(open_call(&s), 200, "{\"keys\":[]}");
        until_next_fetch(&s, 50, 6000);
    }
    fake_fetch_answer(open_call(&s), 200, s.keys);
    finish(&s);
    log_flush();
    char text[8192] = {0};
    assert_true(pread(fileno(file), text, sizeof text - 1, 0) > 0);
    log_close();
    fclose(file);
    assert_int_equal(count(text, "\n"), 3);
    assert_int_equal(count(text, "\"keys_loaded\""), 1);
    assert_int_equal(count(text, "\"keys_failed\""), 1);
    assert_int_equal(count(text, "\"keys_recovered\""), 1);
    assert_int_equal(count(text, "\"issuer\":\"" ISSUER "\""), 3);
    assert_int_equal(count(text, "\"keys\":1"), 3);
    assert_int_equal(count(text, "\"error\":\"the key set is empty\""), 1);
}

static int make_key(void **state)
{
    (void)state;
    key = maker_ed("ED25519");
    return 0;
}

static int free_key(void **state)
{
    (void)state;
    EVP_PKEY_free(key);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_fetch),
        cmocka_unit_test(test_refresh_follows_cache_control),
        cmocka_unit_test(test_back_off),
        cmocka_unit_test(test_bad_answers_keep_the_old_keys),
        cmocka_unit_test(test_stale),
        cmocka_unit_test(test_refreshes_drift_apart),
        cmocka_unit_test(test_shown_as_a_breaker),
        cmocka_unit_test(test_refreshed_before_stale),
        cmocka_unit_test(test_refetch_once_in_30_s),
        cmocka_unit_test(test_fixed),
        cmocka_unit_test(test_log_lines),
    };
    return cmocka_run_group_tests(tests, make_key, free_key);
}
