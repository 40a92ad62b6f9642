/* http/target: one reading of a target, or a refusal. Tables of RFC 3986, RFC 9112 3.2 and the evasions that proxies have
   been caught with. Each good path is parsed again: what is sent must be read as what was judged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/check.h"
#include "base/buf.h"
#include "http/target.h"

#define GOOD REASON_FORWARDED
#define INVALID REASON_TARGET_INVALID
#define AMBIGUOUS REASON_PATH_AMBIGUOUS
#define ES 1 /* encoded_slash */
#define PP 2 /* path_parameter */

struct good_case {
    const char *raw;
    const char *path;
    const char *segments; /* decoded, joined with '|' */
    const char *query;    /* NULL: no '?' */
    unsigned flags;
    const char *authority;
};

static const struct good_case good_cases[] = {
    /* origin form, nothing to do */
    {"/", "/", "", NULL, 0, ""},
    {"/a", "/a", "a", NULL, 0, ""},
    {"/a/", "/a/", "a", NULL, 0, ""},
    {"/a/b", "/a/b", "a|b", NULL, 0, ""},
    {"/a/b/", "/a/b/", "a|b", NULL, 0, ""},
    {"/cwms-data/timeseries", "/cwms-data/timeseries", "cwms-data|timeseries", NULL, 0, ""},
    {"/a.b/c.d", "/a.b/c.d", "a.b|c.d", NULL, 0, ""},
    {"/.well-known/jwks.json", "/.well-known/jwks.json", ".well-known|jwks.json", NULL, 0, ""},
    {"/...", "/...", "...", NULL, 0, ""},
    {"/.../a", "/.../a", "...|a", NULL, 0, ""},
    {"/..a", "/..a", "..a", NULL, 0, ""},
    {"/a..", "/a..", "a..", NULL, 0, ""},
    {"/.a", "/.a", ".a", NULL, 0, ""},
    {"/a.", "/a.", "a.", NULL, 0, ""},
    {"/-._~", "/-._~", "-._~", NULL, 0, ""},
    {"/!$&'()*+,=:@", "/!$&'()*+,=:@", "!$&'()*+,=:@", NULL, 0, ""},
    {"/a+b", "/a+b", "a+b", NULL, 0, ""},
    {"/a:b@c", "/a:b@c", "a:b@c", NULL, 0, ""},
    {"/ABC/xyz/0189", "/ABC/xyz/0189", "ABC|xyz|0189", NULL, 0, ""},
    {"/*", "/*", "*", NULL, 0, ""},
    /* the query is told apart and left as it came */
    {"/?", "/", "", "", 0, ""},
    {"/a?", "/a", "a", "", 0, ""},
    {"/a?b", "/a", "a", "b", 0, ""},
    {"/a?b=c", "/a", "a", "b=c", 0, ""},
    {"/a/?b=c", "/a/", "a", "b=c", 0, ""},
    {"/a??", "/a", "a", "?", 0, ""},
    {"/a?b?c", "/a", "a", "b?c", 0, ""},
    {"/a?/../b", "/a", "a", "/../b", 0, ""},
    {"/a?//", "/a", "a", "//", 0, ""},
    {"/a?b=%2e%2E", "/a", "a", "b=%2e%2E", 0, ""},
    {"/a?b=%zz", "/a", "a", "b=%zz", 0, ""},
    {"/a?b=%", "/a", "a", "b=%", 0, ""},
    {"/a?b=c+d", "/a", "a", "b=c+d", 0, ""},
    {"/a?b[]=1&b[x]=2", "/a", "a", "b[]=1&b[x]=2", 0, ""},
    {"/a?b=c;d", "/a", "a", "b=c;d", 0, ""},
    {"/a?&&", "/a", "a", "&&", 0, ""},
    {"/a?==", "/a", "a", "==", 0, ""},
    {"/a?:@!$'()*,", "/a", "a", ":@!$'()*,", 0, ""},
    {"/a?b=%c0%af", "/a", "a", "b=%c0%af", 0, ""},
    {"/%61?b=%61", "/a", "a", "b=%61", 0, ""},
    /* escapes of unreserved bytes are decoded, once */
    {"/%61", "/a", "a", NULL, 0, ""},
    {"/%74imeseries", "/timeseries", "timeseries", NULL, 0, ""},
    {"/%74%69%6D%65", "/time", "time", NULL, 0, ""},
    {"/%41%5A%7A", "/AZz", "AZz", NULL, 0, ""},
    {"/%30%39", "/09", "09", NULL, 0, ""},
    {"/%2d%2D%5f%5F%7e%7E", "/--__~~", "--__~~", NULL, 0, ""},
    {"/a%2Eb", "/a.b", "a.b", NULL, 0, ""},
    {"/%2ea", "/.a", ".a", NULL, 0, ""},
    {"/%2e%2e%2e", "/...", "...", NULL, 0, ""},
    {"/%61/%62/", "/a/b/", "a|b", NULL, 0, ""},
    {"/%2561", "/%2561", "%61", NULL, 0, ""},
    {"/%252e%252e", "/%252e%252e", "%2e%2e", NULL, 0, ""},
    {"/%252f", "/%252f", "%2f", NULL, 0, ""},
    {"/%25%32%65", "/%252e", "%2e", NULL, 0, ""},
    {"/%2500", "/%2500", "%00", NULL, 0, ""},
    /* other escapes stay, in upper case */
    {"/%20", "/%20", " ", NULL, 0, ""},
    {"/a%20b", "/a%20b", "a b", NULL, 0, ""},
    {"/%2b", "/%2B", "+", NULL, 0, ""},
    {"/%3a%40", "/%3A%40", ":@", NULL, 0, ""},
    {"/%21%24%26", "/%21%24%26", "!$&", NULL, 0, ""},
    {"/%3f", "/%3F", "?", NULL, 0, ""},
    {"/%23", "/%23", "#", NULL, 0, ""},
    {"/%25", "/%25", "%", NULL, 0, ""},
    {"/%3d%3D", "/%3D%3D", "==", NULL, 0, ""},
    {"/%22%3c%3e", "/%22%3C%3E", "\"<>", NULL, 0, ""},
    {"/%5b%5d", "/%5B%5D", "[]", NULL, 0, ""},
    {"/%7b%7c%7d", "/%7B%7C%7D", "{|}", NULL, 0, ""},
    {"/%5e%60", "/%5E%60", "^`", NULL, 0, ""},
    {"/%0d%0a", "/%0D%0A", "\r\n", NULL, 0, ""},
    {"/%7f", "/%7F", "\x7f", NULL, 0, ""},
    {"/%01", "/%01", "\x01", NULL, 0, ""},
    {"/%20/%61/", "/%20/a/", " |a", NULL, 0, ""},
    /* UTF-8 in escapes: the edges of each length */
    {"/%c3%a9", "/%C3%A9", "\xc3\xa9", NULL, 0, ""},
    {"/%C2%80", "/%C2%80", "\xc2\x80", NULL, 0, ""},
    {"/%df%bf", "/%DF%BF", "\xdf\xbf", NULL, 0, ""},
    {"/%e0%a0%80", "/%E0%A0%80", "\xe0\xa0\x80", NULL, 0, ""},
    {"/%ed%9f%bf", "/%ED%9F%BF", "\xed\x9f\xbf", NULL, 0, ""},
    {"/%ee%80%80", "/%EE%80%80", "\xee\x80\x80", NULL, 0, ""},
    {"/%ef%bf%bf", "/%EF%BF%BF", "\xef\xbf\xbf", NULL, 0, ""},
    {"/%f0%90%80%80", "/%F0%90%80%80", "\xf0\x90\x80\x80", NULL, 0, ""},
    {"/%f4%8f%bf%bf", "/%F4%8F%BF%BF", "\xf4\x8f\xbf\xbf", NULL, 0, ""},
    {"/a%e2%82%acb", "/a%E2%82%ACb", "a\xe2\x82\xac" "b", NULL, 0, ""},
    /* flagged: for the route to say */
    {"/a%2fb", "/a%2Fb", "a/b", NULL, ES, ""},
    {"/a%2Fb", "/a%2Fb", "a/b", NULL, ES, ""},
    {"/a%5cb", "/a%5Cb", "a\\b", NULL, ES, ""},
    {"/a%5Cb", "/a%5Cb", "a\\b", NULL, ES, ""},
    {"/%2f", "/%2F", "/", NULL, ES, ""},
    {"/%2fa", "/%2Fa", "/a", NULL, ES, ""},
    {"/a%2f", "/a%2F", "a/", NULL, ES, ""},
    {"/http%3a%2f%2fx", "/http%3A%2F%2Fx", "http://x", NULL, ES, ""},
    {"/a%2f...", "/a%2F...", "a/...", NULL, ES, ""},
    {"/a;b", "/a;b", "a;b", NULL, PP, ""},
    {"/a;", "/a;", "a;", NULL, PP, ""},
    {"/a;b=c/d", "/a;b=c/d", "a;b=c|d", NULL, PP, ""},
    {"/a%3bb", "/a%3Bb", "a;b", NULL, PP, ""},
    {"/a%3Bb", "/a%3Bb", "a;b", NULL, PP, ""},
    {"/LOC.Stage;Flow.Linear.Step", "/LOC.Stage;Flow.Linear.Step", "LOC.Stage;Flow.Linear.Step", NULL, PP, ""},
    {"/...;a", "/...;a", "...;a", NULL, PP, ""},
    {"/a;b%2fc", "/a;b%2Fc", "a;b/c", NULL, ES | PP, ""},
    {"/a?b;c%2f", "/a", "a", "b;c%2f", 0, ""},
    /* absolute form */
    {"http://h", "/", "", NULL, 0, "h"},
    {"http://h/", "/", "", NULL, 0, "h"},
    {"http://h?", "/", "", "", 0, "h"},
    {"http://h?q=1", "/", "", "q=1", 0, "h"},
    {"http://h/a", "/a", "a", NULL, 0, "h"},
    {"http://h/a/b?c", "/a/b", "a|b", "c", 0, "h"},
    {"https://h/a", "/a", "a", NULL, 0, "h"},
    {"HTTP://h/a", "/a", "a", NULL, 0, "h"},
    {"hTTpS://h/a", "/a", "a", NULL, 0, "h"},
    {"http://h:80/a", "/a", "a", NULL, 0, "h:80"},
    {"http://h:/a", "/a", "a", NULL, 0, "h:"},
    {"http://h:65535", "/", "", NULL, 0, "h:65535"},
    {"http://Example.ORG:8080/a", "/a", "a", NULL, 0, "Example.ORG:8080"},
    {"http://127.0.0.1:3001/a", "/a", "a", NULL, 0, "127.0.0.1:3001"},
    {"http://[::1]/a", "/a", "a", NULL, 0, "[::1]"},
    {"http://[::1]:80?x", "/", "", "x", 0, "[::1]:80"},
    {"http://[::ffff:127.0.0.1]/", "/", "", NULL, 0, "[::ffff:127.0.0.1]"},
    {"http://a_b-c.d~/x", "/x", "x", NULL, 0, "a_b-c.d~"},
    {"http://h/%61", "/a", "a", NULL, 0, "h"},
    {"http://h/a@b", "/a@b", "a@b", NULL, 0, "h"},
    {"http://h?a@b", "/", "", "a@b", 0, "h"},
    {"http://h/a;b", "/a;b", "a;b", NULL, PP, "h"},
};

