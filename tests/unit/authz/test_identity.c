/* Identity: memory, then Redis, then the API; under which key a context is kept; what a flush reaches. */
#include "authz/identity.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/metric.h"
#include "authz/digest.h"
#include "fakes/fake_fetch.h"
#include "fakes/fake_redis.h"

#define ANONYMOUS \
    "{\"id\":\"anonymous\",\"username\":\"anonymous\",\"roles\":[],\"offices\":[],\"authenticated\":false}"
#define GENERATION "p:generation"
#define MANY 300

static struct {
    struct loop *loop;
    struct fetch *fetch;
    struct redis *redis;
    struct shape *shape;
    struct identities *ids;
} t;

static struct identity_config base_config(void)
{
    return (struct identity_config){
        .url = SLICE("http://api/user/profile"),
        .shape = t.shape,
        .key_prefix = SLICE("p:"),
        .ttl_s = 1800,
        .memory_ttl_s = 30,
        .memory_entries = 1000,
        .timeout_ms = 5000,
        .max_inflight = 4,
        .max_bytes = 65536,
    };
}

static void open_with(struct identity_config c, bool redis)
{
    if (redis) t.redis = redis_create(t.loop, NULL, NULL);
    t.ids = identities_create(t.loop, t.fetch, t.redis, &c);
}

static int set_up(void **state)
{
    char *error = NULL;
    (void)state;
    memset(&t, 0, sizeof t);
    metric_init("t_");
    t.loop = loop_create();
    t.fetch = fetch_create(t.loop);
    t.shape = shape_compile("t", SLICE("{id: .name, extra: .extra}"), &error);
    return t.shape ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    identities_destroy(t.ids);
    if (t.redis) redis_destroy(t.redis, NULL, NULL);
    fetch_destroy(t.fetch, NULL, NULL);
    shape_destroy(t.shape);
    loop_close(t.loop);
    loop_run(t.loop);
    loop_destroy(t.loop);
    metric_finish();
    return 0;
}

/* --- tokens and calls ------------------------------------------------------------------------------------------- */

static struct token token_of(const char *issuer, const char *subject, const char *credential)
{
    struct token k = {.verified = issuer != NULL, .exp_s = INT64_MAX};
    struct slice text = slice_str(credential);
    digest_parts(&text, 1, k.entry.key);
    if (!issuer) return k;
    k.issuer = slice_str(issuer);
    k.subject = slice_str(subject);
    k.entry.tags[0] = token_issuer_tag(k.issuer);
    k.entry.tags[1] = token_subject_tag(k.issuer, k.subject);
    return k;
}

struct call {
    struct identity_call call;
    int told;
};

static void on_done(struct identity_call *c)
{
    struct call *call = (struct call *)c;
    call->told++;
}

static enum op find(struct call *c, const struct token *k, const char *authorization)
{
    memset(c, 0, sizeof *c);
    c->call.on_done = on_done;
    return identity_find(t.ids, k, slice_str(authorization), &c->call);
}

static void drop(struct call *c)
{
    if (c->call.user) user_release(c->call.user);
    c->call.user = NULL;
}

/* Answers whatever Redis is asked until nothing more comes. */
static void deliver(void)
{
    while (fake_redis_deliver(t.redis)) continue;
}

static const char *profile_of(const char *name)
{
    static char text[128];
    snprintf(text, sizeof text, "{\"name\":\"%s\",\"extra\":1.5}", name);
    return text;
}

/* A whole lookup that ends at the API. */
static void fetch_one(const struct token *k, const char *name)
{
    struct call c;
    assert_int_equal(find(&c, k, "Bearer x"), OP_PENDING);
    if (t.redis) deliver();
    assert_int_equal(fake_fetch_open(t.fetch), 1);
    fake_fetch_answer(fake_fetch_oldest(t.fetch), 200, profile_of(name));
    assert_int_equal(c.told, 1);
    assert_int_equal(c.call.reason, REASON_FORWARDED);
    assert_int_equal(c.call.source, FOUND_REMOTE);
    assert_true(slice_eq(c.call.user->id, slice_str(name)));
    drop(&c);
}

