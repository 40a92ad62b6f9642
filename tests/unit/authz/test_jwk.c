/* Key sets (RFC 7517): which keys are of use, for what, and what a bad one does to the others. */
#include "authz/jwk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "authz/keyset.h"
#include "token_maker.h"

static EVP_PKEY *rsa, *p256, *ed;

static int make_keys(void **state)
{
    (void)state;
    rsa = maker_rsa(2048);
    p256 = maker_ec("P-256");
    ed = maker_ed("ED25519");
    return 0;
}

static int free_keys(void **state)
{
    (void)state;
    EVP_PKEY_free(rsa);
    EVP_PKEY_free(p256);
    EVP_PKEY_free(ed);
    arena_trim();
    return 0;
}

static bool read_one(struct arena *a, const char *jwk, struct keyset *s)
{
    const char *error = NULL;
    *s = (struct keyset){0};
    bool ok = keyset_replace(s, slice_str(maker_jwks(a, jwk, NULL, NULL)), &error);
    assert_true(ok == (error == NULL));
    return ok;
}

static void test_what_a_key_may_be_for(void **state)
{
    (void)state;
    static const struct {
        const char *more;
        bool good;
    } rows[] = {
        {"", true},
        {",\"use\":\"sig\"", true},
        {",\"use\":\"enc\"", false},
        {",\"use\":\"SIG\"", false},
        {",\"use\":1", false},
        {",\"use\":null", false},
        {",\"key_ops\":[\"verify\"]", true},
        {",\"key_ops\":[\"sign\",\"verify\"]", true},
        {",\"key_ops\":[\"sign\"]", false},
        {",\"key_ops\":[]", false},
        {",\"key_ops\":\"verify\"", false},
        {",\"use\":\"sig\",\"key_ops\":[\"encrypt\"]", false},
        {",\"alg\":\"RS256\"", true},
        {",\"alg\":\"PS512\"", true},
        {",\"alg\":\"ES256\"", false},
        {",\"alg\":\"HS256\"", false},
        {",\"alg\":\"none\"", false},
        {",\"alg\":\"RSA-OAEP\"", false},
        {",\"alg\":7", false},
        {",\"kid\":\"a\"", true},
        {",\"kid\":\"\"", true},
        {",\"kid\":5", false},
        {",\"kid\":null", false},
        {",\"x5c\":[\"ignored\"],\"more\":{\"of\":\"it\"}", true},
    };
    struct arena a;
    arena_init(&a);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct keyset s;
        if (read_one(&a, maker_jwk(&a, rsa, rows[i].more), &s) != rows[i].good) fail_msg("%s", rows[i].more);
        keyset_clear(&s);
    }
    arena_reset(&a);
}

static const char *rsa_jwk(struct arena *a, const char *n, const char *e)
{
    return arena_printf(a, "{\"kty\":\"RSA\",\"n\":\"%s\",\"e\":\"%s\"}", n, e).p;
}

static void test_rsa_numbers(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a);
    const char *n = maker_number(&a, rsa, OSSL_PKEY_PARAM_RSA_N, 0);
    const char *padded = maker_number(&a, rsa, OSSL_PKEY_PARAM_RSA_N, 257);
    unsigned char even[256], huge[2049];
    memset(even, 0xfe, sizeof even);
    memset(huge, 0xff, sizeof huge);
    EVP_PKEY *small = maker_rsa(1024), *almost = maker_rsa(2047);
    const struct {
        const char *jwk;
        bool good;
    } rows[] = {
        {rsa_jwk(&a, n, "AQAB"), true},
        {rsa_jwk(&a, n, "Aw"), true},
        {rsa_jwk(&a, padded, "AQAB"), true},
        {rsa_jwk(&a, n, "AAEAAQ"), true},
        {maker_jwk(&a, small, ""), false},
        {maker_jwk(&a, almost, ""), false},
        {rsa_jwk(&a, n, "AQ"), false}, /* 1 */
        {rsa_jwk(&a, n, "BA"), false}, /* 4 */
        {rsa_jwk(&a, n, "AA"), false}, /* 0 */
        {rsa_jwk(&a, n, ""), false},
        {rsa_jwk(&a, n, "AQAB="), false},
        {rsa_jwk(&a, n, "AQAAAAAAAAAB"), false}, /* 72 bits */
        {rsa_jwk(&a, "", "AQAB"), false},
        {rsa_jwk(&a, "AA", "AQAB"), false},
        {rsa_jwk(&a, maker_base64url(&a, even, sizeof even), "AQAB"), false},
        {rsa_jwk(&a, maker_base64url(&a, huge, sizeof huge), "AQAB"), false},
        {rsa_jwk(&a, arena_printf(&a, "%s\\n", n).p, "AQAB"), false},
        {"{\"kty\":\"RSA\",\"e\":\"AQAB\"}", false},
        {"{\"kty\":\"RSA\",\"n\":5,\"e\":\"AQAB\"}", false},
        {"{\"kty\":\"rsa\"}", false},
        {"{\"kty\":7}", false},
        {"{}", false},
        {"7", false},
        {"null", false},
        {"[]", false},
        {"{\"kty\":\"oct\",\"k\":\"AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-"
         "1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow\"}",
         false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct keyset s;
        if (read_one(&a, rows[i].jwk, &s) != rows[i].good) fail_msg("%zu: %s", i, rows[i].jwk);
        keyset_clear(&s);
    }
    EVP_PKEY_free(small);
    EVP_PKEY_free(almost);
    arena_reset(&a);
}