struct bad_case {
    const char *raw;
    enum reason reason;
};

static const struct bad_case bad_cases[] = {
    /* forms */
    {"", INVALID}, {"a", INVALID}, {"a/b", INVALID}, {"?", INVALID}, {"?a=b", INVALID}, {"**", INVALID},
    {"*?", INVALID}, {"*/", INVALID}, {"%2f", INVALID}, {"%2fa", INVALID}, {".", INVALID}, {"..", INVALID},
    {"../a", INVALID}, {"h:80", INVALID}, {"example.org:443", INVALID}, {"[::1]:443", INVALID}, {"http:", INVALID},
    {"http:/a", INVALID}, {"http:a", INVALID}, {"http//h", INVALID}, {"http://", INVALID}, {"https://", INVALID},
    {"http:///a", INVALID}, {"http://?a", INVALID}, {"http://:80/", INVALID}, {"ftp://h/a", INVALID},
    {"ws://h/a", INVALID}, {"file:///etc/passwd", INVALID}, {"javascript:1", INVALID}, {"httpx://h/a", INVALID},
    {" http://h/a", INVALID}, {" /a", INVALID}, {"\t/a", INVALID}, {"\\a", INVALID}, {"http:\\\\h\\a", INVALID},
    {"http://h\\a", INVALID}, {"http://u@h/a", INVALID}, {"http://u:p@h/a", INVALID}, {"http://@h/a", INVALID},
    {"http://h@/a", INVALID}, {"http://h:8a/", INVALID}, {"http://h:-1/", INVALID}, {"http://h:65536/", INVALID},
    {"http://h:99999999999999999999/", INVALID}, {"http://h:80:80/", INVALID}, {"http://h /a", INVALID},
    {"http://h%2e/a", INVALID}, {"http://%68/a", INVALID}, {"http://h#f", INVALID}, {"http://h/#f", INVALID},
    {"http://[::1/a", INVALID}, {"http://::1]/a", INVALID}, {"http://::1/a", INVALID}, {"http://[]/a", INVALID},
    {"http://[g]/a", INVALID}, {"http://[::1]a/", INVALID}, {"http://[::1%25lo]/", INVALID},
    {"http://h\xc3\xa9/", INVALID}, {"http://h//a", AMBIGUOUS}, {"http://h/..", AMBIGUOUS},
    {"http://h/%2e%2e/a", AMBIGUOUS}, {"http://h/a%zz", INVALID},
    /* bytes that have no place in a path */
    {"/a#", INVALID}, {"/#a", INVALID}, {"/a#b?c", INVALID}, {"/a\\b", INVALID}, {"/\\", INVALID}, {"/a b", INVALID},
    {"/ ", INVALID}, {"/a\tb", INVALID}, {"/a\r\nb", INVALID}, {"/a\nb", INVALID}, {"/\x01", INVALID},
    {"/\x1f", INVALID}, {"/\x7f", INVALID}, {"/\x80", INVALID}, {"/\xc3\xa9", INVALID}, {"/\xff", INVALID},
    {"/\"", INVALID}, {"/<a>", INVALID}, {"/^", INVALID}, {"/`", INVALID}, {"/{a}", INVALID}, {"/a|b", INVALID},
    {"/[a]", INVALID}, {"/a;\\", INVALID},
    /* … and in a query */
    {"/a?#", INVALID}, {"/a?b#c", INVALID}, {"/a?b c", INVALID}, {"/a?b\\c", INVALID}, {"/a?\t", INVALID},
    {"/a?\n", INVALID}, {"/a?\x7f", INVALID}, {"/a?\x01", INVALID}, {"/a?\x80", INVALID}, {"/a?\xc3\xa9", INVALID},
    {"/a?\"", INVALID}, {"/a?<", INVALID}, {"/a?a|b", INVALID}, {"/a?^", INVALID}, {"/a?`", INVALID},
    {"/a?{}", INVALID},
    /* escapes that are none */
    {"/%", INVALID}, {"/%2", INVALID}, {"/%zz", INVALID}, {"/%2z", INVALID}, {"/%z2", INVALID}, {"/%%", INVALID},
    {"/%%32", INVALID}, {"/a%/b", INVALID}, {"/a%2/b", INVALID}, {"/%u002e", INVALID}, {"/%-1", INVALID},
    {"/% 1", INVALID}, {"/%0x", INVALID}, {"/%61%", INVALID}, {"/%\xc0\xae", INVALID},
    /* dot segments, however written */
    {"/.", AMBIGUOUS}, {"/..", AMBIGUOUS}, {"/./", AMBIGUOUS}, {"/../", AMBIGUOUS}, {"/a/.", AMBIGUOUS},
    {"/a/..", AMBIGUOUS}, {"/a/./b", AMBIGUOUS}, {"/a/../b", AMBIGUOUS}, {"/./a", AMBIGUOUS}, {"/../a", AMBIGUOUS},
    {"/../../etc/passwd", AMBIGUOUS}, {"/%2e", AMBIGUOUS}, {"/%2E", AMBIGUOUS}, {"/%2e%2e", AMBIGUOUS},
    {"/%2E%2E/a", AMBIGUOUS}, {"/a/%2e%2E", AMBIGUOUS}, {"/a/.%2e/b", AMBIGUOUS}, {"/a/%2e./b", AMBIGUOUS},
    {"/a/%2e/b", AMBIGUOUS}, {"/..?a", AMBIGUOUS}, {"/a/..?b", AMBIGUOUS}, {"/..;/a", AMBIGUOUS},
    {"/a/..;b/c", AMBIGUOUS}, {"/.;/a", AMBIGUOUS}, {"/..%3b/a", AMBIGUOUS}, {"/%2e%2e%3Ba/b", AMBIGUOUS},
    {"/..%2fa", AMBIGUOUS}, {"/..%2Fa", AMBIGUOUS}, {"/a%2f..", AMBIGUOUS}, {"/a%2f..%2fb", AMBIGUOUS},
    {"/a%2f%2e%2e%2fb", AMBIGUOUS}, {"/..%5ca", AMBIGUOUS}, {"/a%5c..%5cb", AMBIGUOUS}, {"/a%2f.", AMBIGUOUS},
    {"/a%2f..;x", AMBIGUOUS},
    /* empty segments */
    {"//", AMBIGUOUS}, {"///", AMBIGUOUS}, {"//a", AMBIGUOUS}, {"/a//b", AMBIGUOUS}, {"/a//", AMBIGUOUS},
    {"//h/a", AMBIGUOUS}, {"//?a", AMBIGUOUS}, {"/http://x", AMBIGUOUS}, {"/;", AMBIGUOUS}, {"/;a", AMBIGUOUS},
    {"/a/;b/c", AMBIGUOUS}, {"/%3ba", AMBIGUOUS},
    /* NUL and text that is not UTF-8 */
    {"/%00", AMBIGUOUS}, {"/a%00", AMBIGUOUS}, {"/a%00.json", AMBIGUOUS}, {"/%c0%ae", AMBIGUOUS},
    {"/%c0%ae%c0%ae/a", AMBIGUOUS}, {"/%c0%af", AMBIGUOUS}, {"/%c1%bf", AMBIGUOUS}, {"/%c0%80", AMBIGUOUS},
    {"/%e0%80%ae", AMBIGUOUS}, {"/%e0%9f%bf", AMBIGUOUS}, {"/%f0%80%80%ae", AMBIGUOUS}, {"/%f0%8f%bf%bf", AMBIGUOUS},
    {"/%ed%a0%80", AMBIGUOUS}, {"/%ed%bf%bf", AMBIGUOUS}, {"/%ed%a0%bd%ed%b8%80", AMBIGUOUS},
    {"/%f4%90%80%80", AMBIGUOUS}, {"/%f5%80%80%80", AMBIGUOUS}, {"/%fe", AMBIGUOUS}, {"/%ff", AMBIGUOUS},
    {"/%80", AMBIGUOUS}, {"/%bf", AMBIGUOUS}, {"/%c3", AMBIGUOUS}, {"/%c3a", AMBIGUOUS}, {"/%c3/%a9", AMBIGUOUS},
    {"/%e2%82", AMBIGUOUS}, {"/%e2%82a", AMBIGUOUS}, {"/%e2a%ac", AMBIGUOUS}, {"/%f0%9f%98", AMBIGUOUS},
    {"/%f0%9f%98a", AMBIGUOUS}, {"/%f8%88%80%80%80", AMBIGUOUS},
    /* what is not valid is said first, wherever it stands */
    {"/../%zz", INVALID}, {"//a#", INVALID}, {"/%00?\x80", INVALID}, {"/%00/ ", INVALID},
};

