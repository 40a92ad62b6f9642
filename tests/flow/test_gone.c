/* The client goes at every stage: what is out is cancelled, the log says client_gone, nothing is left; a half-close
   alone is no going (RFC 9112 9.6). And the upstream goes in the middle of its answer. */
#include "flow/flow.h"

#define KEYS_ISSUER                                                                                                    \
    "[{issuer: \"" FLOW_ISSUER "\", jwks_url: \"http://keys.test/jwks\", audiences: [api], algorithms: [RS256]}]"

/* status: 499, or that of the answer which had begun. */
static void expect_gone(struct memory *c, const char *step, const char *status)
{
    assert_true(c->closed);
    assert_int_equal(flow.proxy.conns_n, 0);
    assert_int_equal(flow_lines(), 1);
    assert_string_equal(flow_logged("reason"), "client_gone");
    assert_string_equal(flow_logged("step"), step);
    assert_string_equal(flow_logged("status"), status);
}

/* The issuer's first keys are on their way, and will be when the client has gone. */
static void while_authenticating(void **state)
{
    (void)state;
    struct flow_config config = {.issuers = KEYS_ISSUER};
    flow_start(&config);
    flow.manual = true;
    flow_pass(10000);
    assert_int_equal(fake_fetch_open(flow.proxy.fetch), 1);
    struct memory *c = flow_client();
    const char *payload = flow_printf("{\"iss\":\"" FLOW_ISSUER "\",\"aud\":\"api\",\"sub\":\"a\",\"exp\":%lld}",
                                      (long long)loop_wall_ms(flow.loop) / 1000 + 3600);
    flow_send(c, "GET /x HTTP/1.1\r\nHost: a\r\n%s\r\n", flow_bearer_of("{\"alg\":\"RS256\"}", payload));
    assert_int_equal(flow_lines(), 0);
    flow_stop(c, UV_ECONNRESET);
    expect_gone(c, "authenticate", "499");
    flow.manual = false;
    flow_end();
}

static void while_judged(void **state)
{
    (void)state;
    flow_start(NULL);
    flow.manual = true;
    struct memory *c = flow_client();
    flow_send(c, "%s", flow_get("/x", "alice"));
    flow_stop(c, UV_ECONNRESET);
    expect_gone(c, "identify", "499");
    flow_end();
    flow_start(NULL);
    flow.manual = true;
    c = flow_client();
    flow_send(c, "%s", flow_get("/x", "alice"));
    fake_fetch_answer(fake_fetch_oldest(flow.proxy.fetch), 200, "{\"id\":\"alice\"}");
    flow_stop(c, UV_ECONNRESET);
    expect_gone(c, "decide", "499");
    flow_end();
}

