/* Every reason of reasons.def that a request can end for: the status and body the client gets, the access line, and
   that nothing of it reached the upstream. The last test asserts that none was left out. */
#include "flow/flow.h"

#include "base/metric.h"
#include "proxy/admission.h"
#include "proxy/conn.h"

#define H "HTTP/1.1\r\nHost: a\r\n"
#define KEYS_ISSUER                                                                                                    \
    "[{issuer: \"" FLOW_ISSUER "\", jwks_url: \"http://keys.test/jwks\", audiences: [api], algorithms: [RS256]}]"

#define REFUSED(id, at) .reason = REASON_##id, .step = at

static bool seen[REASON_COUNT];

struct refusal {
    enum reason reason;
    const char *step;
    const char *request; /* @: a good Authorization line of alice's; #: one of another algorithm */
    struct flow_config config;
    struct flow_answer profile, policy; /* body NULL and no outcome: the good ones */
};

static const struct refusal refusals[] = {
    {REFUSED(MALFORMED, "admit"), .request = "GET / HTTP/1.1\nHost: a\r\n\r\n"},
    {REFUSED(MALFORMED, "admit"), .request = "\x16\x03\x01\x02\r\n\r\n"},
    {REFUSED(MALFORMED, "admit"), .request = "GET / " H "X: 1\r\n folded\r\n\r\n"},
    {REFUSED(MALFORMED, "admit"), .request = "GET /\r\n\r\n"},
    {REFUSED(MALFORMED, "admit"), .request = "\n\nGET / " H "\r\n"},
    {REFUSED(FRAMING, "admit"), .request = "POST / " H "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"},
    {REFUSED(FRAMING, "admit"), .request = "POST / " H "Content-Length: 1\r\nContent-Length: 1\r\n\r\nx"},
    {REFUSED(FRAMING, "admit"), .request = "POST / " H "Content-Length: 1, 1\r\n\r\nx"},
    {REFUSED(FRAMING, "admit"), .request = "POST / " H "Content-Length: +1\r\n\r\nx"},
    {REFUSED(FRAMING, "admit"), .request = "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
    {REFUSED(FRAMING, "forward"), .request = "POST /public " H "Transfer-Encoding: chunked\r\n\r\nxyz\r\n"},
    {REFUSED(HEADER_INVALID, "admit"), .request = "GET / " H "Connection: close, Authorization\r\n\r\n"},
    {REFUSED(HEADER_INVALID, "admit"), .request = "GET / " H "Bad Name: 1\r\n\r\n"},
    {REFUSED(HEADER_INVALID, "admit"), .request = "GET / " H "X : 1\r\n\r\n"},
    {REFUSED(HOST_INVALID, "admit"), .request = "GET / HTTP/1.1\r\n\r\n"},
    {REFUSED(HOST_INVALID, "admit"), .request = "GET / " H "Host: a\r\n\r\n"},
    {REFUSED(HOST_INVALID, "route"), .request = "GET / HTTP/1.1\r\nHost: a b\r\n\r\n"},
    {REFUSED(HOST_INVALID, "route"), .request = "GET http://b/ " H "\r\n"},
    {REFUSED(TARGET_INVALID, "route"), .request = "GET /%zz " H "\r\n"},
    {REFUSED(TARGET_INVALID, "route"), .request = "GET * " H "\r\n"},
    {REFUSED(PATH_AMBIGUOUS, "route"), .request = "GET /public/../x " H "\r\n"},
    {REFUSED(PATH_AMBIGUOUS, "route"), .request = "GET /public/%2e%2e/x " H "\r\n"},
    {REFUSED(PATH_AMBIGUOUS, "route"), .request = "GET /public//x " H "\r\n"},
    {REFUSED(PATH_AMBIGUOUS, "route"), .request = "GET /public/a%2Fb " H "\r\n"},
    {REFUSED(PATH_AMBIGUOUS, "route"), .request = "GET /public/a;b " H "\r\n"},
    {REFUSED(QUERY_AMBIGUOUS, "route"), .request = "GET /x?office=a&office_id=b " H "@\r\n"},
    {REFUSED(QUERY_AMBIGUOUS, "route"), .request = "GET /x?office=a&office=a " H "@\r\n"},
    {REFUSED(CREDENTIAL_MULTIPLE, "authenticate"), .request = "GET /x " H "@@\r\n"},
    {REFUSED(BODY_INVALID, "answer"), .request = "POST /authorize " H "Content-Length: 2\r\n\r\n{}",
     .config = {.serve = "public_endpoints: true"}},
    {REFUSED(CREDENTIAL_MISSING, "authenticate"), .request = "GET /x " H "\r\n"},
    {REFUSED(CREDENTIAL_SCHEME, "authenticate"), .request = "GET /x " H "Authorization: Basic eA==\r\n\r\n"},
    {REFUSED(CREDENTIAL_SCHEME, "authenticate"), .request = "GET /x " H "Authorization:\r\n\r\n"},
    {REFUSED(TOKEN_MALFORMED, "authenticate"), .request = "GET /x " H "Authorization: Bearer x.y.z\r\n\r\n"},
    {REFUSED(CREDENTIAL_REJECTED, "identify"), .request = "GET /x " H "@\r\n",
     .profile = {.body = "{}", .status = 401}},
    {REFUSED(POLICY_DENIED, "decide"), .request = "GET /x " H "@\r\n", .policy = {.body = "{\"result\":false}"}},
    {REFUSED(POLICY_UNDEFINED, "decide"), .request = "GET /x " H "@\r\n", .policy = {.body = "{}"}},
    {REFUSED(POLICY_MALFORMED, "decide"), .request = "GET /x " H "@\r\n", .policy = {.body = "{\"result\":\"true\"}"}},
    {REFUSED(CONTEXT_UNKNOWN, "identify"), .request = "GET /x " H "@\r\n", .profile = {.body = "{}", .status = 404}},
    {REFUSED(NO_ROUTE, "route"), .request = "GET /x " H "\r\n",
     .config = {.routes = "[{prefix: /public, access: public}]"}},
    {REFUSED(METHOD, "route"), .request = "CONNECT a:80 " H "\r\n"},
    {REFUSED(METHOD, "route"), .request = "PUT /public " H "\r\n",
     .config = {.routes = "[{prefix: /, access: public, methods: [GET]}]"}},
    {REFUSED(METHOD, "collect"), .request = "POST /health " H "\r\n"},
    {REFUSED(BODY_TOO_LARGE, "admit"), .request = "POST /public " H "Content-Length: 11\r\n\r\n",
     .config = {.listen = "max_body_bytes: 10"}},
    {REFUSED(BODY_TOO_LARGE, "forward"),
     .request = "POST /public " H "Transfer-Encoding: chunked\r\n\r\nb\r\nhello world\r\n",
     .config = {.listen = "max_body_bytes: 10"}},
    {REFUSED(EXPECTATION, "admit"), .request = "POST /public " H "Expect: 200-ok\r\nContent-Length: 1\r\n\r\nx"},
    {REFUSED(HOST_UNKNOWN, "route"), .request = "GET /public " H "\r\n", .config = {.listen = "hosts: [b]"}},
    {REFUSED(GRANT_TOO_LARGE, "decide"), .request = "GET /x " H "@\r\n", .config = {.grant = "max_bytes: 256"},
     .profile =
         {.body =
              "{\"id\":\"alice\",\"roles\":[\"0123456789012345678901234567890123456789012345678901234567890123456789\","
              "\"0123456789012345678901234567890123456789012345678901234567890123456789\","
              "\"0123456789012345678901234567890123456789012345678901234567890123456789\"]}"}},
    {REFUSED(TRANSFER_CODING, "admit"), .request = "POST /public " H "Transfer-Encoding: gzip, chunked\r\n\r\n"},
    {REFUSED(KEYS_UNAVAILABLE, "authenticate"), .request = "GET /x " H "#\r\n", .config = {.issuers = KEYS_ISSUER},
     .profile = {.outcome = FETCH_UNREACHABLE}},
    {REFUSED(CONTEXT_UNAVAILABLE, "identify"), .request = "GET /x " H "@\r\n",
     .profile = {.body = "{}", .status = 500}},
    {REFUSED(CONTEXT_UNAVAILABLE, "identify"), .request = "GET /x " H "@\r\n", .profile = {.outcome = FETCH_TIMEOUT}},
    {REFUSED(CONTEXT_MALFORMED, "identify"), .request = "GET /x " H "@\r\n", .profile = {.body = "[]"}},
    {REFUSED(POLICY_UNAVAILABLE, "decide"), .request = "GET /x " H "@\r\n", .policy = {.outcome = FETCH_UNREACHABLE}},
    {REFUSED(POLICY_UNAVAILABLE, "decide"), .request = "GET /x " H "@\r\n", .policy = {.body = "{}", .status = 500}},
    {REFUSED(POLICY_GARBAGE, "decide"), .request = "GET /x " H "@\r\n", .policy = {.body = "{\"result\":"}},
    {REFUSED(POLICY_TIMEOUT, "decide"), .request = "GET /x " H "@\r\n", .policy = {.outcome = FETCH_TIMEOUT}},
    {REFUSED(HTTP_VERSION, "admit"), .request = "GET / HTTP/2.0\r\nHost: a\r\n\r\n"},
    {REFUSED(HTTP_VERSION, "admit"), .request = "GET / HTTP/1.2\r\nHost: a\r\n\r\n"},
};

static void start(const struct refusal *r)
{
    flow_start(&r->config);
    if (r->profile.body || r->profile.outcome) flow.profile = r->profile;
    if (r->policy.body || r->policy.outcome) flow.policy = r->policy;
}

/* Good but for its key, which nobody has. */
static const char *key_bearer(void)
{
    return flow_bearer_of("{\"alg\":\"RS256\",\"kid\":\"x\"}",
                          flow_printf("{\"iss\":\"" FLOW_ISSUER "\",\"aud\":\"api\",\"sub\":\"a\",\"exp\":%lld}",
                                      (long long)loop_wall_ms(flow.loop) / 1000 + 3600));
}

static const char *filled(const char *request)
{
    struct buf out;
    buf_init(&out, &flow.arena);
    for (const char *p = request; *p; p++) {
        if (*p == '@')
            buf_printf(&out, "%s", flow_bearer("alice"));
        else if (*p == '#')
            buf_printf(&out, "%s", key_bearer());
        else
            buf_add_char(&out, *p);
    }
    buf_add_char(&out, '\0');
    return out.p;
}

static void refused(const struct refusal *r, struct memory *c)
{
    struct message a = flow_take(c);
    const char *code = flow_printf("\"code\":\"%s\"", reason_code(r->reason));
    if (a.status != reason_status(r->reason) || !strstr(a.body, code))
        fail_msg("%s %s, not %s, for %s", a.first, a.body, code, r->request);
    if (a.status == 405) assert_non_null(flow_header(&a, "Allow"));
    assert_int_equal(flow_header(&a, "Retry-After") != NULL, a.status == 503);
    assert_int_equal(flow_header(&a, "WWW-Authenticate") != NULL, a.status == 401);
    assert_false(flow_has_message(c));
    assert_int_equal(flow_lines(), 1);
    flow_expect_line(r->reason, r->step);
    seen[r->reason] = true;
}

static void by_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        const struct refusal *r = &refusals[i];
        start(r);
        struct memory *c = flow_client();
        flow_send_bytes(c, filled(r->request), strlen(filled(r->request)));
        refused(r, c);
        if (flow.ups_n) assert_int_equal(strcmp(r->step, "forward"), 0);
        flow_end();
    }
}

