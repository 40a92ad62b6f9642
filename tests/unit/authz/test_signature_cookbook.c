/* Signatures against the examples of RFC 7520, "Examples of Protecting Content Using JOSE", 4.1 to 4.4: what another
   implementation signed, over a payload that is no JSON, so the signature alone is looked at. */
#include "authz/signature.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "authz/base64url.h"
#include "authz/keyset.h"
#include "token_maker.h"

#define MODULUS \
    "n4EPtAOCc9AlkeQHPzHStgAbgs7bTZLwUBZdR8_KuKPEHLd4rHVTeT-O-XV2jRojdNhxJWTDvNd7nqQ0VEiZQHz_AJmSCpMaJMRBSFKrKb2w" \
    "qVwGU_NsYOYL-QtiWN2lbzcEe6XC0dApr5ydQLrHqkHHig3RBordaZ6Aj-oBHqFEHYpPe7Tpe-OfVfHd1E6cS6M1FZcD1NNLYD5lFHpPI9bT" \
    "wJlsde3uhGqC0ZCuEHg8lhzwOHrtIQbS0FVbb9k3-tVTU4fg_3L_vniUFAKwuCLqKnS2BYwdq_mzSnbLY7h_qixoR7jig3__kRhuaxwUkRz5" \
    "iaiQkqgc5gHdrNP5zw"
#define PAYLOAD \
    "SXTigJlzIGEgZGFuZ2Vyb3VzIGJ1c2luZXNzLCBGcm9kbywgZ29pbmcgb3V0IHlvdXIgZG9vci4gWW91IHN0ZXAgb250byB0aGUgcm9hZCwg" \
    "YW5kIGlmIHlvdSBkb24ndCBrZWVwIHlvdXIgZmVldCwgdGhlcmXigJlzIG5vIGtub3dpbmcgd2hlcmUgeW91IG1pZ2h0IGJlIHN3ZXB0IG9m" \
    "ZiB0by4"
#define KID "\"kid\":\"bilbo.baggins@hobbiton.example\",\"use\":\"sig\""
#define RSA_KEY "{\"kty\":\"RSA\"," KID ",\"n\":\"" MODULUS "\",\"e\":\"AQAB\"}"
#define EC_X "AHKZLLOsCOzz5cY97ewNUajB957y-C-U88c3v13nmGZx6sYl_oJXu9A5RkTKqjqvjyekWF-7ytDyRXYgCF5cj0Kt"
#define EC_Y "AdymlHvOiLxXkEhayXQnNCvDX4h9htZaCJN34kfmC6pV5OhQHiraVySsUdaQkAgDPrwQrJmbnX9cwlGfP-HqHZR1"
#define EC_KEY "{\"kty\":\"EC\"," KID ",\"crv\":\"P-521\",\"x\":\"" EC_X "\",\"y\":\"" EC_Y "\"}"