/* Heap copies of exactly the bytes, so that the sanitizer sees a read past the end. */
static struct slice tight(const char *s, size_t n)
{
    char *p = xmalloc(n ? n : 1);
    memcpy(p, s, n);
    return slice_make(p, n);
}

static void expect_text(const char *raw, const char *what, struct slice got, const char *want)
{
    if (slice_eq(got, slice_str(want))) return;
    fail_msg("%s: %s is \"%.*s\", not \"%s\"", raw, what, (int)got.n, got.p ? got.p : "", want);
}

static struct slice joined(const struct target *t, struct arena *a)
{
    struct buf b;
    buf_init(&b, a);
    for (size_t i = 0; i < t->segments_n; i++) {
        if (i) buf_add_char(&b, '|');
        buf_add_slice(&b, t->segments[i]);
    }
    return buf_slice(&b);
}

static void check_good(const struct good_case *c)
{
    struct arena a;
    struct target t, again;
    struct slice raw = tight(c->raw, strlen(c->raw));

    arena_init(&a);
    if (target_parse(raw, &a, &t) != GOOD) fail_msg("%s is refused", c->raw);
    expect_text(c->raw, "path", t.path, c->path);
    expect_text(c->raw, "segments", joined(&t, &a), c->segments);
    expect_text(c->raw, "query", t.query, c->query ? c->query : "");
    expect_text(c->raw, "authority", t.authority, c->authority);
    if (t.has_query != (c->query != NULL)) fail_msg("%s: has_query", c->raw);
    if (t.encoded_slash != !!(c->flags & ES)) fail_msg("%s: encoded_slash", c->raw);
    if (t.path_parameter != !!(c->flags & PP)) fail_msg("%s: path_parameter", c->raw);
    assert_false(t.asterisk);

    if (target_parse(t.path, &a, &again) != GOOD) fail_msg("%s: its path is refused", c->raw);
    expect_text(c->raw, "path of the path", again.path, c->path);
    expect_text(c->raw, "segments of the path", joined(&again, &a), c->segments);
    assert_int_equal(again.encoded_slash, t.encoded_slash);
    assert_int_equal(again.path_parameter, t.path_parameter);
    arena_reset(&a);
    free((void *)raw.p);
}

