/* Tokens and key sets that are odd but signed well: other spellings of the same bytes, keys that share a kid, many
   keys, broken keys among good ones. What is good in them passes; what two readers could read differently does not. */
#include "authz/token.h"

#include "token_fixture.h"

static EVP_PKEY *ed, *other, *p256;

static int make_keys(void **state)
{
    (void)state;
    ed = maker_ed("ED25519");
    other = maker_ed("ED25519");
    p256 = maker_ec("P-256");
    return 0;
}

static int free_keys(void **state)
{
    (void)state;
    EVP_PKEY_free(ed);
    EVP_PKEY_free(other);
    EVP_PKEY_free(p256);
    return 0;
}

/* Signed over the two parts as they stand. */
static const char *signed_parts(struct fixture *x, const char *header, const char *payload)
{
    struct slice input = arena_printf(&x->arena, "%s.%s", header, payload);
    return maker_join(&x->arena, input, maker_sign(&x->arena, "EdDSA", ed, input));
}

static const char *with_end(struct fixture *x, const char *part, const char *end)
{
    return arena_printf(&x->arena, "%s%s", part, end).p;
}

/* The same bytes in another text would be another token of the same meaning: one that a list of revoked ones misses. */
static void test_other_spellings(void **state)
{
    (void)state;
    struct fixture x;
    fixture_init(&x);
    fixture_open_file(&x, maker_jwks(&x.arena, maker_jwk(&x.arena, ed, ""), NULL, NULL));
    static const char *const spaces[] = {"", " ", "  "}; /* one length of each remainder */
    static const char *const ends[] = {"=", "==", "\n", "%3D", "+", "/"};
    for (size_t i = 0; i < 3; i++) {
        const char *header_text = arena_printf(&x.arena, "{\"alg\":\"EdDSA\"%s}", spaces[i]).p;
        const char *payload_text = arena_printf(&x.arena, "%s%s", fixture_payload(&x, ""), spaces[i]).p;
        const char *header = maker_base64url(&x.arena, header_text, strlen(header_text));
        const char *payload = maker_base64url(&x.arena, payload_text, strlen(payload_text));
        fixture_accepted(&x, signed_parts(&x, header, payload), false);
        for (size_t k = 0; k < sizeof ends / sizeof *ends; k++) {
            fixture_refused(&x, signed_parts(&x, with_end(&x, header, ends[k]), payload), REASON_TOKEN_MALFORMED);
            fixture_refused(&x, signed_parts(&x, header, with_end(&x, payload, ends[k])), REASON_TOKEN_MALFORMED);
        }
        const char *const parts[] = {header, payload};
        for (size_t k = 0; k < 2; k++) { /* bits left over at the end */
            size_t n = strlen(parts[k]);
            if (n % 4 == 0) continue;
            char *lax = (char *)(uintptr_t)arena_copy(&x.arena, slice_str(parts[k])).p;
            lax[n - 1]++;
            fixture_refused(&x, signed_parts(&x, k ? header : lax, k ? lax : payload), REASON_TOKEN_MALFORMED);
        }
    }
    fixture_finish(&x);
}

static void test_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *exp;
        enum reason reason;
    } rows[] = {
        {"9007199254740993", REASON_FORWARDED}, /* 2^53 + 1: no double is */
        {"-9007199254740993", REASON_TOKEN_EXPIRED},
        {"-0", REASON_TOKEN_EXPIRED},
        {"-0.0", REASON_TOKEN_EXPIRED},
        {"0e400", REASON_TOKEN_EXPIRED},
        {"1e-400", REASON_TOKEN_EXPIRED},
        {"1e400", REASON_TOKEN_MALFORMED},
        {"-1e400", REASON_TOKEN_MALFORMED},
        {"00", REASON_TOKEN_MALFORMED},
        {"099999999999", REASON_TOKEN_MALFORMED},
        {"1.", REASON_TOKEN_MALFORMED},
        {".5e12", REASON_TOKEN_MALFORMED},
        {"99999999999e", REASON_TOKEN_MALFORMED},
        {"9_9", REASON_TOKEN_MALFORMED},
        {"\"123\"", REASON_TOKEN_CLAIMS},
        {"\"99999999999\"", REASON_TOKEN_CLAIMS},
    };
    struct fixture x;
    fixture_init(&x);
    fixture_open_file(&x, maker_jwks(&x.arena, maker_jwk(&x.arena, ed, ""), NULL, NULL));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *payload =
            arena_printf(&x.arena, "{\"iss\":\"" ISSUER "\",\"aud\":\"api\",\"sub\":\"a\",\"exp\":%s}", rows[i].exp).p;
        const char *text = maker_bearer(&x.arena, HEADER("EdDSA"), payload, "EdDSA", ed);
        if (rows[i].reason == REASON_FORWARDED)
            fixture_accepted(&x, text, false);
        else
            fixture_refused(&x, text, rows[i].reason);
    }
    fixture_finish(&x);
}

