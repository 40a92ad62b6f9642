/* Flushes, between instances that share a Redis: what is told, what is heard, and what is done about what was missed. */
#include "flow/flow.h"

#include "authz/digest.h"
#include "base/metric.h"
#include "proxy/announce.h"

#define WITH_REDIS "redis: {url: \"redis://127.0.0.1:6379\"}"
#define FLUSHES "doorward:flushes"
#define GENERATION "doorward:generation"
#define FROM "\"from\":\"00000000000000aa\""

static const char *get_alice, *get_bob; /* the same tokens, however late it is */

static struct redis *start(void)
{
    flow_start(&(struct flow_config){.more = WITH_REDIS, .routes = "[{prefix: /}]"});
    struct redis *r = flow.proxy.redis;
    get_alice = flow_get("/offices", "alice");
    get_bob = flow_get("/offices", "bob");
    fake_redis_invalidate(r, ""); /* as when the watch begins */
    flow_turn();
    return r;
}

static void ask(struct memory *c, const char *subject)
{
    size_t before = flow.ups_n;
    flow_send(c, "%s", *subject == 'a' ? get_alice : get_bob);
    flow_serve(flow_up(before ? 0 : flow.ups_n - 1), "GET /offices HTTP/1.1", "x");
    flow_expect(c, 200, "x");
}

/* What a request of that subject finds in memory: token, context, decision. */
static void expect_kept(struct memory *c, const char *subject, bool token, bool context, bool decision)
{
    struct slice tokens = SLICE("token");
    double hits = metric_value(METRIC_CACHE_HITS, &tokens);
    ask(c, subject);
    assert_int_equal(metric_value(METRIC_CACHE_HITS, &tokens) - hits, token);
    assert_int_equal(strcmp(flow_logged("context_from"), "memory") == 0, context);
    assert_int_equal(strcmp(flow_logged("decision_from"), "memory") == 0, decision);
}

static void expect_all(struct memory *c, const char *subject, bool kept)
{
    expect_kept(c, subject, kept, kept, kept);
}

static const char *tag(uint64_t value)
{
    return flow_printf("%016llx", (unsigned long long)value);
}

static const char *message(int number, const char *rest)
{
    return flow_printf("{\"v\":1," FROM ",\"n\":%d,%s}", number, rest);
}

static const char *of_subject(const char *subject)
{
    uint8_t context[32];
    char hex[DIGEST_HEX_BYTES];
    identities_context(SLICE(FLOW_ISSUER), slice_str(subject), context);
    digest_hex(context, hex);
    return flow_printf("\"subject\":\"%s\",\"context\":\"%s\"",
                       tag(token_subject_tag(SLICE(FLOW_ISSUER), slice_str(subject))), hex);
}

static struct memory *flush(const char *body)
{
    struct memory *admin = flow_client_from("127.0.0.1", true);
    flow_send(admin, "POST /cache/flush HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n%s", strlen(body), body);
    return admin;
}

static void told(void **state)
{
    (void)state;
    struct redis *r = start();
    struct memory *c = flow_client();
    ask(c, "alice");
    flow_expect(flush("{\"issuer\":\"" FLOW_ISSUER "\",\"subject\":\"alice\"}"), 200,
                "{\"flushed\":true,\"published\":true}");
    assert_non_null(strstr(r->published, of_subject("alice")));
    assert_non_null(strstr(r->published, "\"n\":1,"));
    assert_null(strstr(r->published, "alice"));
    assert_null(strstr(r->published, "issuer"));
    assert_string_equal(fake_redis_find(r, FLUSHES)->value, "1");
    assert_null(fake_redis_find(r, GENERATION));
    flow_expect(flush("{\"issuer\":\"" FLOW_ISSUER "\"}"), 200, NULL);
    assert_non_null(strstr(r->published, flow_printf("\"issuer\":\"%s\"", tag(token_issuer_tag(SLICE(FLOW_ISSUER))))));
    flow_expect(flush("{\"all\":true}"), 200, NULL);
    assert_non_null(strstr(r->published, "\"all\":true"));
    assert_string_equal(fake_redis_find(r, FLUSHES)->value, "3");
    assert_int_equal(r->publishes, 3);
    flow_end();
}

/* It comes back to us: no second flush. */
static void our_own(void **state)
{
    (void)state;
    struct redis *r = start();
    struct memory *c = flow_client();
    flow_expect(flush("{\"all\":true}"), 200, NULL);
    ask(c, "alice");
    fake_redis_message(r, flow_printf("%s", r->published));
    fake_redis_message(r, flow_printf("%s", r->published)); /* of another master of a cluster */
    flow_turn();
    expect_all(c, "alice", true);
    flow_end();
}