static void test_good(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof good_cases / sizeof good_cases[0]; i++) {
        check_good(&good_cases[i]);
    }
}

static void check_bad(const char *text, size_t n, enum reason want)
{
    struct arena a;
    struct target t;
    struct slice raw = tight(text, n);
    enum reason got;

    arena_init(&a);
    got = target_parse(raw, &a, &t);
    if (got != want) fail_msg("%.*s: %s, not %s", (int)n, text, reason_code(got), reason_code(want));
    arena_reset(&a);
    free((void *)raw.p);
}

static void test_bad(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_cases / sizeof bad_cases[0]; i++) {
        check_bad(bad_cases[i].raw, strlen(bad_cases[i].raw), bad_cases[i].reason);
    }
    check_bad("/a\0b", 4, INVALID);
    check_bad("/\0", 2, INVALID);
    check_bad("\0", 1, INVALID);
    check_bad("/a?\0", 4, INVALID);
    check_bad("http://h\0/", 10, INVALID);
}

/* Every byte, raw and as an escape, in the middle of a segment, against the grammar written out once more. */
static void test_every_byte(void **state)
{
    (void)state;
    for (int byte = 0; byte < 256; byte++) {
        bool unreserved = byte && byte < 128 && strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                                       "0123456789-._~", byte);
        bool pchar = unreserved || (byte && byte < 128 && strchr("!$&'()*+,;=:@", byte));
        char raw[] = {'/', 'x', (char)byte, 'y'};
        char escape[8], path[8];
        struct arena a;
        struct target t;

        arena_init(&a);
        if (byte != '/' && byte != '?') {
            assert_int_equal(target_parse(slice_make(raw, sizeof raw), &a, &t), pchar ? GOOD : INVALID);
        }
        snprintf(escape, sizeof escape, "/x%%%02xy", (unsigned)byte);
        snprintf(path, sizeof path, unreserved ? "/x%cy" : "/x%%%02Xy", byte);
        assert_int_equal(target_parse(slice_str(escape), &a, &t), byte == 0 || byte > 127 ? AMBIGUOUS : GOOD);
        if (byte && byte < 128) {
            expect_text(escape, "path", t.path, path);
            assert_int_equal(t.segments_n, 1);
            assert_int_equal(t.segments[0].n, 3);
            assert_int_equal(t.segments[0].p[1], byte);
            assert_int_equal(t.encoded_slash, byte == '/' || byte == '\\');
            assert_int_equal(t.path_parameter, byte == ';');
        }
        arena_reset(&a);
    }
}

