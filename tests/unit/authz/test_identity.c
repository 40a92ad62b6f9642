/* Identity: memory, then Redis, then the API; what counts as a context; under which key it is kept. */
#include "identify.h"

/* --- the way of a lookup ---------------------------------------------------------------------------------------- */

static void test_anonymous(void **state)
{
    (void)state;
    struct call c;
    open_with(base_config(), true);
    assert_int_equal(find(&c, NULL, ""), OP_DONE);
    assert_string_equal(c.call.user->json.p, ANONYMOUS);
    assert_true(c.call.user->anonymous);
    assert_int_equal(c.call.source, FOUND_NONE);
    assert_int_equal(t.redis->gets, 0);
    drop(&c);
}

static void test_memory_then_redis_then_api(void **state)
{
    (void)state;
    struct token k = token_of("iss", "jane", "a");
    struct call c;
    open_with(base_config(), true);

    assert_int_equal(find(&c, &k, "Bearer x"), OP_PENDING);
    assert_int_equal(fake_fetch_started(t.fetch), 0); /* Redis first */
    fake_redis_deliver(t.redis);                      /* the generation */
    fake_redis_deliver(t.redis);                      /* the context: absent */
    assert_int_equal(c.told, 0);
    fake_fetch_answer(fake_fetch_oldest(t.fetch), 200,
                      "{\"name\":\"jane\",\"extra\":[1.5,\"Zo\xc3\xab\\u007f\",72.0]}");
    assert_int_equal(c.told, 1);
    assert_int_equal(c.call.source, FOUND_REMOTE);
    char *first = xstrdup(c.call.user->json.p);
    for (const char *p = first; *p; p++)
        assert_true(*p >= 0x20 && *p < 0x7f);
    drop(&c);
    const struct fake_redis_item *item = fake_redis_nth(t.redis, 0);
    assert_int_equal(item->ttl_s, 1800);
    assert_null(strstr(item->key, "jane"));
    assert_int_equal(strncmp(item->key, "p:v1:0:", 7), 0);
    assert_int_equal(strlen(item->key), 7 + 64);

    assert_int_equal(find(&c, &k, "Bearer x"), OP_DONE);
    assert_int_equal(c.call.source, FOUND_MEMORY);
    assert_string_equal(c.call.user->json.p, first);
    drop(&c);

    loop_advance(t.loop, 30001);
    assert_int_equal(find(&c, &k, "Bearer x"), OP_PENDING);
    deliver();
    assert_int_equal(c.call.source, FOUND_REDIS);
    assert_string_equal(c.call.user->json.p, first); /* the same bytes: they are in the key of decisions */
    assert_true(loop_now_ms(t.loop) - c.call.user->read_ms >= 30001);
    assert_true(c.call.user->end_ms <= loop_now_ms(t.loop) + 1800 * 1000 - 30001);
    drop(&c);
    assert_int_equal(fake_fetch_started(t.fetch), 1);
    struct slice memory = SLICE("memory");
    assert_int_equal(metric_value(METRIC_CACHE_HITS, &memory), 1);
    assert_int_equal(metric_value(METRIC_CACHE_MISSES, &memory), 2);
    free(first);
}

