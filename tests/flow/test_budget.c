/* All that a request waits for others, in all its steps, has one end; what the client takes its time over has not. */
#include "flow/flow.h"

#include "proxy/relay.h"

#define H "HTTP/1.1\r\nHost: a\r\n"
#define BUDGET_MS 1500 /* less than each of the steps has */
#define EARLY 400      /* before the end, more than a few turns of the harness take */
#define KEYS_ISSUER                                                                                                    \
    "[{issuer: \"" FLOW_ISSUER "\", jwks_url: \"https://issuer.test/keys\", audiences: [api], algorithms: [RS256]}]"

static const struct flow_config config = {
    .listen = "budget_ms: 1500",
    .serve = "public_endpoints: true",
    .routes = "[{prefix: /public, access: public}, {prefix: /ws, access: public, websocket: on}, "
              "{prefix: /, access: authorized}]"};

static void expect_spent(struct memory *c, const char *step, const char *detail)
{
    flow_expect_reason(c, REASON_BUDGET);
    flow_expect_line(REASON_BUDGET, step);
    assert_string_equal(flow_logged("detail"), detail);
}

/* It has waited since now. */
static void expect_spent_in_time(struct memory *c, const char *step, const char *detail)
{
    flow_pass(BUDGET_MS - EARLY);
    if (flow_has_message(c)) fail_msg("%s: too early: %.*s", step, (int)c->got.n, c->got.p);
    flow_pass(EARLY);
    expect_spent(c, step, detail);
    assert_false(c->shut); /* the connection goes on */
}

static void while_authenticating(void **state)
{
    (void)state;
    struct flow_config with_keys = config;
    with_keys.issuers = KEYS_ISSUER;
    flow_start(&with_keys);
    flow.manual = true;
    flow_pass(10000);
    assert_int_equal(fake_fetch_open(flow.proxy.fetch), 1);
    struct memory *c = flow_client();
    const char *payload = flow_printf("{\"iss\":\"" FLOW_ISSUER "\",\"aud\":\"api\",\"sub\":\"a\",\"exp\":%lld}",
                                      (long long)loop_wall_ms(flow.loop) / 1000 + 3600);
    flow_send(c, "GET /x HTTP/1.1\r\nHost: a\r\n%s\r\n", flow_bearer_of("{\"alg\":\"RS256\"}", payload));
    expect_spent_in_time(c, "authenticate", "waiting for the issuer's keys");
    assert_int_equal(fake_fetch_open(flow.proxy.fetch), 1); /* the keys are still on their way, for whoever comes */
    flow.manual = false;
    flow_end();
}

static void while_judged(void **state)
{
    (void)state;
    flow_start(&config);
    flow.manual = true;
    struct memory *c = flow_client();
    flow_send(c, "%s", flow_get("/x", "alice"));
    expect_spent_in_time(c, "identify", "waiting for the context");
    fake_fetch_answer(fake_fetch_oldest(flow.proxy.fetch), 200, "{\"id\":\"alice\"}");
    flow_send(c, "%s", flow_get("/x", "alice")); /* what the call came to is not lost */
    expect_spent_in_time(c, "decide", "waiting for the decision");
    assert_int_equal(flow.ups_n, 0);
    flow_end();
}

static void while_connecting(void **state)
{
    (void)state;
    flow_start(&config);
    fake_dial_open = false;
    struct memory *c = flow_client();
    flow_send(c, "GET /public " H "\r\n");
    expect_spent_in_time(c, "connect", "waiting for a connection");
    assert_int_equal(fake_dial_waiting(), 0);
    flow_end();
}