/* Tokens: a claim or header of the test's own. exp as an offset from now. */
static void by_token(void **state)
{
    (void)state;
    static const struct {
        enum reason reason;
        const char *header, *payload; /* %lld: now */
        long long offset;
    } rows[] = {
        {REASON_TOKEN_ALGORITHM, "{\"alg\":\"none\"}", "{\"exp\":%lld}", 3600},
        {REASON_TOKEN_ALGORITHM, "{\"alg\":\"HS512\"}",
         "{\"iss\":\"" FLOW_ISSUER "\",\"aud\":\"api\",\"sub\":\"a\",\"exp\":%lld}", 3600},
        {REASON_TOKEN_HEADER, "{\"alg\":\"HS256\",\"crit\":[\"b64\"]}",
         "{\"iss\":\"" FLOW_ISSUER "\",\"aud\":\"api\",\"sub\":\"a\",\"exp\":%lld}", 3600},
        {REASON_TOKEN_ISSUER, "{\"alg\":\"HS256\",\"typ\":\"JWT\"}",
         "{\"iss\":\"x\",\"aud\":\"api\",\"sub\":\"a\",\"exp\":%lld}", 3600},
        {REASON_TOKEN_AUDIENCE, "{\"alg\":\"HS256\",\"typ\":\"JWT\"}",
         "{\"iss\":\"" FLOW_ISSUER "\",\"aud\":\"x\",\"sub\":\"a\",\"exp\":%lld}", 3600},
        {REASON_TOKEN_TYPE, "{\"alg\":\"HS256\",\"typ\":\"id+jwt\"}",
         "{\"iss\":\"" FLOW_ISSUER "\",\"aud\":\"api\",\"sub\":\"a\",\"exp\":%lld}", 3600},
        {REASON_TOKEN_CLAIMS, "{\"alg\":\"HS256\",\"typ\":\"JWT\"}",
         "{\"iss\":\"" FLOW_ISSUER "\",\"aud\":\"api\",\"sub\":\"a\",\"exp\":\"%lld\"}", 3600},
        {REASON_TOKEN_SUBJECT, "{\"alg\":\"HS256\",\"typ\":\"JWT\"}",
         "{\"iss\":\"" FLOW_ISSUER "\",\"aud\":\"api\",\"exp\":%lld}", 3600},
        {REASON_TOKEN_EXPIRED, "{\"alg\":\"HS256\",\"typ\":\"JWT\"}",
         "{\"iss\":\"" FLOW_ISSUER "\",\"aud\":\"api\",\"sub\":\"a\",\"exp\":%lld}", -60},
        {REASON_TOKEN_NOT_YET, "{\"alg\":\"HS256\",\"typ\":\"JWT\"}",
         "{\"iss\":\"" FLOW_ISSUER "\",\"aud\":\"api\",\"sub\":\"a\",\"exp\":9999999999,\"nbf\":%lld}", 600},
    };
    flow_start(&(struct flow_config){.issuers = "[{issuer: \"" FLOW_ISSUER "\", secret: \"" FLOW_SECRET
                                                "\", audiences: [api], algorithms: [HS256], types: [JWT]}]"});
    struct memory *c = flow_client();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *payload = flow_printf(rows[i].payload, (long long)loop_wall_ms(flow.loop) / 1000 + rows[i].offset);
        flow_send(c, "GET /x " H "%s\r\n", flow_bearer_of(rows[i].header, payload));
        flow_expect_reason(c, rows[i].reason);
        flow_expect_line(rows[i].reason, "authenticate");
        seen[rows[i].reason] = true;
    }
    const char *line = flow_bearer("alice");
    flow_send(c, "GET /x " H "%.*sAAAA\r\n\r\n", (int)strlen(line) - 6, line);
    flow_expect_reason(c, REASON_TOKEN_SIGNATURE);
    seen[REASON_TOKEN_SIGNATURE] = true;
    assert_int_equal(flow.profile_calls, 0);
    flow_end();
}