static void test_what_the_api_is_asked(void **state)
{
    (void)state;
    static const struct {
        const char *service_url, *service_authorization, *issuer, *subject, *url, *line;
    } rows[] = {
        {"", "", "iss", "jane", "http://api/user/profile", "Authorization: Bearer own"},
        {"http://api/users/{name}?x={name}", "apikey k", "iss", "j/a ne\xc3\xab.~-_",
         "http://api/users/j%2Fa%20ne%C3%AB.~-_?x=j%2Fa%20ne%C3%AB.~-_", "Authorization: apikey k"},
        {"http://api/users/{name}", "apikey k", NULL, NULL, "http://api/user/profile", "Authorization: Bearer own"},
        {"http://api/users/{name}", "", "iss", "jane", "http://api/user/profile", "Authorization: Bearer own"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct identity_config c = base_config();
        struct token k = token_of(rows[i].issuer, rows[i].subject, "a");
        struct call call;
        c.service_url = slice_str(rows[i].service_url);
        c.service_authorization = slice_str(rows[i].service_authorization);
        open_with(c, false);
        assert_int_equal(find(&call, &k, "Bearer own"), OP_PENDING);
        struct fetch_call *f = fake_fetch_nth(t.fetch, i);
        assert_string_equal(f->method, "GET");
        assert_string_equal(f->url, rows[i].url);
        assert_true(fake_fetch_has_header(f, rows[i].line));
        assert_int_equal(f->timeout_ms, 5000);
        assert_int_equal(f->max_bytes, 65536);
        identities_destroy(t.ids);
        assert_int_equal(call.call.reason, REASON_SHUTTING_DOWN);
        t.ids = NULL;
    }
}

static void test_answers_of_the_api(void **state)
{
    (void)state;
    static const struct {
        bool judge, service;
        enum fetch_outcome outcome;
        int status;
        const char *body;
        enum reason reason;
        bool kept;
    } rows[] = {
        {false, false, FETCH_ANSWERED, 200, "{\"name\":\"u\"}", REASON_FORWARDED, true},
        {false, false, FETCH_ANSWERED, 401, "{}", REASON_CREDENTIAL_REJECTED, false},
        {false, false, FETCH_ANSWERED, 403, "{}", REASON_CONTEXT_UNAVAILABLE, false},
        {true, false, FETCH_ANSWERED, 401, "{}", REASON_CREDENTIAL_REJECTED, false},
        {false, true, FETCH_ANSWERED, 401, "{}", REASON_CONTEXT_UNAVAILABLE, false},
        {false, true, FETCH_ANSWERED, 403, "{}", REASON_CONTEXT_UNAVAILABLE, false},
        {false, false, FETCH_ANSWERED, 404, "{\"name\":\"u\"}", REASON_CONTEXT_UNKNOWN, false},
        {true, false, FETCH_ANSWERED, 404, "{\"name\":\"u\"}", REASON_FORWARDED, true},
        {true, false, FETCH_ANSWERED, 500, "{\"name\":\"u\"}", REASON_CONTEXT_UNAVAILABLE, false},
        {false, false, FETCH_ANSWERED, 302, "{\"name\":\"u\"}", REASON_CONTEXT_UNAVAILABLE, false},
        {false, false, FETCH_ANSWERED, 204, "", REASON_CONTEXT_UNAVAILABLE, false},
        {false, false, FETCH_ANSWERED, 200, "", REASON_CONTEXT_MALFORMED, false},
        {false, false, FETCH_ANSWERED, 200, "<html>", REASON_CONTEXT_MALFORMED, false},
        {false, false, FETCH_ANSWERED, 200, "[{\"name\":\"u\"}]", REASON_CONTEXT_MALFORMED, false},
        {false, false, FETCH_ANSWERED, 200, "{\"name\":\"u\",\"name\":\"root\"}", REASON_CONTEXT_MALFORMED, false},
        {false, false, FETCH_ANSWERED, 200, "{\"name\":\"u\"} x", REASON_CONTEXT_MALFORMED, false},
        {false, false, FETCH_ANSWERED, 200, "{\"name\":\"\"}", REASON_CONTEXT_MALFORMED, false},
        {false, false, FETCH_ANSWERED, 200, "{\"name\":7}", REASON_CONTEXT_MALFORMED, false},
        {true, false, FETCH_ANSWERED, 200, "{}", REASON_CONTEXT_MALFORMED, false},
        {false, false, FETCH_UNREACHABLE, 0, "", REASON_CONTEXT_UNAVAILABLE, false},
        {true, false, FETCH_TIMEOUT, 0, "", REASON_CONTEXT_UNAVAILABLE, false},
        {false, false, FETCH_TOO_LARGE, 0, "", REASON_CONTEXT_UNAVAILABLE, false},
        {false, false, FETCH_BROKEN, 0, "", REASON_CONTEXT_UNAVAILABLE, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct identity_config c = base_config();
        struct token k = token_of("iss", "u", "a");
        struct call call, again;
        c.judge_anonymous = rows[i].judge;
        if (rows[i].service) {
            c.service_url = SLICE("http://api/{name}");
            c.service_authorization = SLICE("apikey k");
        }
        open_with(c, false);
        assert_int_equal(find(&call, &k, "Bearer x"), OP_PENDING);
        struct fetch_call *f = fake_fetch_oldest(t.fetch);
        if (rows[i].outcome == FETCH_ANSWERED)
            fake_fetch_answer(f, rows[i].status, rows[i].body);
        else
            fake_fetch_fail(f, rows[i].outcome);
        assert_int_equal(call.told, 1);
        if (call.call.reason != rows[i].reason) fail_msg("row %zu: %s", i, reason_code(call.call.reason));
        assert_int_equal(call.call.user != NULL, rows[i].reason == REASON_FORWARDED);
        if (!call.call.user) assert_non_null(call.call.detail);
        if (call.call.user && rows[i].status == 404) assert_string_equal(call.call.user->json.p, ANONYMOUS);
        drop(&call);
        assert_int_equal(find(&again, &k, "Bearer x"), rows[i].kept ? OP_DONE : OP_PENDING);
        drop(&again);
        assert_int_equal(identities_inflight(t.ids), rows[i].kept ? 0 : 1);
        identities_destroy(t.ids);
        t.ids = NULL;
    }
    struct slice status[] = {SLICE("user_profile"), SLICE("200")}, error[] = {SLICE("user_profile"), SLICE("error")};
    struct slice late[] = {SLICE("context"), SLICE("timeout")};
    assert_int_equal(metric_value(METRIC_API_CALLS, status), 9);
    assert_int_equal(metric_value(METRIC_API_CALLS, error), 4);
    assert_int_equal(metric_value(METRIC_DEPENDENCY_FAILURES, late), 1);
}

static void test_anonymous_of_the_api_stays_out_of_redis(void **state)
{
    (void)state;
    struct identity_config c = base_config();
    struct token k = token_of("iss", "u", "a");
    struct call call;
    c.judge_anonymous = true;
    open_with(c, true);
    find(&call, &k, "Bearer x");
    deliver();
    fake_fetch_answer(fake_fetch_oldest(t.fetch), 404, "");
    assert_true(call.call.user->anonymous);
    drop(&call);
    assert_int_equal(t.redis->sets, 0);
    assert_int_equal(whence(&k), FOUND_MEMORY);
    loop_advance(t.loop, 30001);
    assert_int_equal(whence(&k), FOUND_NONE);
}

/* --- Redis ------------------------------------------------------------------------------------------------------ */

/* %lld: the time now. */
static void test_redis_values(void **state)
{
    (void)state;
    static const struct {
        const char *value;
        bool taken;
    } rows[] = {
        {"{\"v\":1,\"iss\":\"iss\",\"sub\":\"jane\",\"stored\":%lld,\"context\":{\"id\":\"jane\"}}", true},
        {"{\"context\":{\"id\":\"jane\"},\"stored\":%lld,\"sub\":\"jane\",\"iss\":\"iss\",\"v\":1}", true},
        {"{\"v\":1,\"iss\":\"iss\",\"sub\":\"root\",\"stored\":%lld,\"context\":{\"id\":\"jane\"}}", false},
        {"{\"v\":1,\"iss\":\"other\",\"sub\":\"jane\",\"stored\":%lld,\"context\":{\"id\":\"jane\"}}", false},
        {"{\"v\":1,\"iss\":\"iss\",\"sub\":\"JANE\",\"stored\":%lld,\"context\":{\"id\":\"jane\"}}", false},
        {"{\"v\":2,\"iss\":\"iss\",\"sub\":\"jane\",\"stored\":%lld,\"context\":{\"id\":\"jane\"}}", false},
        {"{\"v\":\"1\",\"iss\":\"iss\",\"sub\":\"jane\",\"stored\":%lld,\"context\":{\"id\":\"jane\"}}", false},
        {"{\"iss\":\"iss\",\"sub\":\"jane\",\"stored\":%lld,\"context\":{\"id\":\"jane\"}}", false},
        {"{\"v\":1,\"sub\":\"jane\",\"stored\":%lld,\"context\":{\"id\":\"jane\"}}", false},
        {"{\"v\":1,\"iss\":\"iss\",\"sub\":\"jane\",\"stored\":\"%lld\",\"context\":{\"id\":\"jane\"}}", false},
        {"{\"v\":1,\"iss\":\"iss\",\"sub\":\"jane\",\"stored\":-1,\"context\":{\"id\":\"jane\"}}", false},
        {"{\"v\":1,\"iss\":\"iss\",\"sub\":\"jane\",\"stored\":1000,\"context\":{\"id\":\"jane\"}}",
         false}, /* long ago */
        {"{\"v\":1,\"iss\":\"iss\",\"sub\":\"jane\",\"stored\":%lld,\"context\":{\"id\":\"\"}}", false},
        {"{\"v\":1,\"iss\":\"iss\",\"sub\":\"jane\",\"stored\":%lld,\"context\":{\"id\":7}}", false},
        {"{\"v\":1,\"iss\":\"iss\",\"sub\":\"jane\",\"stored\":%lld,\"context\":{}}", false},
        {"{\"v\":1,\"iss\":\"iss\",\"sub\":\"jane\",\"stored\":%lld,\"context\":\"{}\"}", false},
        {"{\"v\":1,\"iss\":\"iss\",\"sub\":\"jane\",\"stored\":%lld,\"context\":[\"id\"]}", false},
        {"{\"v\":1,\"iss\":\"iss\",\"sub\":\"jane\",\"sub\":\"jane\",\"stored\":%lld,\"context\":{\"id\":\"jane\"}}",
         false},
        {"{\"v\":1,\"iss\":\"iss\",\"sub\":\"jane\",\"stored\":%lld,\"context\":{\"id\":\"jane\"},\"more\":1}", false},
        {"{\"v\":1,\"iss\":\"iss\",\"sub\":\"jane\",\"stored\":%lld,\"context\":{\"id\":\"jane\"}", false},
        {"{\"id\":\"jane\"}", false}, /* what the reference proxy stores */
        {"", false},
        {"garbage %lld", false},
    };
    struct token k = token_of("iss", "jane", "a");
    open_with(base_config(), true);
    fetch_one(&k, "jane");
    char *key = xstrdup(fake_redis_nth(t.redis, 0)->key);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char value[512];
        struct call c;
        snprintf(value, sizeof value, rows[i].value, (long long)loop_wall_ms(t.loop));
        loop_advance(t.loop, 30001);
        fake_redis_put(t.redis, key, value, 1);
        assert_int_equal(find(&c, &k, "Bearer x"), OP_PENDING);
        deliver();
        if (rows[i].taken != (c.told == 1)) fail_msg("row %zu", i);
        if (!rows[i].taken) { /* ignored and replaced */
            fake_fetch_answer(fake_fetch_oldest(t.fetch), 200, profile_of("jane"));
            assert_string_not_equal(fake_redis_find(t.redis, key)->value, value);
        } else {
            assert_int_equal(c.call.source, FOUND_REDIS);
            assert_string_equal(c.call.user->json.p, "{\"id\":\"jane\"}");
        }
        drop(&c);
    }
    free(key);
}

static void test_without_redis_for_a_while(void **state)
{
    (void)state;
    struct token k = token_of("iss", "jane", "a");
    open_with(base_config(), true);
    t.redis->unavailable = true;
    fetch_one(&k, "jane");
    assert_int_equal(t.redis->sets, 0);
    t.redis->unavailable = false;
    loop_advance(t.loop, 30001);
    fetch_one(&k, "jane");
    assert_int_equal(t.redis->sets, 1);
}

static void test_generation_is_read_now_and_then(void **state)
{
    (void)state;
    struct token a = token_of("iss", "a", "a"), b = token_of("iss", "b", "b"), c = token_of("iss", "c", "c");
    open_with(base_config(), true);
    fake_redis_put(t.redis, GENERATION, "7", 0);
    fetch_one(&a, "a");
    assert_int_equal(t.redis->gets, 2);
    assert_non_null(strstr(fake_redis_nth(t.redis, 0)->key, "p:v1:7:"));
    fetch_one(&b, "b");
    assert_int_equal(t.redis->gets, 3); /* known */
    loop_advance(t.loop, 10000);
    fake_redis_put(t.redis, GENERATION, "8", 0); /* raised by another instance */
    fetch_one(&c, "c");
    assert_int_equal(t.redis->gets, 5);
    assert_non_null(strstr(fake_redis_nth(t.redis, 0)->key, "p:v1:8:"));
    loop_advance(t.loop, 30001);
    assert_int_equal(whence(&c), FOUND_REDIS);
    assert_int_equal(whence(&a), FOUND_NONE);
}

static void test_generation_that_is_no_number(void **state)
{
    (void)state;
    static const char *const values[] = {"x", "", "-1", "1 ", "99999999999999999999999"};
    open_with(base_config(), true);
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        struct token k = token_of("iss", values[i], "a");
        fake_redis_put(t.redis, GENERATION, values[i], 0);
        fetch_one(&k, "a");
        assert_int_equal(t.redis->sets, 0);
    }
}