/* Where a context is found now; FOUND_NONE: the API is asked (and the call left to itself). */
static enum found_in whence(const struct token *k)
{
    struct call c;
    enum found_in source = FOUND_NONE;
    if (find(&c, k, "Bearer x") == OP_PENDING && t.redis) deliver();
    if (c.call.user) source = c.call.source;
    identity_cancel(&c.call);
    drop(&c);
    return source;
}

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
    fake_fetch_answer(fake_fetch_oldest(t.fetch), 200, "{\"name\":\"jane\",\"extra\":[1.5,\"Zo\xc3\xab\\u007f\",72.0]}");
    assert_int_equal(c.told, 1);
    assert_int_equal(c.call.source, FOUND_REMOTE);
    char *first = xstrdup(c.call.user->json.p);
    for (const char *p = first; *p; p++) assert_true(*p >= 0x20 && *p < 0x7f);
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
        {false, false, FETCH_ANSWERED, 403, "{}", REASON_CREDENTIAL_REJECTED, false},
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
        if (rows[i].outcome == FETCH_ANSWERED) fake_fetch_answer(f, rows[i].status, rows[i].body);
        else fake_fetch_fail(f, rows[i].outcome);
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
        {"{\"v\":1,\"iss\":\"iss\",\"sub\":\"jane\",\"stored\":1000,\"context\":{\"id\":\"jane\"}}", false}, /* long ago */
        {"{\"v\":1,\"iss\":\"iss\",\"sub\":\"jane\",\"stored\":%lld,\"context\":{\"id\":\"\"}}", false},
        {"{\"v\":1,\"iss\":\"iss\",\"sub\":\"jane\",\"stored\":%lld,\"context\":{\"id\":7}}", false},
        {"{\"v\":1,\"iss\":\"iss\",\"sub\":\"jane\",\"stored\":%lld,\"context\":{}}", false},
        {"{\"v\":1,\"iss\":\"iss\",\"sub\":\"jane\",\"stored\":%lld,\"context\":\"{}\"}", false},
        {"{\"v\":1,\"iss\":\"iss\",\"sub\":\"jane\",\"stored\":%lld,\"context\":[\"id\"]}", false},
        {"{\"v\":1,\"iss\":\"iss\",\"sub\":\"jane\",\"sub\":\"jane\",\"stored\":%lld,\"context\":{\"id\":\"jane\"}}", false},
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

/* --- flights ---------------------------------------------------------------------------------------------------- */

static void test_many_wait_for_one_call(void **state)
{
    (void)state;
    static struct call calls[MANY];
    struct token k = token_of("iss", "jane", "a");
    open_with(base_config(), true);
    for (size_t i = 0; i < MANY; i++) {
        assert_int_equal(find(&calls[i], &k, "Bearer x"), OP_PENDING);
        if (i == MANY / 2) deliver(); /* some come while Redis is asked, some later */
    }
    deliver();
    for (size_t i = 0; i < MANY; i += 3) identity_cancel(&calls[i].call); /* the first one too */
    assert_int_equal(fake_fetch_started(t.fetch), 1);
    fake_fetch_answer(fake_fetch_oldest(t.fetch), 200, profile_of("jane"));
    struct user *user = calls[1].call.user;
    for (size_t i = 0; i < MANY; i++) {
        assert_int_equal(calls[i].told, i % 3 ? 1 : 0);
        if (i % 3) assert_ptr_equal(calls[i].call.user, user);
        drop(&calls[i]);
    }
    assert_int_equal(whence(&k), FOUND_MEMORY);
}

static void test_nobody_waits_any_more(void **state)
{
    (void)state;
    struct token k = token_of("iss", "jane", "a");
    struct call c;
    open_with(base_config(), false);
    find(&c, &k, "Bearer x");
    identity_cancel(&c.call);
    fake_fetch_answer(fake_fetch_oldest(t.fetch), 200, profile_of("jane"));
    assert_int_equal(c.told, 0);
    assert_int_equal(whence(&k), FOUND_MEMORY);
}