static void test_asterisk(void **state)
{
    struct arena a;
    struct target t;

    (void)state;
    arena_init(&a);
    assert_int_equal(target_parse(SLICE("*"), &a, &t), GOOD);
    assert_true(t.asterisk);
    assert_int_equal(t.path.n, 0);
    assert_int_equal(t.segments_n, 0);
    assert_false(t.has_query);
    assert_int_equal(target_params(&t, &a), GOOD);
    arena_reset(&a);
}

/* The clean case gives back the caller's bytes; one and many segments give the same as few. */
static void test_no_copy_and_many_segments(void **state)
{
    static const char raw[] = "/api/v1/things?x=1";
    struct arena a;
    struct target t;

    (void)state;
    arena_init(&a);
    assert_int_equal(target_parse(slice_str(raw), &a, &t), GOOD);
    assert_ptr_equal(t.path.p, raw);
    assert_ptr_equal(t.query.p, raw + 15);
    assert_ptr_equal(t.segments[2].p, raw + 8);
    for (size_t n = 1; n < 200; n++) {
        struct buf b;
        buf_init(&b, &a);
        for (size_t i = 0; i < n; i++) buf_printf(&b, "/s%zu", i);
        assert_int_equal(target_parse(buf_slice(&b), &a, &t), GOOD);
        assert_int_equal(t.segments_n, n);
        for (size_t i = 0; i < n; i++) {
            assert_true(slice_eq(t.segments[i], arena_printf(&a, "s%zu", i)));
        }
        assert_true(slice_eq(t.path, buf_slice(&b)));
    }
    arena_reset(&a);
}

