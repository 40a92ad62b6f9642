/* Signatures of every algorithm against the examples of RFC 7515 and keys of our own; each algorithm by itself only. */
#include "authz/signature.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "authz/base64url.h"
#include "authz/keyset.h"
#include "token_maker.h"

/* The examples of RFC 7515 appendix A and RFC 8037 A.4, byte for byte. */
#define PAYLOAD_A "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ"

static const struct example {
    const char *algorithm;
    const char *key;
    const char *input;
    const char *signature;
} examples[] = {
    {"RS256",
     "{\"kty\":\"RSA\",\"n\":\"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1"
     "Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-K"
     "XBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethF"
     "kMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ\",\"e\":\"AQAB\"}",
     "eyJhbGciOiJSUzI1NiJ9." PAYLOAD_A,
     "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t"
     "1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12j"
     "zDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQ"
     "Ge77Rw"},
    {"ES256",
     "{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU\","
     "\"y\":\"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0\"}",
     "eyJhbGciOiJFUzI1NiJ9." PAYLOAD_A,
     "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"},
    {"ES512",
     "{\"kty\":\"EC\",\"crv\":\"P-521\","
     "\"x\":\"AekpBQ8ST8a8VcfVOTNl353vSrDCLLJXmPk06wTjxrrjcBpXp5EOnYG_NjFZ6OvLFV1jSfS9tsz4qUxcWceqwQGk\","
     "\"y\":\"ADSmRA43Z1DSNx_RvcLI87cdL07l6jQyyBXMoxVg_l2Th-x3S1WDhjDly79ajL4Kkd0AZMaZmh9ubmf63e3kyMj2\"}",
     "eyJhbGciOiJFUzUxMiJ9.UGF5bG9hZA",
     "AdwMgeerwtHoh-l192l60hp9wAHZFVJbLfD_UxMi70cwnZOYaRI1bKPWROc-mZZqwqT2SI-KGDKB34XO0aw_7XdtAG8GaSwFKdCAPZgoXD2YBJZC"
     "PEX3xKpRwcdOO8KpEHwJjyqOgzDO7iKvU8vcnwNrmxYbSW9ERBXukOXolLzeO_Jn"},
    {"EdDSA", "{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\"}",
     "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc",
     "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg"},
};

static const struct signature_algorithm *find(const char *name)
{
    const struct signature_algorithm *a = signature_find(slice_str(name));
    assert_non_null(a);
    return a;
}

static struct slice decode(struct arena *a, const char *text)
{
    size_t n = strlen(text);
    uint8_t *out = arena_alloc(a, BASE64URL_ROOM(n));
    assert_true(base64url_decode(slice_str(text), out, &n));
    return slice_make((const char *)out, n);
}

static struct keyset one_key(struct arena *a, const char *jwk)
{
    struct keyset s = {0};
    const char *error = NULL;
    if (!keyset_replace(&s, slice_str(maker_jwks(a, jwk, NULL, NULL)), &error)) fail_msg("%s: %s", jwk, error);
    assert_int_equal(s.n, 1);
    return s;
}

static bool verify(const struct keyset *s, const char *algorithm, struct slice input, struct slice sig)
{
    return signature_verify(find(algorithm), s->keys[0]->kind, s->keys[0]->key, input, sig);
}

static void test_rfc_examples(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        const struct example *e = &examples[i];
        struct arena a;
        arena_init(&a);
        struct keyset s = one_key(&a, e->key);
        struct slice sig = decode(&a, e->signature);
        if (!verify(&s, e->algorithm, slice_str(e->input), sig)) fail_msg("the %s example", e->algorithm);
        ((char *)sig.p)[sig.n / 3] ^= 1;
        assert_false(verify(&s, e->algorithm, slice_str(e->input), sig));
        keyset_clear(&s);
        arena_reset(&a);
    }
}

static void test_rfc_hmac_example(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a);
    struct slice secret =
        decode(&a, "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow");
    struct slice input = SLICE("eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9." PAYLOAD_A);
    struct slice sig = decode(&a, "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk");
    assert_true(signature_verify_secret(find("HS256"), secret, input, sig));
    assert_false(signature_verify_secret(find("HS256"), secret, input, slice_make(sig.p, sig.n - 1)));
    struct slice too_short = slice_make(secret.p, 31);
    assert_false(signature_verify_secret(find("HS256"), too_short, input, maker_mac(&a, "HS256", too_short, input)));
    assert_false(signature_verify_secret(find("HS384"), secret, input, sig));
    assert_false(signature_verify_secret(find("RS256"), secret, input, sig));
    ((char *)sig.p)[31] ^= 1;
    assert_false(signature_verify_secret(find("HS256"), secret, input, sig));
    arena_reset(&a);
}

static EVP_PKEY *key_for(const char *algorithm)
{
    if (algorithm[0] == 'R' || algorithm[0] == 'P') return maker_rsa(2048);
    if (strcmp(algorithm, "ES256") == 0) return maker_ec("P-256");
    if (strcmp(algorithm, "ES384") == 0) return maker_ec("P-384");
    if (strcmp(algorithm, "ES512") == 0) return maker_ec("P-521");
    return maker_ed(strcmp(algorithm, "Ed448") == 0 ? "ED448" : "ED25519");
}

