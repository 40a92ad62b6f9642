/* Every wait has an end: the clock is turned to just before it and just behind it. */
#include "flow/flow.h"

#include "proxy/relay.h"

#define H "HTTP/1.1\r\nHost: a\r\n"
#define EARLY 500 /* before the end, more than a turn of the harness takes */

static void no_head(void **state)
{
    (void)state;
    flow_start(NULL);
    struct memory *silent = flow_client(), *partial = flow_client(), *slow = flow_client();
    flow_send(partial, "GET /public HTTP/1.1\r\nHo");
    for (int i = 0; i < 5; i++) {
        flow_send(slow, "G");
        flow_pass((HEADER_MS - EARLY) / 5);
    }
    assert_false(silent->closed || partial->shut || slow->shut);
    flow_pass(EARLY);
    assert_true(silent->closed);
    assert_int_equal(silent->got.n, 0);
    flow_expect_reason(partial, REASON_HEADER_TIMEOUT);
    flow_expect_reason(slow, REASON_HEADER_TIMEOUT);
    flow_expect_line(REASON_HEADER_TIMEOUT, "admit");
    assert_int_equal(flow_lines(), 2);
    flow_end();
}

static void idle(void **state)
{
    (void)state;
    flow_start(NULL);
    struct memory *c = flow_client(), *d = flow_client(), *e = flow_client();
    flow_send(c, "GET /health " H "\r\n");
    flow_send(d, "GET /health " H "\r\n");
    flow_send(e, "GET /health " H "\r\n");
    flow_expect(c, 200, NULL);
    flow_expect(d, 200, NULL);
    flow_pass(IDLE_MS - EARLY);
    flow_send(d, "GET /hea"); /* the time for a head runs now */
    flow_send(e, "\r\n");     /* this alone is no request */
    flow_pass(EARLY);
    assert_true(c->closed && e->closed);
    assert_false(d->closed);
    flow_pass(HEADER_MS - EARLY);
    flow_expect_reason(d, REASON_HEADER_TIMEOUT);
    flow_end();
}

/* A pause inside a body is the client's, not the upstream's, although the upstream has less time. */
static void body_stops(void **state)
{
    (void)state;
    static const char *const requests[] = {"POST /public " H "Content-Length: 10\r\n\r\n",
                                           "POST /public " H "Transfer-Encoding: chunked\r\n\r\n",
                                           "POST /authorize " H "Content-Length: 10\r\n\r\n"};
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        flow_start(&(struct flow_config){.serve = "public_endpoints: true"});
        struct memory *c = flow_client();
        flow_send_bytes(c, requests[i], strlen(requests[i]));
        for (int k = 0; k < 3; k++) {
            flow_pass(BODY_MS - EARLY);
            flow_send(c, i == 1 ? "1\r\nx\r\n" : "x");
            if (c->got.n) fail_msg("%.*s", (int)c->got.n, c->got.p);
        }
        flow_pass(BODY_MS);
        flow_expect_reason(c, REASON_BODY_TIMEOUT);
        flow_expect_line(REASON_BODY_TIMEOUT, i == 2 ? "collect" : "forward");
        assert_true(c->shut);
        if (i < 2) assert_true(flow_up(0)->closed);
        flow_end();
    }
}

static void no_connection(void **state)
{
    (void)state;
    flow_start(NULL);
    fake_dial_open = false;
    struct memory *c = flow_client();
    flow_send(c, "GET /public " H "\r\n");
    flow_pass(CONNECT_MS - EARLY);
    assert_false(flow_has_message(c));
    flow_pass(EARLY);
    flow_expect_reason(c, REASON_UPSTREAM_UNREACHABLE);
    flow_expect_line(REASON_UPSTREAM_UNREACHABLE, "connect");
    assert_string_equal(flow_logged("detail"), "connect timed out");
    flow_end();
}

static void no_answer(void **state)
{
    (void)state;
    flow_start(NULL);
    struct memory *c = flow_client();
    flow_send(c, "POST /public " H "Content-Length: 2\r\n\r\n");
    flow_pass(RESPONSE_MS);
    flow_send(c, "hi"); /* from here on the upstream owes an answer */
    flow_pass(RESPONSE_MS - EARLY);
    assert_false(flow_has_message(c));
    flow_pass(EARLY);
    flow_expect_reason(c, REASON_UPSTREAM_TIMEOUT);
    flow_expect_line(REASON_UPSTREAM_TIMEOUT, "forward");
    assert_true(flow_up(0)->closed);
    assert_false(c->shut);
    flow_end();
}

