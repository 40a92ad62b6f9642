/* http/message: where a head ends, what frames a body, what is passed on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "http/message.h"

#define MOST 16

/* A head of "Name: value" lines. */
struct built {
    struct head head;
    struct header v[MOST];
};

static void build(struct built *b, int minor, const char *const *lines)
{
    *b = (struct built){.head = {.version_major = 1, .version_minor = minor}};
    b->head.v = b->v;
    for (; *lines; lines++) {
        const char *colon = strchr(*lines, ':');
        struct header *h = &b->v[b->head.n++];
        h->name = slice_make(*lines, (size_t)(colon - *lines));
        h->value = slice_trim(slice_str(colon + 1));
        h->id = header_identify(h->name);
    }
}

#define LINES(...) ((const char *const[]){__VA_ARGS__, NULL})

static void scan(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        enum head_scan found;
        size_t end;
    } rows[] = {
        {"", HEAD_PARTIAL, 0},
        {"G", HEAD_PARTIAL, 0},
        {"GET / HTTP/1.1\r\n", HEAD_PARTIAL, 0},
        {"GET / HTTP/1.1\r\n\r", HEAD_PARTIAL, 0},
        {"GET / HTTP/1.1\r\n\r\n", HEAD_WHOLE, 18},
        {"GET / HTTP/1.1\r\nA: b\r\n\r\nbody\n\n", HEAD_WHOLE, 24},
        {"GET / HTTP/1.1\n", HEAD_BAD, 0},
        {"GET / HTTP/1.1\r\nA: b\n\r\n", HEAD_BAD, 0},
        {"GET / HTTP/1.1\r\nA: b\r\n\n", HEAD_BAD, 0},
        {"GET / HTTP/1.1\r\n folded\r\n\r\n", HEAD_BAD, 0},
        {"GET / HTTP/1.1\r\nA: b\r\n\tfolded\r\n\r\n", HEAD_BAD, 0},
        {" GET / HTTP/1.1\r\n\r\n", HEAD_BAD, 0},
        {"\r\n", HEAD_BAD, 0},
        {"\x16\x03\x01", HEAD_BAD, 0},
        {"\x80", HEAD_BAD, 0},
        {":authority", HEAD_BAD, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t from = 0, end = 0, n = strlen(rows[i].bytes);
        enum head_scan found = head_scan(slice_make(rows[i].bytes, n), &from, &end);
        if (found != rows[i].found) fail_msg("row %zu: %d", i, found);
        if (found == HEAD_WHOLE) assert_int_equal(end, rows[i].end);
        /* the same when it grows by one byte at a time, each in memory of its own */
        from = 0;
        for (size_t k = 1; k <= n; k++) {
            char *exact = malloc(k);
            memcpy(exact, rows[i].bytes, k);
            found = head_scan(slice_make(exact, k), &from, &end);
            free(exact);
            if (found != HEAD_PARTIAL) break;
        }
        if (n) assert_int_equal(found, rows[i].found);
        if (found == HEAD_WHOLE) assert_int_equal(end, rows[i].end);
    }
}

static void identify(void **state)
{
    (void)state;
    static const char *const names[HEADER_COUNT] = {
        [HEADER_OTHER] = "",
#define HEADER(id, name, hop) [HEADER_##id] = name,
#include "http/headers.def"
#undef HEADER
    };
    for (int id = 1; id < HEADER_COUNT; id++) {
        char text[64];
        size_t n = strlen(names[id]);
        assert_int_equal(header_identify(slice_str(names[id])), id);
        for (size_t i = 0; i <= n; i++)
            text[i] = names[id][i] >= 'a' && names[id][i] <= 'z' ? (char)(names[id][i] - 32) : names[id][i];
        assert_int_equal(header_identify(slice_make(text, n)), id);
        text[n - 1] = '!';
        assert_int_equal(header_identify(slice_make(text, n)), HEADER_OTHER);
        text[n] = 'x';
        assert_int_not_equal(header_identify(slice_make(text, n + 1)), id);
    }
    assert_int_equal(header_identify(slice_make(NULL, 0)), HEADER_OTHER);
    assert_int_equal(header_identify(SLICE("a-name-that-is-longer-than-any-that-is-known")), HEADER_OTHER);
    assert_int_equal(header_identify(SLICE("x_request_id")), HEADER_OTHER);
}

