/* Checks of addresses: with a path they take one out and bring it back; without one they only tell /ready. */
#include "flow/flow.h"

#define H "HTTP/1.1\r\nHost: a\r\n"
#define GET "GET /x " H "\r\n"
#define A "192.0.2.1:80"
#define B "192.0.2.2:80"
#define MANY(more)                                                                                                     \
    "upstreams: {many: {urls: [\"http://192.0.2.1/base\", \"http://192.0.2.2/base\"], balance: round_robin" more "}}"
#define ROUTES "[{prefix: /, access: public, upstream: many}]"

static const struct flow_config watched = {
    .routes = ROUTES, .more = MANY(", health: {path: /up, interval_ms: 5000, timeout_ms: 1000}")};

static int status_of_b;

static int check_b(const char *address)
{
    return strcmp(address, B) == 0 ? status_of_b : 200;
}

static const char *serve(struct memory *c)
{
    if (c->closed) c = flow_client(); /* it was idle for too long */
    flow_send(c, GET);
    struct memory *up = flow_asked();
    if (!up) fail_msg("nobody was asked: %s (%s)", flow_logged("reason"), flow_logged("detail"));
    flow_serve(up, "GET /base/x HTTP/1.1", "ok");
    flow_expect(c, 200, "ok");
    return up->to;
}

static bool serves_both(struct memory *c)
{
    return strcmp(serve(c), serve(c)) != 0;
}

static void start(const struct flow_config *config, int status)
{
    status_of_b = status;
    fake_check = check_b;
    flow_start(config);
}

static void what_is_asked(void **state)
{
    (void)state;
    start(&watched, 200);
    flow_turn();
    assert_non_null(strstr(fake_check_request, "GET /up HTTP/1.1\r\nHost: 192.0.2."));
    assert_non_null(strstr(fake_check_request, "\r\nConnection: close\r\n\r\n"));
    size_t before = fake_checks;
    flow_pass(11500);
    flow_pass(5600);
    assert_in_range(fake_checks - before, 4, 8);
    assert_null(flow_logged("reason")); /* no access line of them */
    flow_end();
}

/* Two in a row, and it is left alone; one good one, and it is back. */
static void out_and_back(void **state)
{
    (void)state;
    static const int bad[] = {400, 404, 500, 503, FAKE_CHECK_REFUSED};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        start(&watched, 302); /* under 400 is good */
        struct memory *c = flow_client();
        assert_true(serves_both(c));
        status_of_b = bad[i];
        flow_pass(5600);
        assert_true(serves_both(c)); /* once may happen */
        size_t idle = flow.ups_n;
        assert_int_equal(idle, 2);
        flow_pass(1200);
        for (int k = 0; k < 4; k++) assert_string_equal(serve(c), A);
        assert_true(flow_up(0)->closed != flow_up(1)->closed); /* its idle connection is gone */
        assert_true(flow_log_holds("dependency_down"));
        status_of_b = 200;
        flow_pass(1200);
        assert_true(serves_both(c));
        assert_true(flow_log_holds("dependency_up"));
        flow_end();
    }
}

static int check_none(const char *address)
{
    (void)address;
    return 500;
}

static void all_out(void **state)
{
    (void)state;
    fake_check = check_none;
    flow_start(&watched);
    flow_pass(1200);
    flow_pass(1200);
    struct memory *c = flow_client();
    flow_send(c, GET);
    flow_expect_reason(c, REASON_UPSTREAM_UNREACHABLE);
    assert_string_equal(flow_logged("detail"), "no address passes its health check");
    assert_int_equal(flow.ups_n, 0);
    flow_send(c, "GET /ready " H "\r\n");
    assert_int_equal(flow_take(c).status, 503);
    fake_check = NULL;
    flow_pass(1200);
    serve(c);
    flow_send(c, "GET /ready " H "\r\n");
    assert_int_equal(flow_take(c).status, 200);
    flow_end();
}

/* Without a path: any status under 500 is good, and one that knows no HEAD; nobody is taken out by it, and one of two is enough. */
static void only_for_ready(void **state)
{
    (void)state;
    const struct flow_config plain = {.routes = ROUTES, .more = MANY(""), .serve = "probe_interval_ms: 2000"};
    static const int statuses[] = {404, 501, 500, FAKE_CHECK_REFUSED};
    for (size_t i = 0; i < 4; i++) {
        struct flow_config config = plain;
        config.serve = NULL;
        start(&config, statuses[i]);
        flow_pass(1200);
        flow_pass(1200);
        assert_non_null(strstr(fake_check_request, "HEAD /"));
        struct memory *c = flow_client();
        assert_true(serves_both(c));
        flow_send(c, "GET /ready " H "\r\n");
        struct message m = flow_take(c);
        assert_int_equal(m.status, 200);
        assert_non_null(strstr(m.body, "\"address\":\"" A "\",\"ok\":true,\"state\":\"available\""));
        const char *row = strstr(m.body, "\"address\":\"" B "\"");
        assert_non_null(row);
        assert_non_null(strstr(row, i < 2    ? "\"ok\":true,\"state\":\"available\""
                                    : i == 2 ? "\"ok\":false,\"state\":\"answers HEAD with a server error\""
                                             : "\"ok\":false,\"state\":\"connection refused\""));
        assert_non_null(strstr(row, "\"breaker\":\"closed\",\"in_flight\":0,\"age_ms\":"));
        flow_end();
    }
}

/* It could not be connected and rests for long: a check that connects ends that, so that it is used within about a second
   of its return. One that rests since it answers badly is not called back by it. */
static void back_by_a_check(void **state)
{
    (void)state;
    for (int connects = 0; connects < 2; connects++) {
        const struct flow_config config = {
            .routes = ROUTES,
            .more = MANY("") "\nbreakers: {failures: 1, rest_ms: 60000, max_rest_ms: 60000}",
            .serve = NULL};
        start(&config, FAKE_CHECK_REFUSED);
        struct memory *c = flow_client();
        fake_dial_open = false;
        while (!flow_log_holds("upstream_ejected")) {
            flow_send(c, GET);
            while (fake_dial_waiting()) {
                bool b = strcmp(fake_dial_to(0), B) == 0;
                fake_dial_finish(b && !connects ? UV_ECONNREFUSED : 0);
            }
            flow_turn();
            struct memory *up = flow_asked();
            flow_take(up);
            bool weak = strcmp(up->to, B) == 0;
            flow_send(up, "HTTP/1.1 %d X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", weak ? 503 : 200);
            flow_take(c);
        }
        fake_dial_open = true;
        status_of_b = 200;
        for (int i = 0; i < 3; i++) assert_string_equal(serve(c), A);
        flow_pass(1200);
        size_t to_b = 0;
        for (int i = 0; i < 4; i++) to_b += strcmp(serve(c), B) == 0;
        assert_int_equal(to_b > 0, !connects);
        flow_end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_asked),
        cmocka_unit_test(out_and_back),
        cmocka_unit_test(all_out),
        cmocka_unit_test(only_for_ready),
        cmocka_unit_test(back_by_a_check),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