static void not_told(void **state)
{
    (void)state;
    struct redis *r = start();
    r->unavailable = true;
    flow_expect(flush("{\"all\":true}"), 200, "{\"flushed\":true,\"published\":false}");
    assert_int_equal(r->publishes, 0);
    r->unavailable = false;
    fake_redis_invalidate(r, ""); /* it is back: the raise that is owed tells the others */
    flow_turn();
    assert_string_equal(fake_redis_find(r, GENERATION)->value, "1");
    flow_end();
}

static void who_asked_has_gone(void **state)
{
    (void)state;
    struct redis *r = start();
    flow.manual = true;
    struct memory *admin = flush("{\"all\":true}");
    assert_false(flow_has_message(admin));
    flow_stop(admin, UV_ECONNRESET);
    flow.manual = false;
    flow_turn();
    assert_int_equal(r->publishes, 1);
    flow.manual = true;
    flush("{\"all\":true}"); /* and the proxy ends while it waits */
    flow_end();
}

static void its_budget_is_spent(void **state)
{
    (void)state;
    flow_start(&(struct flow_config){.more = WITH_REDIS, .listen = "budget_ms: 1000"});
    flow.manual = true;
    struct memory *admin = flush("{\"all\":true}");
    flow_pass(1100);
    flow_expect_reason(admin, REASON_BUDGET);
    flow.manual = false;
    flow_turn();
    assert_int_equal(flow.proxy.redis->publishes, 1);
    flow_end();
}

static void heard(void **state)
{
    (void)state;
    static const struct {
        int what; /* 0: all, 1: issuer, 2: alice, 3: of another issuer, 4: somebody else */
        bool alice, bob;
    } rows[] = {{0, false, false}, {1, false, false}, {2, false, true}, {3, true, true}, {4, true, true}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct redis *r = start();
        struct memory *c = flow_client();
        ask(c, "alice");
        flow.profile.body = "{\"id\":\"bob\",\"roles\":[]}";
        ask(c, "bob");
        flow_turn();
        const char *rest[] = {"\"all\":true",
                              flow_printf("\"issuer\":\"%s\"", tag(token_issuer_tag(SLICE(FLOW_ISSUER)))),
                              of_subject("alice"),
                              flow_printf("\"issuer\":\"%s\"", tag(token_issuer_tag(SLICE("other")))),
                              of_subject("carol")};
        fake_redis_message(r, message(1, rest[rows[i].what]));
        flow_turn();
        expect_all(c, "bob", rows[i].bob);
        expect_all(c, "alice", rows[i].alice);
        flow_end();
    }
}

static void malformed(void **state)
{
    (void)state;
    struct redis *r = start();
    struct memory *c = flow_client();
    ask(c, "alice");
    const char *good = of_subject("alice");
    const char *rows[] = {
        "", "x", "[]", "{}", "null", "{\"all\":true}",
        "{\"v\":2," FROM ",\"n\":1,\"all\":true}",
        "{\"v\":1,\"from\":\"aa\",\"n\":1,\"all\":true}",
        "{\"v\":1,\"from\":7,\"n\":1,\"all\":true}",
        "{\"v\":1," FROM ",\"n\":0,\"all\":true}",
        "{\"v\":1," FROM ",\"n\":-5,\"all\":true}",
        "{\"v\":1," FROM ",\"n\":1.5,\"all\":true}",
        "{\"v\":1," FROM ",\"n\":\"1\",\"all\":true}",
        "{\"v\":1," FROM ",\"n\":99999999999999999999,\"all\":true}",
        "{\"v\":1," FROM ",\"n\":1,\"all\":false}",
        "{\"v\":1," FROM ",\"n\":1,\"all\":true,\"all\":true}",
        "{\"v\":1," FROM ",\"n\":1,\"all\":true,\"more\":1}",
        "{\"v\":1," FROM ",\"n\":1}",
        "{\"v\":1," FROM ",\"n\":1,\"issuer\":\"0000000000000000\"}",
        "{\"v\":1," FROM ",\"n\":1,\"issuer\":\"-00000000000000a\"}",
        "{\"v\":1," FROM ",\"n\":1,\"issuer\":\"" FLOW_ISSUER "\"}",
        "{\"v\":1," FROM ",\"n\":1,\"subject\":\"00000000000000ab\"}",
        "{\"v\":1," FROM ",\"n\":1,\"subject\":\"00000000000000ab\",\"context\":\"ab\"}",
        flow_printf("{\"v\":1," FROM ",\"n\":1,%s,\"all\":true}", good),
        flow_printf("{\"v\":1," FROM ",\"n\":1,%s}%600s", good, ""),
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fake_redis_message(r, rows[i]);
        flow_turn();
        expect_all(c, "alice", true);
    }
    assert_true(flow_log_holds("flush_message_malformed"));
    fake_redis_message(r, message(1, good));
    flow_turn();
    expect_all(c, "alice", false);
    flow_end();
}

