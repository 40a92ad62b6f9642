/* Framing both ways (RFC 9112 6, 7, 9): keep-alive, pipelining, bytes split at every position, interim answers, answers
   without a body, chunks with trailers, answers framed by their end, early answers, HTTP/1.0 clients. */
#include "flow/flow.h"

#define H "HTTP/1.1\r\nHost: a\r\n"

/* One exchange: what the client sends, what the upstream sends, what each must see of the other. */
struct exchange {
    const char *request;
    const char *sent_first, *sent_body, *sent_trailers;
    const char *answer;
    int interim; /* a status before the final one, 0 none */
    int status;
    const char *body, *trailers;
    bool to_head, closes, upstream_closes;
};

static const struct exchange exchanges[] = {
    {.request = "GET /public?q=1 " H "\r\n",
     .sent_first = "GET /public?q=1 HTTP/1.1",
     .answer = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
     .status = 200,
     .body = "hello"},
    {.request = "POST /public " H "Content-Length: 11\r\n\r\nhello world",
     .sent_first = "POST /public HTTP/1.1",
     .sent_body = "hello world",
     .answer = "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n",
     .status = 201},
    {.request =
         "PUT /public " H "Transfer-Encoding: chunked\r\n\r\n5;ext=\"a\"\r\nhello\r\n1\r\n \r\n05\r\nworld\r\n0\r\n"
         "X-Sum: 12\r\nAuthorization: x\r\nX-Auth-Context: y\r\nHost: z\r\nX-Last:\r\n\r\n",
     .sent_first = "PUT /public HTTP/1.1",
     .sent_body = "hello world",
     .sent_trailers = "X-Sum: 12\r\nX-Last: \r\n",
     .answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA\r\n0123456789\r\n0\r\nX-End: yes\r\n"
               "Transfer-Encoding: chunked\r\nSet-Cookie: a=b\r\n\r\n",
     .status = 200,
     .body = "abc0123456789",
     .trailers = "X-End: yes\r\n"},
    {.request = "\r\n\r\nHEAD /public " H "\r\n",
     .sent_first = "HEAD /public HTTP/1.1",
     .answer = "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n",
     .status = 200,
     .to_head = true},
    {.request = "HEAD /public " H "\r\n",
     .sent_first = "HEAD /public HTTP/1.1",
     .answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
     .status = 200,
     .to_head = true},
    {.request = "DELETE /public " H "\r\n",
     .sent_first = "DELETE /public HTTP/1.1",
     .answer = "HTTP/1.1 204 No Content\r\n\r\n",
     .status = 204},
    {.request = "GET /public " H "If-None-Match: \"x\"\r\n\r\n",
     .sent_first = "GET /public HTTP/1.1",
     .answer = "HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\nETag: \"x\"\r\n\r\n",
     .status = 304},
    {.request = "GET /public " H "\r\n",
     .sent_first = "GET /public HTTP/1.1",
     .answer = "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
     .interim = 103,
     .status = 200,
     .body = "x"},
    {.request = "POST /public " H "Expect: 100-continue\r\nContent-Length: 2\r\n\r\nhi",
     .sent_first = "POST /public HTTP/1.1",
     .sent_body = "hi",
     .answer = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
     .interim = 100,
     .status = 200,
     .body = "x"},
    {.request = "GET /public " H "\r\n",
     .sent_first = "GET /public HTTP/1.1",
     .answer = "HTTP/1.1 200 OK\r\n\r\nuntil the end",
     .upstream_closes = true,
     .status = 200,
     .body = "until the end"},
    {.request = "GET /public " H "\r\n",
     .sent_first = "GET /public HTTP/1.1",
     .answer = "HTTP/1.0 200 OK\r\n\r\n1.0",
     .upstream_closes = true,
     .status = 200,
     .body = "1.0"},
    {.request = "GET /public HTTP/1.0\r\n\r\n",
     .sent_first = "GET /public HTTP/1.1",
     .answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
     .status = 200,
     .body = "abc",
     .closes = true},
    {.request = "GET /public HTTP/1.0\r\n\r\n",
     .sent_first = "GET /public HTTP/1.1",
     .answer = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
     .status = 200,
     .body = "abc",
     .closes = true},
    {.request = "GET /public HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
     .sent_first = "GET /public HTTP/1.1",
     .answer = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
     .status = 200,
     .body = "abc"},
    {.request = "GET /public " H "Connection: close\r\n\r\n",
     .sent_first = "GET /public HTTP/1.1",
     .answer = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
     .status = 200,
     .body = "abc",
     .closes = true},
};

