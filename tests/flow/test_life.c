/* The life of a request: allowed, remembered, denied, authenticated only, public; what the upstream gets of it, and
   what the access line says. */
#include "flow/flow.h"

#include "base/metric.h"

static void allowed(void **state)
{
    (void)state;
    flow_start(NULL);
    struct memory *c = flow_client();
    flow_send(c, "%s", flow_get("/offices/7?x=1", "alice"));
    struct message up = flow_take(flow_up(0));
    assert_string_equal(up.first, "GET /offices/7?x=1 HTTP/1.1");
    assert_string_equal(flow_header(&up, "Host"), "api.test:7001");
    assert_int_equal(flow_header_count(&up, "x-auth-context"), 1);
    assert_non_null(strstr(flow_header(&up, "x-auth-context"), "\"alice\""));
    assert_string_equal(flow_header(&up, "X-Forwarded-For"), "192.0.2.1");
    flow_send(flow_up(0), "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Api: yes\r\n\r\nhello");
    struct message a = flow_take(c);
    assert_string_equal(a.first, "HTTP/1.1 200 OK");
    assert_string_equal(a.body, "hello");
    assert_string_equal(flow_header(&a, "X-Api"), "yes");
    assert_string_equal(flow_header(&a, "X-Request-Id"), flow_header(&up, "X-Request-Id"));
    assert_int_equal(flow.policy_calls, 1);
    assert_int_equal(flow.profile_calls, 1);
    flow_end();
}