static void answer_stops(void **state)
{
    (void)state;
    static const char *const begun[] = {"HTTP/1.1 100 Continue\r\n\r\n",
                                        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345",
                                        "HTTP/1.1 200 OK\r\n\r\n12345"};
    for (size_t i = 0; i < sizeof begun / sizeof *begun; i++) {
        flow_start(NULL);
        struct memory *c = flow_client();
        flow_send(c, "GET /public " H "\r\n");
        flow_pass(RESPONSE_MS - EARLY);
        flow_send_bytes(flow_up(0), begun[i], strlen(begun[i]));
        flow_pass(RESPONSE_MS - EARLY);
        assert_false(flow_up(0)->closed);
        flow_pass(EARLY);
        assert_true(flow_up(0)->closed);
        if (i == 0) flow_expect(c, 100, "");
        if (i == 0) flow_expect_reason(c, REASON_UPSTREAM_TIMEOUT);
        assert_int_equal(c->closed, i > 0);
        assert_false(c->shut);
        assert_string_equal(flow_logged("reason"), "upstream_timeout");
        flow_end();
    }
}

/* A head that comes byte by byte has the time of one head. */
static void answer_drips(void **state)
{
    (void)state;
    flow_start(NULL);
    struct memory *c = flow_client();
    flow_send(c, "GET /public " H "\r\n");
    for (size_t i = 0; i < 4; i++) {
        assert_false(flow_up(0)->closed);
        flow_send_bytes(flow_up(0), &"HTTP"[i], 1);
        flow_pass(RESPONSE_MS / 4);
    }
    flow_pass(EARLY);
    assert_true(flow_up(0)->closed);
    flow_expect_reason(c, REASON_UPSTREAM_TIMEOUT);
    assert_string_equal(flow_logged("detail"), "the answer stopped");
    flow_end();
}

/* It takes nothing of a body that is there. */
static void upstream_stops_reading(void **state)
{
    (void)state;
    flow_start(NULL);
    fake_dial_open = false;
    struct memory *c = flow_client();
    flow_send(c, "POST /public " H "Content-Length: 1000000\r\n\r\n");
    memory_send(c, flow_bytes(500000), 500000);
    fake_dial_open = true;
    fake_dial_pump();
    flow_up(0)->room = 0;
    flow_turn();
    assert_false(c->reading);
    flow_pass(RESPONSE_MS);
    flow_expect_reason(c, REASON_UPSTREAM_TIMEOUT);
    flow_end();
}

/* It was slow to take what there was; since then the client is who owes. */
static void upstream_took_all(void **state)
{
    (void)state;
    flow_start(NULL);
    struct memory *c = flow_client();
    flow_send(c, "GET /public " H "\r\n");
    flow_serve(flow_up(0), "GET /public HTTP/1.1", "ok");
    flow_expect(c, 200, "ok");
    flow_up(0)->room = 0;
    flow_send(c, "POST /public " H "Content-Length: 20\r\n\r\n1234567890");
    assert_int_equal(flow_up(0)->got.n, 0);
    flow_up(0)->room = MEMORY_ALL;
    flow_turn();
    flow_pass(RESPONSE_MS + EARLY);
    assert_int_equal(c->got.n, 0);
    flow_pass(BODY_MS - RESPONSE_MS);
    flow_expect_reason(c, REASON_BODY_TIMEOUT);
    flow_end();
}

/* The client takes nothing of its answer: at rest, while it still sends, behind the end of its body. */
static void client_stops_reading(void **state)
{
    (void)state;
    for (int body = 0; body < 3; body++) {
        flow_start(NULL);
        struct memory *c = flow_client();
        c->room = 0;
        if (body)
            flow_send(c, "POST /public " H "Content-Length: 4\r\n\r\nab");
        else
            flow_send(c, "GET /public " H "\r\n");
        flow_send(flow_up(0), "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n");
        memory_send(flow_up(0), flow_bytes(500000), 500000);
        flow_turn();
        assert_false(flow_up(0)->reading);
        if (body == 2) flow_send(c, "cd");
        flow_pass(BODY_MS - EARLY);
        assert_false(c->closed);
        flow_pass(EARLY);
        assert_true(c->closed);
        assert_true(flow_up(0)->closed);
        assert_string_equal(flow_logged("reason"), "client_gone");
        flow_end();
    }
}

/* Neither side takes anything; then the client does, and the upstream is the one that is waited for. */
static void both_stop_reading(void **state)
{
    (void)state;
    for (int resumes = 0; resumes < 2; resumes++) {
        flow_start(NULL);
        struct memory *c = flow_client();
        flow_send(c, "POST /public " H "Content-Length: 1000000\r\n\r\n");
        struct memory *up = flow_up(0);
        flow_send(up, "HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n");
        c->room = up->room = 0;
        memory_send(up, flow_bytes(100000), 100000);
        flow_turn();
        memory_send(c, flow_bytes(500000), 500000);
        flow_turn();
        assert_false(c->reading || up->reading);
        if (resumes) {
            flow_pass(BODY_MS - EARLY); /* just in time */
            c->room = MEMORY_ALL;
            flow_turn();
            assert_true(up->reading);
        }
        int64_t wait = resumes ? RESPONSE_MS : BODY_MS;
        flow_pass(wait - EARLY);
        assert_false(c->closed);
        flow_pass(EARLY);
        assert_true(c->closed && up->closed);
        assert_string_equal(flow_logged("reason"), resumes ? "upstream_timeout" : "client_gone");
        flow_end();
    }
}