static void send_split(struct memory *m, const char *bytes, size_t at)
{
    size_t n = strlen(bytes);
    if (at) memory_send(m, bytes, at);
    flow_turn();
    if (at < n) memory_send(m, bytes + at, n - at);
    flow_turn();
}

static void check(const struct exchange *x, struct memory *c, struct memory *up, size_t at)
{
    struct message sent = flow_take(up);
    assert_string_equal(sent.first, x->sent_first);
    assert_string_equal(sent.body, x->sent_body ? x->sent_body : "");
    assert_string_equal(sent.trailers, x->sent_trailers ? x->sent_trailers : "");
    assert_false(flow_has_message(up));
    send_split(up, x->answer, at);
    if (x->upstream_closes) flow_stop(up, 0);
    if (x->interim) flow_expect(c, x->interim, "");
    struct message a = x->to_head ? flow_take_head_answer(c) : flow_take(c);
    assert_int_equal(a.status, x->status);
    assert_string_equal(a.body, x->body ? x->body : "");
    assert_string_equal(a.trailers, x->trailers ? x->trailers : "");
    assert_false(flow_has_message(c));
    assert_int_equal(c->shut, x->closes);
    assert_int_equal(flow_lines(), 1);
    assert_string_equal(flow_logged("reason"), "forwarded");
}

static void split_requests(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof exchanges / sizeof *exchanges; i++)
        for (size_t at = 1; at <= strlen(exchanges[i].request); at++) {
            flow_start(NULL);
            struct memory *c = flow_client();
            send_split(c, exchanges[i].request, at);
            check(&exchanges[i], c, flow_up(0), strlen(exchanges[i].answer));
            flow_end();
        }
}

static void split_answers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof exchanges / sizeof *exchanges; i++)
        for (size_t at = 1; at < strlen(exchanges[i].answer); at++) {
            flow_start(NULL);
            struct memory *c = flow_client();
            flow_send_bytes(c, exchanges[i].request, strlen(exchanges[i].request));
            check(&exchanges[i], c, flow_up(0), at);
            flow_end();
        }
}

/* Byte by byte, both ways. */
static void single_bytes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof exchanges / sizeof *exchanges; i++) {
        const struct exchange *x = &exchanges[i];
        flow_start(NULL);
        struct memory *c = flow_client();
        for (const char *p = x->request; *p; p++)
            memory_send(c, p, 1);
        flow_turn();
        struct message sent = flow_take(flow_up(0));
        assert_string_equal(sent.body, x->sent_body ? x->sent_body : "");
        for (const char *p = x->answer; *p; p++)
            memory_send(flow_up(0), p, 1);
        flow_turn();
        if (x->upstream_closes) flow_stop(flow_up(0), 0);
        if (x->interim) flow_expect(c, x->interim, "");
        struct message a = x->to_head ? flow_take_head_answer(c) : flow_take(c);
        assert_int_equal(a.status, x->status);
        assert_string_equal(a.body, x->body ? x->body : "");
        flow_end();
    }
}

/* The connection lives on after every exchange that does not say otherwise, and so does the upstream's. */
static void keep_alive(void **state)
{
    (void)state;
    flow_start(NULL);
    struct memory *c = flow_client();
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < sizeof exchanges / sizeof *exchanges; i++) {
            const struct exchange *x = &exchanges[i];
            if (x->closes || x->upstream_closes) continue;
            flow_send_bytes(c, x->request, strlen(x->request));
            flow_take(flow_up(0));
            flow_send_bytes(flow_up(0), x->answer, strlen(x->answer));
            if (x->interim) flow_expect(c, x->interim, "");
            struct message a = x->to_head ? flow_take_head_answer(c) : flow_take(c);
            assert_int_equal(a.status, x->status);
        }
    assert_int_equal(flow.ups_n, 1);
    assert_false(c->shut || c->closed);
    flow_end();
}