/* --- keys ------------------------------------------------------------------------------------------------------- */

static void test_unverified_stay_under_their_credential(void **state)
{
    (void)state;
    struct token a = token_of(NULL, NULL, "a"), b = token_of(NULL, NULL, "b");
    a.subject = b.subject = SLICE("jane"); /* what a forged token says */
    a.exp_s = loop_wall_ms(t.loop) / 1000 + 10;
    open_with(base_config(), true);
    fetch_one(&a, "jane");
    assert_int_equal(t.redis->gets + t.redis->sets, 0);
    assert_int_equal(whence(&a), FOUND_MEMORY);
    assert_int_equal(whence(&b), FOUND_NONE); /* the other credential is asked for itself */
    fake_fetch_answer(fake_fetch_oldest(t.fetch), 401, "");
    loop_advance(t.loop, 10001);
    assert_int_equal(whence(&a), FOUND_NONE); /* not beyond its exp, though memory_ttl_s is longer */
}

static void test_verified_names(void **state)
{
    (void)state;
    struct token a = token_of("iss", "jane", "a"), later = token_of("iss", "jane", "b");
    struct token other = token_of("iss2", "jane", "c"), split = token_of("issj", "ane", "d");
    open_with(base_config(), false);
    fetch_one(&a, "jane");
    assert_int_equal(whence(&later), FOUND_MEMORY);
    assert_int_equal(whence(&other), FOUND_NONE);
    assert_int_equal(whence(&split), FOUND_NONE);
}