/* A kid the issuer does not have. */
static void unknown_key(void **state)
{
    (void)state;
    flow_start(&(struct flow_config){.issuers = KEYS_ISSUER});
    flow.profile.body =
        "{\"keys\":[{\"kty\":\"RSA\",\"kid\":\"other\",\"e\":\"AQAB\",\"n\":"
        "\"0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPeb"
        "WKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMi"
        "cAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3"
        "XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw\"}]}";
    flow_pass(10000); /* the key set of flow_start was no good: asked for again */
    struct memory *c = flow_client();
    flow_send(c, "GET /x " H "%s\r\n", key_bearer());
    flow_expect_reason(c, REASON_TOKEN_KEY);
    seen[REASON_TOKEN_KEY] = true;
    flow_end();
}

/* Sizes: head, number of headers, target, in one read or in many. */
static void too_large(void **state)
{
    (void)state;
    static const struct {
        enum reason reason;
        size_t target, value, headers, split;
    } rows[] = {
        {REASON_TARGET_TOO_LONG, 1025, 1, 1, 0},    {REASON_TARGET_TOO_LONG, 9000, 1, 1, 0},
        {REASON_TARGET_TOO_LONG, 9000, 1, 1, 500},  {REASON_HEADERS_TOO_LARGE, 1000, 2048, 1, 0},
        {REASON_HEADERS_TOO_LARGE, 10, 9000, 1, 0}, {REASON_HEADERS_TOO_LARGE, 10, 9000, 1, 500},
        {REASON_HEADERS_TOO_LARGE, 10, 1, 20, 0},   {REASON_FORWARDED, 1000, 1500, 10, 0},
        {REASON_FORWARDED, 1000, 1500, 10, 100},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        flow_start(&(struct flow_config){.listen = "max_target_bytes: 1024, max_header_bytes: 2048, max_headers: 20",
                                         .routes = "[{prefix: /, access: public}]"});
        struct buf b;
        buf_init(&b, &flow.arena);
        buf_add_lit(&b, "GET /");
        for (size_t k = 1; k < rows[i].target; k++)
            buf_add_char(&b, 'p');
        buf_add_lit(&b, " " H "X: ");
        for (size_t k = 0; k < rows[i].value; k++)
            buf_add_char(&b, 'v');
        for (size_t k = 0; k < rows[i].headers; k++)
            buf_add_lit(&b, "\r\nY: 1");
        buf_add_lit(&b, "\r\n\r\n");
        struct memory *c = flow_client();
        size_t step = rows[i].split ? rows[i].split : b.n;
        for (size_t at = 0; at < b.n; at += step)
            memory_send(c, b.p + at, b.n - at < step ? b.n - at : step);
        flow_turn();
        if (rows[i].reason == REASON_FORWARDED) {
            flow_serve(flow_up(0), flow_printf("GET /%.*s HTTP/1.1", (int)rows[i].target - 1, b.p + 5), "ok");
            flow_expect(c, 200, "ok");
        } else {
            struct message a = flow_take(c);
            if (a.status != reason_status(rows[i].reason)) fail_msg("row %zu: %s", i, a.first);
            assert_string_equal(flow_header(&a, "Connection"), "close");
            seen[rows[i].reason] = true;
        }
        flow_end();
    }
}

