/* http/parser: the one door to llhttp, 8.1 strict and 9.x alike: what a head and a body are, and what neither is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

#include "base/list.h"
#include "http/parser.h"

#define assert_text(slice, text) assert_text_at((slice), (text), __FILE__, __LINE__)
static void assert_text_at(struct slice s, const char *text, const char *file, int line)
{
    if (slice_eq(s, slice_str(text))) return;
    print_error("\"%.*s\" is not \"%s\"\n", (int)s.n, s.p ? s.p : "", text);
    _fail(file, line);
}

struct reader {
    struct parser parser;
    struct arena arena;
    struct buf body;
    char *head; /* exactly its bytes: the sanitizer sees a read beyond */
};

static void on_bytes(struct parser *p, struct slice data)
{
    buf_add_slice(&container_of(p, struct reader, parser)->body, data);
}

static enum reason begin(struct reader *r, enum parser_kind kind, const char *head, bool to_head)
{
    size_t n = strlen(head);
    arena_init(&r->arena);
    buf_init(&r->body, NULL);
    r->head = malloc(n);
    memcpy(r->head, head, n);
    parser_init(&r->parser, kind, on_bytes);
    return parser_head(&r->parser, slice_make(r->head, n), &r->arena, 20, to_head);
}

static void end(struct reader *r)
{
    free(r->head);
    buf_free(&r->body);
    arena_reset(&r->arena);
}

static long feed(struct reader *r, const char *bytes, size_t n)
{
    char *exact = malloc(n);
    memcpy(exact, bytes, n);
    long used = parser_body(&r->parser, slice_make(exact, n));
    free(exact);
    return used;
}

static void request_head(void **state)
{
    (void)state;
    struct reader r;
    assert_int_equal(begin(&r, PARSER_REQUEST,
                           "M-SEARCH /a/b?c=%20&d HTTP/1.1\r\nHost:a\r\nX-Empty:\r\nX-Spaces: \t b c \t \r\n"
                           "Cookie: \xc3\xa9\r\n\r\n",
                           false),
                     REASON_FORWARDED);
    const struct head *h = &r.parser.head;
    assert_text(h->method, "M-SEARCH");
    assert_text(h->target, "/a/b?c=%20&d");
    assert_int_equal(h->version_major, 1);
    assert_int_equal(h->version_minor, 1);
    assert_int_equal(h->n, 4);
    assert_text(h->v[0].name, "Host");
    assert_text(h->v[0].value, "a");
    assert_int_equal(h->v[0].id, HEADER_HOST);
    assert_text(h->v[1].value, "");
    assert_text(h->v[2].value, "b c");
    assert_int_equal(h->v[2].id, HEADER_OTHER);
    assert_text(h->v[3].value, "\xc3\xa9");
    assert_true(r.parser.complete && r.parser.head_done);
    end(&r);
}

