/* Contexts past their time in memory: used while they are asked for again, and what ends that. */
#include "identify.h"

#define MEMORY_MS 30000
#define STALE_MS 60000

static struct identity_config stale_config(void)
{
    struct identity_config c = base_config();
    c.stale_s = STALE_MS / 1000;
    return c;
}

static void fresh_start(struct identity_config c, bool redis)
{
    identities_destroy(t.ids);
    t.ids = NULL;
    if (t.redis) redis_destroy(t.redis, NULL, NULL);
    t.redis = NULL;
    open_with(c, redis);
}

/* A hit of memory; was it stale? */
static bool hit(const struct token *k, const char *id)
{
    struct call c;
    assert_int_equal(find(&c, k, "Bearer again"), OP_DONE);
    assert_int_equal(c.call.source, FOUND_MEMORY);
    assert_true(slice_eq(c.call.user->id, slice_str(id)));
    bool stale = c.call.stale;
    drop(&c);
    return stale;
}

static bool asks(const struct token *k)
{
    struct call c;
    bool pending = find(&c, k, "Bearer x") == OP_PENDING;
    identity_cancel(&c.call);
    drop(&c);
    return pending;
}

static void test_off(void **state)
{
    (void)state;
    struct token k = token_of("iss", "jane", "a");
    open_with(base_config(), false);
    fetch_one(&k, "jane");
    loop_advance(t.loop, MEMORY_MS + 1);
    assert_true(asks(&k));
}

static void test_used_while_asked_again(void **state)
{
    (void)state;
    struct token k = token_of("iss", "jane", "a");
    struct slice memory = SLICE("memory");
    open_with(stale_config(), false);
    fetch_one(&k, "jane");
    loop_advance(t.loop, MEMORY_MS - 5);
    assert_false(hit(&k, "jane"));
    loop_advance(t.loop, 10);
    for (int i = 0; i < 5; i++)
        assert_true(hit(&k, "jane"));
    assert_int_equal(fake_fetch_open(t.fetch), 1);
    assert_true(fake_fetch_has_header(fake_fetch_oldest(t.fetch), "Authorization: Bearer again"));
    assert_int_equal(metric_value(METRIC_CACHE_STALE, &memory), 5);
    fake_fetch_answer(fake_fetch_oldest(t.fetch), 200, profile_of("jill"));
    assert_false(hit(&k, "jill"));
}

/* As a first lookup would: Redis first. */
static void test_asked_of_redis_first(void **state)
{
    (void)state;
    struct token k = token_of("iss", "jane", "a");
    open_with(stale_config(), true);
    fetch_one(&k, "jane");
    loop_advance(t.loop, MEMORY_MS + 1);
    assert_true(hit(&k, "jane"));
    deliver();
    assert_int_equal(fake_fetch_started(t.fetch), 1);
    assert_false(hit(&k, "jane"));
    fresh_start(stale_config(), true);
    fetch_one(&k, "jane");
    loop_advance(t.loop, MEMORY_MS + 1);
    redis_drop(t.redis, slice_str(fake_redis_nth(t.redis, 0)->key));
    assert_true(hit(&k, "jane"));
    deliver();
    fake_fetch_answer(fake_fetch_oldest(t.fetch), 200, profile_of("jill"));
    assert_false(hit(&k, "jill"));
    assert_int_equal(t.redis->sets, 2);
}

static void test_hard_end(void **state)
{
    (void)state;
    struct token k = token_of("iss", "jane", "a");
    struct call c;
    open_with(stale_config(), false);
    fetch_one(&k, "jane");
    loop_advance(t.loop, MEMORY_MS + STALE_MS - 5);
    assert_int_equal(find(&c, &k, "Bearer x"), OP_DONE);
    assert_true(c.call.stale);
    assert_true(c.call.user->end_ms > loop_now_ms(t.loop)); /* decisions may be made of it, up to its hard end */
    assert_true(c.call.user->end_ms <= loop_now_ms(t.loop) + 5);
    drop(&c);
    loop_advance(t.loop, 10);
    assert_int_equal(find(&c, &k, "Bearer x"), OP_PENDING);
    assert_int_equal(fake_fetch_started(t.fetch), 2); /* with the one that is out already */
    fake_fetch_answer(fake_fetch_oldest(t.fetch), 200, profile_of("jane"));
    assert_int_equal(c.told, 1);
    drop(&c);
}