static void test_claims_as_context(void **state)
{
    (void)state;
    struct identity_config config = base_config();
    struct token a = token_of("iss", "jane", "a"), b = token_of("iss", "jane", "b"), bad = token_of("iss", "x", "c");
    struct token unverified = token_of(NULL, NULL, "d");
    struct call c;
    config.url = SLICE("");
    a.payload = SLICE("{\"name\":\"jane\",\"extra\":\"read\"}");
    b.payload = SLICE("{\"name\":\"jane\",\"extra\":\"write\"}");
    bad.payload = SLICE("{\"name\":5}");
    a.exp_s = loop_wall_ms(t.loop) / 1000 + 10;
    open_with(config, true);
    assert_int_equal(find(&c, &a, "Bearer x"), OP_DONE);
    assert_int_equal(c.call.source, FOUND_TOKEN);
    assert_string_equal(c.call.user->json.p, "{\"id\":\"jane\",\"extra\":\"read\"}");
    drop(&c);
    assert_int_equal(find(&c, &b, "Bearer x"), OP_DONE); /* another token of the same name has claims of its own */
    assert_string_equal(c.call.user->json.p, "{\"id\":\"jane\",\"extra\":\"write\"}");
    drop(&c);
    assert_int_equal(whence(&a), FOUND_MEMORY);
    assert_int_equal(find(&c, &bad, "Bearer x"), OP_DONE);
    assert_null(c.call.user);
    assert_int_equal(c.call.reason, REASON_CONTEXT_MALFORMED);
    assert_int_equal(find(&c, &unverified, "Bearer x"), OP_DONE);
    assert_null(c.call.user);
    assert_int_equal(c.call.reason, REASON_CONTEXT_UNAVAILABLE);
    loop_advance(t.loop, 10001);
    assert_int_equal(whence(&a), FOUND_TOKEN);
    assert_int_equal(t.redis->gets + t.redis->sets + fake_fetch_started(t.fetch), 0);
}