static void test_cap(void **state)
{
    (void)state;
    struct call calls[8];
    char names[8][16];
    for (int with_redis = 0; with_redis < 2; with_redis++) {
        size_t before = fake_fetch_started(t.fetch);
        open_with(base_config(), with_redis);
        for (int i = 0; i < 8; i++) {
            snprintf(names[i], sizeof names[i], "u%d", i);
            struct token k = token_of("iss", names[i], names[i]);
            enum op op = find(&calls[i], &k, "Bearer x");
            if (with_redis) deliver();
            bool refused = i >= 4;
            assert_int_equal(op, refused && !with_redis ? OP_DONE : OP_PENDING);
            assert_int_equal(calls[i].told, refused && with_redis ? 1 : 0);
            if (refused) assert_int_equal(calls[i].call.reason, REASON_CONTEXT_OVERLOADED);
        }
        assert_int_equal(fake_fetch_started(t.fetch) - before, 4);
        /* who waits for a call that is out counts for nothing */
        struct token first = token_of("iss", "u0", "u0");
        struct call more;
        assert_int_equal(find(&more, &first, "Bearer x"), OP_PENDING);
        identity_cancel(&more.call);
        while (fake_fetch_open(t.fetch)) fake_fetch_answer(fake_fetch_oldest(t.fetch), 200, profile_of("u"));
        for (int i = 0; i < 4; i++) drop(&calls[i]);
        struct token late = token_of("iss", "u7", "u7");
        fetch_one(&late, "u7"); /* a refusal is not remembered */
        identities_destroy(t.ids);
        t.ids = NULL;
    }
    struct slice labels[] = {SLICE("context"), SLICE("overloaded")};
    assert_int_equal(metric_value(METRIC_DEPENDENCY_FAILURES, labels), 8);
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

/* --- flushes ---------------------------------------------------------------------------------------------------- */

enum flush { FLUSH_ALL, FLUSH_ISSUER, FLUSH_SUBJECT };

static void flush(enum flush what)
{
    if (what == FLUSH_ALL) identities_flush_all(t.ids);
    if (what == FLUSH_ISSUER) identities_flush_issuer(t.ids, SLICE("iss"));
    if (what == FLUSH_SUBJECT) identities_flush_subject(t.ids, SLICE("iss"), SLICE("jane"));
}

static void test_flush_reaches_memory_and_redis(void **state)
{
    (void)state;
    static const struct {
        enum flush what;
        enum found_in jane, same_issuer, other_issuer; /* afterwards, in memory or Redis */
    } rows[] = {
        {FLUSH_ALL, FOUND_NONE, FOUND_NONE, FOUND_NONE},
        {FLUSH_ISSUER, FOUND_NONE, FOUND_NONE, FOUND_MEMORY}, /* the others' Redis entries go too, by the generation */
        {FLUSH_SUBJECT, FOUND_NONE, FOUND_MEMORY, FOUND_MEMORY},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (int unread = 0; unread < 2; unread++) { /* the generation was not read lately */
            struct token jane = token_of("iss", "jane", "a"), kim = token_of("iss", "kim", "b");
            struct token pat = token_of("iss2", "pat", "c");
            open_with(base_config(), true);
            fetch_one(&jane, "jane");
            fetch_one(&kim, "kim");
            fetch_one(&pat, "pat");
            loop_advance(t.loop, unread ? 15000 : 1);
            flush(rows[i].what);
            assert_int_equal(whence(&jane), rows[i].jane);
            assert_int_equal(whence(&kim), rows[i].same_issuer);
            assert_int_equal(whence(&pat), rows[i].other_issuer);
            identities_destroy(t.ids);
            redis_destroy(t.redis, NULL, NULL);
            t.ids = NULL;
            t.redis = NULL;
        }
    }
}

/* Asked before the flush, answered after it: handed to those who waited, kept nowhere, joined by nobody. */
static void test_flush_during_a_flight(void **state)
{
    (void)state;
    for (int what = FLUSH_ALL; what <= FLUSH_SUBJECT; what++) {
        for (int stage = 0; stage < 3; stage++) { /* while the generation, the context, the profile is asked for */
            struct token k = token_of("iss", "jane", "a");
            struct call before, after;
            open_with(base_config(), true);
            find(&before, &k, "Bearer x");
            for (int i = 0; i < stage; i++) fake_redis_deliver(t.redis);
            flush((enum flush)what);
            loop_advance(t.loop, 1);
            assert_int_equal(find(&after, &k, "Bearer x"), OP_PENDING);
            deliver();
            assert_int_equal(fake_fetch_open(t.fetch), 2);
            fake_fetch_answer(fake_fetch_oldest(t.fetch), 200, profile_of("old"));
            assert_int_equal(before.told, 1);
            assert_int_equal(after.told, 0);
            assert_int_equal(t.redis->sets, 0);
            fake_fetch_answer(fake_fetch_oldest(t.fetch), 200, profile_of("new"));
            assert_int_equal(after.told, 1);
            /* a raise of a number that was never read is made sure of first */
            bool unsure = stage == 0 && what != FLUSH_SUBJECT;
            assert_int_equal(t.redis->sets, unsure ? 0 : 1);
            drop(&before);
            drop(&after);
            find(&after, &k, "Bearer x");
            assert_true(slice_eq(after.call.user->id, SLICE("new")));
            drop(&after);
            identities_destroy(t.ids);
            redis_destroy(t.redis, NULL, NULL);
            t.ids = NULL;
            t.redis = NULL;
        }
    }
}

/* A flush that Redis does not hear of is made up for when it is back. */
static void test_flush_while_redis_is_away(void **state)
{
    (void)state;
    for (int what = FLUSH_ALL; what <= FLUSH_SUBJECT; what++) {
        for (int unread = 0; unread < 2; unread++) {
            struct token k = token_of("iss", "jane", "a");
            open_with(base_config(), true);
            fetch_one(&k, "jane");
            if (unread) { /* as after a start of the process */
                struct identity_config c = base_config();
                identities_destroy(t.ids);
                t.ids = identities_create(t.loop, t.fetch, t.redis, &c);
            }
            t.redis->unavailable = true;
            flush((enum flush)what);
            deliver();
            loop_advance(t.loop, 1);
            t.redis->unavailable = false;
            assert_int_equal(whence(&k), FOUND_NONE);
            fake_fetch_answer(fake_fetch_oldest(t.fetch), 200, profile_of("new"));
            loop_advance(t.loop, 30001);
            struct call c;
            if (find(&c, &k, "Bearer x") == OP_PENDING) deliver();
            if (fake_fetch_open(t.fetch)) fake_fetch_answer(fake_fetch_oldest(t.fetch), 200, profile_of("new"));
            assert_true(slice_eq(c.call.user->id, SLICE("new")));
            drop(&c);
            loop_advance(t.loop, 30001);
            assert_int_equal(whence(&k), FOUND_REDIS); /* and then Redis is used again */
            identities_destroy(t.ids);
            redis_destroy(t.redis, NULL, NULL);
            t.ids = NULL;
            t.redis = NULL;
        }
    }
}

static void test_destroy_with_all_kinds_out(void **state)
{
    (void)state;
    struct call calls[3];
    struct token a = token_of("iss", "a", "a"), b = token_of("iss", "b", "b"), c = token_of("iss", "c", "c");
    open_with(base_config(), true);
    find(&calls[0], &a, "Bearer x");
    deliver();
    find(&calls[1], &b, "Bearer x");
    identities_flush_subject(t.ids, SLICE("iss"), SLICE("d"));
    find(&calls[2], &c, "Bearer x");
    identities_destroy(t.ids);
    t.ids = NULL;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(calls[i].told, 1);
        assert_null(calls[i].call.user);
        assert_int_equal(calls[i].call.reason, REASON_SHUTTING_DOWN);
    }
    deliver(); /* nothing comes back to what is gone */
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

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

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
        TEST(test_many_wait_for_one_call),
        TEST(test_nobody_waits_any_more),
        TEST(test_cap),
        TEST(test_unverified_stay_under_their_credential),
        TEST(test_verified_names),
        TEST(test_claims_as_context),
        TEST(test_document_without_a_shape),
        TEST(test_flush_reaches_memory_and_redis),
        TEST(test_flush_during_a_flight),
        TEST(test_flush_while_redis_is_away),
        TEST(test_destroy_with_all_kinds_out),
        TEST(test_what_if_users),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
