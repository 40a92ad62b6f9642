/* One text, one spelling: what strict base64url (RFC 7515 2, RFC 4648 3.5) takes and refuses. */
#include "authz/base64url.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static bool decode(const char *text, char *out, size_t *n)
{
    return base64url_decode(slice_str(text), (uint8_t *)out, n);
}

static void test_decodes(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *bytes;
        size_t n;
    } rows[] = {
        /* RFC 4648 10, without padding */
        {"", "", 0},
        {"Zg", "f", 1},
        {"Zm8", "fo", 2},
        {"Zm9v", "foo", 3},
        {"Zm9vYg", "foob", 4},
        {"Zm9vYmE", "fooba", 5},
        {"Zm9vYmFy", "foobar", 6},
        {"A-z_4ME", "\x03\xec\xff\xe0\xc1", 5}, /* RFC 7515 appendix C */
        {"AA", "\0", 1},
        {"_w", "\xff", 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char out[16];
        size_t n = 99;
        assert_true(decode(rows[i].text, out, &n));
        assert_int_equal(n, rows[i].n);
        assert_memory_equal(out, rows[i].bytes, n);
    }
}

static void test_refuses(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "Z",      "Zm9vY",                     /* one character over */
        "Zg==",   "Zm8=",     "=",     "====", /* padding */
        "Zh",     "Zm9",      "__",    "AB",   /* left-over bits: Zg, Zm8, _w, AA say the same */
        "Zm9v\n", "Zm 9v",    " Zm9v", "Zm9v ", "Zm9vYmFy\r\n",  "\tZg",        "Zm+v",
        "Zm/v",   "Zm9v.Zm8", "Zm9v,", "Zm9%",  "Z\x80\x80\x80", "Zm9\xc3\xa9",
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char out[32];
        size_t n;
        if (decode(rows[i], out, &n)) fail_msg("\"%s\" was decoded", rows[i]);
    }
    char out[8];
    size_t n;
    assert_false(base64url_decode(slice_make("Zm\0v", 4), (uint8_t *)out, &n));
}

/* Exactly one text for every two bytes. */
static void test_one_spelling(void **state)
{
    (void)state;
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    static unsigned seen[65536];
    for (size_t i = 0; i < 64 * 64 * 64; i++) {
        const char text[3] = {alphabet[i >> 12], alphabet[i >> 6 & 63], alphabet[i & 63]};
        uint8_t out[BASE64URL_ROOM(3)];
        size_t n;
        if (!base64url_decode(slice_make(text, 3), out, &n)) continue;
        assert_int_equal(n, 2);
        seen[out[0] << 8 | out[1]]++;
    }
    for (size_t i = 0; i < 65536; i++)
        assert_int_equal(seen[i], 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decodes),
        cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_one_spelling),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
