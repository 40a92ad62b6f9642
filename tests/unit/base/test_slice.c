/* Unit tests of base/slice. */
#include "base/slice.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static struct slice S(const char *s)
{
    return slice_str(s);
}

static void test_equality(void **state)
{
    (void)state;
    assert_true(slice_eq(S(""), slice_make(NULL, 0)));
    assert_true(slice_eq(SLICE("a\0b"), slice_make("a\0b", 3)));
    assert_false(slice_eq(SLICE("a\0b"), slice_make("a\0c", 3)));
    assert_false(slice_eq(S("a"), S("ab")));
    assert_true(slice_eq_nocase(S("Content-Length"), S("cONTENT-lENGTH")));
    assert_false(slice_eq_nocase(S("[x"), S("{x"))); /* 0x5b and 0x7b: they differ by the case bit, no letters */
    assert_false(slice_eq_nocase(S("@"), S("`")));
    assert_false(slice_eq_nocase(S("\xc4"), S("\xe4"))); /* ASCII only */
    assert_true(slice_eq_nocase(slice_make(NULL, 0), S("")));
    for (int c = 0; c < 256; c++) { /* any byte at any place of any length, against its case bit turned */
        bool letter = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
        for (size_t n = 1; n <= 20; n++)
            for (size_t i = 0; i < n; i++) {
                char a[20], b[20];
                memset(a, 'q', n);
                memset(b, 'Q', n);
                a[i] = (char)c;
                b[i] = (char)(c ^ 0x20);
                assert_int_equal(slice_eq_nocase(slice_make(a, n), slice_make(b, n)), letter);
                b[i] = (char)c;
                assert_true(slice_eq_nocase(slice_make(a, n), slice_make(b, n)));
            }
    }
    assert_true(slice_starts(S("/api/x"), S("/api")));
    assert_true(slice_starts(S(""), slice_make(NULL, 0)));
    assert_false(slice_starts(S("/ap"), S("/api")));
}

static void test_trim(void **state)
{
    static const char *const rows[][2] = {{"", ""},         {" ", ""},      {"a", "a"}, {" \t a b\t ", "a b"},
                                          {"\na\n", "\na\n"}, {"\ra ", "\ra"}};
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        assert_true(slice_eq(slice_trim(S(rows[i][0])), S(rows[i][1])));
    }
    assert_int_equal(slice_trim(slice_make(NULL, 0)).n, 0);
}

static void test_split(void **state)
{
    static const struct {
        const char *text;
        const char *parts[5];
    } rows[] = {{"a,,b", {"a", "", "b"}}, {"", {""}}, {",", {"", ""}}, {"a,", {"a", ""}}, {"abc", {"abc"}}};
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct slice rest = S(rows[i].text), part;
        size_t n = 0;
        while (slice_next(&rest, ',', &part)) {
            assert_non_null(rows[i].parts[n]);
            assert_true(slice_eq(part, S(rows[i].parts[n])));
            n++;
        }
        assert_null(rows[i].parts[n]);
    }
    struct slice none = slice_make(NULL, 0), part;
    assert_false(slice_next(&none, ',', &part));
}

static void test_numbers(void **state)
{
    static const struct {
        const char *text;
        bool ok;
        long long value;
    } rows[] = {{"0", true, 0},
                {"007", true, 7},
                {"9223372036854775807", true, INT64_MAX},
                {"0000000000000000000000009223372036854775807", true, INT64_MAX},
                {"9223372036854775808", false, 0},
                {"18446744073709551617", false, 0},
                {"99999999999999999999999999", false, 0},
                {"", false, 0},
                {"-1", false, 0},
                {"+1", false, 0},
                {" 1", false, 0},
                {"1 ", false, 0},
                {"1a", false, 0},
                {"0x10", false, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        long long value = -7;
        assert_int_equal(slice_to_int(S(rows[i].text), &value), rows[i].ok);
        assert_int_equal(value, rows[i].ok ? rows[i].value : -7);
    }
    long long value;
    assert_false(slice_to_int(SLICE("1\0"), &value));
}

/* Every code point by the book (RFC 3629, 3), there and back. */
static size_t encode(uint32_t c, unsigned char out[4])
{
    if (c < 0x80) {
        out[0] = (unsigned char)c;
        return 1;
    }
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const unsigned char leads[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = n - 1; i > 0; i--) {
        out[i] = (unsigned char)(0x80 | (c & 0x3f));
        c >>= 6;
    }
    out[0] = (unsigned char)(leads[n] | c);
    return n;
}

static void test_utf8_every_code_point(void **state)
{
    (void)state;
    for (uint32_t c = 0; c <= 0x110fff; c++) {
        unsigned char text[4];
        uint32_t code = 0xffffffff;
        size_t n = encode(c, text);
        bool valid = c <= 0x10ffff && !(c >= 0xd800 && c <= 0xdfff);
        size_t got = slice_utf8(slice_make((char *)text, n), &code);
        if (got != (valid ? n : 0) || (valid && code != c)) fail_msg("U+%04x: %zu bytes, read as %x", c, got, code);
        if (n > 1 && slice_utf8(slice_make((char *)text, n - 1), &code) != 0) fail_msg("U+%04x cut short", c);
    }
}

static void test_utf8_broken(void **state)
{
    static const char *const rows[] = {"\x80",         "\xbf",         "\xc0\x80",         "\xc1\xbf",
                                       "\xe0\x80\x80", "\xe0\x9f\xbf", "\xf0\x80\x80\x80", "\xf0\x8f\xbf\xbf",
                                       "\xf8\x88\x80\x80\x80", "\xff", "\xfe", "\xc3(", "\xe2\x82(", "\xf0\x9f\x98("};
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        uint32_t code;
        assert_int_equal(slice_utf8(S(rows[i]), &code), 0);
    }
    uint32_t code;
    assert_int_equal(slice_utf8(slice_make(NULL, 0), &code), 0);
    assert_int_equal(slice_utf8(SLICE("\0"), &code), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equality), cmocka_unit_test(test_trim),
        cmocka_unit_test(test_split),    cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_utf8_every_code_point), cmocka_unit_test(test_utf8_broken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