/* A number that does not follow: others were missed, and whose they were nobody knows. */
static void numbers(void **state)
{
    (void)state;
    struct redis *r = start();
    struct memory *c = flow_client();
    ask(c, "alice");
    fake_redis_message(r, message(1, of_subject("carol")));
    flow_turn();
    expect_all(c, "alice", true);
    fake_redis_message(r, message(3, of_subject("carol")));
    flow_turn();
    expect_all(c, "alice", false);
    fake_redis_message(r, message(4, of_subject("carol")));
    fake_redis_message(r, message(4, of_subject("carol")));
    flow_turn();
    expect_all(c, "alice", true);
    fake_redis_message(r, message(1, of_subject("alice"))); /* the counter began anew */
    flow_turn();
    expect_all(c, "alice", false);
    flow_end();
}

static void cut_off(void **state)
{
    (void)state;
    struct redis *r = start();
    struct memory *c = flow_client();
    ask(c, "alice");
    fake_redis_invalidate(r, "");
    flow_turn();
    expect_kept(c, "alice", true, false, true); /* no flush was missed: contexts only, which are in Redis */
    fake_redis_put(r, FLUSHES, "5", 0);
    fake_redis_invalidate(r, "");
    flow_turn();
    expect_all(c, "alice", false);
    flow_end();
}

/* Nobody knows what was missed while Redis cannot be asked: for a few seconds it is tried, then all goes, once. */
static void cut_off_and_away(void **state)
{
    (void)state;
    struct redis *r = start();
    struct memory *c = flow_client();
    ask(c, "alice");
    r->unavailable = true;
    fake_redis_invalidate(r, "");
    flow_turn();
    expect_kept(c, "alice", true, false, true);
    for (int i = 0; i < 4; i++)
        flow_pass(500);
    expect_all(c, "alice", true);
    flow_pass(600);
    expect_all(c, "alice", false);
    flow_pass(5000);
    expect_all(c, "alice", true);
    r->unavailable = false;
    fake_redis_invalidate(r, "");
    flow_turn();
    expect_kept(c, "alice", true, false, true); /* as before: nothing was missed */
    r->unavailable = true;
    fake_redis_invalidate(r, ""); /* it ends while it tries */
    flow_turn();
    flow_end();
}

static void raised(void **state)
{
    (void)state;
    struct redis *r = start();
    struct memory *c = flow_client();
    ask(c, "alice");
    fake_redis_put(r, GENERATION, "1", 0);
    fake_redis_invalidate(r, GENERATION);
    flow_turn();
    expect_all(c, "alice", false);
    flow_end();
}

/* Without tracking nobody is told, and all that is left is the generation, read now and then. */
static void without_tracking(void **state)
{
    (void)state;
    flow_start(&(struct flow_config){.more = "redis: {url: \"redis://127.0.0.1:6379\", tracking: false}",
                                     .routes = "[{prefix: /}]"});
    struct redis *r = flow.proxy.redis;
    struct memory *c = flow_client();
    get_alice = flow_get("/offices", "alice");
    get_bob = flow_get("/offices", "bob");
    ask(c, "alice");
    flow_expect(flush("{\"all\":true}"), 200, "{\"flushed\":true,\"published\":false}");
    assert_int_equal(r->publishes, 0);
    ask(c, "alice");
    fake_redis_put(r, GENERATION, "5", 0);
    flow_pass(10000);
    c = flow_client(); /* the other one was idle for too long */
    ask(c, "bob");
    expect_all(c, "alice", false);
    flow_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(told),
        cmocka_unit_test(our_own),
        cmocka_unit_test(not_told),
        cmocka_unit_test(who_asked_has_gone),
        cmocka_unit_test(its_budget_is_spent),
        cmocka_unit_test(heard),
        cmocka_unit_test(malformed),
        cmocka_unit_test(numbers),
        cmocka_unit_test(cut_off),
        cmocka_unit_test(cut_off_and_away),
        cmocka_unit_test(raised),
        cmocka_unit_test(without_tracking),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
