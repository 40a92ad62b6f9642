/* Several addresses behind one upstream: whose turn it is, who is left alone after failures and how it comes back, and
   when a request goes to another one: always where nothing was sent, once where nothing can have come of it. */
#include "flow/flow.h"

#include <unistd.h>

#include "base/metric.h"

#define H "HTTP/1.1\r\nHost: a\r\n"
#define GET "GET /x " H "\r\n"
#define A "192.0.2.1:80"
#define B "192.0.2.2:80"
#define C "192.0.2.3:80"
#define ROUTES "[{prefix: /, access: public, upstream: many}]"
#define MANY(urls, more) "upstreams: {many: {urls: [" urls "], connect_timeout_ms: 2000, response_timeout_ms: 5000" more "}}"
#define TWO "\"http://192.0.2.1/\", \"http://192.0.2.2/\""
#define THREE TWO ", \"http://192.0.2.3/\""

static const struct flow_config two = {.routes = ROUTES, .more = MANY(TWO, ", balance: round_robin")};
static const struct flow_config three = {.routes = ROUTES, .more = MANY(THREE, ", balance: round_robin")};

static double counted(enum metric m)
{
    struct slice name = SLICE("many");
    return metric_value(m, &name);
}

static void answer(struct memory *up, int status)
{
    flow_take(up);
    flow_send(up, "HTTP/1.1 %d X\r\nContent-Length: 2\r\n\r\nok", status);
}

/* One request, answered; where it went. */
static const char *exchange(struct memory *c, int status)
{
    flow_send(c, GET);
    struct memory *up = flow_asked();
    if (!up) fail_msg("nobody was asked: %s (%s)", flow_logged("reason"), flow_logged("detail"));
    answer(up, status);
    flow_expect(c, status, "ok");
    assert_string_equal(flow_logged("upstream_address"), up->to);
    return up->to;
}

static void in_turn(void **state)
{
    (void)state;
    flow_start(&three);
    struct memory *c = flow_client();
    for (int i = 0; i < 4; i++) {
        assert_string_equal(exchange(c, 200), A);
        assert_string_equal(flow_logged("upstream"), "192.0.2.1");
        assert_string_equal(exchange(c, 200), B);
        assert_string_equal(exchange(c, 200), C);
    }
    assert_int_equal(flow.ups_n, 3); /* each is kept and used again */
    flow_end();
}

static void host_is_of_its_url(void **state)
{
    (void)state;
    flow_start(&(struct flow_config){.routes = ROUTES,
                                     .more = MANY("\"http://one.test:81/b\", \"http://192.0.2.2/b\"",
                                                  ", balance: round_robin")});
    struct memory *c = flow_client();
    static const char *const hosts[] = {"one.test:81", "192.0.2.2"};
    for (int i = 0; i < 2; i++) {
        flow_send(c, GET);
        struct message m = flow_take(flow_up((size_t)i));
        assert_string_equal(flow_header(&m, "Host"), hosts[i]);
        flow_send(flow_up((size_t)i), "HTTP/1.1 204 X\r\n\r\n");
        flow_expect(c, 204, "");
        assert_string_equal(flow_logged("upstream"), hosts[i]);
    }
    flow_end();
}

static void fewest_requests(void **state)
{
    (void)state;
    flow_start(&(struct flow_config){.routes = ROUTES, .more = MANY(TWO, "")});
    struct memory *c[5];
    size_t to_a = 0;
    for (size_t i = 0; i < 5; i++) {
        c[i] = flow_client();
        flow_send(c[i], GET);
        to_a += strcmp(flow_up(i)->to, A) == 0;
    }
    assert_true(to_a == 2 || to_a == 3);
    for (size_t i = 0; i < 5; i++) /* A has nothing to do any more */
        if (strcmp(flow_up(i)->to, A) == 0) answer(flow_up(i), 200);
    struct memory *d = flow_client();
    flow_send(d, GET);
    assert_string_equal(flow_asked()->to, A);
    flow_end();
}