/* Nothing of these is a request to be passed on. */
static void refused_requests(void **state)
{
    (void)state;
    static const struct {
        enum reason reason; /* UNSET: any refusal, the readers differ in what they stumble over first */
        const char *head;
    } rows[] = {
        {REASON_UNSET, "GET / HTTP/1.1\r\n\r\rHost: a\r\n\r\n"},
        {REASON_UNSET, "GET / HTTP/1.1\r\nHost: a\rX: y\r\n\r\n"},
        {REASON_UNSET, "GET / HTTP/1.1\r\nHost: a\r\n\rX: y\r\n\r\n"},
        {REASON_UNSET, "GET / HTTP/1.1\r\nHost: a\x01\r\n\r\n"},
        {REASON_UNSET, "GET / HTTP/1.1\r\nHost: a\x7f\r\n\r\n"},
        {REASON_UNSET, "GET /\x01 HTTP/1.1\r\nHost: a\r\n\r\n"},
        {REASON_UNSET, "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n"},
        {REASON_UNSET, "GET  HTTP/1.1\r\nHost: a\r\n\r\n"},
        {REASON_UNSET, "get / HTTP/1.1\r\nHost: a\r\n\r\n"},
        {REASON_UNSET, "NONSENSE / HTTP/1.1\r\nHost: a\r\n\r\n"},
        {REASON_UNSET, "GET / HTTP/1.1 \r\nHost: a\r\n\r\n"},
        {REASON_UNSET, "GET / http/1.1\r\nHost: a\r\n\r\n"},
        {REASON_UNSET, "GET / ICE/1.1\r\nHost: a\r\n\r\n"},
        {REASON_UNSET, "GET / RTSP/1.0\r\nHost: a\r\n\r\n"},
        {REASON_UNSET, "GET /\r\n\r\n"},
        {REASON_UNSET, "HTTP/1.1 200 OK\r\n\r\n"},
        {REASON_UNSET, "PRI * HTTP/2.0\r\n\r\n"},
        {REASON_UNSET, "GET / HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n"},
        {REASON_UNSET, "GET / HTTP/1.1\r\nHost: a\r\n: empty\r\n\r\n"},
        {REASON_HTTP_VERSION, "GET / HTTP/2.0\r\nHost: a\r\n\r\n"},
        {REASON_HTTP_VERSION, "GET / HTTP/1.2\r\nHost: a\r\n\r\n"},
        {REASON_HTTP_VERSION, "GET / HTTP/0.9\r\nHost: a\r\n\r\n"},
        {REASON_HEADER_INVALID, "GET / HTTP/1.1\r\nHost : a\r\n\r\n"},
        {REASON_HEADER_INVALID, "GET / HTTP/1.1\r\nHost: a\r\nX\x80: 1\r\n\r\n"},
        {REASON_HOST_INVALID, "GET / HTTP/1.1\r\nX: y\r\n\r\n"},
        {REASON_FRAMING, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"},
        {REASON_FRAMING, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n"},
        {REASON_FRAMING, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n"},
        {REASON_FRAMING, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1x\r\n\r\n"},
        {REASON_FRAMING, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999999\r\n\r\n"},
        {REASON_HEADERS_TOO_LARGE,
         "GET / HTTP/1.1\r\nHost: a\r\nA:\r\nA:\r\nA:\r\nA:\r\nA:\r\nA:\r\nA:\r\nA:\r\nA:\r\nA:\r\nA:\r\nA:\r\nA:\r\n"
         "A:\r\nA:\r\nA:\r\nA:\r\nA:\r\nA:\r\nA:\r\n\r\n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct reader r;
        enum reason reason = begin(&r, PARSER_REQUEST, rows[i].head, false);
        if (reason == REASON_FORWARDED) fail_msg("taken: %s", rows[i].head);
        if (reason_status(reason) < 400) fail_msg("%s for %s", reason_code(reason), rows[i].head);
        if (rows[i].reason != REASON_UNSET && reason != rows[i].reason)
            fail_msg("%s for %s", reason_code(reason), rows[i].head);
        assert_false(r.parser.complete && reason == REASON_FORWARDED);
        end(&r);
    }
}

/* Framed bodies, whole and split at every position; what follows is left alone. */
static void bodies(void **state)
{
    (void)state;
    static const struct {
        enum parser_kind kind;
        const char *head, *bytes, *body;
        size_t trailers;
    } rows[] = {
        {PARSER_REQUEST, "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n", "hello", "hello", 0},
        {PARSER_REQUEST, "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
         "5\r\nhello\r\n006;ext=\"a\"\r\n world\r\n0\r\n\r\n", "hello world", 0},
        {PARSER_REQUEST, "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", "0\r\n\r\n", "", 0},
        {PARSER_RESPONSE, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
         "A\r\n0123456789\r\n0\r\nX-Sum: a b\r\nX-Empty:\r\n\r\n", "0123456789", 2},
        {PARSER_RESPONSE, "HTTP/1.1 200 \r\nContent-Length: 3\r\n\r\n", "abc", "abc", 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t n = strlen(rows[i].bytes);
        for (size_t at = 1; at <= n; at++) {
            struct reader r;
            assert_int_equal(begin(&r, rows[i].kind, rows[i].head, false), REASON_FORWARDED);
            assert_false(r.parser.complete);
            assert_int_equal(feed(&r, rows[i].bytes, at), (long)at);
            assert_int_equal(r.parser.complete, at == n);
            if (at < n) {
                char rest[128];
                memcpy(rest, rows[i].bytes + at, n - at);
                memcpy(rest + n - at, "GET ", 4);
                assert_int_equal(feed(&r, rest, n - at + 4), (long)(n - at));
            }
            assert_true(r.parser.complete);
            assert_int_equal(feed(&r, "more", 4), 0);
            assert_text(buf_slice(&r.body), rows[i].body);
            assert_int_equal(r.parser.trailers.n, rows[i].trailers);
            if (rows[i].trailers) {
                assert_text(r.parser.trailers.v[0].name, "X-Sum");
                assert_text(r.parser.trailers.v[0].value, "a b");
                assert_text(r.parser.trailers.v[1].value, "");
            }
            end(&r);
        }
    }
}

static void broken_bodies(void **state)
{
    (void)state;
    static const char *const bytes[] = {
        "x\r\n",
        "\r\nhello\r\n",
        "-1\r\n",
        "5\r\nhelloX",
        "5\r\nhello\rX",
        "5\nhello\r\n",
        "5 \nhello\r\n",
        "fffffffffffffffff\r\n",
        "0x5\r\nhello\r\n",
        "0\r\nBad Name: x\r\n\r\n",
    };
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) {
        struct reader r;
        begin(&r, PARSER_REQUEST, "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", false);
        if (feed(&r, bytes[i], strlen(bytes[i])) != -1) fail_msg("taken: %s", bytes[i]);
        assert_int_equal(reason_status(r.parser.reason), 400);
        assert_false(r.parser.complete);
        end(&r);
        begin(&r, PARSER_RESPONSE, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", false);
        assert_int_equal(feed(&r, bytes[i], strlen(bytes[i])), -1);
        end(&r);
    }
}

/* What surrounds the bytes of a body is bounded: trailers by number and size, extensions without a body byte. */
static void bounds(void **state)
{
    (void)state;
    static const char head[] = "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    struct reader r;
    begin(&r, PARSER_REQUEST, head, false);
    assert_int_equal(feed(&r, "0\r\n", 3), 3);
    long used = 0;
    int lines = 0;
    for (; used >= 0 && lines < 1000; lines++)
        used = feed(&r, "X: y\r\n", 6);
    assert_int_equal(r.parser.reason, REASON_HEADERS_TOO_LARGE);
    assert_true(lines <= 40);
    end(&r);

    begin(&r, PARSER_REQUEST, head, false);
    assert_int_equal(feed(&r, "0\r\nX: ", 6), 6);
    for (used = 0; used >= 0 && lines < 100000; lines++)
        used = feed(&r, "vvvvvvvv", 8);
    assert_int_equal(r.parser.reason, REASON_HEADERS_TOO_LARGE);
    assert_true(lines < 3000);
    assert_true(arena_chunks_out() < 16); /* in whatever pieces it came */
    end(&r);

    begin(&r, PARSER_REQUEST, head, false);
    assert_int_equal(feed(&r, "5;", 2), 2);
    for (used = 0, lines = 0; used >= 0 && lines < 100000; lines++)
        used = feed(&r, "eeeeeeee", 8);
    assert_int_equal(r.parser.reason, REASON_FRAMING);
    assert_true(lines < 5000);
    end(&r);
}

static void response_head(void **state)
{
    (void)state;
    struct reader r;
    assert_int_equal(begin(&r, PARSER_RESPONSE, "HTTP/1.1 299 As it is\r\nX: y\r\n\r\n", false), REASON_FORWARDED);
    assert_int_equal(r.parser.head.status, 299);
    assert_text(r.parser.head.phrase, "As it is");
    assert_int_equal(r.parser.head.body, BODY_UNTIL_CLOSE);
    assert_false(r.parser.complete);
    assert_int_equal(feed(&r, "some", 4), 4);
    assert_int_equal(feed(&r, " more", 5), 5);
    assert_true(parser_end(&r.parser));
    assert_text(buf_slice(&r.body), "some more");
    end(&r);
    static const struct {
        const char *head;
        bool to_head;
    } bodiless[] = {
        {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", true},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", true},
        {"HTTP/1.1 200 OK\r\n\r\n", true},
        {"HTTP/1.1 204 No Content\r\n\r\n", false},
        {"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", false},
        {"HTTP/1.1 100 Continue\r\n\r\n", false},
        {"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", false},
        {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", false},
        {"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", false},
    };
    for (size_t i = 0; i < sizeof bodiless / sizeof *bodiless; i++) {
        assert_int_equal(begin(&r, PARSER_RESPONSE, bodiless[i].head, bodiless[i].to_head), REASON_FORWARDED);
        if (!r.parser.complete) fail_msg("not complete: %s", bodiless[i].head);
        end(&r);
    }
}

static void refused_responses(void **state)
{
    (void)state;
    static const char *const heads[] = {
        "HTTP/2.0 200 OK\r\n\r\n",
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/1.1 abc OK\r\n\r\n",
        "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        "HTTP/1.1 200 OK\r\nBad Name: x\r\n\r\n",
        "ICY 200 OK\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    };
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        struct reader r;
        enum reason reason = begin(&r, PARSER_RESPONSE, heads[i], false);
        if (reason != REASON_UPSTREAM_MALFORMED) fail_msg("%s for %s", reason_code(reason), heads[i]);
        end(&r);
    }
}

/* The peer's end completes only what is framed by it. */
static void ends(void **state)
{
    (void)state;
    struct reader r;
    begin(&r, PARSER_RESPONSE, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", false);
    feed(&r, "abc", 3);
    assert_false(parser_end(&r.parser));
    end(&r);
    begin(&r, PARSER_RESPONSE, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", false);
    feed(&r, "3\r\nabc\r\n", 8);
    assert_false(parser_end(&r.parser));
    end(&r);
    parser_init(&r.parser, PARSER_RESPONSE, on_bytes);
    assert_false(parser_end(&r.parser));
    assert_non_null(parser_version());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(request_head), cmocka_unit_test(refused_requests),
        cmocka_unit_test(bodies),       cmocka_unit_test(broken_bodies),
        cmocka_unit_test(bounds),       cmocka_unit_test(response_head),
        cmocka_unit_test(ends),         cmocka_unit_test(refused_responses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
