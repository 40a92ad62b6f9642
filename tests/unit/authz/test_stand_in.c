/* The keys of a rehearsal: what is signed with one of each algorithm is verified with its public half as it would be read
   from an issuer, and with nothing else. */
#include "authz/stand_in.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "authz/base64url.h"
#include "authz/keyset.h"

static const char *const algorithms[] = {"RS256", "RS384", "RS512", "PS256", "PS384",
                                         "PS512", "ES256", "ES384", "ES512", "EdDSA"};

/* The decoded third part of what was made of `input`. */
static struct slice signature_of(const struct buf *made, struct slice input, uint8_t out[512])
{
    size_t n;
    assert_true(slice_starts(buf_slice(made), input));
    assert_int_equal(made->p[input.n], '.');
    struct slice text = slice_make(made->p + input.n + 1, made->n - input.n - 1);
    assert_true(base64url_decode(text, out, &n));
    return slice_make((const char *)out, n);
}

/* One key of RSA does for all of its algorithms: making one takes long. */
static void check(struct stand_in *s, const struct signature_algorithm *a)
{
    const struct slice input = SLICE("head.payload");
    struct buf jwks, made;
    struct keyset keys = {0};
    const char *error = NULL;
    uint8_t bytes[512];
    buf_init(&jwks, NULL);
    buf_init(&made, NULL);
    s->algorithm = a;
    stand_in_jwks(s, SLICE("a \"kid\""), &jwks);
    if (!keyset_replace(&keys, buf_slice(&jwks), &error)) fail_msg("%.*s: %s", (int)a->name.n, a->name.p, error);
    assert_int_equal(keys.n, 1);
    assert_true(slice_eq(keys.keys[0]->kid, SLICE("a \"kid\"")));
    stand_in_sign(s, input, &made);
    struct slice signature = signature_of(&made, input, bytes);
    if (!signature_verify(a, keys.keys[0]->kind, keys.keys[0]->key, input, signature))
        fail_msg("%.*s does not verify", (int)a->name.n, a->name.p);
    assert_false(signature_verify(a, keys.keys[0]->kind, keys.keys[0]->key, SLICE("head.Payload"), signature));
    keyset_clear(&keys);
    buf_free(&jwks);
    buf_free(&made);
}

static void each_algorithm_is_verified_by_its_own_set(void **state)
{
    struct stand_in rsa = {0};
    (void)state;
    for (size_t i = 0; i < sizeof algorithms / sizeof *algorithms; i++) {
        const struct signature_algorithm *a = signature_find(slice_str(algorithms[i]));
        struct stand_in own = {0}, *s = a->kind == KEY_RSA ? &rsa : &own;
        if (!s->key) assert_true(stand_in_create(s, a));
        check(s, a);
        stand_in_free(&own);
    }
    stand_in_free(&rsa);
}

static void a_set_without_a_kid(void **state)
{
    struct stand_in s;
    struct buf jwks;
    (void)state;
    buf_init(&jwks, NULL);
    assert_true(stand_in_create(&s, signature_find(SLICE("ES256"))));
    stand_in_jwks(&s, slice_make(NULL, 0), &jwks);
    buf_add_char(&jwks, '\0');
    assert_null(strstr(jwks.p, "kid"));
    assert_null(strstr(jwks.p, "\"d\""));
    stand_in_free(&s);
    buf_free(&jwks);
}

static void secrets(void **state)
{
    (void)state;
    const struct slice input = SLICE("head.payload"), secret = SLICE("0123456789012345678901234567890123456789012345678901234567890123");
    static const char *const names[] = {"HS256", "HS384", "HS512"};
    for (size_t i = 0; i < 3; i++) {
        const struct signature_algorithm *a = signature_find(slice_str(names[i]));
        struct stand_in s;
        struct buf made;
        uint8_t bytes[512];
        buf_init(&made, NULL);
        assert_false(stand_in_create(&s, a));
        stand_in_sign_secret(a, secret, input, &made);
        assert_true(signature_verify_secret(a, secret, input, signature_of(&made, input, bytes)));
        buf_free(&made);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_algorithm_is_verified_by_its_own_set),
        cmocka_unit_test(a_set_without_a_kid),
        cmocka_unit_test(secrets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