static void test_curves(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a);
    EVP_PKEY *p521 = maker_ec("P-521");
    const char *x = maker_number(&a, p256, OSSL_PKEY_PARAM_EC_PUB_X, 32);
    const char *y = maker_number(&a, p256, OSSL_PKEY_PARAM_EC_PUB_Y, 32);
    const char *y33 = maker_number(&a, p256, OSSL_PKEY_PARAM_EC_PUB_Y, 33);
    const char *form = "{\"kty\":\"%s\",\"crv\":\"%s\",\"x\":\"%s\",\"y\":\"%s\"}";
    const struct {
        const char *jwk;
        bool good;
    } rows[] = {
        {maker_jwk(&a, p256, ""), true},
        {maker_jwk(&a, p256, ",\"alg\":\"ES256\""), true},
        {maker_jwk(&a, p256, ",\"alg\":\"ES384\""), false},
        {maker_jwk(&a, p521, ",\"alg\":\"ES512\""), true},
        {maker_jwk(&a, ed, ",\"alg\":\"EdDSA\""), true},
        {maker_jwk(&a, ed, ",\"alg\":\"ES256\""), false},
        {arena_printf(&a, form, "EC", "P-256", x, y).p, true},
        {arena_printf(&a, form, "EC", "P-256", x, x).p, false}, /* not on the curve */
        {arena_printf(&a, form, "EC", "P-384", x, y).p, false},
        {arena_printf(&a, form, "EC", "secp256k1", x, y).p, false},
        {arena_printf(&a, form, "EC", "P-256", x, y33).p, false},
        {arena_printf(&a, form, "EC", "P-256", x, "AA").p, false},
        {arena_printf(&a, form, "OKP", "P-256", x, y).p, false},
        {arena_printf(&a, form, "EC", "Ed25519", x, y).p, false},
        {arena_printf(&a, form, "OKP", "X25519", x, y).p, false},
        {arena_printf(&a, form, "OKP", "Ed448", x, y).p, false},
        {"{\"kty\":\"EC\",\"crv\":\"P-256\"}", false},
        {"{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"\"}", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct keyset s;
        if (read_one(&a, rows[i].jwk, &s) != rows[i].good) fail_msg("%zu: %s", i, rows[i].jwk);
        keyset_clear(&s);
    }
    EVP_PKEY_free(p521);
    arena_reset(&a);
}

