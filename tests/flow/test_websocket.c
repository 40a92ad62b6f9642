/* WebSockets (RFC 6455): on routes that say so, judged like any request, then bytes as they are; an end of their own.
 */
#include "flow/flow.h"

#include "proxy/relay.h"

#define ASK                                                                                                            \
    "Host: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\nSec-WebSocket-Version: 13\r\n"                \
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
#define ACCEPT                                                                                                         \
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n"                                \
    "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"
#define WEBSOCKET_MS 90000

static const struct flow_config config = {
    .routes = "[{prefix: /ws, access: authorized, websocket: on}, {prefix: /open, access: public, websocket: on}, "
              "{prefix: /plain, access: public}]"};

static struct memory *opened(void)
{
    struct memory *c = flow_client();
    flow_send(c, "GET /ws HTTP/1.1\r\n" ASK "%s\r\n", flow_bearer("alice"));
    struct message up = flow_take(flow_up(0));
    assert_string_equal(flow_header(&up, "Upgrade"), "websocket");
    assert_int_equal(flow_header_count(&up, "Connection"), 1);
    assert_int_equal(flow_header_count(&up, "x-auth-context"), 1);
    flow_send(flow_up(0), ACCEPT);
    struct message a = flow_take(c);
    assert_int_equal(a.status, 101);
    assert_string_equal(flow_header(&a, "Upgrade"), "websocket");
    assert_string_equal(flow_header(&a, "Connection"), "Upgrade");
    assert_non_null(flow_header(&a, "Sec-WebSocket-Accept"));
    return c;
}

static void relayed(void **state)
{
    (void)state;
    flow_start(&config);
    struct memory *c = opened();
    char *bytes = flow_bytes(300000);
    for (int i = 0; i < 3; i++) {
        memory_send(c, bytes, 300000);
        memory_send(flow_up(0), bytes, 200000);
        flow_turn();
    }
    assert_int_equal(flow_up(0)->got.n, 900000);
    assert_int_equal(c->got.n, 600000);
    assert_memory_equal(flow_up(0)->got.p + 300000, bytes, 300000);
    flow_pass(WEBSOCKET_MS - 1000);
    flow_send(flow_up(0), "ping"); /* the idle time starts anew */
    flow_pass(WEBSOCKET_MS - 1000);
    assert_false(c->closed || c->shut);
    flow_stop(flow_up(0), 0);
    assert_true(c->shut);
    assert_string_equal(flow_logged("status"), "101");
    assert_string_equal(flow_logged("reason"), "forwarded");
    flow_end();
}

/* Bytes that came with the handshake wait for the switch, then go on; so do those after them. */
static void early_bytes(void **state)
{
    (void)state;
    flow_start(&config);
    struct memory *c = flow_client();
    flow_send(c, "GET /ws HTTP/1.1\r\n" ASK "%s\r\nearly", flow_bearer("alice"));
    flow_take(flow_up(0));
    assert_int_equal(flow_up(0)->got.n, 0);
    flow_send(flow_up(0), ACCEPT);
    assert_int_equal(flow_take(c).status, 101);
    assert_int_equal(flow_up(0)->got.n, 5);
    flow_send(c, "late");
    assert_int_equal(flow_up(0)->got.n, 9);
    assert_memory_equal(flow_up(0)->got.p, "earlylate", 9);
    flow_stop(c, 0);
    assert_true(flow_up(0)->closed);
    flow_end();
}

static void gone_before_the_switch(void **state)
{
    (void)state;
    flow_start(&config);
    struct memory *c = flow_client();
    flow_send(c, "GET /ws HTTP/1.1\r\n" ASK "%s\r\n", flow_bearer("alice"));
    flow_take(flow_up(0));
    flow_stop(c, 0);
    flow_send(flow_up(0), ACCEPT);
    assert_int_equal(flow_take(c).status, 101);
    assert_true(flow_up(0)->closed && c->closed);
    flow_end();
}