static void while_connecting(void **state)
{
    (void)state;
    flow_start(NULL);
    fake_dial_open = false;
    struct memory *c = flow_client();
    flow_send(c, "GET /public HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_int_equal(fake_dial_waiting(), 1);
    flow_stop(c, UV_ECONNRESET);
    expect_gone(c, "connect", "499");
    assert_int_equal(fake_dial_waiting(), 0);
    flow_end();
}

static void while_forwarding(void **state)
{
    (void)state;
    static const char *const requests[] = {
        "GET /public HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST /public HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab",
        "POST /public HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n",
    };
    for (size_t i = 0; i < 6; i++) {
        flow_start(NULL);
        struct memory *c = flow_client();
        flow_send_bytes(c, requests[i / 2], strlen(requests[i / 2]));
        assert_true(flow_has_message(flow_up(0)));
        if (i & 1) {
            flow_send(flow_up(0), "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345");
            assert_true(flow_has_message(c));
        }
        flow_stop(c, UV_ECONNRESET);
        expect_gone(c, "forward", "499"); /* also where the head of an answer was out */
        assert_true(flow_up(0)->closed);
        flow_end();
    }
}

/* An end in order inside a body: the rest will never come. */
static void half_close_inside_a_body(void **state)
{
    (void)state;
    flow_start(NULL);
    struct memory *c = flow_client();
    flow_send(c, "POST /public HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab");
    flow_stop(c, 0);
    expect_gone(c, "forward", "499");
    assert_true(flow_up(0)->closed);
    flow_end();
}

/* An end in order behind a whole request: it is answered, then the connection closed. */
static void half_close_alone(void **state)
{
    (void)state;
    flow_start(NULL);
    struct memory *c = flow_client();
    const char *first = "GET /public HTTP/1.1\r\nHost: a\r\n\r\n",
               *second = "GET /public/2 HTTP/1.1\r\nHost: a\r\n\r\n";
    memory_send(c, first, strlen(first));
    memory_send(c, second, strlen(second));
    flow_stop(c, 0);
    flow_serve(flow_up(0), "GET /public HTTP/1.1", "ok");
    flow_expect(c, 200, "ok");
    assert_false(c->closed);
    flow_serve(flow_up(0), "GET /public/2 HTTP/1.1", "ok2");
    struct message a = flow_take(c);
    assert_string_equal(a.body, "ok2");
    assert_string_equal(flow_header(&a, "Connection"), "close");
    assert_true(c->closed);
    flow_expect_line(REASON_FORWARDED, "forward");
    flow_end();
}

/* An end in order, then a write fails: that client is gone, whatever it said before. */
static void closed_while_we_write(void **state)
{
    (void)state;
    flow_start(NULL);
    struct memory *c = flow_client();
    flow_send(c, "GET /public HTTP/1.1\r\nHost: a\r\n\r\n");
    flow_stop(c, 0);
    assert_false(c->closed);
    c->write_error = UV_EPIPE;
    flow_send(flow_up(0), "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
    flow_pass(20);
    expect_gone(c, "forward", "499");
    assert_true(flow_up(0)->closed);
    flow_end();
}

/* The same with bytes queued that the client does not take. */
static void closed_while_queued(void **state)
{
    (void)state;
    for (int ended = 0; ended < 2; ended++) {
        flow_start(NULL);
        struct memory *c = flow_client();
        c->room = 0;
        flow_send(c, "GET /public HTTP/1.1\r\nHost: a\r\n\r\n");
        flow_send(flow_up(0), "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello");
        if (ended) flow_stop(c, 0);
        c->write_error = UV_ECONNRESET;
        flow_turn();
        flow_pass(20);
        expect_gone(c, "forward", "499");
        assert_true(flow_up(0)->closed);
        flow_end();
    }
}

/* Answered and ended on our side: what is queued still goes out, whether or not the client ends its side meanwhile. */
static void half_close_while_lingering(void **state)
{
    (void)state;
    flow_start(NULL);
    struct memory *c = flow_client();
    c->room = 10;
    flow_send(c, "GET /public HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    flow_serve(flow_up(0), "GET /public HTTP/1.1", "the whole answer");
    assert_int_equal(flow_lines(), 1);
    flow_stop(c, 0);
    assert_false(c->closed);
    c->room = MEMORY_ALL;
    flow_turn();
    flow_expect(c, 200, "the whole answer");
    assert_true(c->shut && c->closed);
    flow_end();
}

/* The upstream breaks off inside its answer: the client sees a broken one, never a shorter one that looks whole. */
static void upstream_goes(void **state)
{
    (void)state;
    static const char *const answers[] = {
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12",
        "HTTP/1.1 200 OK\r\n\r\n12345", /* framed by its end, and reset */
    };
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        flow_start(NULL);
        struct memory *c = flow_client();
        flow_send(c, "GET /public HTTP/1.1\r\nHost: a\r\n\r\n");
        flow_send_bytes(flow_up(0), answers[i], strlen(answers[i]));
        flow_stop(flow_up(0), i == 3 ? UV_ECONNRESET : 0);
        assert_true(c->closed);
        assert_false(c->shut);
        assert_null(memmem(c->got.p, c->got.n, "\r\n0\r\n", 5));
        assert_string_equal(flow_logged("reason"), "upstream_closed");
        flow_end();
    }
}

/* To HTTP/1.0 the end of the connection ends an answer: a broken one must not end in order. */
static void upstream_goes_before_an_old_client(void **state)
{
    (void)state;
    for (int whole = 0; whole < 2; whole++) {
        flow_start(NULL);
        struct memory *c = flow_client();
        flow_send(c, "GET /public HTTP/1.0\r\n\r\n");
        flow_send(flow_up(0), "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n");
        if (whole) flow_send(flow_up(0), "0\r\n\r\n");
        flow_stop(flow_up(0), 0);
        assert_int_equal(c->shut, whole);
        assert_int_equal(c->closed, !whole);
        assert_int_equal(c->reset, !whole);
        flow_end();
    }
}

static void upstream_cannot_be_reached(void **state)
{
    (void)state;
    static const struct {
        int error;
        const char *detail;
    } table[] = {
        {UV_ECONNREFUSED, "connection refused"},
        {UV_ENETUNREACH, "no way to the host"},
        {UV_EAI_NONAME, "the name cannot be resolved"},
        {UV_EMFILE, "no file descriptor is left"},
        {UV_EACCES, "connect failed"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        flow_start(NULL);
        fake_dial_open = false;
        struct memory *c = flow_client();
        flow_send(c, "POST /public HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello");
        fake_dial_finish(table[i].error);
        flow_turn();
        flow_expect_reason(c, REASON_UPSTREAM_UNREACHABLE);
        flow_expect_line(REASON_UPSTREAM_UNREACHABLE, "connect");
        assert_string_equal(flow_logged("detail"), table[i].detail);
        assert_non_null(flow_logged("upstream")); /* which one */
        assert_false(c->closed || c->shut);       /* its body was whole: the connection lives on */
        flow_end();
    }
}

static void upstream_talks_nonsense(void **state)
{
    (void)state;
    static const char *const answers[] = {
        "SSH-2.0-OpenSSH\r\n\r\n",
        "HTTP/1.1 200 OK\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n",
        "HTTP/1.1 99 Low\r\n\r\n",
        "HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n",
        " HTTP/1.1 200 OK\r\n\r\n",
        "\r\n\r\n",
    };
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        flow_start(NULL);
        struct memory *c = flow_client();
        flow_send(c, "GET /public HTTP/1.1\r\nHost: a\r\n\r\n");
        flow_send_bytes(flow_up(0), answers[i], strlen(answers[i]));
        flow_expect_reason(c, REASON_UPSTREAM_MALFORMED);
        assert_true(flow_up(0)->closed);
        assert_false(c->closed);
        flow_end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(while_authenticating),
        cmocka_unit_test(while_judged),
        cmocka_unit_test(while_connecting),
        cmocka_unit_test(while_forwarding),
        cmocka_unit_test(half_close_inside_a_body),
        cmocka_unit_test(half_close_alone),
        cmocka_unit_test(closed_while_we_write),
        cmocka_unit_test(closed_while_queued),
        cmocka_unit_test(half_close_while_lingering),
        cmocka_unit_test(upstream_goes),
        cmocka_unit_test(upstream_goes_before_an_old_client),
        cmocka_unit_test(upstream_cannot_be_reached),
        cmocka_unit_test(upstream_talks_nonsense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