/* What was not verified ends with its credential. */
static void test_a_credential_ends_it(void **state)
{
    (void)state;
    struct token k = token_of(NULL, NULL, "a");
    loop_advance(t.loop, 1000 - loop_wall_ms(t.loop) % 1000);
    k.exp_s = (loop_wall_ms(t.loop) + MEMORY_MS + 10000) / 1000;
    open_with(stale_config(), false);
    fetch_one(&k, "jane");
    loop_advance(t.loop, MEMORY_MS + 1);
    assert_true(hit(&k, "jane"));
    fake_fetch_fail(fake_fetch_oldest(t.fetch), FETCH_UNREACHABLE);
    loop_advance(t.loop, 10000);
    assert_true(asks(&k));
}

static void test_what_memory_does_not_keep_is_not_stale(void **state)
{
    (void)state;
    struct token k = token_of("iss", "jane", "a");
    struct identity_config c = stale_config();
    c.memory_ttl_s = 0;
    open_with(c, false);
    fetch_one(&k, "jane");
    assert_true(asks(&k));
}

enum after { STAYS, RENEWED, GONE };

static void test_what_the_next_answer_does(void **state)
{
    (void)state;
    static const struct {
        bool judge, service;
        enum fetch_outcome outcome;
        int status;
        const char *body;
        enum after after;
    } rows[] = {
        {false, false, FETCH_ANSWERED, 200, "{\"name\":\"u\"}", RENEWED},
        {false, false, FETCH_ANSWERED, 401, "{}", GONE},
        {false, false, FETCH_ANSWERED, 403, "{}", GONE},
        {false, false, FETCH_ANSWERED, 404, "{}", GONE},
        {false, true, FETCH_ANSWERED, 401, "{}", GONE},
        {false, true, FETCH_ANSWERED, 403, "{}", GONE},
        {true, false, FETCH_ANSWERED, 404, "{}", RENEWED}, /* nobody, from now on */
        {false, false, FETCH_ANSWERED, 200, "<html>", GONE},
        {false, false, FETCH_ANSWERED, 200, "{\"name\":7}", GONE},
        {false, false, FETCH_ANSWERED, 302, "", GONE},
        {false, false, FETCH_TOO_LARGE, 0, "", GONE},
        {false, false, FETCH_ANSWERED, 429, "", STAYS},
        {false, false, FETCH_ANSWERED, 500, "{\"name\":\"u\"}", STAYS},
        {true, false, FETCH_ANSWERED, 503, "", STAYS},
        {false, false, FETCH_UNREACHABLE, 0, "", STAYS},
        {false, false, FETCH_TIMEOUT, 0, "", STAYS},
        {false, false, FETCH_BROKEN, 0, "", STAYS},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct identity_config config = stale_config();
        struct token k = token_of("iss", "u", "a");
        struct call c;
        config.judge_anonymous = rows[i].judge;
        if (rows[i].service) {
            config.service_url = SLICE("http://api/{name}");
            config.service_authorization = SLICE("apikey k");
        }
        fresh_start(config, false);
        fetch_one(&k, "u");
        loop_advance(t.loop, MEMORY_MS + 1);
        assert_true(hit(&k, "u"));
        struct fetch_call *f = fake_fetch_oldest(t.fetch);
        if (rows[i].outcome == FETCH_ANSWERED)
            fake_fetch_answer(f, rows[i].status, rows[i].body);
        else
            fake_fetch_fail(f, rows[i].outcome);
        enum op op = find(&c, &k, "Bearer x");
        enum after after = op == OP_PENDING ? GONE : c.call.stale ? STAYS : RENEWED;
        if (after != rows[i].after) fail_msg("row %zu: %d", i, (int)after);
        if (after == RENEWED) assert_int_equal(c.call.user->anonymous, rows[i].judge);
        identity_cancel(&c.call);
        drop(&c);
    }
}

static void test_not_asked_again_and_again(void **state)
{
    (void)state;
    struct token k = token_of("iss", "u", "a");
    open_with(stale_config(), false);
    fetch_one(&k, "u");
    loop_advance(t.loop, MEMORY_MS + 1);
    for (int second = 0; second < 10; second++) {
        for (int i = 0; i < 20; i++) {
            assert_true(hit(&k, "u"));
            if (fake_fetch_open(t.fetch)) fake_fetch_fail(fake_fetch_oldest(t.fetch), FETCH_UNREACHABLE);
        }
        loop_advance(t.loop, 1000);
    }
    assert_int_equal(fake_fetch_started(t.fetch), 11);
}