/* RFC 9112 6: what a request's body is framed by, and what is refused since two readers could frame it differently. */
static void request_framing(void **state)
{
    (void)state;
    const struct {
        enum reason reason;
        int minor;
        enum body_kind body;
        uint64_t length;
        const char *const *lines;
    } rows[] = {
        {REASON_FORWARDED, 1, BODY_NONE, 0, LINES("Host: a")},
        {REASON_FORWARDED, 1, BODY_NONE, 0, LINES("Host: a", "Content-Length: 0")},
        {REASON_FORWARDED, 1, BODY_LENGTH, 5, LINES("Host: a", "Content-Length: 5")},
        {REASON_FORWARDED, 1, BODY_LENGTH, 5, LINES("Host: a", "content-LENGTH: 005")},
        {REASON_FORWARDED, 1, BODY_LENGTH, 999999999999999999, LINES("Host: a", "Content-Length: 999999999999999999")},
        {REASON_FORWARDED, 1, BODY_CHUNKED, 0, LINES("Host: a", "Transfer-Encoding: Chunked")},
        {REASON_FRAMING, 1, 0, 0, LINES("Host: a", "Content-Length: 9999999999999999999")},
        {REASON_FRAMING, 1, 0, 0, LINES("Host: a", "Content-Length: 5", "Content-Length: 5")},
        {REASON_FRAMING, 1, 0, 0, LINES("Host: a", "Content-Length: 5, 5")},
        {REASON_FRAMING, 1, 0, 0, LINES("Host: a", "Content-Length: -5")},
        {REASON_FRAMING, 1, 0, 0, LINES("Host: a", "Content-Length: +5")},
        {REASON_FRAMING, 1, 0, 0, LINES("Host: a", "Content-Length: 0x5")},
        {REASON_FRAMING, 1, 0, 0, LINES("Host: a", "Content-Length:")},
        {REASON_FRAMING, 1, 0, 0, LINES("Host: a", "Content-Length: 5", "Transfer-Encoding: chunked")},
        {REASON_FRAMING, 1, 0, 0, LINES("Host: a", "Transfer-Encoding: chunked", "Transfer-Encoding: chunked")},
        {REASON_FRAMING, 1, 0, 0, LINES("Host: a", "Transfer-Encoding:")},
        {REASON_FRAMING, 0, 0, 0, LINES("Transfer-Encoding: chunked")},
        {REASON_TRANSFER_CODING, 1, 0, 0, LINES("Host: a", "Transfer-Encoding: gzip")},
        {REASON_TRANSFER_CODING, 1, 0, 0, LINES("Host: a", "Transfer-Encoding: gzip, chunked")},
        {REASON_TRANSFER_CODING, 1, 0, 0, LINES("Host: a", "Transfer-Encoding: identity")},
        {REASON_FRAMING, 1, 0, 0,
         LINES("Host: a", "Transfer-Encoding: chunk\x0b"
                          "ed")},
        {REASON_HOST_INVALID, 1, 0, 0, LINES("X: a")},
        {REASON_HOST_INVALID, 1, 0, 0, LINES("Host: a", "Host: a")},
        {REASON_HOST_INVALID, 0, 0, 0, LINES("Host: a", "Host: b")},
        {REASON_FORWARDED, 0, BODY_NONE, 0, LINES("X: a")},
        {REASON_HTTP_VERSION, 2, 0, 0, LINES("Host: a")},
        {REASON_EXPECTATION, 1, 0, 0, LINES("Host: a", "Expect: something")},
        {REASON_EXPECTATION, 1, 0, 0, LINES("Host: a", "Expect: 100-continue", "Expect: 100-continue")},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct built b;
        build(&b, rows[i].minor, rows[i].lines);
        enum reason reason = head_check_request(&b.head);
        if (reason != rows[i].reason) fail_msg("row %zu: %s", i, reason_code(reason));
        if (reason != REASON_FORWARDED) continue;
        assert_int_equal(b.head.body, rows[i].body);
        if (b.head.body == BODY_LENGTH) assert_true(b.head.length == rows[i].length);
    }
}