/* The second time nothing is asked but the upstream. */
static void remembered(void **state)
{
    (void)state;
    flow_start(NULL);
    const char *get = flow_get("/offices/7", "alice");
    struct memory *c = flow_client();
    for (int i = 0; i < 3; i++) {
        flow_send(c, "%s", get);
        struct message up = flow_take(flow_up(0));
        assert_int_equal(flow_header_count(&up, "x-auth-context"), 1);
        flow_send(flow_up(0), "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        flow_expect(c, 200, "ok");
        assert_string_equal(flow_logged("context_from"), i ? "memory" : "api");
        assert_string_equal(flow_logged("decision_from"), i ? "memory" : "policy");
        assert_string_equal(flow_logged("upstream_reused"), i ? "true" : "false");
    }
    assert_int_equal(flow.policy_calls, 1);
    assert_int_equal(flow.profile_calls, 1);
    assert_int_equal(flow.ups_n, 1);
    flow_end();
}

static void denied(void **state)
{
    (void)state;
    flow_start(NULL);
    flow.policy.body = "{\"result\":{\"allow\":false,\"reason\":\"not on \\\"Sundays\\\"\"}}";
    struct memory *c = flow_client();
    for (int i = 0; i < 2; i++) {
        flow_send(c, "%s", flow_get("/offices/7", "alice"));
        struct message a = flow_take(c);
        assert_int_equal(a.status, 403);
        assert_non_null(strstr(a.body, "\"message\":\"not on \\\"Sundays\\\"\""));
        assert_non_null(strstr(a.body, "\"code\":\"policy_denied\""));
        assert_null(flow_header(&a, "Connection"));
        flow_expect_line(REASON_POLICY_DENIED, "decide");
        assert_string_equal(flow_logged("decision"), "deny");
    }
    assert_int_equal(flow.policy_calls, 1);
    assert_int_equal(flow.ups_n, 0);
    flow_end();
}

/* An authenticated route: a grant without a policy, nothing asked of the engine. Public: no grant, and the client's own
   copy is gone, in any spelling. */
static void routes_without_a_policy(void **state)
{
    (void)state;
    flow_start(NULL);
    struct memory *c = flow_client();
    flow_send(c, "%s", flow_get("/me", "alice"));
    struct message up = flow_take(flow_up(0));
    assert_non_null(strstr(flow_header(&up, "x-auth-context"), "\"policy\":null"));
    flow_send(flow_up(0), "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    flow_expect(c, 200, "");
    flow_send(c, "GET /public HTTP/1.1\r\nHost: a\r\nX-Auth-Context: {}\r\nx_auth_context: {}\r\nX.AUTH-context: {}\r\n"
                 "X-Other: kept\r\n\r\n");
    up = flow_take(flow_up(0));
    assert_int_equal(flow_header_count(&up, "x-auth-context"), 0);
    assert_int_equal(flow_header_count(&up, "x_auth_context"), 0);
    assert_int_equal(flow_header_count(&up, "x.auth-context"), 0);
    assert_string_equal(flow_header(&up, "X-Other"), "kept");
    flow_send(flow_up(0), "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    flow_expect(c, 200, "");
    assert_int_equal(flow.policy_calls, 0);
    flow_end();
}

/* Exactly these bytes reach the API, whatever stands around them. */
static void sent_is_judged(void **state)
{
    (void)state;
    flow_start(&(struct flow_config){
        .listen = "trusted_proxies: [10.0.0.0/8]",
        .upstream = "host: preserve",
        .routes = "[{prefix: /public, access: public, strip: true}]",
    });
    struct memory *c = flow_client_from("10.1.2.3", false);
    flow_send(
        c,
        "POST /public/%%7Euser/%%c3%%a9?q=%%2F+%%zz HTTP/1.1\r\nHost: Front.Test\r\nConnection: X-Drop, keep-alive\r\n"
        "X-Drop: 1\r\nKeep-Alive: 5\r\nTE: trailers\r\nUpgrade: h2c\r\nProxy-Authorization: secret\r\n"
        "Cookie: a=b\r\nX-Request-Id: abc-1\r\nX-Forwarded-For: 203.0.113.9\r\nContent-Length: 3\r\n\r\nxyz");
    struct memory *up = flow_up(0);
    const char *expected = "POST /~user/%C3%A9?q=%2F+%zz HTTP/1.1\r\nHost: front.test\r\nCookie: a=b\r\n"
                           "Content-Length: 3\r\nX-Request-Id: abc-1\r\nX-Forwarded-For: 203.0.113.9, 10.1.2.3\r\n"
                           "X-Forwarded-Proto: http\r\nX-Forwarded-Host: front.test\r\n\r\nxyz";
    assert_int_equal(up->got.n, strlen(expected));
    assert_memory_equal(up->got.p, expected, strlen(expected));
    up->got.n = 0;
    flow_send(
        up,
        "HTTP/1.1 201 Made it\r\nContent-Length: 2\r\nX-Request-Id: other\r\nConnection: X-Hop\r\nX-Hop: 1\r\n\r\nok");
    expected = "HTTP/1.1 201 Made it\r\nContent-Length: 2\r\nX-Request-Id: abc-1\r\n\r\nok";
    assert_int_equal(c->got.n, strlen(expected));
    assert_memory_equal(c->got.p, expected, strlen(expected));
    assert_string_equal(flow_logged("client"), "203.0.113.9");
    flow_end();
}

static void access_line(void **state)
{
    (void)state;
    flow_start(NULL);
    struct memory *c = flow_client();
    flow_send(c, "POST /offices/7?secret=1 HTTP/1.1\r\nHost: a\r\n%sCookie: crumbs\r\nContent-Length: 4\r\n\r\nbody",
              flow_bearer("al\\\"ice"));
    flow_take(flow_up(0));
    flow_send(flow_up(0), "HTTP/1.1 404 Not Found\r\nContent-Length: 7\r\n\r\nmissing");
    flow_expect(c, 404, "missing");
    assert_int_equal(flow_lines(), 1);
    flow_expect_line(REASON_FORWARDED, "forward");
    assert_string_equal(flow_logged("status"), "404");
    assert_string_equal(flow_logged("method"), "POST");
    assert_string_equal(flow_logged("path"), "/offices/7");
    assert_null(flow_logged("query"));
    assert_string_equal(flow_logged("client"), "192.0.2.1");
    assert_string_equal(flow_logged("issuer"), FLOW_ISSUER);
    assert_string_equal(flow_logged("resource"), "offices");
    assert_string_equal(flow_logged("action"), "create");
    assert_string_equal(flow_logged("decision"), "allow");
    assert_int_equal(strlen(flow_logged("decision_id")), 36);
    assert_string_equal(flow_logged("bytes_in"), "4");
    assert_string_equal(flow_logged("bytes_out"), "7");
    assert_string_equal(flow_logged("upstream"), "api.test:7001");
    assert_non_null(flow_logged("waited_ms"));
    assert_non_null(flow_logged("time"));
    assert_non_null(flow_logged("ms"));
    assert_non_null(flow_logged("context_age_ms"));
    assert_non_null(flow_logged("decision_age_ms"));
    assert_false(flow_log_holds("crumbs") || flow_log_holds("Bearer") || flow_log_holds("eyJ") ||
                 flow_log_holds("secret"));
    struct slice labels[] = {SLICE("POST"), SLICE("/"), SLICE("404")};
    assert_true(metric_value(METRIC_HTTP_REQUESTS, labels) == 1);
    flow_end();
}

/* A context that another instance left in Redis; one that is missing there; Redis away. */
static void redis_between(void **state)
{
    (void)state;
    flow_start(&(struct flow_config){.more = "redis: {url: \"redis://127.0.0.1:6379\"}"});
    struct memory *c = flow_client();
    flow_send(c, "%s", flow_get("/me", "alice"));
    flow_serve(flow_up(0), "GET /me HTTP/1.1", "1");
    flow_expect(c, 200, "1");
    assert_int_equal(flow.profile_calls, 1);
    assert_int_equal(flow.proxy.redis->sets, 1);
    flow_pass(31000); /* out of memory's reach, still in Redis */
    c = flow_client();
    flow_send(c, "%s", flow_get("/me", "alice"));
    flow_serve(flow_up(0), "GET /me HTTP/1.1", "2");
    flow_expect(c, 200, "2");
    assert_string_equal(flow_logged("context_from"), "redis");
    assert_int_equal(flow.profile_calls, 1);
    flow_pass(31000);
    flow.proxy.redis->unavailable = true;
    c = flow_client();
    flow_send(c, "%s", flow_get("/me", "alice"));
    flow_serve(flow_up(0), "GET /me HTTP/1.1", "3");
    flow_expect(c, 200, "3");
    assert_int_equal(flow.profile_calls, 2);
    flow_end();
}

static void bypassed(void **state)
{
    (void)state;
    flow_start(&(struct flow_config){.policy = "url: \"http://opa.test/policy\", on_error: allow"});
    flow.policy.outcome = FETCH_UNREACHABLE;
    struct memory *c = flow_client();
    flow_send(c, "%s", flow_get("/offices", "alice"));
    struct message up = flow_take(flow_up(0));
    assert_non_null(strstr(flow_header(&up, "x-auth-context"), "\"bypassed\":true"));
    flow_send(flow_up(0), "HTTP/1.1 204 No Content\r\n\r\n");
    flow_expect(c, 204, "");
    assert_string_equal(flow_logged("bypassed"), "true");
    assert_true(metric_value(METRIC_BYPASSED, NULL) == 1);
    flow.policy.outcome = FETCH_TIMEOUT;
    flow_send(c, "%s", flow_get("/offices", "alice"));
    flow_expect_reason(c, REASON_POLICY_TIMEOUT);
    flow_end();
}

static void own_endpoints(void **state)
{
    (void)state;
    flow_start(&(struct flow_config){.more = "authorize: {what_if: true}"});
    struct memory *c = flow_client();
    flow_send(c, "GET /health HTTP/1.1\r\nHost: a\r\n\r\nHEAD /health HTTP/1.1\r\nHost: a\r\n\r\n");
    struct message a = flow_take(c);
    assert_non_null(strstr(a.body, "\"status\":\"healthy\""));
    struct message head = flow_take_head_answer(c);
    assert_string_equal(flow_header(&head, "Content-Length"), flow_header(&a, "Content-Length"));
    assert_false(flow_has_message(c));
    flow_send(c, "GET /ready HTTP/1.1\r\nHost: a\r\n\r\n");
    flow_expect(c, 200, NULL);
    struct memory *admin = flow_client_from("127.0.0.1", true);
    flow_send(admin,
              "POST /authorize HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n");
    flow_expect(admin, 100, NULL);
    const char *ask = "{\"resource\":\"offices\",\"action\":\"read\",\"user\":{\"id\":\"bob\"}}";
    flow_send(admin, "%zx\r\n%s\r\n0\r\n\r\n", strlen(ask), ask);
    a = flow_take(admin);
    assert_int_equal(a.status, 200);
    assert_non_null(strstr(a.body, "\"allow\":true"));
    flow_send(admin, "POST /cache/flush HTTP/1.1\r\nHost: a\r\nContent-Length: 12\r\n\r\n{\"all\":true}");
    flow_expect(admin, 200, "{\"flushed\":true,\"published\":false}");
    flow_send(admin, "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
    a = flow_take(admin);
    assert_non_null(strstr(a.body, "doorward_http_requests_total{"));
    flow_send(admin, "GET /offices HTTP/1.1\r\nHost: a\r\n\r\n");
    flow_expect_reason(admin, REASON_NO_ROUTE);
    flow_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allowed),        cmocka_unit_test(remembered),
        cmocka_unit_test(denied),         cmocka_unit_test(routes_without_a_policy),
        cmocka_unit_test(sent_is_judged), cmocka_unit_test(access_line),
        cmocka_unit_test(redis_between),  cmocka_unit_test(bypassed),
        cmocka_unit_test(own_endpoints),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
