/* When a request is sent again: once, on a fresh connection, only if its method is idempotent, no byte of its body was
   sent and no byte of an answer came (RFC 9110 9.2.2). Others take a connection just used, or a fresh one. */
#include "flow/flow.h"

#include "base/metric.h"

/* A client and a pooled connection that has served one request. */
static struct memory *with_pooled(void)
{
    struct memory *c = flow_client();
    flow_send(c, "GET /public HTTP/1.1\r\nHost: a\r\n\r\n");
    flow_serve(flow_up(0), "GET /public HTTP/1.1", "first");
    flow_expect(c, 200, "first");
    return c;
}

static double retries(void)
{
    struct slice name = SLICE("default");
    return metric_value(METRIC_UPSTREAM_RETRIES, &name);
}

enum death { ENDS, RESETS, WRITE_FAILS };

static void dead_pooled_connection(void **state)
{
    (void)state;
    static const struct {
        const char *request;
        const char *again; /* NULL: not sent again */
    } rows[] = {
        {"GET /public HTTP/1.1\r\nHost: a\r\n\r\n", "GET /public HTTP/1.1"},
        {"HEAD /public HTTP/1.1\r\nHost: a\r\n\r\n", "HEAD /public HTTP/1.1"},
        {"DELETE /public HTTP/1.1\r\nHost: a\r\n\r\n", "DELETE /public HTTP/1.1"},
        {"OPTIONS /public HTTP/1.1\r\nHost: a\r\n\r\n", "OPTIONS /public HTTP/1.1"},
        {"PUT /public HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", "PUT /public HTTP/1.1"},
        {"PUT /public HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "PUT /public HTTP/1.1"},
        {"PUT /public HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nx", NULL},
        {"PUT /public HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n", NULL},
        {"POST /public HTTP/1.1\r\nHost: a\r\n\r\n", NULL},
        {"PATCH /public HTTP/1.1\r\nHost: a\r\n\r\n", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (enum death death = ENDS; death <= WRITE_FAILS; death++) {
            flow_start(NULL);
            struct memory *c = with_pooled();
            if (death == WRITE_FAILS) flow_up(0)->write_error = UV_EPIPE;
            flow_send_bytes(c, rows[i].request, strlen(rows[i].request));
            if (death == ENDS) flow_stop(flow_up(0), 0);
            if (death == RESETS) flow_stop(flow_up(0), UV_ECONNRESET);
            flow_pass(20); /* a failed write is told later */
            assert_true(flow_up(0)->closed);
            if (!rows[i].again) {
                flow_expect_reason(c, REASON_UPSTREAM_CLOSED);
                assert_int_equal(flow.ups_n, 1);
                assert_true(retries() == 0);
            } else {
                struct message up = flow_take(flow_up(1));
                assert_string_equal(up.first, rows[i].again);
                assert_int_equal(flow_up(1)->got.n, 0);
                flow_send(flow_up(1), "HTTP/1.1 204 No Content\r\n\r\n");
                flow_expect(c, 204, "");
                assert_string_equal(flow_logged("retried"), "true");
                assert_true(retries() == 1);
            }
            flow_end();
        }
    }
}

/* The second one is not sent a third time, and a fresh one not a second. */
static void only_once(void **state)
{
    (void)state;
    flow_start(NULL);
    struct memory *c = with_pooled();
    flow_send(c, "GET /public HTTP/1.1\r\nHost: a\r\n\r\n");
    flow_stop(flow_up(0), 0);
    flow_take(flow_up(1));
    flow_stop(flow_up(1), 0);
    flow_expect_reason(c, REASON_UPSTREAM_CLOSED);
    assert_int_equal(flow.ups_n, 2);
    flow_send(c, "GET /public HTTP/1.1\r\nHost: a\r\n\r\n");
    flow_stop(flow_up(2), 0);
    flow_expect_reason(c, REASON_UPSTREAM_CLOSED);
    assert_int_equal(flow.ups_n, 3);
    flow_end();
}

/* Any byte of an answer, or its absence in time, is an answer of a kind: the request may have been served. */
static void not_after_an_answer(void **state)
{
    (void)state;
    static const char *const begun[] = {"H", "HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 5"};
    for (size_t i = 0; i < sizeof begun / sizeof *begun; i++) {
        flow_start(NULL);
        struct memory *c = with_pooled();
        flow_send(c, "GET /public HTTP/1.1\r\nHost: a\r\n\r\n");
        flow_send_bytes(flow_up(0), begun[i], strlen(begun[i]));
        flow_stop(flow_up(0), 0);
        if (i == 1) flow_expect(c, 100, NULL);
        flow_expect_reason(c, REASON_UPSTREAM_CLOSED);
        assert_int_equal(flow.ups_n, 1);
        flow_end();
    }
    flow_start(NULL);
    struct memory *c = with_pooled();
    flow_send(c, "GET /public HTTP/1.1\r\nHost: a\r\n\r\n");
    flow_pass(RESPONSE_MS);
    flow_expect_reason(c, REASON_UPSTREAM_TIMEOUT);
    assert_int_equal(flow.ups_n, 1);
    flow_end();
}

/* The first connection took nothing of a long head, so that the body had to wait: on the second it need not. */
static void choked_then_again(void **state)
{
    (void)state;
    flow_start(&(struct flow_config){.listen = "max_header_bytes: 262144"});
    struct memory *c = with_pooled();
    flow_up(0)->room = 0;
    flow_send(c, "PUT /public HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nX: %0100000d\r\n\r\n", 0);
    flow_stop(flow_up(0), 0);
    flow_send(c, "abc");
    assert_string_equal(flow_take(flow_up(1)).body, "abc");
    flow_send(flow_up(1), "HTTP/1.1 204 No Content\r\n\r\n");
    flow_expect(c, 204, "");
    flow_end();
}

/* A connection that ended or spoke while it was idle is not lent. */
static void idle_ones_are_watched(void **state)
{
    (void)state;
    for (int how = 0; how < 3; how++) {
        flow_start(NULL);
        struct memory *c = with_pooled();
        if (how == 0) flow_stop(flow_up(0), 0);
        if (how == 1) flow_stop(flow_up(0), UV_ECONNRESET);
        if (how == 2) flow_send(flow_up(0), "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        assert_true(flow_up(0)->closed);
        flow_send(c, "GET /public HTTP/1.1\r\nHost: a\r\n\r\n");
        flow_serve(flow_up(1), "GET /public HTTP/1.1", "ok");
        flow_expect(c, 200, "ok");
        assert_true(retries() == 0);
        flow_end();
    }
}

/* Not idempotent: one used within the last second, else fresh; the older one stays for others. */
static void recent_for_the_rest(void **state)
{
    (void)state;
    flow_start(NULL);
    struct memory *c = with_pooled();
    flow_send(c, "POST /public HTTP/1.1\r\nHost: a\r\n\r\n");
    flow_serve(flow_up(0), "POST /public HTTP/1.1", "same");
    flow_expect(c, 200, "same");
    flow_pass(1100);
    flow_send(c, "POST /public HTTP/1.1\r\nHost: a\r\n\r\n");
    flow_serve(flow_up(1), "POST /public HTTP/1.1", "fresh");
    flow_expect(c, 200, "fresh");
    flow_end();
}

/* What answered before the request was whole, or said more than it should, is not used again. */
static void dirty_ones_are_dropped(void **state)
{
    (void)state;
    static const char *const answers[] = {
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok",
        "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 204 No Content\r\n\r\nextra",
    };
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        flow_start(NULL);
        struct memory *c = flow_client();
        flow_send(c, "GET /public HTTP/1.1\r\nHost: a\r\n\r\n");
        flow_send_bytes(flow_up(0), answers[i], strlen(answers[i]));
        flow_expect(c, i == 3 ? 204 : 200, i == 3 ? "" : "ok");
        assert_false(flow_has_message(c));
        assert_true(flow_up(0)->closed);
        assert_false(c->closed);
        flow_end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dead_pooled_connection), cmocka_unit_test(only_once),
        cmocka_unit_test(not_after_an_answer),    cmocka_unit_test(idle_ones_are_watched),
        cmocka_unit_test(recent_for_the_rest),    cmocka_unit_test(dirty_ones_are_dropped),
        cmocka_unit_test(choked_then_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
