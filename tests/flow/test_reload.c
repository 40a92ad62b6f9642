/* Another configuration at every stage of a request: it ends as it began, the next begins with the new one, and nothing
   of the old one is left when nobody needs it. */
#include "flow/flow.h"

#define H "HTTP/1.1\r\nHost: a\r\n"
#define KEYS_ISSUER                                                                                                    \
    "[{issuer: \"" FLOW_ISSUER "\", jwks_url: \"http://keys.test/jwks\", audiences: [api], algorithms: [RS256]}]"

/* Everything is elsewhere, faster or gone. */
static const struct flow_config other = {
    .upstream = "max_idle: 3",
    .context = "url: \"http://other.test/profile\"",
    .policy = "url: \"http://other.test/v1/data/policy\", timeout_ms: 50",
    .grant = "header: x-other",
    .routes = "[{prefix: /only, access: authorized, upstream: moved}]",
    .more = "upstreams: {moved: {url: \"http://moved.test:7002\", response_timeout_ms: 100, connect_timeout_ms: 100}}",
};

static size_t settings_alive(void)
{
    size_t n = 0;
    for (struct list *at = flow.proxy.all_settings.next; at != &flow.proxy.all_settings; at = at->next) n++;
    return n;
}

static void expect_only_the_new(void)
{
    flow_pass(20);
    assert_int_equal(settings_alive(), 1);
    assert_int_equal(flow.proxy.settings->revision, 2);
}

/* The oldest call that waits: its host. */
static void answer_call(const char *url, const char *body)
{
    struct fetch_call *c = fake_fetch_oldest(flow.proxy.fetch);
    assert_non_null(c);
    if (!strstr(c->url, url)) fail_msg("%s was asked, not %s", c->url, url);
    fake_fetch_answer(c, 200, body);
    flow_turn();
}