/* RFC 7517 4.5 lets keys of other kinds share a kid; some issuers let keys of one kind share it while they roll. */
static void test_shared_kid(void **state)
{
    (void)state;
    struct fixture x;
    fixture_init(&x);
    fixture_open_file(&x, maker_jwks(&x.arena, maker_kid_jwk(&x.arena, p256, "k"), maker_kid_jwk(&x.arena, ed, "k"),
                                     maker_kid_jwk(&x.arena, other, "k")));
    const char *payload = fixture_payload(&x, "");
    fixture_accepted(&x, maker_bearer(&x.arena, HEADER_KID("ES256", "k"), payload, "ES256", p256), false);
    fixture_accepted(&x, maker_bearer(&x.arena, HEADER_KID("EdDSA", "k"), payload, "EdDSA", ed), false);
    fixture_accepted(&x, maker_bearer(&x.arena, HEADER_KID("EdDSA", "k"), payload, "EdDSA", other), false);
    EVP_PKEY *stranger = maker_ed("ED25519");
    fixture_refused(&x, maker_bearer(&x.arena, HEADER_KID("EdDSA", "k"), payload, "EdDSA", stranger),
                    REASON_TOKEN_SIGNATURE);
    EVP_PKEY_free(stranger);
    fixture_finish(&x);
}

static void add_key(struct fixture *x, struct buf *b, EVP_PKEY *key, const char *kid)
{
    buf_printf(b, "%s%s", b->n > 9 ? "," : "", maker_kid_jwk(&x->arena, key, kid));
}

/* The last of 300 is found by its name; without a name only the first eight that fit are tried. */
static void test_many_keys(void **state)
{
    (void)state;
    struct fixture x;
    fixture_init(&x);
    struct buf b;
    buf_init(&b, &x.arena);
    buf_add_lit(&b, "{\"keys\":[");
    for (int i = 0; i < 298; i++) {
        EVP_PKEY *key = maker_ed("ED25519");
        add_key(&x, &b, key, arena_printf(&x.arena, "k%d", i).p);
        EVP_PKEY_free(key);
    }
    add_key(&x, &b, ed, "k298");
    add_key(&x, &b, p256, "k299");
    buf_add_lit(&b, "]}");
    buf_add_char(&b, '\0');
    fixture_open_file(&x, b.p);
    const char *payload = fixture_payload(&x, "");
    fixture_accepted(&x, maker_bearer(&x.arena, HEADER_KID("EdDSA", "k298"), payload, "EdDSA", ed), false);
    fixture_accepted(&x, maker_bearer(&x.arena, HEADER_KID("ES256", "k299"), payload, "ES256", p256), false);
    fixture_accepted(&x, maker_bearer(&x.arena, HEADER("ES256"), payload, "ES256", p256), false);
    fixture_refused(&x, maker_bearer(&x.arena, HEADER("EdDSA"), payload, "EdDSA", ed), REASON_TOKEN_SIGNATURE);
    fixture_refused(&x, maker_bearer(&x.arena, HEADER_KID("EdDSA", "k297"), payload, "EdDSA", ed),
                    REASON_TOKEN_SIGNATURE);
    fixture_refused(&x, maker_bearer(&x.arena, HEADER_KID("EdDSA", "k2980"), payload, "EdDSA", ed), REASON_TOKEN_KEY);
    fixture_finish(&x);
}

/* A broken key takes nothing from its neighbours, and a token that names it is refused. */
static void test_broken_keys(void **state)
{
    (void)state;
    static const char *const broken[] = {
        "{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"AA\",\"kid\":\"bad\"}",
        "{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"kid\":\"bad\"}",
        "{\"kty\":\"oct\",\"k\":\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\",\"kid\":\"bad\"}",
        "{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"AA\",\"y\":\"AA\",\"kid\":\"bad\"}",
        "{\"kty\":\"RSA\",\"n\":\"AQAB\",\"e\":\"AQAB\",\"kid\":\"bad\"}",
        "{\"kty\":\"RSA\",\"n\":\"\",\"e\":\"\",\"kid\":\"bad\"}",
        "{\"kid\":\"bad\"}",
        "[\"bad\"]",
        "null",
    };
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        struct fixture x;
        fixture_init(&x);
        fixture_open_file(&x, maker_jwks(&x.arena, maker_kid_jwk(&x.arena, p256, "one"), broken[i],
                                         maker_kid_jwk(&x.arena, ed, "two")));
        const char *payload = fixture_payload(&x, "");
        fixture_accepted(&x, maker_bearer(&x.arena, HEADER_KID("ES256", "one"), payload, "ES256", p256), false);
        fixture_accepted(&x, maker_bearer(&x.arena, HEADER_KID("EdDSA", "two"), payload, "EdDSA", ed), false);
        fixture_refused(&x, maker_bearer(&x.arena, HEADER_KID("EdDSA", "bad"), payload, "EdDSA", ed), REASON_TOKEN_KEY);
        fixture_finish(&x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_other_spellings), cmocka_unit_test(test_numbers),    cmocka_unit_test(test_shared_kid),
        cmocka_unit_test(test_many_keys),       cmocka_unit_test(test_broken_keys),
    };
    return cmocka_run_group_tests(tests, make_keys, free_keys);
}