/* Every algorithm signed by one key is verified by itself and by no other. */
static void test_each_algorithm_by_itself_only(void **state)
{
    (void)state;
    static const char *const all[] = {"RS256", "RS384", "RS512", "PS256", "PS384",
                                      "PS512", "ES256", "ES384", "ES512", "EdDSA"};
    const size_t n = sizeof all / sizeof *all;
    for (size_t i = 0; i < n; i++) {
        struct arena a;
        arena_init(&a);
        EVP_PKEY *key = key_for(all[i]);
        struct keyset s = one_key(&a, maker_jwk(&a, key, ""));
        struct slice input = SLICE("head.body"), sig = maker_sign(&a, all[i], key, input);
        for (size_t other = 0; other < n; other++)
            if (verify(&s, all[other], input, sig) != (i == other)) fail_msg("%s by %s", all[i], all[other]);
        assert_false(verify(&s, all[i], SLICE("head.Body"), sig));
        assert_false(verify(&s, all[i], input, slice_make(sig.p, sig.n - 1)));
        assert_false(verify(&s, all[i], input, slice_make(sig.p, 0)));
        assert_false(signature_verify(find("HS256"), KEY_SECRET, s.keys[0]->key, input, sig));
        EVP_PKEY_free(key);
        keyset_clear(&s);
        arena_reset(&a);
    }
}

static void test_ed448(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a);
    EVP_PKEY *key = key_for("Ed448");
    struct keyset s = one_key(&a, maker_jwk(&a, key, ""));
    struct slice sig = maker_sign(&a, "EdDSA", key, SLICE("x.y"));
    assert_true(verify(&s, "EdDSA", SLICE("x.y"), sig));
    assert_false(verify(&s, "EdDSA", SLICE("x.z"), sig));
    EVP_PKEY_free(key);
    keyset_clear(&s);
    arena_reset(&a);
}

static void test_ecdsa_form(void **state)
{
    (void)state;
    static const char *const algorithms[] = {"ES256", "ES384", "ES512"};
    for (size_t i = 0; i < 3; i++) {
        struct arena a;
        arena_init(&a);
        EVP_PKEY *key = key_for(algorithms[i]);
        struct keyset s = one_key(&a, maker_jwk(&a, key, ""));
        struct slice input = SLICE("a.b");
        assert_false(verify(&s, algorithms[i], input,
                            maker_sign_with(&a, algorithms[i], key, input, RSA_PSS_SALTLEN_DIGEST, false)));
        struct slice good = maker_sign(&a, algorithms[i], key, input);
        assert_true(verify(&s, algorithms[i], input, good));
        size_t half = good.n / 2;
        char *bad = arena_zalloc(&a, good.n + 2);
        assert_false(verify(&s, algorithms[i], input, slice_make(bad, good.n))); /* r = s = 0 */
        memcpy(bad, good.p, half);
        assert_false(verify(&s, algorithms[i], input, slice_make(bad, good.n))); /* s = 0 */
        memset(bad, 0, half);
        memcpy(bad + half, good.p + half, half);
        assert_false(verify(&s, algorithms[i], input, slice_make(bad, good.n))); /* r = 0 */
        memset(bad, 0xff, good.n);
        assert_false(verify(&s, algorithms[i], input, slice_make(bad, good.n))); /* beyond the order */
        memset(bad, 0, good.n + 2); /* each half a byte longer: the same numbers, another length */
        memcpy(bad + 1, good.p, half);
        memcpy(bad + half + 2, good.p + half, half);
        assert_false(verify(&s, algorithms[i], input, slice_make(bad, good.n + 2)));
        EVP_PKEY_free(key);
        keyset_clear(&s);
        arena_reset(&a);
    }
}

/* RFC 7518 3.5: the salt is as long as the hash. */
static void test_pss_salt(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a);
    EVP_PKEY *key = maker_rsa(2048);
    struct keyset s = one_key(&a, maker_jwk(&a, key, ""));
    struct slice input = SLICE("a.b");
    assert_true(verify(&s, "PS256", input, maker_sign_with(&a, "PS256", key, input, 32, true)));
    assert_false(verify(&s, "PS256", input, maker_sign_with(&a, "PS256", key, input, 0, true)));
    assert_false(verify(&s, "PS256", input, maker_sign_with(&a, "PS256", key, input, 20, true)));
    assert_false(verify(&s, "PS256", input, maker_sign_with(&a, "PS256", key, input, RSA_PSS_SALTLEN_MAX, true)));
    EVP_PKEY_free(key);
    keyset_clear(&s);
    arena_reset(&a);
}

static void test_names(void **state)
{
    (void)state;
    static const char *const unknown[] = {"none", "None",   "NONE", "",         "rs256",
                                          "RS1",  "ES256K", "HS1",  "RSA-OAEP", "RS256 "};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
        assert_null(signature_find(slice_str(unknown[i])));
    assert_false(signature_fits(find("ES256"), KEY_P384));
    assert_false(signature_fits(find("ES256"), KEY_NONE));
    assert_false(signature_fits(find("RS256"), KEY_ED448));
    assert_true(signature_fits(find("EdDSA"), KEY_ED448));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rfc_examples),
        cmocka_unit_test(test_rfc_hmac_example),
        cmocka_unit_test(test_each_algorithm_by_itself_only),
        cmocka_unit_test(test_ed448),
        cmocka_unit_test(test_ecdsa_form),
        cmocka_unit_test(test_pss_salt),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