/* A slow one is waited for as long as it takes some. */
static void client_reads_slowly(void **state)
{
    (void)state;
    flow_start(NULL);
    struct memory *c = flow_client();
    c->room = 0;
    flow_send(c, "GET /public " H "\r\n");
    flow_send(flow_up(0), "HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n");
    memory_send(flow_up(0), flow_bytes(200000), 200000);
    flow_turn();
    for (int i = 0; i < 30; i++) {
        flow_pass(BODY_MS - EARLY);
        c->room = 1000;
        flow_turn();
        assert_false(c->closed);
    }
    c->room = MEMORY_ALL;
    flow_turn();
    flow_expect(c, 200, NULL);
    assert_string_equal(flow_logged("reason"), "forwarded");
    flow_end();
}

/* Answered, and the rest of the answer is never taken. */
static void lingering_ends(void **state)
{
    (void)state;
    flow_start(NULL);
    struct memory *taken = flow_client(), *stuck = flow_client();
    flow_send(taken, "GET /health " H "Connection: close\r\n\r\n");
    stuck->room = 20;
    flow_send(stuck, "GET /health " H "Connection: close\r\n\r\n");
    assert_true(taken->shut);
    flow_pass(1500);
    assert_false(taken->closed);
    flow_pass(500);
    assert_true(taken->closed);
    assert_false(stuck->closed);
    flow_pass(BODY_MS);
    flow_pass(BODY_MS);
    assert_true(stuck->closed);
    flow_end();
}

/* Between two requests: the last answer is not taken, the next request waits for that. */
static void choked_between_requests(void **state)
{
    (void)state;
    flow_start(NULL);
    struct memory *c = flow_client();
    c->room = 0;
    flow_send(c, "GET /public " H "\r\nGET /public " H "\r\n");
    flow_send(flow_up(0), "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", RELAY_HIGH_BYTES);
    memory_send(flow_up(0), flow_bytes(RELAY_HIGH_BYTES), RELAY_HIGH_BYTES);
    flow_turn();
    assert_int_equal(flow_lines(), 1);
    flow_take(flow_up(0));
    assert_false(flow_has_message(flow_up(0)));
    flow_pass(IDLE_MS);
    flow_pass(BODY_MS);
    flow_pass(BODY_MS);
    assert_true(c->closed);
    flow_end();
}

static void pool_expires(void **state)
{
    (void)state;
    flow_start(NULL);
    struct memory *c = flow_client();
    flow_send(c, "GET /public " H "\r\n");
    flow_serve(flow_up(0), "GET /public HTTP/1.1", "ok");
    flow_pass(POOL_MS - EARLY);
    assert_false(flow_up(0)->closed);
    flow_pass(EARLY);
    assert_true(flow_up(0)->closed);
    flow_end();
}

/* No idle connection is kept where the configuration says so. */
static void pool_of_none(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        flow_start(
            &(struct flow_config){.routes = "[{prefix: /, access: public, upstream: other}]",
                                  .more = i ? "upstreams: {other: {url: \"http://b.test\", max_idle: 0}}"
                                            : "upstreams: {other: {url: \"http://b.test\", idle_timeout_ms: 0}}"});
        struct memory *c = flow_client();
        flow_send(c, "GET /public " H "\r\n");
        flow_serve(flow_up(0), "GET /public HTTP/1.1", "ok");
        flow_expect(c, 200, "ok");
        assert_true(flow_up(0)->closed);
        flow_end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_head),
        cmocka_unit_test(idle),
        cmocka_unit_test(body_stops),
        cmocka_unit_test(no_connection),
        cmocka_unit_test(no_answer),
        cmocka_unit_test(answer_stops),
        cmocka_unit_test(answer_drips),
        cmocka_unit_test(upstream_stops_reading),
        cmocka_unit_test(upstream_took_all),
        cmocka_unit_test(client_stops_reading),
        cmocka_unit_test(both_stop_reading),
        cmocka_unit_test(client_reads_slowly),
        cmocka_unit_test(lingering_ends),
        cmocka_unit_test(choked_between_requests),
        cmocka_unit_test(pool_expires),
        cmocka_unit_test(pool_of_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