/* Nothing was sent: any method, each address once. */
static void connect_fails(void **state)
{
    (void)state;
    static const char *const requests[] = {GET, "POST /x " H "Content-Length: 3\r\n\r\nabc"};
    static const int errors[] = {UV_ECONNREFUSED, UV_EHOSTUNREACH, UV_ETIMEDOUT, UV_ECONNRESET};
    for (size_t i = 0; i < 8; i++) {
        flow_start(&three);
        fake_dial_open = false;
        struct memory *c = flow_client();
        flow_send(c, "%s", requests[i % 2]);
        assert_string_equal(fake_dial_to(0), A);
        fake_dial_finish(errors[i / 2]);
        assert_string_equal(fake_dial_to(0), B);
        fake_dial_finish(errors[i / 2]);
        assert_string_equal(fake_dial_to(0), C);
        fake_dial_finish(0);
        flow_turn();
        assert_string_equal(flow_take(flow_up(0)).body, i % 2 ? "abc" : "");
        flow_send(flow_up(0), "HTTP/1.1 204 X\r\n\r\n");
        flow_expect(c, 204, "");
        assert_true(counted(METRIC_UPSTREAM_RETRIES) == 0); /* it was sent once */
        flow_end();
    }
}

static void no_address_connects(void **state)
{
    (void)state;
    flow_start(&three);
    fake_dial_open = false;
    struct memory *c = flow_client();
    flow_send(c, GET);
    for (int i = 0; i < 3; i++) fake_dial_finish(UV_ECONNREFUSED);
    flow_turn();
    assert_int_equal(fake_dial_started(), 3);
    flow_expect_reason(c, REASON_UPSTREAM_UNREACHABLE);
    assert_string_equal(flow_logged("detail"), "connection refused");
    flow_end();
}

/* All of it within connect_timeout_ms: who does not answer leaves time for another. */
static void connect_time_is_shared(void **state)
{
    (void)state;
    flow_start(&three);
    fake_dial_open = false;
    struct memory *c = flow_client();
    flow_send(c, GET);
    assert_in_range(fake_dial_timeout(0), 990, 1000);
    flow_pass(1000);
    assert_string_equal(fake_dial_to(0), B);
    assert_in_range(fake_dial_timeout(0), 400, 500);
    flow_pass(500);
    assert_string_equal(fake_dial_to(0), C);
    assert_in_range(fake_dial_timeout(0), 350, 500);
    flow_pass(500);
    flow_expect_reason(c, REASON_UPSTREAM_UNREACHABLE);
    assert_string_equal(flow_logged("detail"), "connect timed out");
    assert_int_equal(fake_dial_waiting(), 0);
    flow_end();
}

/* We have no descriptor left: that is nobody's failure, and another address would be none the better. */
static void own_shortage(void **state)
{
    (void)state;
    flow_start(&two);
    fake_dial_open = false;
    struct memory *c = flow_client();
    for (int i = 0; i < 20; i++) {
        flow_send(c, GET);
        fake_dial_finish(UV_EMFILE);
        flow_turn();
        flow_expect_reason(c, REASON_UPSTREAM_UNREACHABLE);
        assert_string_equal(flow_logged("detail"), "no file descriptor is left");
    }
    assert_true(counted(METRIC_UPSTREAM_EJECTIONS) == 0);
    flow_end();
}