static void while_forwarding(void **state)
{
    (void)state;
    static const char *const begun[] = {"", "HTTP/1.1 200 O", "HTTP/1.1 103 Early Hints\r\n\r\n"};
    for (size_t i = 0; i < sizeof begun / sizeof *begun; i++) {
        flow_start(&config);
        struct memory *c = flow_client();
        flow_send(c, "GET /public " H "\r\n");
        flow_pass(BUDGET_MS - EARLY);
        flow_send_bytes(flow_up(0), begun[i], strlen(begun[i])); /* not yet an answer */
        if (i == 2) flow_expect(c, 103, "");
        assert_false(flow_has_message(c));
        flow_pass(EARLY);
        expect_spent(c, "forward", "waiting for the answer");
        assert_true(flow_up(0)->closed);
        flow_end();
    }
}

static void question_of_authorize(void **state)
{
    (void)state;
    static const char body[] = "{\"resource\":\"r\",\"action\":\"read\"}";
    static const char user[] = "{\"resource\":\"r\",\"action\":\"read\",\"user\":{\"id\":\"x\"}}";
    struct flow_config what_if = config;
    what_if.tokens = "anonymous: judge";
    what_if.more = "authorize: {what_if: true}";
    for (int i = 0; i < 2; i++) {
        const char *sent = i ? user : body;
        flow_start(&what_if);
        flow.manual = true;
        struct memory *c = flow_client();
        flow_send(c, "POST /authorize " H "Content-Length: %zu\r\n\r\n", strlen(sent));
        for (size_t k = 0; k < 8; k++) { /* the client takes its time: that is not waiting for others */
            flow_pass(BUDGET_MS);
            flow_send_bytes(c, sent + k, 1);
        }
        assert_false(flow_has_message(c));
        flow_send_bytes(c, sent + 8, strlen(sent) - 8);
        assert_int_equal(fake_fetch_open(flow.proxy.fetch), 1);
        expect_spent_in_time(c, "decide", "waiting for the decision");
        flow_end();
    }
}

/* No step takes long; all of them together do. */
static void adds_up(void **state)
{
    (void)state;
    flow_start(&config);
    flow.manual = true;
    fake_dial_open = false;
    struct memory *c = flow_client();
    flow_send(c, "%s", flow_get("/x", "alice"));
    flow_pass(BUDGET_MS / 5);
    fake_fetch_answer(fake_fetch_oldest(flow.proxy.fetch), 200, "{\"id\":\"alice\"}");
    flow_pass(BUDGET_MS / 5);
    fake_fetch_answer(fake_fetch_oldest(flow.proxy.fetch), 200, "{\"result\":true}");
    flow_pass(BUDGET_MS / 5);
    fake_dial_finish(0);
    flow_pass(BUDGET_MS / 5);
    assert_false(flow_has_message(c));
    flow_pass(BUDGET_MS / 5);
    expect_spent(c, "forward", "waiting for the answer");
    flow_end();
}