static const struct example {
    const char *algorithm;
    const char *key;
    const char *input;
    const char *signature;
} examples[] = {
    {"RS256", RSA_KEY,
     "eyJhbGciOiJSUzI1NiIsImtpZCI6ImJpbGJvLmJhZ2dpbnNAaG9iYml0b24uZXhhbXBsZSJ9." PAYLOAD,
     "MRjdkly7_-oTPTS3AXP41iQIGKa80A0ZmTuV5MEaHoxnW2e5CZ5NlKtainoFmKZopdHM1O2U4mwzJdQx996ivp83xuglII7PNDi84wnB-BDk"
     "oBwA78185hX-Es4JIwmDLJK3lfWRa-XtL0RnltuYv746iYTh_qHRD68BNt1uSNCrUCTJDt5aAE6x8wW1Kt9eRo4QPocSadnHXFxnt8Is9Uzp"
     "ERV0ePPQdLuW3IS_de3xyIrDaLGdjluPxUAhb6L2aXic1U12podGU0KLUQSE_oI-ZnmKJ3F4uOZDnd6QZWJushZ41Axf_fcIe8u9ipH84ogo"
     "ree7vjbU5y18kDquDg"},
    {"PS384", RSA_KEY,
     "eyJhbGciOiJQUzM4NCIsImtpZCI6ImJpbGJvLmJhZ2dpbnNAaG9iYml0b24uZXhhbXBsZSJ9." PAYLOAD,
     "cu22eBqkYDKgIlTpzDXGvaFfz6WGoz7fUDcfT0kkOy42miAh2qyBzk1xEsnk2IpN6-tPid6VrklHkqsGqDqHCdP6O8TTB5dDDItllVo6_1OL"
     "PpcbUrhiUSMxbbXUvdvWXzg-UD8biiReQFlfz28zGWVsdiNAUf8ZnyPEgVFn442ZdNqiVJRmBqrYRXe8P_ijQ7p8Vdz0TTrxUeT3lm8d9shn"
     "r2lfJT8ImUjvAA2Xez2Mlp8cBE5awDzT0qI0n6uiP1aCN_2_jLAeQTlqRHtfa64QQSUmFAAjVKPbByi7xho0uTOcbH510a6GYmJUAfmWjwZ6"
     "oD4ifKo8DYM-X72Eaw"},
    {"ES512", EC_KEY,
     "eyJhbGciOiJFUzUxMiIsImtpZCI6ImJpbGJvLmJhZ2dpbnNAaG9iYml0b24uZXhhbXBsZSJ9." PAYLOAD,
     "AE_R_YZCChjn4791jSQCrdPZCNYqHXCTZH0-JZGYNlaAjP2kqaluUIIUnC9qvbu9Plon7KRTzoNEuT4Va2cmL1eJAQy3mtPBu_u_sDDyYjnA"
     "MDxXPn7XrT0lw-kvAD890jl8e2puQens_IEKBpHABlsbEPX6sFY8OcGDqoRuBomu9xQ2"},
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

/* The example's signature under its key, by an algorithm; flip: which byte of the signature to change, 0 for none. */
static bool verifies(const struct example *e, const char *algorithm, size_t flip)
{
    struct arena a;
    arena_init(&a);
    struct keyset s = {0};
    const char *error = NULL;
    assert_true(keyset_replace(&s, slice_str(maker_jwks(&a, e->key, NULL, NULL)), &error));
    assert_int_equal(s.n, 1);
    assert_true(slice_eq(s.keys[0]->kid, SLICE("bilbo.baggins@hobbiton.example")));
    struct slice sig = decode(&a, e->signature);
    if (flip) ((char *)(uintptr_t)sig.p)[flip % sig.n] ^= 1;
    bool good = signature_verify(find(algorithm), s.keys[0]->kind, s.keys[0]->key, slice_str(e->input), sig);
    keyset_clear(&s);
    arena_reset(&a);
    return good;
}

static void test_4_1_to_4_3(void **state)
{
    (void)state;
    static const char *const algorithms[] = {"RS256", "RS384", "RS512", "PS256", "PS384",
                                             "PS512", "ES256", "ES384", "ES512", "EdDSA"};
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        const struct example *e = &examples[i];
        for (size_t k = 0; k < sizeof algorithms / sizeof *algorithms; k++)
            if (verifies(e, algorithms[k], 0) != (strcmp(algorithms[k], e->algorithm) == 0))
                fail_msg("the %s example as %s", e->algorithm, algorithms[k]);
        for (size_t flip = 1; flip < 256; flip += 17)
            assert_false(verifies(e, e->algorithm, flip));
    }
}

static void test_4_4(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a);
    struct slice secret = decode(&a, "hJtXIZ2uSN5kbQfbtTNWbpdmhkV8FJG-Onbc6mxCcYg");
    struct slice sig = decode(&a, "s0h6KThzkfBBBkLspW1h84VsJZFTsPPqMDA7g1Md7p0");
    struct slice input =
        SLICE("eyJhbGciOiJIUzI1NiIsImtpZCI6IjAxOGMwYWU1LTRkOWItNDcxYi1iZmQ2LWVlZjMxNGJjNzAzNyJ9." PAYLOAD);
    assert_true(signature_verify_secret(find("HS256"), secret, input, sig));
    assert_false(signature_verify_secret(find("HS256"), secret, slice_make(input.p, input.n - 1), sig));
    assert_false(signature_verify_secret(find("HS512"), secret, input, sig));
    for (size_t i = 0; i < sig.n; i++) {
        ((char *)(uintptr_t)sig.p)[i] ^= 0x10;
        assert_false(signature_verify_secret(find("HS256"), secret, input, sig));
        ((char *)(uintptr_t)sig.p)[i] ^= 0x10;
    }
    arena_reset(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_4_1_to_4_3),
        cmocka_unit_test(test_4_4),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
