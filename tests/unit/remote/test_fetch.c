/* remote/fetch against a scripted server: what is sent, what is taken for an answer, every prefix of one, urls. */
#include "remote/fetch.h"

#include "fetch_bench.h"

static void answers_come_whole(void **state)
{
    static const struct {
        const char *bytes;
        int status;
        const char *body, *cache_control;
        bool close;
    } table[] = {
        {OK, 200, "{\"allow\":1234", "max-age=60", false},
        {"HTTP/1.1 500 Oops\r\nContent-Length: 2\r\n\r\nno", 500, "no", "", false},
        {"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", 404, "", "", false},
        {"HTTP/1.1 204 No Content\r\n\r\n", 204, "", "", false},
        {"HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n", 302, "", "", false},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n", 200, "abcde", "",
         false},
        {"HTTP/1.1 100 Continue\r\nCache-Control: no-store\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", 200,
         "x", "", false},
        {"HTTP/1.1 200 OK\r\ncache-CONTROL:  public \r\nCache-Control: max-age=5\r\nContent-Length: 1\r\n\r\nx", 200,
         "x", "public, max-age=5", false},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nCache-Control: max-age=9\r\n\r\n", 200,
         "a", "", false},
        {"HTTP/1.1 200 OK\r\n\r\nto the end", 200, "to the end", "", true},
        {"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", 200, "x", "", true},
    };
    (void)state;
    for (int drip = 0; drip < 2; drip++)
        for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
            struct bench b;
            struct answer a = {
                .bytes = table[i].bytes, .n = strlen(table[i].bytes), .close = table[i].close, .drip = drip};
            open_bench(&b, &a, NULL);
            struct got *g = get(&b, b.url);
            assert_int_equal(g->outcome, FETCH_ANSWERED);
            assert_int_equal(g->status, table[i].status);
            assert_string_equal(g->body, table[i].body);
            assert_string_equal(g->cache_control, table[i].cache_control);
            if (i == 0) assert_string_equal(g->content_type, "application/json");
            assert_int_equal(a.requests, 1);
            close_bench(&b);
        }
}

static void the_request_is_what_was_asked(void **state)
{
    struct bench b;
    struct answer a = ANSWER(OK);
    (void)state;
    setenv("http_proxy", "http://127.0.0.1:1/", 1);
    setenv("all_proxy", "http://127.0.0.1:1/", 1);
    open_bench(&b, &a, NULL);
    char url[300], body[3000], header[] = "Authorization: Bearer abc";
    snprintf(url, sizeof url, "http://127.0.0.1:%d/a/../b%%2f?x=1", b.s.port);
    memset(body, 'x', sizeof body);
    struct slice headers[] = {SLICE("Content-Type: application/json"), slice_str(header)};
    struct fetch_request q = request_to(url);
    q.method = SLICE("POST");
    q.headers = headers;
    q.headers_n = 2;
    q.body = slice_make(body, sizeof body);
    struct got g = {0};
    fetch_start(b.fetch, &q, on_answer, &g);
    memset(url, 0, sizeof url); /* all of it was copied */
    memset(body, 0, sizeof body);
    memset(header, 0, sizeof header);
    harness_until(&b.h, g.calls == 1);
    assert_int_equal(g.outcome, FETCH_ANSWERED);
    assert_memory_equal(a.last, "POST /a/../b%2f?x=1 HTTP/1.1\r\n", 30);
    assert_non_null(strstr(a.last, "\r\nContent-Type: application/json\r\n"));
    assert_non_null(strstr(a.last, "\r\nAuthorization: Bearer abc\r\n"));
    assert_non_null(strstr(a.last, "\r\nContent-Length: 3000\r\n"));
    assert_null(strstr(a.last, "Expect"));
    assert_null(strstr(a.last, "form-urlencoded"));
    assert_non_null(strstr(a.last, "\r\n\r\nxxxxxxxx"));
    /* The same easy handle, now without body and headers. */
    assert_int_equal(get(&b, b.url)->outcome, FETCH_ANSWERED);
    assert_memory_equal(a.last, "GET /x HTTP/1.1\r\n", 17);
    assert_null(strstr(a.last, "Authorization"));
    assert_null(strstr(a.last, "Content-"));
    q = request_to(b.url);
    q.method = SLICE("POST");
    assert_int_equal(ask(&b, &q)->outcome, FETCH_ANSWERED);
    assert_non_null(strstr(a.last, "\r\nContent-Length: 0\r\n"));
    assert_int_equal(b.s.accepted, 1); /* one connection for all three */
    a.bytes = "HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n";
    a.n = strlen(a.bytes);
    q = request_to(b.url);
    q.method = SLICE("HEAD");
    assert_int_equal(ask(&b, &q)->outcome, FETCH_ANSWERED);
    close_bench(&b);
    unsetenv("http_proxy");
    unsetenv("all_proxy");
}