static void expectation(void **state)
{
    (void)state;
    struct built b;
    build(&b, 1, LINES("Host: a", "Expect: 100-Continue", "Content-Length: 1"));
    assert_int_equal(head_check_request(&b.head), REASON_FORWARDED);
    assert_true(b.head.expect_continue && !b.v[1].drop);
    build(&b, 1, LINES("Host: a", "Expect: 100-continue")); /* no body: it means nothing */
    assert_int_equal(head_check_request(&b.head), REASON_FORWARDED);
    assert_true(!b.head.expect_continue && b.v[1].drop);
    build(&b, 0, LINES("Host: a", "Expect: 100-continue", "Content-Length: 1"));
    assert_int_equal(head_check_request(&b.head), REASON_FORWARDED);
    assert_true(!b.head.expect_continue && b.v[1].drop);
}

static void keep_alive(void **state)
{
    (void)state;
    const struct {
        bool keeps;
        int minor;
        const char *const *lines;
    } rows[] = {
        {true, 1, LINES("Host: a")},
        {false, 1, LINES("Host: a", "Connection: Close")},
        {false, 1, LINES("Host: a", "Connection: x, close")},
        {false, 1, LINES("Host: a", "Connection: keep-alive", "Connection: close")},
        {true, 1, LINES("Host: a", "Connection: closed")},
        {false, 0, LINES("Host: a")},
        {true, 0, LINES("Host: a", "Connection: Keep-Alive")},
        {false, 0, LINES("Host: a", "Connection: keep-alive, close")},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct built b;
        build(&b, rows[i].minor, rows[i].lines);
        assert_int_equal(head_check_request(&b.head), REASON_FORWARDED);
        if (b.head.keep_alive != rows[i].keeps) fail_msg("row %zu", i);
    }
}

static void response_framing(void **state)
{
    (void)state;
    const struct {
        enum reason reason;
        int status;
        bool to_head;
        enum body_kind body;
        bool keeps;
        const char *const *lines;
    } rows[] = {
        {REASON_FORWARDED, 200, false, BODY_UNTIL_CLOSE, false, LINES("X: y")},
        {REASON_FORWARDED, 200, false, BODY_LENGTH, true, LINES("Content-Length: 4")},
        {REASON_FORWARDED, 200, false, BODY_NONE, true, LINES("Content-Length: 0")},
        {REASON_FORWARDED, 200, false, BODY_CHUNKED, true, LINES("Transfer-Encoding: chunked")},
        {REASON_FORWARDED, 200, true, BODY_NONE, true, LINES("Content-Length: 4")},
        {REASON_FORWARDED, 200, true, BODY_NONE, true, LINES("X: y")},
        {REASON_FORWARDED, 204, false, BODY_NONE, true, LINES("X: y")},
        {REASON_FORWARDED, 304, false, BODY_NONE, true, LINES("Content-Length: 4")},
        {REASON_FORWARDED, 100, false, BODY_NONE, true, LINES("X: y")},
        {REASON_FORWARDED, 200, false, BODY_LENGTH, false, LINES("Content-Length: 4", "Connection: close")},
        {REASON_UPSTREAM_MALFORMED, 200, false, 0, false, LINES("Content-Length: 4", "Content-Length: 4")},
        {REASON_UPSTREAM_MALFORMED, 200, false, 0, false, LINES("Content-Length: 4", "Transfer-Encoding: chunked")},
        {REASON_UPSTREAM_MALFORMED, 200, false, 0, false, LINES("Transfer-Encoding: gzip")},
        {REASON_UPSTREAM_MALFORMED, 200, true, 0, false, LINES("Content-Length: x")},
        {REASON_UPSTREAM_MALFORMED, 99, false, 0, false, LINES("X: y")},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct built b;
        build(&b, 1, rows[i].lines);
        b.head.status = rows[i].status;
        enum reason reason = head_check_response(&b.head, rows[i].to_head);
        if (reason != rows[i].reason) fail_msg("row %zu: %s", i, reason_code(reason));
        if (reason != REASON_FORWARDED) continue;
        assert_int_equal(b.head.body, rows[i].body);
        if (b.head.keep_alive != rows[i].keeps) fail_msg("row %zu: keep-alive", i);
    }
}

static bool dropped(const struct built *b, const char *name)
{
    for (size_t i = 0; i < b->head.n; i++)
        if (slice_eq(b->v[i].name, slice_str(name))) return b->v[i].drop;
    fail_msg("no %s", name);
    return false;
}

