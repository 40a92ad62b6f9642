/* Unit tests of base/json: what is written must be read back as what went in, by a strict reader of its own. */
#include "base/json.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static struct buf out;
static struct json json;

static void start(void)
{
    out.n = 0;
    json_init(&json, &out);
}

static const char *written(void)
{
    buf_add_char(&out, '\0');
    out.n--;
    return out.p;
}

static uint32_t read_hex4(const char *p)
{
    uint32_t unit = 0;
    for (int i = 0; i < 4; i++) {
        const char *digits = "0123456789abcdef", *at = strchr(digits, p[i]);
        assert_true(p[i] != '\0' && at != NULL);
        unit = unit << 4 | (uint32_t)(at - digits);
    }
    return unit;
}

/* A JSON string (RFC 8259, 7) to code points; fails on anything that is not printable ASCII or no valid escape. */
static size_t read_string(const char *p, size_t n, uint32_t *codes)
{
    static const char shorts[] = "\"\"\\\\//b\bf\fn\nr\rt\t";
    const char *end = p + n - 1;
    size_t count = 0;
    assert_true(n >= 2 && *p == '"' && *end == '"');
    for (p++; p < end;) {
        assert_in_range((unsigned char)*p, 0x20, 0x7e);
        assert_int_not_equal(*p, '"');
        if (*p != '\\') {
            codes[count++] = (unsigned char)*p++;
            continue;
        }
        p++;
        if (*p != 'u') {
            const char *at = shorts;
            while (*at && *at != *p) at += 2;
            assert_int_not_equal(*at, 0);
            codes[count++] = (unsigned char)at[1];
            p++;
            continue;
        }
        assert_true(end - p >= 5);
        uint32_t unit = read_hex4(p + 1);
        p += 5;
        assert_false(unit >= 0xdc00 && unit <= 0xdfff);
        if (unit >= 0xd800 && unit <= 0xdbff) {
            assert_true(end - p >= 6 && p[0] == '\\' && p[1] == 'u');
            uint32_t low = read_hex4(p + 2);
            assert_in_range(low, 0xdc00, 0xdfff);
            unit = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
            p += 6;
        }
        codes[count++] = unit;
    }
    return count;
}

static void test_every_byte_alone(void **state)
{
    (void)state;
    for (int i = 0; i < 256; i++) {
        char byte = (char)i;
        uint32_t codes[4];
        start();
        json_text(&json, slice_make(&byte, 1));
        assert_int_equal(read_string(out.p, out.n, codes), 1);
        assert_int_equal(codes[0], i < 0x80 ? i : 0xfffd);
    }
}

static void test_every_byte_amid_others(void **state)
{
    char text[3 * 256];
    uint32_t codes[sizeof(text)];
    (void)state;
    for (int i = 0; i < 256; i++) memcpy(text + 3 * i, (char[]){'a', (char)i, 'z'}, 3);
    start();
    json_text(&json, slice_make(text, sizeof(text)));
    assert_int_equal(read_string(out.p, out.n, codes), sizeof(text));
    for (uint32_t i = 0; i < 256; i++) {
        assert_int_equal(codes[3 * i], 'a');
        assert_int_equal(codes[3 * i + 1], i < 0x80 ? i : 0xfffd);
        assert_int_equal(codes[3 * i + 2], 'z');
    }
}

static void check_amid(unsigned byte, size_t at, size_t n)
{
    char text[20];
    uint32_t codes[sizeof(text)];
    memset(text, '~', n);
    text[at] = (char)byte;
    start();
    json_text(&json, slice_make(text, n));
    assert_int_equal(read_string(out.p, out.n, codes), n);
    for (size_t k = 0; k < n; k++)
        assert_int_equal(codes[k], k != at ? '~' : byte < 0x80 ? byte : 0xfffd);
}

/* Plain text is passed over eight bytes at a time, and what is left of it at once. */
static void test_every_byte_at_every_place(void **state)
{
    (void)state;
    for (unsigned byte = 0; byte < 256; byte++)
        for (size_t n = 1; n <= 20; n++)
            for (size_t at = 0; at < n; at++) check_amid(byte, at, n);
}