/* Both directions wait for each other, and what was sent just before the end still arrives. */
static void bounded(void **state)
{
    (void)state;
    flow_start(&config);
    struct memory *c = opened(), *up = flow_up(0);
    char *bytes = flow_bytes(500000);
    c->room = up->room = 0;
    memory_send(c, bytes, 500000);
    memory_send(up, bytes, 500000);
    flow_turn();
    assert_false(c->reading || up->reading);
    assert_true(c->most_queued <= RELAY_HIGH_BYTES + 65536 && up->most_queued <= RELAY_HIGH_BYTES + 65536);
    up->room = MEMORY_ALL;
    flow_turn();
    assert_int_equal(up->got.n, 500000);
    c->room = MEMORY_ALL;
    flow_turn();
    assert_int_equal(c->got.n, 500000);
    c->room = 100;
    memory_send(up, bytes, 10000);
    memory_end(up, 0);
    flow_turn();
    assert_int_equal(c->got.n, 500100);
    c->room = MEMORY_ALL;
    flow_turn();
    assert_int_equal(c->got.n, 510000);
    assert_true(c->shut);
    flow_end();
}

static void ends(void **state)
{
    (void)state;
    for (int how = 0; how < 6; how++) {
        flow_start(&config);
        struct memory *c = opened(), *up = flow_up(0);
        if (how == 0) flow_stop(c, 0);
        if (how == 1) flow_stop(c, UV_ECONNRESET);
        if (how == 2) flow_stop(up, UV_ECONNRESET);
        if (how == 3) flow_pass(WEBSOCKET_MS);
        if (how == 4) {
            for (int k = 0; k < 62; k++) { /* busy, until its token expires */
                flow_pass(60000);
                if (!c->shut && !c->closed) flow_send(c, "x");
            }
        }
        if (how == 5) {
            proxy_drain(&flow.proxy, 0);
            proxy_abort(&flow.proxy);
            flow_turn();
        }
        assert_true(c->shut || c->closed);
        assert_true(up->closed);
        assert_int_equal(flow_lines(), 1);
        if (how == 4) assert_string_equal(flow_logged("reason"), "token_expired");
        flow_end();
    }
}

/* Not asked for, not allowed here, not a handshake: no upgrade goes out, and a 101 is no answer. */
static void refused(void **state)
{
    (void)state;
    static const char *const requests[] = {
        "GET /plain HTTP/1.1\r\n" ASK "\r\n",
        "GET /open HTTP/1.1\r\nHost: a\r\nConnection: upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: "
        "x\r\n\r\n",
        "POST /open HTTP/1.1\r\nContent-Length: 0\r\n" ASK "\r\n",
        "GET /open HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    };
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        flow_start(&config);
        struct memory *c = flow_client();
        flow_send_bytes(c, requests[i], strlen(requests[i]));
        struct message up = flow_take(flow_up(0));
        assert_null(flow_header(&up, "Upgrade"));
        assert_null(flow_header(&up, "Connection"));
        flow_send(flow_up(0), ACCEPT);
        flow_expect_reason(c, REASON_UPSTREAM_MALFORMED);
        flow_end();
    }
    flow_start(&config);
    struct memory *c = flow_client();
    flow_send(c, "GET /ws HTTP/1.1\r\n" ASK "\r\n");
    flow_expect_reason(c, REASON_CREDENTIAL_MISSING);
    flow_send(c, "GET /open HTTP/1.1\r\n" ASK "\r\n");
    flow_take(flow_up(0));
    flow_send(flow_up(0), "HTTP/1.1 400 No\r\nContent-Length: 2\r\n\r\nno");
    flow_expect(c, 400, "no");
    flow_send(c, "GET /plain HTTP/1.1\r\nHost: a\r\n\r\n"); /* the connection is an ordinary one still */
    flow_serve(flow_up(0), "GET /plain HTTP/1.1", "ok");
    flow_expect(c, 200, "ok");
    flow_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(relayed),
        cmocka_unit_test(early_bytes),
        cmocka_unit_test(gone_before_the_switch),
        cmocka_unit_test(bounded),
        cmocka_unit_test(ends),
        cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