/* RFC 9110 7.6.1 */
static void hop_by_hop(void **state)
{
    (void)state;
    struct built b;
    build(&b, 1,
          LINES("Connection: close, X-One ,, x-two", "Keep-Alive: 1", "TE: trailers", "Upgrade: h2c", "X-ONE: 1",
                "X-One: 2", "X-Two: 1", "X-Three: 1", "Proxy-Connection: x", "Proxy-Authorization: x",
                "Transfer-Encoding: chunked", "Trailer: x", "Cookie: a", "Connection: Cookie"));
    assert_int_equal(head_drop_hop(&b.head), REASON_FORWARDED);
    static const char *const gone[] = {"Connection",
                                       "Keep-Alive",
                                       "TE",
                                       "Upgrade",
                                       "X-ONE",
                                       "X-One",
                                       "X-Two",
                                       "Cookie",
                                       "Proxy-Connection",
                                       "Proxy-Authorization",
                                       "Transfer-Encoding"};
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++)
        if (!dropped(&b, gone[i])) fail_msg("%s is passed on", gone[i]);
    assert_false(dropped(&b, "X-Three") || dropped(&b, "Trailer"));
    static const char *const not_to_be_named[] = {"Connection: host", "Connection: x, Content-Length",
                                                  "Connection: TRANSFER-ENCODING", "Connection: Authorization"};
    for (size_t i = 0; i < 4; i++) {
        build(&b, 1, LINES("Host: a", "Authorization: b", "Content-Length: 1", not_to_be_named[i]));
        assert_int_equal(head_drop_hop(&b.head), REASON_HEADER_INVALID);
        assert_false(dropped(&b, "Host") || dropped(&b, "Authorization") || dropped(&b, "Content-Length"));
    }
}

static void name_sets(void **state)
{
    (void)state;
    char long_name[80];
    memset(long_name, 'n', sizeof long_name);
    struct slice names[] = {SLICE("x-auth-context"), SLICE("x-user"), slice_make(long_name, sizeof long_name)};
    struct name_set *s = name_set_create(names, 3);
    static const char *const in[] = {"x-auth-context", "X-Auth-Context", "x_auth_context",
                                     "X.AUTH-CONTEXT", "x-user",         "X_USER"};
    static const char *const out[] = {"x-auth-contex", "x-auth-contexts", "xauthcontext", "y-user", "", "x user"};
    for (size_t i = 0; i < 6; i++) {
        if (!name_set_has(s, slice_str(in[i]))) fail_msg("%s is not in it", in[i]);
        if (name_set_has(s, slice_str(out[i]))) fail_msg("%s is in it", out[i]);
    }
    assert_true(name_set_has(s, slice_make(long_name, sizeof long_name)));
    assert_false(name_set_has(s, slice_make(long_name, sizeof long_name - 1)));
    struct built b;
    build(&b, 1, LINES("X-User: root", "Y: z", "x_user: root"));
    head_drop_named(&b.head, s);
    assert_true(b.v[0].drop && !b.v[1].drop && b.v[2].drop);
    name_set_destroy(s);
    s = name_set_create(NULL, 0);
    assert_false(name_set_has(s, SLICE("x")));
    name_set_destroy(s);
    assert_true(header_name_begins(SLICE("X_Forwarded.For"), SLICE("x-forwarded-")));
    assert_false(header_name_begins(SLICE("X-Forwarded"), SLICE("x-forwarded-")));
}

static void items(void **state)
{
    (void)state;
    struct slice rest = SLICE(" a ,, b\t, ,c d,"), item;
    assert_true(header_item(&rest, &item) && slice_eq(item, SLICE("a")));
    assert_true(header_item(&rest, &item) && slice_eq(item, SLICE("b")));
    assert_true(header_item(&rest, &item) && slice_eq(item, SLICE("c d")));
    assert_false(header_item(&rest, &item));
    rest = SLICE("");
    assert_false(header_item(&rest, &item));
}

static void find(void **state)
{
    (void)state;
    struct built b;
    size_t n;
    build(&b, 1, LINES("Host: a", "Cookie: 1", "X: y", "Cookie: 2"));
    assert_ptr_equal(head_find(&b.head, HEADER_COOKIE, &n), &b.v[1]);
    assert_int_equal(n, 2);
    assert_null(head_find(&b.head, HEADER_ORIGIN, &n));
    assert_int_equal(n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scan),        cmocka_unit_test(identify),   cmocka_unit_test(request_framing),
        cmocka_unit_test(expectation), cmocka_unit_test(keep_alive), cmocka_unit_test(response_framing),
        cmocka_unit_test(hop_by_hop),  cmocka_unit_test(name_sets),  cmocka_unit_test(items),
        cmocka_unit_test(find),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