/* Several requests in one read, one with a body, are served one after the other, in order. */
static void pipelined(void **state)
{
    (void)state;
    static const char all[] = "GET /public/1 " H "\r\nPOST /public/2 " H "Content-Length: 4\r\n\r\nGET "
                              "\r\n\r\nPUT /public/3 " H "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"
                              "GET /health " H "\r\nGET /public/4 " H "\r\n";
    for (size_t at = 1; at < sizeof all; at++) {
        flow_start(NULL);
        struct memory *c = flow_client();
        memory_send(c, all, at);
        if (at < sizeof all - 1) memory_send(c, all + at, sizeof all - 1 - at);
        flow_turn();
        flow_serve(flow_up(0), "GET /public/1 HTTP/1.1", "one");
        flow_serve(flow_up(0), "POST /public/2 HTTP/1.1", "two");
        flow_serve(flow_up(0), "PUT /public/3 HTTP/1.1", "three");
        flow_serve(flow_up(0), "GET /public/4 HTTP/1.1", "four");
        flow_expect(c, 200, "one");
        flow_expect(c, 200, "two");
        flow_expect(c, 200, "three");
        flow_expect(c, 200, NULL);
        flow_expect(c, 200, "four");
        assert_int_equal(flow.ups_n, 1);
        flow_end();
    }
}

/* A refusal in the middle of a pipeline does not lose the place when the framing was clear, and ends it when not. */
static void refusals_in_a_pipeline(void **state)
{
    (void)state;
    flow_start(NULL);
    struct memory *c = flow_client();
    flow_send(c, "POST /x " H "Content-Length: 9\r\n\r\nGET /evilGET /public " H "\r\n");
    flow_expect_reason(c, REASON_CREDENTIAL_MISSING);
    flow_serve(flow_up(0), "GET /public HTTP/1.1", "ok");
    flow_expect(c, 200, "ok");
    flow_send(c, "POST /x " H "Content-Length: 9\r\n\r\nGET /");
    struct message a = flow_take(c);
    assert_int_equal(a.status, 401);
    assert_string_equal(flow_header(&a, "Connection"), "close");
    assert_true(c->shut);
    flow_send(c, "evilGET /public " H "\r\n");
    assert_false(flow_has_message(c));
    flow_end();
    flow_start(NULL);
    c = flow_client();
    flow_send(c, "GET /public%%2F " H "\r\nGET /public " H "\r\n");
    flow_expect_reason(c, REASON_PATH_AMBIGUOUS);
    assert_false(flow_has_message(c));
    assert_int_equal(flow.ups_n, 0);
    flow_end();
}

/* Credit for reading no body bytes before the decision: what came with the head is held, nothing more is read. */
static void body_waits_for_the_decision(void **state)
{
    (void)state;
    flow_start(NULL);
    flow.manual = true;
    struct memory *c = flow_client();
    memory_send(c, "POST /x " H, strlen("POST /x " H));
    const char *rest = flow_printf("%sContent-Length: 6\r\n\r\nabc", flow_bearer("alice"));
    memory_send(c, rest, strlen(rest));
    memory_send(c, "def", 3);
    flow_turn();
    assert_false(c->reading);
    assert_int_equal(flow.ups_n, 0);
    flow.manual = false;
    flow_turn();
    struct message up = flow_take(flow_up(0));
    assert_string_equal(up.body, "abcdef");
    flow_send(flow_up(0), "HTTP/1.1 204 No Content\r\n\r\n");
    flow_expect(c, 204, "");
    flow_end();
}