/* Caps on calls that are out, and the end of the process while one waits. */
static void caps(void **state)
{
    (void)state;
    flow_start(&(struct flow_config){.policy = "url: \"http://opa.test/policy\", max_inflight: 1, max_waiting: 0",
                                     .context = "url: \"http://api.test/profile\", max_inflight: 1, max_waiting: 0"});
    flow.manual = true;
    struct memory *c = flow_client(), *d = flow_client();
    flow_send(c, "%s", flow_get("/x", "alice"));
    flow_send(d, "%s", flow_get("/x", "bob"));
    flow_expect_reason(d, REASON_CONTEXT_OVERLOADED);
    fake_fetch_answer(fake_fetch_oldest(flow.proxy.fetch), 200, "{\"id\":\"alice\"}");
    flow_send(d, "%s", flow_get("/y", "alice"));
    flow_expect_reason(d, REASON_POLICY_OVERLOADED);
    proxy_abort(&flow.proxy);
    flow_expect_line(REASON_SHUTTING_DOWN, "decide");
    seen[REASON_CONTEXT_OVERLOADED] = seen[REASON_POLICY_OVERLOADED] = seen[REASON_SHUTTING_DOWN] = true;
    flow_end();
}

/* What rests after failures is refused at once, with the whole seconds that are left of the rest. */
static void resting(void **state)
{
    (void)state;
    flow_start(&(struct flow_config){.more = "breakers: {failures: 2, rest_ms: 5000, max_rest_ms: 5000}"});
    struct memory *c = flow_client();
    flow.policy.outcome = FETCH_TIMEOUT;
    for (int i = 0; i < 2; i++) {
        flow_send(c, "%s", flow_get(i ? "/a" : "/b", "alice"));
        flow_expect_reason(c, REASON_POLICY_TIMEOUT);
    }
    size_t asked = flow.policy_calls;
    flow_pass(500);
    flow_send(c, "%s", flow_get("/c", "alice"));
    struct message m = flow_take(c);
    int seconds = atoi(flow_header(&m, "Retry-After"));
    assert_int_equal(m.status, 503);
    assert_in_range(seconds, 4, 5); /* 4 to 5 s less half of one, and never less than it takes */
    assert_string_equal(flow_logged("detail"), "resting after failures");
    assert_int_equal(flow.policy_calls, asked);
    flow.policy.outcome = FETCH_ANSWERED;
    flow_pass(5000);
    flow_send(c, "%s", flow_get("/c", "alice"));
    flow_serve(flow_up(0), "GET /c HTTP/1.1", "back");
    flow_expect(c, 200, "back");
    flow_end();
}