static void test_document_without_a_shape(void **state)
{
    (void)state;
    struct identity_config config = base_config();
    struct token k = token_of("iss", "jane", "a");
    struct call c;
    config.shape = NULL;
    open_with(config, false);
    find(&c, &k, "Bearer x");
    fake_fetch_answer(fake_fetch_oldest(t.fetch), 200, "{ \"z\" : [ 1 ], \"id\" : \"Zo\xc3\xab\" , \"a\":\"\x7f\"}");
    assert_string_equal(c.call.user->json.p, "{\"z\":[1],\"id\":\"Zo\\u00EB\",\"a\":\"\\u007f\"}");
    assert_true(slice_eq(c.call.user->id, SLICE("Zo\xc3\xab")));
    drop(&c);
}

static void test_what_if_users(void **state)
{
    (void)state;
    static const struct {
        const char *json, *text, *id;
    } rows[] = {
        {"{ \"id\": \"u\", \"x\": [1] }", "{\"id\":\"u\",\"x\":[1]}", "u"},
        {"{\"username\":\"n\"}", "{\"username\":\"n\"}", ""},
        {"{\"id\":5}", "{\"id\":5}", ""},
        {"[]", NULL, NULL},
        {"{\"a\":1,\"a\":2}", NULL, NULL},
        {"", NULL, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct user *u = user_create(slice_str(rows[i].json));
        assert_int_equal(u != NULL, rows[i].text != NULL);
        if (!u) continue;
        assert_string_equal(u->json.p, rows[i].text);
        assert_string_equal(u->id.p, rows[i].id);
        user_hold(u);
        user_release(u);
        user_release(u);
    }
    assert_string_equal(found_in_name(FOUND_REMOTE), "api");
    assert_string_equal(found_in_name(FOUND_TOKEN), "token");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_anonymous),
        TEST(test_memory_then_redis_then_api),
        TEST(test_what_the_api_is_asked),
        TEST(test_answers_of_the_api),
        TEST(test_anonymous_of_the_api_stays_out_of_redis),
        TEST(test_redis_values),
        TEST(test_without_redis_for_a_while),
        TEST(test_generation_is_read_now_and_then),
        TEST(test_generation_that_is_no_number),
        TEST(test_unverified_stay_under_their_credential),
        TEST(test_verified_names),
        TEST(test_claims_as_context),
        TEST(test_document_without_a_shape),
        TEST(test_what_if_users),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