static void test_over_the_cap_and_at_rest(void **state)
{
    (void)state;
    for (int with_redis = 0; with_redis < 2; with_redis++) {
        struct token k = token_of("iss", "u", "a");
        struct identity_config config = stale_config();
        struct call calls[4];
        char names[4][16];
        config.memory_ttl_s = 1790; /* past that of Redis, so that the API is asked */
        config.breaker = (struct breaker_rules){.failures = 4, .rest_ms = 20000, .max_rest_ms = 20000};
        fresh_start(config, with_redis);
        fetch_one(&k, "u");
        size_t before = fake_fetch_started(t.fetch);
        loop_advance(t.loop, 1801 * 1000);
        for (int i = 0; i < 4; i++) {
            snprintf(names[i], sizeof names[i], "u%d", i);
            struct token other = token_of("iss", names[i], names[i]);
            assert_int_equal(find(&calls[i], &other, "Bearer x"), OP_PENDING);
            if (with_redis) deliver();
        }
        assert_true(hit(&k, "u"));
        if (with_redis) deliver();
        assert_int_equal(fake_fetch_started(t.fetch) - before, 4);
        while (fake_fetch_open(t.fetch))
            fake_fetch_fail(fake_fetch_oldest(t.fetch), FETCH_TIMEOUT);
        loop_advance(t.loop, 2000);
        assert_true(hit(&k, "u"));
        if (with_redis) deliver();
        assert_int_equal(fake_fetch_open(t.fetch), 0); /* the API rests */
        loop_advance(t.loop, 30000);
        assert_true(hit(&k, "u"));
        if (with_redis) deliver();
        assert_int_equal(fake_fetch_open(t.fetch), 1); /* the trial */
        fake_fetch_answer(fake_fetch_oldest(t.fetch), 200, profile_of("u"));
        assert_false(hit(&k, "u"));
    }
}

static void test_flush_ends_it(void **state)
{
    (void)state;
    for (int what = 0; what < 3; what++) {
        struct token k = token_of("iss", "jane", "a");
        struct call c;
        fresh_start(stale_config(), false);
        fetch_one(&k, "jane");
        loop_advance(t.loop, MEMORY_MS + 1);
        assert_true(hit(&k, "jane"));
        if (what == 0) identities_flush(t.ids, 0, NULL);
        if (what == 1) identities_flush(t.ids, token_issuer_tag(SLICE("iss")), NULL);
        if (what == 2) flush_subject(SLICE("iss"), SLICE("jane"));
        loop_advance(t.loop, 1);
        assert_int_equal(find(&c, &k, "Bearer x"), OP_PENDING);
        assert_int_equal(fake_fetch_open(t.fetch), 2);
        fake_fetch_answer(fake_fetch_oldest(t.fetch), 200, profile_of("old")); /* puts nothing */
        assert_true(asks(&k));
        fake_fetch_answer(fake_fetch_oldest(t.fetch), 200, profile_of("new"));
        assert_int_equal(c.told, 1);
        drop(&c);
        assert_false(hit(&k, "new"));
    }
}

static void test_jitter_shortens(void **state)
{
    (void)state;
    struct identity_config config = base_config();
    int64_t least = INT64_MAX, most = 0, least_s = INT64_MAX, most_s = 0;
    config.jitter = 0.1;
    open_with(config, true);
    for (int i = 0; i < 200; i++) {
        struct call c;
        char name[16];
        snprintf(name, sizeof name, "u%d", i);
        struct token k = token_of("iss", name, name);
        fetch_one(&k, name);
        assert_int_equal(find(&c, &k, "Bearer x"), OP_DONE);
        int64_t lives = c.call.user->entry.expires_ms - loop_now_ms(t.loop);
        drop(&c);
        if (lives < least) least = lives;
        if (lives > most) most = lives;
        int64_t ttl_s = fake_redis_nth(t.redis, 0)->ttl_s;
        if (ttl_s < least_s) least_s = ttl_s;
        if (ttl_s > most_s) most_s = ttl_s;
    }
    assert_true(most <= 30000 && most > 29700);
    assert_true(least >= 26900 && least < 27300);
    assert_true(most_s <= 1800 && most_s > 1780);
    assert_true(least_s >= 1620 && least_s < 1640);
}

static void test_end_with_a_lookup_out(void **state)
{
    (void)state;
    struct token k = token_of("iss", "jane", "a");
    open_with(stale_config(), true);
    fetch_one(&k, "jane");
    loop_advance(t.loop, MEMORY_MS + 1);
    assert_true(hit(&k, "jane"));
    identities_destroy(t.ids);
    t.ids = NULL;
    deliver();
    assert_int_equal(fake_fetch_open(t.fetch), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_off),
        TEST(test_used_while_asked_again),
        TEST(test_asked_of_redis_first),
        TEST(test_hard_end),
        TEST(test_a_credential_ends_it),
        TEST(test_what_memory_does_not_keep_is_not_stale),
        TEST(test_what_the_next_answer_does),
        TEST(test_not_asked_again_and_again),
        TEST(test_over_the_cap_and_at_rest),
        TEST(test_flush_ends_it),
        TEST(test_jitter_shortens),
        TEST(test_end_with_a_lookup_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