static void test_characters(void **state)
{
    static const struct {
        const char *in;
        const char *want;
    } rows[] = {
        {"", "\"\""},
        {"plain / text", "\"plain / text\""},
        {"a\"b\\c", "\"a\\\"b\\\\c\""},
        {"\b\f\n\r\t", "\"\\b\\f\\n\\r\\t\""},
        {"\x01\x1f\x7f", "\"\\u0001\\u001f\\u007f\""},
        {"\xc3\xa4", "\"\\u00e4\""},
        {"\xe2\x82\xac", "\"\\u20ac\""},
        {"\xe2\x80\xa8", "\"\\u2028\""},
        {"\xf0\x9f\x98\x80", "\"\\ud83d\\ude00\""},
        {"\xf4\x8f\xbf\xbf", "\"\\udbff\\udfff\""},
        {"x\xc3", "\"x\\ufffd\""},                       /* cut short at the end */
        {"\xc3(", "\"\\ufffd(\""},                       /* the byte behind is its own */
        {"\xc0\xaf", "\"\\ufffd\\ufffd\""},              /* overlong */
        {"\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\""},   /* a surrogate */
        {"\xf4\x90\x80\x80", "\"\\ufffd\\ufffd\\ufffd\\ufffd\""},
        {"\xe2\x82\xe2\x82\xac", "\"\\ufffd\\ufffd\\u20ac\""}, /* resynchronises */
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        start();
        json_text(&json, slice_str(rows[i].in));
        assert_string_equal(written(), rows[i].want);
    }
    start();
    json_text(&json, slice_make(NULL, 0));
    assert_string_equal(written(), "\"\"");
}

static void test_random_bytes(void **state)
{
    uint64_t x = 88172645463325252ULL;
    (void)state;
    for (int round = 0; round < 3000; round++) {
        char text[64];
        uint32_t codes[64];
        for (size_t i = 0; i < sizeof(text); i++) {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            /* many continuation bytes and leads, so that valid sequences come up by chance */
            text[i] = (char)(x & 1 ? 0x80 | (x >> 8 & 0x3f) : x >> 16 & 1 ? 0xc0 | (x >> 8 & 0x3f) : x >> 8 & 0xff);
        }
        start();
        json_text(&json, slice_make(text, sizeof(text)));
        size_t count = read_string(out.p, out.n, codes), at = 0;
        for (size_t i = 0; i < count; i++) {
            uint32_t code;
            size_t n = slice_utf8(slice_make(text + at, sizeof(text) - at), &code);
            assert_int_equal(codes[i], n ? code : 0xfffd);
            at += n ? n : 1;
        }
        assert_int_equal(at, sizeof(text));
    }
}

static void test_structure(void **state)
{
    (void)state;
    start();
    json_object_start(&json);
    json_field_string(&json, "s", SLICE("x\n"));
    json_field_int(&json, "i", -5);
    json_field_bool(&json, "t", true);
    json_field_bool(&json, "f", false);
    json_field_raw(&json, "r", SLICE("[1, 2]"));
    json_key(&json, SLICE("n"));
    json_nil(&json);
    json_key(&json, SLICE("a"));
    json_array_start(&json);
    json_array_end(&json);
    json_key(&json, SLICE("q\"k"));
    json_array_start(&json);
    json_int(&json, 1);
    json_object_start(&json);
    json_object_end(&json);
    json_array_start(&json);
    json_bool(&json, true);
    json_text(&json, SLICE("e"));
    json_array_end(&json);
    json_object_start(&json);
    json_field_int(&json, "d", 2);
    json_object_end(&json);
    json_array_end(&json);
    json_field_int(&json, "z", 0);
    json_object_end(&json);
    assert_string_equal(written(), "{\"s\":\"x\\n\",\"i\":-5,\"t\":true,\"f\":false,\"r\":[1, 2],\"n\":null,\"a\":[],"
                                   "\"q\\\"k\":[1,{},[true,\"e\"],{\"d\":2}],\"z\":0}");
}

static void test_doubles(void **state)
{
    (void)state;
    start();
    json_array_start(&json);
    json_double(&json, 0.5);
    json_double(&json, 3);
    json_double(&json, NAN);
    json_double(&json, INFINITY);
    json_double(&json, -INFINITY);
    json_double(&json, 1e21);
    json_array_end(&json);
    assert_string_equal(written(), "[0.5,3,null,null,null,1e+21]");
}

static int done(void **state)
{
    (void)state;
    buf_free(&out);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_byte_alone), cmocka_unit_test(test_every_byte_amid_others),
        cmocka_unit_test(test_every_byte_at_every_place),
        cmocka_unit_test(test_characters),       cmocka_unit_test(test_random_bytes),
        cmocka_unit_test(test_structure),        cmocka_unit_test(test_doubles),
    };
    return cmocka_run_group_tests(tests, NULL, done);
}