/* Sent, and no byte of an answer came. */
static void sent_again_elsewhere(void **state)
{
    (void)state;
    static const struct {
        const char *request;
        bool again;
    } rows[] = {
        {GET, true},
        {"HEAD /x " H "\r\n", true},
        {"DELETE /x " H "\r\n", true},
        {"PUT /x " H "Content-Length: 0\r\n\r\n", true},
        {"PUT /x " H "Content-Length: 3\r\n\r\nabc", false},
        {"POST /x " H "\r\n", false},
        {"PATCH /x " H "\r\n", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (int pooled = 0; pooled < 2; pooled++) {
            flow_start(&two);
            struct memory *c = flow_client();
            if (pooled) { /* B has one, and it is B's turn */
                exchange(c, 200);
                exchange(c, 200);
                exchange(c, 200);
            }
            size_t first = pooled ? 1 : 0, before = flow.ups_n;
            flow_send(c, "%s", rows[i].request);
            assert_true(flow_up(first)->got.n > 0);
            flow_take(flow_up(first));
            flow_stop(flow_up(first), i % 2 ? UV_ECONNRESET : 0);
            if (!rows[i].again) {
                flow_expect_reason(c, REASON_UPSTREAM_CLOSED);
                assert_int_equal(flow.ups_n, pooled ? 2 : 1);
                flow_end();
                continue;
            }
            struct memory *second = flow_asked();
            assert_non_null(second);
            assert_string_not_equal(second->to, flow_up(first)->to);
            assert_int_equal(flow.ups_n, before + (pooled ? 1 : 2)); /* over a fresh connection */
            flow_take(second);
            flow_send(second, "HTTP/1.1 204 X\r\n\r\n");
            flow_expect(c, 204, "");
            assert_string_equal(flow_logged("retried"), "true");
            assert_string_equal(flow_logged("upstream_address"), second->to);
            assert_true(counted(METRIC_UPSTREAM_RETRIES) == 1);
            flow_end();
        }
    }
}

/* Never a third time; and a fresh connection to the only address is not followed by another. */
static void sent_twice_at_most(void **state)
{
    (void)state;
    flow_start(&three);
    struct memory *c = flow_client();
    flow_send(c, GET);
    flow_stop(flow_up(0), 0);
    flow_stop(flow_up(1), 0);
    flow_expect_reason(c, REASON_UPSTREAM_CLOSED);
    assert_int_equal(flow.ups_n, 2);
    flow_end();
    flow_start(&(struct flow_config){.routes = ROUTES, .more = MANY("\"http://192.0.2.1\"", "")});
    c = flow_client();
    flow_send(c, GET);
    flow_stop(flow_up(0), 0);
    flow_expect_reason(c, REASON_UPSTREAM_CLOSED);
    assert_int_equal(flow.ups_n, 1);
    flow_end();
}

/* The other one is out: a dead pooled connection is replaced by one to the same address. */
static void sent_again_to_the_same(void **state)
{
    (void)state;
    flow_start(&two);
    struct memory *c = flow_client();
    exchange(c, 200);
    fake_dial_open = false;
    for (int i = 0; i < 5; i++) { /* B's turn: refused, on to A */
        struct memory *d = flow_client();
        flow_send(d, "POST /x " H "\r\n");
        while (fake_dial_waiting()) fake_dial_finish(strcmp(fake_dial_to(0), B) ? 0 : UV_ECONNREFUSED);
        flow_turn();
        while (flow_asked()) answer(flow_asked(), 200);
        flow_expect(d, 200, "ok");
    }
    fake_dial_open = true;
    assert_true(counted(METRIC_UPSTREAM_EJECTIONS) == 1);
    flow_send(c, GET);
    struct memory *first = flow_asked();
    assert_string_equal(first->to, A);
    flow_take(first);
    flow_stop(first, 0);
    struct memory *second = flow_asked();
    assert_non_null(second);
    assert_string_equal(second->to, A);
    answer(second, 200);
    flow_expect(c, 200, "ok");
    flow_end();
}

/* What counts, what does not, and the way back. */
enum kind { REFUSED, SILENT, CLOSED, MALFORMED, WEAK, ANSWER_500, ANSWER_404, GONE };

static void suffer(struct memory *c, enum kind kind)
{
    bool to_b;
    do { /* until B has had it */
        flow_send(c, "POST /x " H "\r\n");
        if (!fake_dial_open) {
            to_b = strcmp(fake_dial_to(0), B) == 0;
            fake_dial_finish(to_b ? UV_ECONNREFUSED : 0);
            while (fake_dial_waiting()) fake_dial_finish(0);
            flow_turn();
            answer(flow_asked(), 200);
            flow_expect(c, 200, "ok");
            if (counted(METRIC_UPSTREAM_EJECTIONS) == 0) flow_pass(1100); /* the next POST dials again */
            continue;
        }
        struct memory *up = flow_asked();
        to_b = strcmp(up->to, B) == 0;
        if (!to_b) {
            answer(up, 200);
            flow_expect(c, 200, "ok");
            continue;
        }
        flow_take(up);
        if (kind == SILENT) flow_pass(5000);
        if (kind == CLOSED) flow_stop(up, UV_ECONNRESET);
        if (kind == MALFORMED) flow_send(up, "SSH-2.0-x\r\n\r\n");
        if (kind >= WEAK && kind < GONE)
            flow_send(up, "HTTP/1.1 %d X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
                      kind == WEAK ? 503 : kind == ANSWER_500 ? 500 : 404);
        if (kind == GONE) return;
        flow_take(c);
    } while (!to_b);
}

static void ejected_and_back(void **state)
{
    (void)state;
    for (enum kind kind = REFUSED; kind <= GONE; kind++) {
        bool counts = kind <= WEAK;
        flow_start(&two);
        struct memory *c = flow_client();
        fake_dial_open = kind != REFUSED;
        for (int i = 0; i < 8; i++) {
            if (kind == GONE) c = flow_client();
            suffer(c, kind);
            if (kind == GONE) flow_stop(c, UV_ECONNRESET);
            if (counted(METRIC_UPSTREAM_EJECTIONS) > 0) break;
        }
        fake_dial_open = true;
        if (kind == GONE) c = flow_client();
        assert_int_equal(counted(METRIC_UPSTREAM_EJECTIONS), counts);
        assert_int_equal(flow_log_holds("upstream_ejected"), counts);
        if (!counts) {
            flow_end();
            continue;
        }
        flow_pass(100);
        for (int i = 0; i < 6; i++) assert_string_equal(exchange(c, 200), A);
        flow_pass(1300);
        assert_string_equal(exchange(c, 200), B); /* the trial */
        assert_true(flow_log_holds("upstream_back"));
        size_t to_b = 0;
        for (int i = 0; i < 6; i++) to_b += strcmp(exchange(c, 200), B) == 0;
        assert_int_equal(to_b, 3);
        flow_end();
    }
}

/* 503 of the last one that is left is its answer, not a reason to have none. */
static void last_one_answers(void **state)
{
    (void)state;
    flow_start(&two);
    struct memory *c = flow_client();
    for (int i = 0; i < 40; i++) exchange(c, 503);
    assert_true(counted(METRIC_UPSTREAM_EJECTIONS) == 1);
    flow_end();
    flow_start(&(struct flow_config){.routes = ROUTES, .more = MANY("\"http://192.0.2.1\"", "")});
    c = flow_client();
    for (int i = 0; i < 40; i++) exchange(c, 502);
    for (int i = 0; i < 40; i++) { /* one request that it cannot answer is not the end of all others */
        flow_send(c, "POST /x " H "\r\n");
        struct memory *up = flow_asked();
        flow_take(up);
        if (i % 2)
            flow_stop(up, UV_ECONNRESET);
        else
            flow_send(up, "SSH-2.0-x\r\n\r\n");
        flow_expect_reason(c, i % 2 ? REASON_UPSTREAM_CLOSED : REASON_UPSTREAM_MALFORMED);
    }
    assert_true(counted(METRIC_UPSTREAM_EJECTIONS) == 0);
    for (int i = 0; i < 5; i++) { /* but nobody waits for one that is silent */
        flow_send(c, "POST /x " H "\r\n");
        flow_pass(5000);
        flow_expect_reason(c, REASON_UPSTREAM_TIMEOUT);
    }
    assert_true(counted(METRIC_UPSTREAM_EJECTIONS) == 1);
    flow_send(c, GET);
    flow_expect_reason(c, REASON_UPSTREAM_UNREACHABLE);
    flow_end();
}

/* All are out: refused at once, and tried each second, so that a start of the API is seen within about one. */
static void all_down(void **state)
{
    (void)state;
    const struct flow_config one = {.routes = ROUTES, .more = MANY("\"http://192.0.2.1\"", "")};
    for (int n = 1; n <= 2; n++) {
        flow_start(n == 1 ? &one : &two);
        fake_dial_open = false;
        struct memory *c = flow_client();
        for (int i = 0; i < 600; i++) { /* a minute without it */
            flow_send(c, GET);
            while (fake_dial_waiting()) fake_dial_finish(UV_ECONNREFUSED);
            flow_turn();
            flow_expect_reason(c, REASON_UPSTREAM_UNREACHABLE);
            flow_pass(90);
        }
        assert_in_range(fake_dial_started(), 50, 150); /* not 600 */
        assert_int_equal(counted(METRIC_UPSTREAM_EJECTIONS), n);
        fake_dial_open = true; /* it is back */
        int64_t waited = 0;
        for (;; waited += 100) {
            flow_send(c, GET);
            if (flow_asked()) break;
            flow_expect_reason(c, REASON_UPSTREAM_UNREACHABLE);
            assert_string_equal(flow_logged("detail"), "resting after failures");
            flow_pass(90);
        }
        answer(flow_asked(), 200);
        flow_expect(c, 200, "ok");
        assert_in_range(waited, 0, 1200);
        for (int i = 0; i < 3; i++) exchange(c, 200);
        flow_end();
    }
}

/* A trial whose client goes away is no outcome: the next one may try. */
static void trial_abandoned(void **state)
{
    (void)state;
    flow_start(&(struct flow_config){.routes = ROUTES, .more = MANY("\"http://192.0.2.1\"", "")});
    fake_dial_open = false;
    struct memory *c = flow_client();
    for (int i = 0; i < 5; i++) {
        flow_send(c, GET);
        fake_dial_finish(UV_ECONNREFUSED);
        flow_turn();
        flow_expect_reason(c, REASON_UPSTREAM_UNREACHABLE);
    }
    for (int connected = 0; connected < 2; connected++) {
        flow_pass(1300);
        struct memory *d = flow_client();
        flow_send(d, GET);
        assert_int_equal(fake_dial_waiting(), 1);
        flow_send(c, GET); /* one trial at a time */
        flow_expect_reason(c, REASON_UPSTREAM_UNREACHABLE);
        if (connected) fake_dial_finish(0);
        flow_turn();
        flow_stop(d, UV_ECONNRESET);
        assert_int_equal(fake_dial_waiting(), 0);
    }
    fake_dial_open = true;
    exchange(c, 200);
    flow_end();
}

/* The slow one of two gets less, and is not forgotten. */
static void fastest(void **state)
{
    (void)state;
    flow_start(&(struct flow_config){.routes = ROUTES, .more = MANY(TWO, ", balance: fastest")});
    struct memory *c = flow_client();
    size_t to_b = 0;
    for (int i = 0; i < 60; i++) {
        flow_send(c, GET);
        struct memory *up = flow_asked();
        bool b = strcmp(up->to, B) == 0;
        if (b) usleep(20000);
        to_b += b;
        answer(up, 200);
        flow_expect(c, 200, "ok");
    }
    assert_in_range(to_b, 1, 20);
    flow_pass(3600000);
    flow_turn();
    c = flow_client();
    for (int i = 0; i < 3; i++) exchange(c, 200);
    flow_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_turn),
        cmocka_unit_test(host_is_of_its_url),
        cmocka_unit_test(fewest_requests),
        cmocka_unit_test(connect_fails),
        cmocka_unit_test(no_address_connects),
        cmocka_unit_test(connect_time_is_shared),
        cmocka_unit_test(own_shortage),
        cmocka_unit_test(sent_again_elsewhere),
        cmocka_unit_test(sent_twice_at_most),
        cmocka_unit_test(sent_again_to_the_same),
        cmocka_unit_test(ejected_and_back),
        cmocka_unit_test(last_one_answers),
        cmocka_unit_test(all_down),
        cmocka_unit_test(trial_abandoned),
        cmocka_unit_test(fastest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