static void test_documents(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a);
    const char *good = maker_jwks(&a, maker_jwk(&a, ed, ""), NULL, NULL);
    const struct {
        const char *document;
        bool good;
    } rows[] = {
        {good, true},
        {"", false},
        {"{}", false},
        {"[]", false},
        {"{\"keys\":[]}", false},
        {"{\"keys\":{}}", false},
        {"{\"keys\":null}", false},
        {"{\"keys\":[{\"kty\":\"oct\",\"k\":\"AAAA\"}]}", false},
        {maker_jwk(&a, ed, ""), false}, /* a key is no set */
        {arena_printf(&a, "%s x", good).p, false},
        {arena_printf(&a, "{\"keys\":[],%s", good + 1).p, false}, /* twice */
        {"{\"keys\":[{\"kty\":\"RSA\",\"kty\":\"EC\"}]}", false},
        {"\xef\xbb\xbf{\"keys\":[]}", false},
        {"<html>", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct keyset s = {0};
        const char *error = NULL;
        if (keyset_replace(&s, slice_str(rows[i].document), &error) != rows[i].good) fail_msg("%s", rows[i].document);
        assert_true(rows[i].good || error);
        keyset_clear(&s);
    }
    char deep[100000];
    memset(deep, '[', sizeof deep);
    memcpy(deep, "{\"keys\":", 8);
    struct keyset s = {0};
    const char *error = NULL;
    assert_false(keyset_replace(&s, slice_make(deep, sizeof deep), &error));
    assert_string_equal(error, "the key set is nested too deep");
    arena_reset(&a);
}

static void test_broken_among_good(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a);
    struct keyset s = {0};
    const char *error;
    const char *text =
        arena_printf(&a, "{\"keys\":[7,%s,{\"kty\":\"oct\",\"k\":\"AA\"},%s,{},%s]}", maker_kid_jwk(&a, rsa, "a"),
                     maker_kid_jwk(&a, rsa, "a"), maker_kid_jwk(&a, p256, "a"))
            .p;
    assert_true(keyset_replace(&s, slice_str(text), &error));
    assert_int_equal(s.n, 2);
    assert_int_equal(s.skipped, 4); /* the key that stands there twice is one */
    assert_true(slice_eq(s.keys[1]->kid, SLICE("a")));
    assert_int_equal(s.keys[1]->kind, KEY_P256);
    keyset_clear(&s);
    arena_reset(&a);
}

static void test_same_keys_stay(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a);
    struct keyset s = {0};
    const char *error;
    const char *one = maker_kid_jwk(&a, rsa, "one"), *two = maker_kid_jwk(&a, p256, "two");
    assert_true(keyset_replace(&s, slice_str(maker_jwks(&a, one, two, NULL)), &error));
    struct jwk *first = s.keys[0], *second = s.keys[1];
    jwk_hold(first);
    jwk_hold(second);
    assert_true(keyset_replace(&s, slice_str(maker_jwks(&a, maker_kid_jwk(&a, ed, "new"), two, NULL)), &error));
    assert_ptr_equal(s.keys[1], second);
    assert_false(second->gone);
    assert_true(first->gone);
    /* a bad document changes nothing */
    assert_false(keyset_replace(&s, SLICE("{\"keys\":[]}"), &error));
    assert_int_equal(s.n, 2);
    assert_false(second->gone);
    /* the same numbers under another name, or with an algorithm, are another key */
    assert_true(keyset_replace(&s, slice_str(maker_jwks(&a, maker_kid_jwk(&a, p256, "other"), NULL, NULL)), &error));
    assert_true(second->gone);
    keyset_clear(&s);
    jwk_release(first);
    jwk_release(second);
    arena_reset(&a);
}

static void test_hundreds(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a);
    for (int n = 1000; n <= 1001; n++) {
        struct buf b;
        buf_init(&b, &a);
        buf_add_lit(&b, "{\"keys\":[");
        for (int i = 0; i < n; i++)
            buf_printf(&b, "%s%s", i ? "," : "", maker_kid_jwk(&a, ed, arena_printf(&a, "k%d", i).p));
        buf_add_lit(&b, "]}");
        struct keyset s = {0};
        const char *error = NULL;
        assert_int_equal(keyset_replace(&s, buf_slice(&b), &error), n <= KEYSET_MAX);
        assert_int_equal(s.n, n <= KEYSET_MAX ? n : 0);
        keyset_clear(&s);
    }
    arena_reset(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_a_key_may_be_for),
        cmocka_unit_test(test_rsa_numbers),
        cmocka_unit_test(test_curves),
        cmocka_unit_test(test_documents),
        cmocka_unit_test(test_broken_among_good),
        cmocka_unit_test(test_same_keys_stay),
        cmocka_unit_test(test_hundreds),
    };
    return cmocka_run_group_tests(tests, make_keys, free_keys);
}