static void budget(void **state)
{
    (void)state;
    flow_start(&(struct flow_config){.listen = "budget_ms: 1000"});
    struct memory *c = flow_client();
    flow_send(c, "GET /public HTTP/1.1\r\nHost: a\r\n\r\n");
    flow_pass(1000);
    flow_expect_reason(c, REASON_BUDGET);
    seen[REASON_BUDGET] = true;
    flow_end();
}

/* Requests there at a time: one too many is refused, and those that are there are none the worse. */
static void upstream_cap(void **state)
{
    (void)state;
    flow_start(&(struct flow_config){.upstream = "max_inflight: 2"});
    struct memory *c[3] = {flow_client(), flow_client(), flow_client()};
    for (size_t i = 0; i < 3; i++)
        flow_send(c[i], "GET /public " H "\r\n");
    flow_expect_reason(c[2], REASON_UPSTREAM_OVERLOADED);
    flow_expect_line(REASON_UPSTREAM_OVERLOADED, "connect");
    for (int i = 0; i < 20; i++) { /* none of this is a failure of the upstream */
        flow_send(c[2], "GET /public " H "\r\n");
        flow_expect_reason(c[2], REASON_UPSTREAM_OVERLOADED);
    }
    struct slice counted[] = {SLICE("upstream"), SLICE("overloaded")};
    assert_int_equal(metric_value(METRIC_DEPENDENCY_FAILURES, counted), 21);
    flow_serve(flow_up(0), "GET /public HTTP/1.1", "0");
    flow_expect(c[0], 200, "0");
    flow_send(c[2], "GET /public " H "\r\n");
    flow_serve(flow_up(0), "GET /public HTTP/1.1", "2");
    flow_expect(c[2], 200, "2");
    flow_serve(flow_up(1), "GET /public HTTP/1.1", "1");
    flow_expect(c[1], 200, "1");
    seen[REASON_UPSTREAM_OVERLOADED] = true;
    flow_end();
}

