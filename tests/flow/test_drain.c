/* The end of the process: idle connections go at once, busy ones after their answer, what takes too long is cut. */
#include "base/metric.h"
#include "flow/flow.h"

#define H "HTTP/1.1\r\nHost: a\r\n"

static void idle_busy_half_way(void **state)
{
    (void)state;
    flow_start(NULL);
    struct memory *fresh = flow_client(), *idle = flow_client(), *half = flow_client(), *busy = flow_client(),
                  *sending = flow_client(), *answering = flow_client();
    flow_send(idle, "GET /health " H "\r\n");
    flow_expect(idle, 200, NULL);
    flow_send(half, "GET /public/half HTTP/1.1\r\nHo");
    flow_send(busy, "GET /public/busy " H "\r\n");
    flow_send(sending, "POST /public/sending " H "Content-Length: 4\r\n\r\nab");
    flow_send(answering, "GET /public/answering " H "\r\n");
    flow_send(flow_up(2), "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab");
    proxy_drain(&flow.proxy, 0);
    proxy_drain(&flow.proxy, 0); /* twice is once */
    flow_turn();
    assert_true(idle->closed);
    assert_false(fresh->closed || half->closed || busy->closed || sending->closed || answering->closed);
    assert_int_equal(flow.drained, 0);

    flow_send(half, "st: a\r\n\r\n"); /* one that had begun is still served */
    flow_send(fresh, "GET /health " H "\r\n"); /* and a first request that was on its way */
    flow_expect(fresh, 200, NULL);
    flow_stop(fresh, 0);
    flow_serve(flow_up(3), "GET /public/half HTTP/1.1", "half");
    flow_serve(flow_up(0), "GET /public/busy HTTP/1.1", "busy");
    flow_send(sending, "cd");
    flow_serve(flow_up(1), "POST /public/sending HTTP/1.1", "sending");
    flow_send(flow_up(2), "cd");
    struct memory *all[] = {half, busy, sending, answering};
    for (size_t i = 0; i < 4; i++) {
        struct message a = flow_take(all[i]);
        assert_int_equal(a.status, 200);
        if (i < 3) assert_string_equal(flow_header(&a, "Connection"), "close");
        assert_true(all[i]->shut);
    }
    flow_stop(half, 0);
    flow_stop(busy, 0);
    flow_stop(sending, 0);
    assert_int_equal(flow.drained, 0);
    flow_pass(2000); /* the last one does not say good-bye */
    assert_int_equal(flow.proxy.conns_n, 0);
    assert_int_equal(flow.drained, 1);
    flow_end();
    assert_int_equal(flow.drained, 1);
}

static void nothing_there(void **state)
{
    (void)state;
    flow_start(NULL);
    proxy_drain(&flow.proxy, 0);
    assert_int_equal(flow.drained, 1);
    flow_end();
    flow_start(NULL);
    flow_client();
    proxy_drain(&flow.proxy, 0);
    flow_turn();
    assert_int_equal(flow.drained, 0);
    flow_pass(500); /* it does not ask */
    assert_int_equal(flow.drained, 1);
    flow_end();
}

/* A pipelined request behind the one being answered is not begun any more. */
static void pipeline_is_cut(void **state)
{
    (void)state;
    flow_start(NULL);
    struct memory *c = flow_client();
    flow_send(c, "GET /public/1 " H "\r\nGET /public/2 " H "\r\n");
    proxy_drain(&flow.proxy, 0);
    flow_serve(flow_up(0), "GET /public/1 HTTP/1.1", "1");
    struct message a = flow_take(c);
    assert_string_equal(flow_header(&a, "Connection"), "close");
    assert_false(flow_has_message(c) || flow_has_message(flow_up(0)));
    assert_true(c->shut);
    flow_end();
}

/* Ready says so while it drains. */
static void not_ready(void **state)
{
    (void)state;
    flow_start(NULL);
    struct memory *c = flow_client(), *other = flow_client();
    flow_send(other, "GET /public " H "\r\n");
    flow_send(c, "GET /rea");
    proxy_drain(&flow.proxy, 0);
    flow_send(c, "dy " H "\r\n");
    struct message a = flow_take(c);
    assert_int_equal(a.status, 503);
    assert_non_null(strstr(a.body, "\"draining\":true"));
    flow_end();
}

