/* The names of an upstream: waited for at the start, resolved again in time and when all of their addresses fail; what a
   name loses is drained; a name of both families is used by the one that works. */
#include "flow/flow.h"

#include <stdio.h>

#include "base/metric.h"
#include "proxy/borrow.h"
#include "proxy/settings.h"
#include "proxy/upstream.h"

#define H "HTTP/1.1\r\nHost: a\r\n"
#define GET "GET /x " H "\r\n"
#define A "192.0.2.1:80"
#define B "192.0.2.2:80"
#define TTL_MS 30000

static const struct flow_config named = {
    .listen = "budget_ms: 0",
    .routes = "[{prefix: /, access: public, upstream: named}]",
    .more = "upstreams: {named: {url: \"http://api.test\", balance: round_robin, connect_timeout_ms: 2000, "
            "response_timeout_ms: 400000, idle_timeout_ms: 400000}}"};

static const char *serve(struct memory *c)
{
    if (c->closed) c = flow_client(); /* it was idle for too long */
    flow_send(c, GET);
    struct memory *up = flow_asked();
    if (!up) fail_msg("nobody was asked: %s (%s)", flow_logged("reason"), flow_logged("detail"));
    flow_serve(up, "GET /x HTTP/1.1", "ok");
    flow_expect(c, 200, "ok");
    return up->to;
}

static double ejections(void)
{
    struct slice name = SLICE("named");
    return metric_value(METRIC_UPSTREAM_EJECTIONS, &name);
}

static void all_addresses(void **state)
{
    (void)state;
    fake_resolve_say("192.0.2.1,192.0.2.2", 0);
    flow_start(&named);
    struct memory *c = flow_client();
    for (int i = 0; i < 3; i++) {
        assert_string_equal(serve(c), A);
        assert_string_equal(serve(c), B);
        assert_string_equal(flow_logged("upstream"), "api.test");
    }
    flow_end();
}

/* Requests that come before the first answer wait for it, each as long as a connect may take. */
static void waited_for(void **state)
{
    (void)state;
    fake_resolve_silent = true;
    flow_start(&named);
    size_t asked = fake_resolve_asked();
    struct memory *c = flow_client(), *d = flow_client(), *gone = flow_client();
    flow_send(c, GET);
    flow_pass(1000);
    flow_send(d, GET);
    flow_send(gone, GET);
    flow_stop(gone, UV_ECONNRESET);
    flow_expect_line(REASON_CLIENT_GONE, "connect");
    flow_pass(1000);
    flow_expect_reason(c, REASON_UPSTREAM_UNREACHABLE);
    assert_string_equal(flow_logged("detail"), "the name was not resolved in time");
    assert_int_equal(fake_resolve_asked(), asked); /* all wait for one answer */
    fake_resolve_silent = false;
    flow_pass(20);
    flow_serve(flow_asked(), "GET /x HTTP/1.1", "ok");
    flow_expect(d, 200, "ok");
    flow_end();
}

static void not_resolved(void **state)
{
    (void)state;
    fake_resolve_say(NULL, UV_EAI_NONAME);
    flow_start(&named);
    struct memory *c = flow_client();
    size_t asked = fake_resolve_asked();
    for (int i = 0; i < 50; i++) {
        flow_send(c, GET);
        flow_expect_reason(c, REASON_UPSTREAM_UNREACHABLE);
        assert_string_equal(flow_logged("detail"), "the name cannot be resolved");
    }
    assert_true(flow_log_holds("name_not_resolved"));
    assert_in_range(fake_resolve_asked() - asked, 0, 3); /* not once a request */
    fake_resolve_say("192.0.2.1", 0);
    flow_pass(1100);
    assert_string_equal(serve(c), A);
    flow_end();
}