/* Expect: 100-continue goes along after the allow; a refusal is the final answer and no body is asked for. */
static void expectation(void **state)
{
    (void)state;
    flow_start(NULL);
    struct memory *c = flow_client();
    flow_send(c, "POST /public " H "Expect: 100-continue\r\nContent-Length: 4\r\n\r\n");
    struct memory *up = flow_up(0);
    assert_non_null(memmem(up->got.p, up->got.n, "Expect: 100-continue\r\n", 22));
    flow_send(up, "HTTP/1.1 100 Continue\r\n\r\n");
    flow_expect(c, 100, "");
    flow_send(c, "body");
    struct message m = flow_take(up);
    assert_string_equal(m.body, "body");
    flow_send(up, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    flow_expect(c, 200, "");
    flow_send(c, "POST /x " H "Expect: 100-continue\r\nContent-Length: 4\r\n\r\n");
    flow_expect_reason(c, REASON_CREDENTIAL_MISSING);
    assert_true(c->shut);
    flow_end();
    flow_start(NULL);
    c = flow_client();
    flow_send(c, "POST /public " H "Expect: 100-continue\r\nContent-Length: 4\r\n\r\n");
    flow_send(flow_up(0), "HTTP/1.1 417 No\r\nContent-Length: 0\r\n\r\n");
    flow_expect(c, 417, "");
    assert_true(c->shut && flow_up(0)->closed);
    flow_end();
}

/* The API answers before it has the whole request: the client gets it, then the connection is ended, and what the
   client still sends is read and thrown away for a moment so that it can read the answer. */
static void early_answer(void **state)
{
    (void)state;
    flow_start(NULL);
    struct memory *c = flow_client();
    flow_send(c, "POST /public " H "Content-Length: 100000\r\n\r\nabc");
    flow_send(flow_up(0), "HTTP/1.1 413 Too much\r\nContent-Length: 3\r\n\r\nno!");
    struct message a = flow_take(c);
    assert_int_equal(a.status, 413);
    assert_string_equal(a.body, "no!");
    assert_string_equal(flow_header(&a, "Connection"), "close");
    assert_true(flow_up(0)->closed);
    assert_true(c->shut);
    assert_false(c->closed);
    flow_send_bytes(c, flow_bytes(50000), 50000);
    assert_false(c->closed);
    flow_pass(2000);
    assert_true(c->closed);
    flow_expect_line(REASON_FORWARDED, "forward");
    flow_end();
}

/* It may go on answering while the client goes on sending. */
static void both_at_once(void **state)
{
    (void)state;
    flow_start(NULL);
    struct memory *c = flow_client();
    flow_send(c, "POST /public " H "Transfer-Encoding: chunked\r\n\r\n");
    flow_send(flow_up(0), "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 20; i++) {
        flow_send(c, "4\r\nping\r\n");
        flow_send(flow_up(0), "4\r\npong\r\n");
    }
    flow_send(c, "0\r\n\r\n");
    struct message m = flow_take(flow_up(0));
    assert_int_equal(m.body_n, 80);
    flow_send(flow_up(0), "0\r\n\r\n");
    m = flow_take(c);
    assert_int_equal(m.body_n, 80);
    flow_end();
}

/* Bodies of our own answers and of 204, 304 and 1xx never carry a length that is not there (RFC 9110 8.6). */
static void no_length_where_none_may_be(void **state)
{
    (void)state;
    flow_start(NULL);
    struct memory *c = flow_client();
    flow_send(c, "GET /public " H "\r\n");
    flow_take(flow_up(0));
    flow_send(flow_up(0), "HTTP/1.1 103 Early Hints\r\nContent-Length: 3\r\n\r\nHTTP/1.1 204 No Content\r\n"
                          "Content-Length: 3\r\n\r\n");
    struct message a = flow_take(c);
    assert_int_equal(a.status, 103);
    assert_null(flow_header(&a, "Content-Length"));
    a = flow_take(c);
    assert_int_equal(a.status, 204);
    assert_null(flow_header(&a, "Content-Length"));
    flow_end();
}

/* Interim answers without end fill no memory: the upstream is told off. */
static void endless_interims(void **state)
{
    (void)state;
    flow_start(NULL);
    struct memory *c = flow_client();
    flow_send(c, "GET /public " H "\r\n");
    flow_take(flow_up(0));
    for (int i = 0; i < 1000 && !flow_up(0)->closed; i++)
        flow_send(flow_up(0), "HTTP/1.1 102 Processing\r\n\r\n");
    assert_true(flow_up(0)->closed);
    flow_expect_line(REASON_UPSTREAM_MALFORMED, "forward");
    flow_end();
}

static void requests_per_connection(void **state)
{
    (void)state;
    flow_start(&(struct flow_config){.listen = "max_requests_per_connection: 2"});
    struct memory *c = flow_client();
    flow_send(c, "GET /health " H "\r\nGET /health " H "\r\nGET /health " H "\r\n");
    struct message a = flow_take(c);
    assert_null(flow_header(&a, "Connection"));
    a = flow_take(c);
    assert_string_equal(flow_header(&a, "Connection"), "close");
    assert_false(flow_has_message(c));
    assert_true(c->shut);
    flow_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(split_requests),
        cmocka_unit_test(split_answers),
        cmocka_unit_test(single_bytes),
        cmocka_unit_test(keep_alive),
        cmocka_unit_test(pipelined),
        cmocka_unit_test(refusals_in_a_pipeline),
        cmocka_unit_test(body_waits_for_the_decision),
        cmocka_unit_test(expectation),
        cmocka_unit_test(early_answer),
        cmocka_unit_test(both_at_once),
        cmocka_unit_test(no_length_where_none_may_be),
        cmocka_unit_test(endless_interims),
        cmocka_unit_test(requests_per_connection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