/* Refused before a byte is read: the whole budget, and that of one address. */
static void connections(void **state)
{
    (void)state;
    flow_start(&(struct flow_config){.listen = "max_connections: 2, max_connections_per_address: 1"});
    static const enum reason expected[] = {REASON_FORWARDED, REASON_OVERLOADED, REASON_CONNECTIONS};
    for (size_t i = 0; i < 3; i++) {
        struct conn *c = conn_create(&flow.proxy, false);
        struct memory *m = memory_open(&c->stream, flow.loop, &conn_events);
        enum reason reason = admission_take(&flow.proxy, c);
        assert_int_equal(reason, expected[i]);
        if (reason == REASON_FORWARDED) {
            conn_begin(c);
            continue;
        }
        conn_refuse(c, reason);
        flow_turn();
        flow_expect_reason(m, reason);
        assert_true(m->shut);
        seen[reason] = true;
    }
    flow_end();
}

/* Those that have tests of their own: time and the upstream in test_time, the client in test_gone. UNSET, INTERNAL and
   GRANT_FAILED cannot be reached from outside with shapes that were tried at load. */
static void none_left_out(void **state)
{
    (void)state;
    static const enum reason elsewhere[] = {REASON_UNSET,
                                            REASON_FORWARDED,
                                            REASON_ANSWERED,
                                            REASON_INTERNAL,
                                            REASON_GRANT_FAILED,
                                            REASON_POLICY_FAILED, /* tests/e2e/test_embedded.py */
                                            REASON_POLICY_LIMIT,
                                            REASON_CLIENT_GONE,
                                            REASON_HEADER_TIMEOUT,
                                            REASON_BODY_TIMEOUT,
                                            REASON_UPSTREAM_UNREACHABLE,
                                            REASON_UPSTREAM_CERTIFICATE, /* tests/e2e/test_tls.py */
                                            REASON_WORKER_SILENT,        /* tests/e2e/test_workers.py */
                                            REASON_UPSTREAM_MALFORMED,
                                            REASON_UPSTREAM_CLOSED,
                                            REASON_UPSTREAM_TIMEOUT};
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
        seen[elsewhere[i]] = true;
    for (int i = 0; i < REASON_COUNT; i++)
        if (!seen[i]) fail_msg("%s was not reached", reason_code((enum reason)i));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_table),      cmocka_unit_test(by_token), cmocka_unit_test(unknown_key),
        cmocka_unit_test(too_large),     cmocka_unit_test(caps),     cmocka_unit_test(budget),
        cmocka_unit_test(resting),
        cmocka_unit_test(upstream_cap),  cmocka_unit_test(connections),
        cmocka_unit_test(none_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