/* Names change: what is new joins, what is gone gets nothing more, and what is out there finishes. */
static void resolved_again(void **state)
{
    (void)state;
    fake_resolve_say("192.0.2.1", 0);
    flow_start(&named);
    struct memory *c = flow_client(), *d = flow_client();
    serve(c);
    flow_send(c, GET); /* stays out */
    flow_take(flow_up(0));
    assert_string_equal(serve(d), A);
    assert_int_equal(flow.ups_n, 2);
    fake_resolve_say("192.0.2.2", 0);
    flow_pass(TTL_MS);
    assert_true(flow_up(1)->closed); /* it was idle */
    assert_false(flow_up(0)->closed);
    for (int i = 0; i < 3; i++) assert_string_equal(serve(d), B);
    flow_send(flow_up(0), "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    flow_expect(c, 200, "ok");
    assert_string_equal(flow_logged("upstream_address"), A);
    assert_true(flow_up(0)->closed); /* it came back to nobody */
    fake_resolve_say("192.0.2.2,192.0.2.1", 0);
    flow_pass(TTL_MS);
    assert_string_not_equal(serve(d), serve(d));
    flow_end();
}

/* Addresses that are gone while requests are there yet leave room for as many new ones as ever. */
static void many_that_are_gone(void **state)
{
    enum { GONE = BALANCE_SLOTS + 10 };
    struct memory *clients[GONE], *ups[GONE];
    struct flow_config config = named;
    char address[32];
    (void)state;
    config.more = "upstreams: {named: {url: \"http://api.test\", dns_ttl_s: 1, response_timeout_ms: 600000}}";
    fake_resolve_say("192.0.2.1", 0);
    flow_start(&config);
    for (int i = 0; i < GONE; i++) {
        snprintf(address, sizeof address, "198.51.100.%d", i + 1);
        fake_resolve_say(address, 0);
        flow_pass(1100);
        clients[i] = flow_client();
        flow_send(clients[i], GET);
        ups[i] = flow_asked();
        assert_non_null(ups[i]);
        flow_take(ups[i]);
        strcat(address, ":80");
        assert_string_equal(ups[i]->to, address);
    }
    for (int i = 0; i < GONE; i++) {
        flow_send(ups[i], "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        flow_expect(clients[i], 200, "ok");
    }
    flow_end();
}

static void kept_when_it_fails(void **state)
{
    (void)state;
    fake_resolve_say("192.0.2.1,192.0.2.2", 0);
    flow_start(&named);
    struct memory *c = flow_client();
    serve(c);
    fake_resolve_say(NULL, UV_EAI_AGAIN);
    for (int i = 0; i < 5; i++) {
        flow_pass(TTL_MS);
        assert_string_not_equal(serve(c), serve(c));
    }
    assert_true(flow_log_holds("the addresses of before are kept"));
    fake_resolve_say("192.0.2.9", 0);
    flow_pass(5100);
    assert_string_equal(serve(c), "192.0.2.9:80");
    flow_end();
}

/* All of its addresses are ejected: it is asked at once where the API is now. */
static void asked_when_all_fail(void **state)
{
    (void)state;
    fake_resolve_say("192.0.2.1,192.0.2.2", 0);
    flow_start(&named);
    flow_pass(1500);
    size_t asked = fake_resolve_asked();
    fake_resolve_say("192.0.2.7", 0);
    fake_dial_open = false;
    struct memory *c = flow_client();
    for (int i = 0; i < 5; i++) {
        assert_int_equal(fake_resolve_asked(), asked);
        flow_send(c, GET);
        for (int k = 0; k < 2; k++) fake_dial_finish(UV_ECONNREFUSED);
        flow_turn();
        flow_expect_reason(c, REASON_UPSTREAM_UNREACHABLE);
    }
    fake_dial_open = true;
    assert_int_equal(fake_resolve_asked(), asked + 1);
    assert_string_equal(serve(c), "192.0.2.7:80");
    flow_end();
}

/* localhost, and an API on 127.0.0.1: nobody sees anything of ::1. */
static int on_v4_only(const char *address)
{
    return address[0] == '[' ? FAKE_CHECK_REFUSED : 200;
}

static int on_none(const char *address)
{
    (void)address;
    return FAKE_CHECK_REFUSED;
}

static void quiet_about_a_family(void **state)
{
    (void)state;
    for (int checked = 0; checked < 2; checked++) {
        fake_resolve_say("::1,127.0.0.1", 0);
        fake_resolve_silent = !checked; /* the first request comes before the first check, or behind it */
        fake_check = on_v4_only;
        flow_start(&named);
        fake_dial_open = false;
        struct memory *c[10];
        for (size_t i = 0; i < 10; i++) {
            c[i] = flow_client();
            flow_send(c[i], GET);
        }
        fake_resolve_silent = false;
        flow_pass(20);
        while (fake_dial_waiting()) fake_dial_finish(fake_dial_to(0)[0] == '[' ? UV_ECONNREFUSED : 0);
        flow_turn();
        for (size_t i = 0; i < 10; i++) {
            flow_serve(flow_up(i), "GET /x HTTP/1.1", "ok");
            assert_string_equal(flow_up(i)->to, "127.0.0.1:80");
        }
        for (size_t i = 0; i < 10; i++) flow_expect(c[i], 200, "ok");
        assert_true(ejections() == 0);
        assert_false(flow_log_holds("upstream_ejected") || flow_log_holds("dependency_down"));
        flow_send(c[0], "GET /ready " H "\r\n");
        struct message ready = flow_take(c[0]);
        assert_int_equal(ready.status, 200);
        assert_null(strstr(ready.body, "::1"));
        flow_end();
    }
}

/* It moves to the other family, and nobody loses more than the requests that found it gone. */
static void family_changes(void **state)
{
    (void)state;
    fake_resolve_say("::1,127.0.0.1", 0);
    flow_start(&named);
    struct memory *c = flow_client();
    assert_string_equal(serve(c), "[::1]:80");
    flow_stop(flow_up(0), 0);
    fake_dial_open = false;
    for (int i = 0; i < 4; i++) {
        flow_send(c, GET);
        while (fake_dial_waiting()) fake_dial_finish(fake_dial_to(0)[0] == '[' ? UV_ECONNREFUSED : 0);
        flow_turn();
        if (flow_asked()) break;
        flow_expect_reason(c, REASON_UPSTREAM_UNREACHABLE);
        assert_true(i < 2);
    }
    flow_serve(flow_asked(), "GET /x HTTP/1.1", "ok");
    flow_expect(c, 200, "ok");
    assert_string_equal(flow_logged("upstream_address"), "127.0.0.1:80");
    flow_end();
}

/* Neither answers: that is told. */
static void no_family_works(void **state)
{
    (void)state;
    fake_resolve_say("::1,127.0.0.1", 0);
    fake_check = on_none;
    flow_start(&named);
    fake_dial_open = false;
    struct memory *c = flow_client();
    flow_send(c, GET);
    while (fake_dial_waiting()) fake_dial_finish(UV_ECONNREFUSED);
    flow_turn();
    flow_expect_reason(c, REASON_UPSTREAM_UNREACHABLE);
    flow_pass(3000);
    assert_true(flow_log_holds("dependency_down"));
    fake_check = on_v4_only;
    flow_pass(3000);
    flow_send(c, "GET /ready " H "\r\n");
    assert_int_equal(flow_take(c).status, 200);
    flow_end();
}

/* Let go at any time: a lent connection finishes, who waits for the name is served, then it is gone (the end of the flow
   finds nothing left). */
static void closed_early(void **state)
{
    (void)state;
    fake_resolve_say("192.0.2.1", 0);
    flow_start(&named);
    struct memory *c = flow_client(), *d = flow_client();
    serve(c);
    flow_send(c, GET);
    flow_take(flow_up(0));
    struct upstream *u = flow.proxy.settings->upstreams[1];
    size_t asked = fake_resolve_asked(), checks = fake_checks;
    upstream_close(u);
    upstream_close(flow.proxy.settings->upstreams[0]);
    flow_pass(10 * TTL_MS);
    assert_int_equal(fake_resolve_asked(), asked);
    assert_int_equal(fake_checks, checks);
    serve(d); /* of those who still know it */
    assert_true(flow_up(1)->closed);
    flow_send(flow_up(0), "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    flow_expect(c, 200, "ok");
    assert_true(flow_up(0)->closed);
    upstream_close(u);
    flow_end();
    fake_resolve_silent = true;
    flow_start(&named);
    c = flow_client();
    flow_send(c, GET);
    upstream_close(flow.proxy.settings->upstreams[1]);
    fake_resolve_silent = false;
    flow_pass(50);
    flow_serve(flow_asked(), "GET /x HTTP/1.1", "ok");
    flow_expect(c, 200, "ok");
    flow_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_addresses),        cmocka_unit_test(waited_for),
        cmocka_unit_test(not_resolved),         cmocka_unit_test(resolved_again),
        cmocka_unit_test(many_that_are_gone),
        cmocka_unit_test(kept_when_it_fails),   cmocka_unit_test(asked_when_all_fail),
        cmocka_unit_test(quiet_about_a_family), cmocka_unit_test(family_changes),
        cmocka_unit_test(no_family_works),      cmocka_unit_test(closed_early),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