/* A server that sends a body with its answer to HEAD, which some do, leaves bytes on the connection. The next question is
   not the one to suffer. */
static void a_head_leaves_no_connection_behind(void **state)
{
    struct bench b;
    struct answer a = ANSWER("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nunasked!");
    (void)state;
    open_bench(&b, &a, NULL);
    a.drip = true;
    struct fetch_request q = request_to(b.url);
    q.method = SLICE("HEAD");
    for (int i = 1; i <= 3; i++) {
        assert_int_equal(ask(&b, &q)->outcome, FETCH_ANSWERED);
        assert_int_equal(b.s.accepted, i);
    }
    a = (struct answer)ANSWER(OK);
    assert_int_equal(get(&b, b.url)->outcome, FETCH_ANSWERED);
    close_bench(&b);
}

/* Whatever part of an answer comes before the end: never ANSWERED unless whole, never UNREACHABLE, always one callback.
 */
static void every_prefix_is_broken(void **state)
{
    static const char *const answers[] = {
        OK, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n"};
    (void)state;
    for (int way = 0; way < 3; way++)
        for (size_t i = 0; i < 2; i++) {
            struct bench b;
            struct answer a = {.bytes = answers[i], .close = way != 1, .reset = way == 1, .drip = way == 2};
            open_bench(&b, &a, NULL);
            /* Of the last line end of a chunked answer curl needs the first byte only. */
            size_t whole = strlen(answers[i]) - i;
            for (a.n = 0; a.n < whole; a.n++) {
                struct got *g = get(&b, b.url);
                if (g->outcome != FETCH_BROKEN)
                    fail_msg("answer %zu cut at %zu, way %d: outcome %d, status %d", i, a.n, way, g->outcome,
                             g->status);
                assert_int_equal(g->body_n, 0);
            }
            assert_int_equal(b.s.accepted, whole);
            close_bench(&b);
        }
}

static void what_is_not_http_is_broken(void **state)
{
    static const char *const table[] = {"hello\r\n\r\n",
                                        "\r\n\r\n",
                                        "SSH-2.0-OpenSSH\r\n",
                                        "HTTP/9.1 200 OK\r\n\r\n",
                                        "HTTP/1.1 abc OK\r\nContent-Length: 0\r\n\r\n",
                                        "HTTP/1.1 100 Continue\r\n\r\n",
                                        "HTTP/1.1 101 Switching Protocols\r\n\r\n",
                                        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"};
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct bench b;
        struct answer a = {.bytes = table[i], .n = strlen(table[i]), .close = true};
        open_bench(&b, &a, NULL);
        assert_int_equal(get(&b, b.url)->outcome, FETCH_BROKEN);
        close_bench(&b);
    }
}

static void a_body_over_the_bound_is_too_large(void **state)
{
    struct bench b;
    struct answer a = ANSWER(OK);
    (void)state;
    open_bench(&b, &a, NULL);
    struct fetch_request q = request_to(b.url);
    q.max_bytes = 13;
    assert_int_equal(ask(&b, &q)->outcome, FETCH_ANSWERED);
    q.max_bytes = 12;
    assert_int_equal(ask(&b, &q)->outcome, FETCH_TOO_LARGE);
    q.max_bytes = 0;
    assert_int_equal(ask(&b, &q)->outcome, FETCH_TOO_LARGE);
    a.drip = true; /* an endless answer is cut off while it comes, not at its end */
    a.bytes = "HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n0123456789";
    a.n = strlen(a.bytes);
    q.max_bytes = 9;
    assert_int_equal(ask(&b, &q)->outcome, FETCH_TOO_LARGE);
    close_bench(&b);
}

static void a_peer_that_hangs_is_a_timeout(void **state)
{
    struct bench b;
    struct answer a = {.hang = true};
    (void)state;
    open_bench(&b, &a, NULL);
    struct fetch_request q = request_to(b.url);
    q.timeout_ms = 150;
    for (int i = 0; i < 3; i++) {
        struct got *g = ask(&b, &q);
        assert_int_equal(g->outcome, FETCH_TIMEOUT);
        assert_in_range(g->elapsed_us, 149000, 600000);
        a = (struct answer){.bytes = OK, .n = sizeof OK - 1 - (size_t)i, .drip = true};
        a.n = i == 0 ? 20 : sizeof OK - 2; /* then: within the head, within the body */
    }
    close_bench(&b);
}

static void urls_are_checked(void **state)
{
    static const char *const good[] = {
        "http://a",         "https://a.b:8443/x?y=z",        "http://[::1]:8181/v1/data/a/b",
        "http://10.0.0.1/", "unix:/run/opa.sock:/v1/data/x", "unix:/run/opa.sock"};
    static const char *const bad[] = {"",
                                      "a.b",
                                      "ftp://a/",
                                      "http://",
                                      "http:///x",
                                      "http://u:p@a/",
                                      "http://a b/",
                                      "unix:",
                                      "unix:/",
                                      "unix:relative",
                                      "http://a:99999999/",
                                      "file:///etc/passwd",
                                      "http://a\n/",
                                      "HTTP//a",
                                      "unix:/:/x"};
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_null(fetch_url_check(slice_str(good[i])));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (!fetch_url_check(slice_str(bad[i]))) fail_msg("taken: %s", bad[i]);
    assert_non_null(strstr(fetch_version(), "libcurl"));
}

static bool instead(const struct fetch_request *q, struct fetch_answer *a, void *arg)
{
    int *shown = arg;
    ++*shown;
    if (!memmem(q->url.p, q->url.n, "given", 5)) return false;
    *a = (struct fetch_answer){.outcome = FETCH_ANSWERED, .status = 200, .body = SLICE("given")};
    return true;
}

/* What is answered in its place never reaches the server; and a call that is cancelled is told nothing. */
static void a_call_that_does_not_go_out(void **state)
{
    struct bench b;
    struct answer a = ANSWER(OK);
    int shown = 0;
    char url[300];
    (void)state;
    open_bench(&b, &a, NULL);
    snprintf(url, sizeof url, "http://127.0.0.1:%d/given", b.s.port);
    fetch_instead(b.fetch, instead, &shown);
    struct got *g = get(&b, url);
    assert_int_equal(g->status, 200);
    assert_string_equal(g->body, "given");
    assert_int_equal(a.requests, 0);
    struct got never = {0};
    struct fetch_request q = request_to(url);
    fetch_cancel(fetch_start(b.fetch, &q, on_answer, &never));
    harness_turn(&b.h);
    assert_int_equal(never.calls, 0);
    assert_int_equal(get(&b, b.url)->status, 200);
    assert_int_equal(a.requests, 1);
    assert_int_equal(shown, 3);
    close_bench(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_come_whole),
        cmocka_unit_test(the_request_is_what_was_asked),
        cmocka_unit_test(a_head_leaves_no_connection_behind),
        cmocka_unit_test(every_prefix_is_broken),
        cmocka_unit_test(what_is_not_http_is_broken),
        cmocka_unit_test(a_body_over_the_bound_is_too_large),
        cmocka_unit_test(a_peer_that_hangs_is_a_timeout),
        cmocka_unit_test(urls_are_checked),
        cmocka_unit_test(a_call_that_does_not_go_out),
    };
    return cmocka_run_group_tests_name("remote/fetch", tests, NULL, NULL);
}