/* What was used before a slow body stays used, and the body does not count. */
static void slow_upload(void **state)
{
    (void)state;
    for (int answered = 0; answered < 2; answered++) {
        flow_start(&config);
        flow.manual = true;
        struct memory *c = flow_client();
        flow_send(c, "POST /x " H "%sContent-Length: 20\r\n\r\n", flow_bearer("alice"));
        flow_pass(BUDGET_MS / 3);
        fake_fetch_answer(fake_fetch_oldest(flow.proxy.fetch), 200, "{\"id\":\"alice\"}");
        fake_fetch_answer(fake_fetch_oldest(flow.proxy.fetch), 200, "{\"result\":true}");
        flow_turn();
        for (int i = 0; i < 20; i++) {
            flow_pass(BUDGET_MS);
            assert_false(flow_has_message(c));
            flow_send(c, "x");
        }
        flow_pass(BUDGET_MS * 2 / 3 - EARLY);
        assert_false(flow_has_message(c));
        if (answered) {
            flow_send(flow_up(0), "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
            flow_expect(c, 200, "ok");
        } else {
            flow_pass(EARLY);
            expect_spent(c, "forward", "waiting for the answer");
        }
        flow_end();
    }
}

/* A body that is there when it is needed costs nothing. */
static void quick_upload(void **state)
{
    (void)state;
    flow_start(&config);
    struct memory *c = flow_client();
    flow_send(c, "POST /public " H "Content-Length: 2\r\n\r\nhi");
    expect_spent_in_time(c, "forward", "waiting for the answer");
    flow_end();
}

static void slow_download(void **state)
{
    (void)state;
    flow_start(&config);
    struct memory *c = flow_client();
    flow_send(c, "GET /public " H "\r\n");
    flow_pass(BUDGET_MS - EARLY);
    flow_send(flow_up(0), "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n");
    for (int i = 0; i < 10; i++) {
        flow_pass(RESPONSE_MS - EARLY);
        flow_send(flow_up(0), "x");
    }
    flow_expect(c, 200, "xxxxxxxxxx");
    flow_send(c, "GET /public " H "\r\n"); /* the next has one of its own */
    flow_pass(BUDGET_MS - EARLY);
    flow_send(flow_up(0), "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    flow_expect(c, 200, "");
    flow_end();
}

static void slow_reader(void **state)
{
    (void)state;
    flow_start(&config);
    struct memory *c = flow_client();
    c->room = 0;
    flow_send(c, "GET /public " H "\r\n");
    flow_send(flow_up(0), "HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\n");
    char *bytes = flow_bytes(300000);
    flow_send_bytes(flow_up(0), bytes, 200000);
    flow_pass(BUDGET_MS * 3);
    c->room = MEMORY_ALL;
    flow_turn();
    flow_send_bytes(flow_up(0), bytes + 200000, 100000);
    struct message m = flow_take(c);
    assert_int_equal(m.body_n, 300000);
    flow_end();
}

static void websocket(void **state)
{
    (void)state;
    flow_start(&config);
    struct memory *c = flow_client();
    flow_send(c, "GET /ws " H
                 "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                 "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n");
    flow_send(flow_up(0), "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n"
                          "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n");
    assert_int_equal(flow_take(c).status, 101);
    flow_pass(BUDGET_MS * 20);
    assert_false(c->closed || c->shut);
    flow_send(flow_up(0), "ping");
    assert_int_equal(c->got.n, 4);
    flow_end();
}

/* Two who wait for one call: each has a budget of its own, and the call goes on. */
static void each_waiter_its_own(void **state)
{
    (void)state;
    flow_start(&config);
    flow.manual = true;
    struct memory *c = flow_client(), *d = flow_client();
    flow_send(c, "%s", flow_get("/x", "alice"));
    flow_pass(BUDGET_MS - EARLY);
    flow_send(d, "%s", flow_get("/x", "alice"));
    flow_pass(EARLY);
    expect_spent(c, "identify", "waiting for the context");
    assert_int_equal(fake_fetch_open(flow.proxy.fetch), 1);
    flow.manual = false;
    flow_turn();
    flow_serve(flow_up(0), "GET /x HTTP/1.1", "for d");
    flow_expect(d, 200, "for d");
    flow_end();
}

static void none(void **state)
{
    (void)state;
    struct flow_config off = config;
    off.listen = "budget_ms: 0";
    flow_start(&off);
    struct memory *c = flow_client();
    flow_send(c, "GET /public " H "\r\n");
    flow_pass(RESPONSE_MS - EARLY);
    assert_false(flow_has_message(c));
    flow_pass(EARLY);
    flow_expect_reason(c, REASON_UPSTREAM_TIMEOUT);
    flow_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(while_authenticating),  cmocka_unit_test(while_judged),
        cmocka_unit_test(while_connecting),      cmocka_unit_test(while_forwarding),
        cmocka_unit_test(question_of_authorize), cmocka_unit_test(adds_up),
        cmocka_unit_test(slow_upload),           cmocka_unit_test(quick_upload),
        cmocka_unit_test(slow_download),         cmocka_unit_test(slow_reader),
        cmocka_unit_test(websocket),             cmocka_unit_test(each_waiter_its_own),
        cmocka_unit_test(none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
