/* What llhttp takes and the parser refuses: another reader might read it differently. Bodies are given whole, and byte
   by byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

#include "http/parser.h"

#define CHUNKED "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"

static void on_body(struct parser *p, struct slice data)
{
    (void)p;
    (void)data;
}

static enum reason head_of(enum parser_kind kind, struct parser *p, struct arena *a, const char *text)
{
    struct slice head = slice_str(text);
    parser_init(p, kind, on_body);
    return parser_head(p, head, a, 100, false);
}

static void check_head(enum parser_kind kind, const char *text, enum reason reason)
{
    struct parser p;
    struct arena a;
    arena_init(&a);
    enum reason found = head_of(kind, &p, &a, text);
    if (found != reason) fail_msg("%s, not %s: %s", reason_code(found), reason_code(reason), text);
    arena_reset(&a);
}

/* Step bytes at a time; true when the body is complete with the last of them. */
static bool takes_body(const char *text, size_t step)
{
    struct parser p;
    struct arena a;
    struct slice rest = slice_str(text);
    long n = 0;
    arena_init(&a);
    assert_int_equal(head_of(PARSER_REQUEST, &p, &a, CHUNKED), REASON_FORWARDED);
    while (rest.n && !p.complete && n >= 0) {
        n = parser_body(&p, slice_make(rest.p, rest.n < step ? rest.n : step));
        if (n > 0) rest = slice_make(rest.p + n, rest.n - (size_t)n);
    }
    bool whole = p.complete && rest.n == 0;
    if (n < 0) assert_int_equal(reason_status(p.reason), 400);
    arena_reset(&a);
    return whole;
}

static void request_lines(void **state)
{
    (void)state;
    check_head(PARSER_REQUEST, "GET /a HTTP/1.1\r\nHost: a\r\n\r\n", REASON_FORWARDED);
    check_head(PARSER_REQUEST, "GET  /a HTTP/1.1\r\nHost: a\r\n\r\n", REASON_MALFORMED);
    check_head(PARSER_REQUEST, "GET /a  HTTP/1.1\r\nHost: a\r\n\r\n", REASON_MALFORMED);
    check_head(PARSER_REQUEST, "GET   /a   HTTP/1.0\r\n\r\n", REASON_MALFORMED);
}

static void status_lines(void **state)
{
    (void)state;
    check_head(PARSER_RESPONSE, "HTTP/1.1 200 OK\r\n\r\n", REASON_FORWARDED);
    check_head(PARSER_RESPONSE, "HTTP/1.1 200\r\n\r\n", REASON_FORWARDED);
    check_head(PARSER_RESPONSE, "HTTP/1.1 200 \r\n\r\n", REASON_FORWARDED);
    check_head(PARSER_RESPONSE, "HTTP/1.1 299 Gr\xc3\xbc\xc3\x9f\te\r\n\r\n", REASON_FORWARDED);
    check_head(PARSER_RESPONSE, "HTTP/1.1 0200 OK\r\n\r\n", REASON_UPSTREAM_MALFORMED);
    check_head(PARSER_RESPONSE, "HTTP/1.1 20 OK\r\n\r\n", REASON_UPSTREAM_MALFORMED);
    check_head(PARSER_RESPONSE, "HTTP/1.1 200 O\x01K\r\n\r\n", REASON_UPSTREAM_MALFORMED);
    check_head(PARSER_RESPONSE, "HTTP/1.1 200 O\x7fK\r\n\r\n", REASON_UPSTREAM_MALFORMED);
}

static void chunk_framing(void **state)
{
    static const struct {
        const char *body;
        bool good;
    } rows[] = {
        {"2\r\nab\r\n0\r\n\r\n", true},
        {"2;x=y\r\n\r\n\r\n0\r\n\r\n", true}, /* CR LF is the content */
        {"1\r\n\r\r\n1\r\n\n\r\n0\r\nX: y\r\nZ: a\r\n\r\n", true},
        {"0\r\nX: y\n\r\n", false},
        {"0\r\nX: y\r\n\n", false},
        {"0\r\n\n", false},
        {"0\n\r\n", false},
        {"2\nab\r\n0\r\n\r\n", false},
        {"1\r\n\r\n0\r\n\r\n", false}, /* CR is the content, and a bare LF behind it */
        {"0\r\nX: y\r\n z\r\n\r\n", false},
        {"0\r\nX: y\r\n\tz\r\n\r\n", false},
        {" 2\r\nab\r\n0\r\n\r\n", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (size_t step = 1; step <= 64; step *= 8) {
            if (takes_body(rows[i].body, step) != rows[i].good) fail_msg("row %zu, %zu bytes at a time", i, step);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(request_lines),
        cmocka_unit_test(status_lines),
        cmocka_unit_test(chunk_framing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