/* At every stage: what has no answer yet gets a 503, what has one half-way is broken off. */
static void cut_short(void **state)
{
    (void)state;
    flow_start(NULL);
    flow.manual = true;
    fake_dial_open = false;
    struct memory *c[6];
    for (size_t i = 0; i < 6; i++)
        c[i] = flow_client();
    flow_send(c[0], "%s", flow_get("/x", "alice"));
    fake_fetch_answer(fake_fetch_oldest(flow.proxy.fetch), 200, "{\"id\":\"alice\"}");
    flow_send(c[1], "%s", flow_get("/x", "bob"));
    flow_send(c[2], "GET /public/2 " H "\r\n");
    flow_turn();
    fake_dial_finish(0);
    flow_send(c[3], "GET /public/3 " H "\r\n");
    flow_send(c[4], "GET /public/4 HTTP/1.1\r\n");
    flow_send(c[5], "POST /authorize " H "Content-Length: 3\r\n\r\n");
    flow_send(flow_up(0), "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab");
    proxy_drain(&flow.proxy, 0);
    proxy_abort(&flow.proxy);
    flow_turn();
    assert_int_equal(flow.proxy.conns_n, 0);
    assert_int_equal(flow.drained, 1);
    for (size_t i = 0; i < 6; i++)
        assert_true(c[i]->closed);
    flow_expect_reason(c[0], REASON_SHUTTING_DOWN);
    flow_expect_reason(c[1], REASON_SHUTTING_DOWN);
    flow_expect_reason(c[3], REASON_SHUTTING_DOWN);
    assert_int_equal(c[4]->got.n, 0);
    flow_end();
}

static void expect_answer(struct memory *c, const char *connection)
{
    struct message a = flow_take(c);
    assert_int_equal(a.status, 200);
    const char *told = flow_header(&a, "Connection");
    assert_string_equal(told ? told : "none", connection);
}

/* With a delay: not ready at once, yet everybody is served and told to go; nobody is closed on while he may be asking. */
static void delay_serves_and_tells(void **state)
{
    (void)state;
    flow_start(NULL);
    struct memory *idle = flow_client(), *later = flow_client(), *fresh = flow_client(), *promised = flow_client();
    struct memory *own = flow_client();
    flow_send(idle, "GET /health " H "\r\n");
    flow_expect(idle, 200, NULL);
    flow_send(later, "GET /health " H "\r\n");
    flow_expect(later, 200, NULL);
    flow_send(promised, "GET /public/promised " H "\r\n");
    flow_take(flow_up(0));
    flow_send(flow_up(0), "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab"); /* its head says nothing of an end */
    assert_true(metric_value(METRIC_DRAINING, NULL) == 0);

    proxy_drain(&flow.proxy, 1000);
    proxy_drain(&flow.proxy, 5000); /* asking again does not make it longer */
    flow_turn();
    assert_true(metric_value(METRIC_DRAINING, NULL) == 1);
    assert_false(idle->closed || later->closed || fresh->closed || promised->closed);
    flow_send(own, "GET /ready " H "\r\n");
    struct message a = flow_take(own);
    assert_int_equal(a.status, 503);
    assert_string_equal(flow_header(&a, "Connection"), "close");
    flow_stop(own, 0);

    flow_send(flow_up(0), "cd");
    expect_answer(promised, "none");
    assert_false(promised->shut || promised->closed); /* it was not told: its next request may be on its way */
    flow_send(promised, "GET /public/next " H "\r\n");
    flow_serve(flow_up(0), "GET /public/next HTTP/1.1", "next");
    expect_answer(promised, "close");
    assert_true(promised->shut);
    flow_stop(promised, 0);
    flow_send(idle, "GET /health " H "\r\n");
    expect_answer(idle, "close");
    flow_stop(idle, 0);
    struct memory *comes = flow_client();
    flow_send(comes, "GET /public/new " H "\r\n");
    flow_serve(flow_up(0), "GET /public/new HTTP/1.1", "new");
    expect_answer(comes, "close");
    flow_stop(comes, 0);
    flow_pass(900);
    assert_false(later->closed || fresh->closed);
    assert_int_equal(flow.drained, 0);
    flow_pass(150);
    assert_true(later->closed);
    assert_false(fresh->closed);
    assert_int_equal(flow.drained, 0);
    flow_pass(600);
    assert_true(fresh->closed);
    assert_int_equal(flow.drained, 1);
    flow_end();
}

/* Nobody there: still not before the delay is over, unless it is cut. */
static void delay_without_clients(void **state)
{
    (void)state;
    flow_start(NULL);
    proxy_drain(&flow.proxy, 1000);
    struct memory *c = flow_client();
    flow_stop(c, 0);
    flow_pass(900);
    assert_int_equal(flow.drained, 0);
    flow_pass(150);
    assert_int_equal(flow.drained, 1);
    flow_end();
    flow_start(NULL);
    proxy_drain(&flow.proxy, 1000);
    proxy_drain(&flow.proxy, 0);
    assert_int_equal(flow.drained, 1);
    flow_end();
    flow_start(NULL);
    flow_client();
    proxy_drain(&flow.proxy, 1000);
    proxy_abort(&flow.proxy);
    flow_turn();
    assert_int_equal(flow.drained, 1);
    flow_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(idle_busy_half_way), cmocka_unit_test(nothing_there), cmocka_unit_test(pipeline_is_cut),
        cmocka_unit_test(not_ready),          cmocka_unit_test(cut_short),
        cmocka_unit_test(delay_serves_and_tells), cmocka_unit_test(delay_without_clients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