static void expect_old_answer(struct memory *c, struct memory *up)
{
    struct message m = flow_take(up);
    assert_string_equal(m.first, "GET /x HTTP/1.1");
    assert_non_null(flow_header(&m, "x-auth-context"));
    assert_null(flow_header(&m, "x-other"));
    flow_send(up, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    flow_expect(c, 200, "ok");
}

/* From each waiting step on, with all behind it as it was. stage: how far it had come. */
static void at_every_step(void **state)
{
    (void)state;
    for (int stage = 0; stage < 5; stage++) {
        flow_start(NULL);
        flow.manual = true;
        fake_dial_open = stage > 2;
        struct memory *c = flow_client();
        flow_send(c, "%s", flow_get("/x", "alice"));
        if (stage >= 1) answer_call("api.test", "{\"id\":\"alice\"}");
        if (stage >= 2) answer_call("opa.test", "{\"result\":true}");
        if (stage == 4) flow_take(flow_up(0));
        if (stage == 4) flow_send(flow_up(0), "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no");
        assert_true(flow_reload(&other));
        assert_int_equal(settings_alive(), 2);
        flow_pass(1000); /* times of the new one are over */
        if (stage < 1) answer_call("api.test", "{\"id\":\"alice\"}");
        if (stage < 2) answer_call("opa.test", "{\"result\":true}");
        if (stage < 3) fake_dial_finish(0);
        flow_turn();
        if (stage == 4) {
            flow_send(flow_up(0), "k");
            flow_expect(c, 200, "ok");
        } else {
            expect_old_answer(c, flow_up(0));
        }
        expect_only_the_new();
        flow_send(c, "%s", flow_get("/x", "alice"));
        flow_expect_reason(c, REASON_NO_ROUTE); /* the same connection */
        flow_send(c, "%s", flow_get("/only", "alice"));
        answer_call("other.test", "{\"id\":\"alice\"}");
        answer_call("other.test", "{\"result\":true}");
        fake_dial_open = true;
        flow_turn();
        struct message m = flow_take(flow_up(flow.ups_n - 1));
        assert_non_null(flow_header(&m, "x-other"));
        flow.manual = false;
        flow_end();
    }
}

/* Who waits for keys: the issuer stays, or is gone. */
static void while_authenticating(void **state)
{
    (void)state;
    for (int gone = 0; gone < 2; gone++) {
        struct flow_config before = {.issuers = KEYS_ISSUER}, after = other;
        after.issuers = gone ? "[{issuer: \"https://third.test\", secret: \"" FLOW_SECRET "\", audiences: [api], algorithms: [HS256]}]"
                             : KEYS_ISSUER;
        flow_start(&before);
        flow.manual = true;
        flow_pass(10000);
        assert_int_equal(fake_fetch_open(flow.proxy.fetch), 1);
        struct memory *c = flow_client();
        const char *payload = flow_printf("{\"iss\":\"" FLOW_ISSUER "\",\"aud\":\"api\",\"sub\":\"a\",\"exp\":%lld}",
                                          (long long)loop_wall_ms(flow.loop) / 1000 + 3600);
        flow_send(c, "GET /x HTTP/1.1\r\nHost: a\r\n%s\r\n", flow_bearer_of("{\"alg\":\"RS256\"}", payload));
        assert_true(flow_reload(&after));
        flow_pass(20);
        if (gone) {
            flow_expect_reason(c, REASON_TOKEN_ISSUER);
        } else {
            assert_int_equal(flow_lines(), 0);
            fake_fetch_fail(fake_fetch_oldest(flow.proxy.fetch), FETCH_UNREACHABLE);
            flow_turn();
            flow_expect_reason(c, REASON_KEYS_UNAVAILABLE);
        }
        expect_only_the_new();
        flow.manual = false;
        flow_end();
    }
}

/* The client goes, or the process ends, while it runs under the old one. */
static void gone_and_aborted(void **state)
{
    (void)state;
    for (int stage = 0; stage < 4; stage++) {
        flow_start(NULL);
        flow.manual = true;
        fake_dial_open = stage > 2;
        struct memory *c = flow_client(), *d = flow_client();
        flow_send(c, "%s", flow_get("/x", "alice"));
        if (stage >= 1) answer_call("api.test", "{\"id\":\"alice\"}");
        if (stage >= 2) answer_call("opa.test", "{\"result\":true}");
        assert_true(flow_reload(&other));
        flow_send(d, "%s", flow_get("/only/x", "bob"));
        flow_stop(c, UV_ECONNRESET);
        expect_only_the_new();
        flow_end();
        flow_start(NULL);
        flow.manual = true;
        fake_dial_open = stage > 2;
        c = flow_client();
        flow_send(c, "%s", flow_get("/x", "alice"));
        if (stage >= 1) answer_call("api.test", "{\"id\":\"alice\"}");
        if (stage >= 2) answer_call("opa.test", "{\"result\":true}");
        assert_true(flow_reload(&other));
        assert_true(flow_reload(&(struct flow_config){.routes = "[{prefix: /z, access: public}]"}));
        assert_int_equal(settings_alive(), 2); /* what nobody began with is gone at once */
        flow_end();
    }
}

/* Times of connections: who waits for a request has the new idle time, whose body is on its way has the old one. */
static void times(void **state)
{
    (void)state;
    flow_start(NULL);
    struct memory *idle = flow_client(), *sending = flow_client(), *fresh = flow_client();
    flow_send(idle, "GET /health " H "\r\n");
    flow_expect(idle, 200, NULL);
    flow_send(sending, "POST /public/x " H "Content-Length: 2\r\n\r\na");
    flow_send(fresh, "GET /pub");
    flow_pass(HEADER_MS - 1000);
    assert_true(flow_reload(&(struct flow_config){.header_ms = 500, .idle_ms = 1000, .body_ms = 500}));
    flow_pass(600);
    assert_false(idle->closed || sending->closed || fresh->closed);
    flow_send(fresh, "lic/f " H "\r\n");
    flow_serve(flow_up(1), "GET /public/f HTTP/1.1", "f");
    flow_expect(fresh, 200, "f");
    flow_pass(600);
    assert_true(idle->closed);
    assert_false(fresh->closed || sending->closed);
    flow_pass(600);
    assert_true(fresh->closed);
    assert_false(sending->closed);
    flow_pass(BODY_MS);
    flow_expect_reason(sending, REASON_BODY_TIMEOUT);
    flow_end();
}

/* What means the same is kept: nobody is asked again, no connection is made again. */
static void caches_stay(void **state)
{
    (void)state;
    flow_start(NULL);
    struct memory *c = flow_client();
    flow_send(c, "%s", flow_get("/x", "alice"));
    flow_serve(flow_up(0), "GET /x HTTP/1.1", "1");
    flow_expect(c, 200, "1");
    size_t policy = flow.policy_calls, profiles = flow.profile_calls;
    struct flow_config limits = {.more = "log: {level: debug}",
                                 .policy = "url: \"http://opa.test:8181/v1/data/policy\", timeout_ms: 77",
                                 .context = "url: \"http://api.test:7001/profile\", max_inflight: 3"};
    assert_true(flow_reload(&limits));
    expect_only_the_new();
    flow_send(c, "%s", flow_get("/x", "alice"));
    flow_serve(flow_up(0), "GET /x HTTP/1.1", "2");
    flow_expect(c, 200, "2");
    assert_int_equal(flow.policy_calls, policy);
    assert_int_equal(flow.profile_calls, profiles);
    limits.policy = "url: \"http://opa.test:8181/v1/data/policy\", timeout_ms: 77, on_error: allow";
    assert_true(flow_reload(&limits)); /* decided under another rule */
    flow_send(c, "%s", flow_get("/x", "alice"));
    flow_serve(flow_up(0), "GET /x HTTP/1.1", "3");
    assert_int_equal(flow.policy_calls, policy + 1);
    assert_int_equal(flow.profile_calls, profiles);
    flow_end();
}

/* Whom the new one does not trust speaks for nobody any more, on connections that are open too. */
static void trust_ends(void **state)
{
    (void)state;
    struct flow_config trusting = {.listen = "trusted_proxies: [192.0.2.0/24]"};
    flow_start(&trusting);
    struct memory *c = flow_client();
    for (int i = 0; i < 3; i++) {
        flow_send(c, "GET /public " H "X-Request-Id: mine\r\n\r\n");
        struct message m = flow_take(flow_up(0));
        if (i == 1)
            assert_string_not_equal(flow_header(&m, "x-request-id"), "mine");
        else
            assert_string_equal(flow_header(&m, "x-request-id"), "mine");
        flow_send(flow_up(0), "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        flow_expect(c, 200, "");
        assert_true(flow_reload(i ? &trusting : &(struct flow_config){.listen = NULL}));
    }
    flow_end();
}

static void refused(void **state)
{
    (void)state;
    flow_start(NULL);
    struct settings *before = flow.proxy.settings;
    assert_false(flow_reload(&(struct flow_config){.routes = "[{prefix: nothing}]"}));
    assert_true(flow_log_holds("routes[0].prefix"));
    assert_false(flow_reload(&(struct flow_config){.grant = "format: jws"}));
    assert_false(flow_reload(&(struct flow_config){.listen = "address: \"192.0.2.99:1\""})); /* not ours */
    assert_true(flow_log_holds("cannot listen on 192.0.2.99 port 1"));
    assert_ptr_equal(flow.proxy.settings, before);
    assert_int_equal(settings_alive(), 1);
    proxy_drain(&flow.proxy, 1000);
    assert_false(flow_reload(&other));
    assert_true(flow_log_holds("reload_ignored"));
    flow_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(at_every_step), cmocka_unit_test(while_authenticating), cmocka_unit_test(gone_and_aborted),
        cmocka_unit_test(times),         cmocka_unit_test(caches_stay),          cmocka_unit_test(trust_ends),
        cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