/* Length is the caller's to bound; what comes is parsed right. */
static void test_very_long(void **state)
{
    enum { N = 1 << 20 };
    char *raw = xmalloc(N);
    struct arena a;
    struct target t;

    (void)state;
    arena_init(&a);
    memset(raw, 'a', N);
    raw[0] = '/';
    assert_int_equal(target_parse(slice_make(raw, N), &a, &t), GOOD);
    assert_int_equal(t.segments[0].n, N - 1);
    memset(raw, '/', N);
    assert_int_equal(target_parse(slice_make(raw, N), &a, &t), AMBIGUOUS);
    memset(raw, '%', N);
    raw[0] = '/';
    assert_int_equal(target_parse(slice_make(raw, N), &a, &t), INVALID);
    for (size_t i = 0; i + 3 < N; i += 3) memcpy(raw + 1 + i, "%61", 3);
    assert_int_equal(target_parse(slice_make(raw, N - (N - 1) % 3), &a, &t), GOOD);
    assert_int_equal(t.path.n, 1 + (N - 1) / 3);
    for (size_t i = 0; i < N; i += 2) memcpy(raw + i, "/a", 2);
    assert_int_equal(target_parse(slice_make(raw, N), &a, &t), GOOD);
    assert_int_equal(t.segments_n, N / 2);
    arena_reset(&a);
    free(raw);
}

/* An earlier use of the struct leaves nothing behind. */
static void test_starts_empty(void **state)
{
    struct arena a;
    struct target t;

    (void)state;
    arena_init(&a);
    assert_int_equal(target_parse(SLICE("http://h/a%2fb;c?d=e"), &a, &t), GOOD);
    assert_int_equal(target_params(&t, &a), GOOD);
    assert_int_equal(t.params_n, 1);
    assert_int_equal(target_parse(SLICE("/"), &a, &t), GOOD);
    assert_false(t.encoded_slash || t.path_parameter || t.has_query || t.asterisk);
    assert_int_equal(t.authority.n + t.query.n + t.segments_n + t.params_n, 0);
    assert_int_equal(target_parse(SLICE("/%zz"), &a, &t), INVALID);
    assert_int_equal(t.segments_n, 0);
    arena_reset(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_every_byte),
        cmocka_unit_test(test_asterisk),
        cmocka_unit_test(test_no_copy_and_many_segments),
        cmocka_unit_test(test_very_long),
        cmocka_unit_test(test_starts_empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
