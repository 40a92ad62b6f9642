/* Which tokens are good: form, algorithms, keys. Claims are in test_token_claims.c, time and key sets in
   test_token_keys.c. */
#include "authz/token.h"

#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include "token_fixture.h"

static EVP_PKEY *rsa, *rsa_other, *p256, *p384, *p521, *ed;

static int make_keys(void **state)
{
    (void)state;
    rsa = maker_rsa(2048);
    rsa_other = maker_rsa(2048);
    p256 = maker_ec("P-256");
    p384 = maker_ec("P-384");
    p521 = maker_ec("P-521");
    ed = maker_ed("ED25519");
    return 0;
}

static int free_keys(void **state)
{
    (void)state;
    EVP_PKEY *const all[] = {rsa, rsa_other, p256, p384, p521, ed};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        EVP_PKEY_free(all[i]);
    return 0;
}

static void open_with(struct fixture *x, EVP_PKEY *key)
{
    fixture_init(x);
    fixture_open_file(x, maker_jwks(&x->arena, maker_jwk(&x->arena, key, ""), NULL, NULL));
}

static void test_every_algorithm(void **state)
{
    (void)state;
    const struct {
        const char *name;
        EVP_PKEY *key;
    } rows[] = {{"RS256", rsa}, {"RS384", rsa},  {"RS512", rsa},  {"PS256", rsa},  {"PS384", rsa},
                {"PS512", rsa}, {"ES256", p256}, {"ES384", p384}, {"ES512", p521}, {"EdDSA", ed}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct fixture x;
        fixture_init(&x);
        fixture_open_file(&x,
                          maker_jwks(&x.arena, maker_kid_jwk(&x.arena, rsa, "rsa"), maker_kid_jwk(&x.arena, p256, "e"),
                                     arena_printf(&x.arena, "%s,%s,%s", maker_kid_jwk(&x.arena, p384, "e"),
                                                  maker_kid_jwk(&x.arena, p521, "e"), maker_jwk(&x.arena, ed, ""))
                                         .p));
        const char *header = arena_printf(&x.arena, "{\"alg\":\"%s\",\"typ\":\"JWT\"}", rows[i].name).p;
        const char *good = maker_bearer(&x.arena, header, fixture_payload(&x, ""), rows[i].name, rows[i].key);
        fixture_accepted(&x, good, false);
        fixture_accepted(&x, good, true);
        /* one character of the signature changed, and of the payload */
        char *bad = (char *)arena_copy(&x.arena, slice_str(good)).p;
        char *last = bad + strlen(bad) - 10;
        *last = *last == 'A' ? 'B' : 'A';
        fixture_refused(&x, bad, REASON_TOKEN_SIGNATURE);
        fixture_refused(&x,
                        maker_join(&x.arena, maker_input(&x.arena, header, fixture_payload(&x, ",\"admin\":true")),
                                   maker_sign(&x.arena, rows[i].name, rows[i].key, SLICE("another.input"))),
                        REASON_TOKEN_SIGNATURE);
        fixture_finish(&x);
    }
}

static void test_what_comes_out(void **state)
{
    (void)state;
    static const struct slice claims[] = {{"scope", 5}, {"roles", 5}, {"absent", 6}};
    struct fixture x;
    fixture_init(&x);
    x.config.claims = (struct texts){claims, 3};
    x.config.name_claim = SLICE("preferred_username");
    fixture_open_file(&x, maker_jwks(&x.arena, maker_jwk(&x.arena, ed, ""), NULL, NULL));
    const char *payload =
        fixture_payload(&x, ",\"preferred_username\":\"al\xc3\xaf\x63\x65\",\"roles\":[\"a\", 1.5],\"scope\":\"r w\"");
    const char *bearer = maker_bearer(&x.arena, HEADER("EdDSA"), payload, "EdDSA", ed);
    for (int round = 0; round < 2; round++) {
        struct token_call c = fixture_check(&x, bearer);
        assert_non_null(c.token);
        assert_int_equal(c.cached, round);
        assert_true(c.token->verified);
        assert_true(slice_eq(c.token->issuer, SLICE(ISSUER)));
        assert_true(slice_eq(c.token->subject, SLICE("al\xc3\xaf\x63\x65")));
        assert_true(slice_eq(c.token->claims, SLICE("{\"scope\":\"r w\",\"roles\":[\"a\",1.5]}")));
        assert_non_null(strstr(c.token->payload.p, "\"preferred_username\":\"al\\u00EFce\""));
        assert_null(strstr(c.token->payload.p, ", ")); /* written anew, not the token's own bytes */
        assert_int_equal(c.token->exp_s, fixture_now_s(&x) + 300);
        assert_true(c.token->entry.tags[0] == token_issuer_tag(SLICE(ISSUER)));
        assert_true(c.token->entry.tags[1] == token_subject_tag(SLICE(ISSUER), SLICE("al\xc3\xaf\x63\x65")));
        uint8_t digest[DIGEST_BYTES];
        struct slice whole = slice_str(bearer);
        digest_parts(&whole, 1, digest);
        assert_memory_equal(c.token->entry.key, digest, DIGEST_BYTES);
        token_release(c.token);
    }
    assert_true(token_subject_tag(SLICE("ab"), SLICE("c")) != token_subject_tag(SLICE("a"), SLICE("bc")));
    fixture_finish(&x);
}

static void test_algorithm_confusion(void **state)
{
    (void)state;
    struct fixture x;
    fixture_init(&x);
    struct arena *a = &x.arena;
    unsigned char *der = NULL;
    int der_n = i2d_PUBKEY(rsa, &der);
    BIO *bio = BIO_new(BIO_s_mem());
    char *pem = NULL;
    assert_int_equal(PEM_write_bio_PUBKEY(bio, rsa), 1);
    size_t pem_n = (size_t)BIO_get_mem_data(bio, &pem);
    const char *p = fixture_payload(&x, "");
    struct slice n = slice_str(maker_number(a, rsa, OSSL_PKEY_PARAM_RSA_N, 0));
    const char *oct = "{\"kty\":\"oct\",\"kid\":\"rsa\",\"k\":\"c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2U\"}";
    fixture_open_file(
        &x, maker_jwks(a, maker_jwk(a, rsa, ",\"kid\":\"rsa\",\"alg\":\"RS256\""), oct,
                       arena_printf(a, "%s,%s", maker_kid_jwk(a, p384, "p384"), maker_kid_jwk(a, ed, "ed")).p));
    const struct {
        const char *bearer;
        enum reason reason;
    } rows[] = {
        /* a public key as an HMAC secret, in every spelling of it; an oct key of the set */
        {maker_bearer_mac(a, HEADER_KID("HS256", "rsa"), p, "HS256", slice_make(pem, pem_n)), REASON_TOKEN_ALGORITHM},
        {maker_bearer_mac(a, HEADER_KID("HS256", "rsa"), p, "HS256", slice_make((char *)der, (size_t)der_n)),
         REASON_TOKEN_ALGORITHM},
        {maker_bearer_mac(a, HEADER_KID("HS256", "rsa"), p, "HS256", n), REASON_TOKEN_ALGORITHM},
        {maker_bearer_mac(a, HEADER_KID("HS256", "rsa"), p, "HS256", SLICE("secretsecretsecretsecretsecretse")),
         REASON_TOKEN_ALGORITHM},
        {maker_bearer_mac(a, HEADER_KID("RS256", "rsa"), p, "HS256", n), REASON_TOKEN_SIGNATURE},
        /* the key says RS256 */
        {maker_bearer(a, HEADER_KID("PS256", "rsa"), p, "PS256", rsa), REASON_TOKEN_ALGORITHM},
        {maker_bearer(a, HEADER_KID("RS512", "rsa"), p, "RS512", rsa), REASON_TOKEN_ALGORITHM},
        {maker_bearer(a, HEADER_KID("RS256", "rsa"), p, "PS256", rsa), REASON_TOKEN_SIGNATURE},
        /* a curve for another algorithm */
        {maker_bearer(a, HEADER_KID("ES256", "p384"), p, "ES256", p384), REASON_TOKEN_ALGORITHM},
        {maker_bearer(a, HEADER_KID("ES384", "p384"), p, "ES256", p256), REASON_TOKEN_SIGNATURE},
        {maker_bearer(a, HEADER_KID("EdDSA", "p384"), p, "EdDSA", ed), REASON_TOKEN_ALGORITHM},
        {maker_bearer(a, HEADER_KID("RS256", "ed"), p, "RS256", rsa), REASON_TOKEN_ALGORITHM},
        /* somebody else's key under a known kid */
        {maker_bearer(a, HEADER_KID("RS256", "rsa"), p, "RS256", rsa_other), REASON_TOKEN_SIGNATURE},
        {maker_bearer(a, HEADER_KID("RS256", "x"), p, "RS256", rsa), REASON_TOKEN_KEY},
        {maker_bearer(a, HEADER_KID("ES512", "ed"), p, "ES512", p521), REASON_TOKEN_ALGORITHM},
        {maker_bearer(a, HEADER_KID("ES256K", "rsa"), p, "RS256", rsa), REASON_TOKEN_ALGORITHM},
        {maker_bearer(a, HEADER_KID("rs256", "rsa"), p, "RS256", rsa), REASON_TOKEN_ALGORITHM},
        {maker_bearer(a, HEADER_KID("", "rsa"), p, "RS256", rsa), REASON_TOKEN_ALGORITHM},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        fixture_refused(&x, rows[i].bearer, rows[i].reason);
    fixture_accepted(&x, maker_bearer(a, HEADER_KID("RS256", "rsa"), p, "RS256", rsa), false);
    OPENSSL_free(der);
    BIO_free(bio);
    fixture_finish(&x);
}

static void test_only_listed_algorithms(void **state)
{
    (void)state;
    struct fixture x;
    fixture_init(&x);
    x.issuer.algorithms.n = 1; /* RS256 */
    fixture_open_file(&x, maker_jwks(&x.arena, maker_jwk(&x.arena, rsa, ""), maker_jwk(&x.arena, p256, ""), NULL));
    const char *p = fixture_payload(&x, "");
    fixture_accepted(&x, maker_bearer(&x.arena, HEADER("RS256"), p, "RS256", rsa), false);
    fixture_refused(&x, maker_bearer(&x.arena, HEADER("RS384"), p, "RS384", rsa), REASON_TOKEN_ALGORITHM);
    fixture_refused(&x, maker_bearer(&x.arena, HEADER("PS256"), p, "PS256", rsa), REASON_TOKEN_ALGORITHM);
    fixture_refused(&x, maker_bearer(&x.arena, HEADER("ES256"), p, "ES256", p256), REASON_TOKEN_ALGORITHM);
    fixture_finish(&x);
}

static void test_none(void **state)
{
    (void)state;
    static const char *const names[] = {"none", "None", "NONE", "nOnE"};
    struct fixture x;
    open_with(&x, rsa);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *header = arena_printf(&x.arena, "{\"alg\":\"%s\"}", names[i]).p;
        struct slice input = maker_input(&x.arena, header, fixture_payload(&x, ""));
        fixture_refused(&x, maker_join(&x.arena, input, SLICE("")), REASON_TOKEN_ALGORITHM);
        fixture_refused(&x, maker_join(&x.arena, input, maker_sign(&x.arena, "RS256", rsa, input)),
                        REASON_TOKEN_ALGORITHM);
    }
    struct slice input = maker_input(&x.arena, HEADER("RS256"), fixture_payload(&x, ""));
    fixture_refused(&x, maker_join(&x.arena, input, SLICE("")), REASON_TOKEN_SIGNATURE);
    fixture_finish(&x);
}

static void test_headers(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        enum reason reason; /* FORWARDED: good */
    } rows[] = {
        {"{\"alg\":\"EdDSA\"}", REASON_FORWARDED},
        {" {\"typ\" : \"JWT\", \"alg\":\"\\u0045dDSA\"}\r\n", REASON_FORWARDED},
        {"{\"alg\":\"EdDSA\",\"x5t\":\"abc\",\"cty\":\"x\",\"own\":{}}", REASON_FORWARDED},
        {"{\"alg\":\"EdDSA\",\"crit\":[\"exp\"]}", REASON_TOKEN_HEADER},
        {"{\"alg\":\"EdDSA\",\"crit\":[]}", REASON_TOKEN_HEADER},
        {"{\"alg\":\"EdDSA\",\"crit\":null}", REASON_TOKEN_HEADER},
        {"{\"alg\":\"EdDSA\",\"b64\":false,\"crit\":[\"b64\"]}", REASON_TOKEN_HEADER},
        {"{\"alg\":\"EdDSA\",\"b64\":true}", REASON_TOKEN_HEADER},
        {"{\"alg\":\"EdDSA\",\"jwk\":{\"kty\":\"OKP\"}}", REASON_TOKEN_HEADER},
        {"{\"alg\":\"EdDSA\",\"jku\":\"https://evil.test/keys\"}", REASON_TOKEN_HEADER},
        {"{\"alg\":\"EdDSA\",\"x5u\":\"https://evil.test/cert\"}", REASON_TOKEN_HEADER},
        {"{\"alg\":\"EdDSA\",\"x5c\":[\"abc\"]}", REASON_TOKEN_HEADER},
        {"{\"alg\":\"EdDSA\",\"kid\":5}", REASON_TOKEN_HEADER},
        {"{\"alg\":\"EdDSA\",\"kid\":null}", REASON_TOKEN_HEADER},
        {"{\"alg\":\"EdDSA\",\"kid\":\"../../etc/passwd\"}", REASON_TOKEN_KEY},
        {"{\"alg\":\"EdDSA\",\"kid\":\"' OR 1=1; --\"}", REASON_TOKEN_KEY},
        {"{\"alg\":\"EdDSA\",\"kid\":\"\"}", REASON_TOKEN_KEY},
        {"{\"alg\":\"EdDSA\",\"typ\":5}", REASON_TOKEN_HEADER},
        {"{\"alg\":\"EdDSA\",\"alg\":\"EdDSA\"}", REASON_TOKEN_MALFORMED},
        {"{\"alg\":\"EdDSA\",\"a\":{\"b\":1,\"b\":2}}", REASON_TOKEN_MALFORMED},
        {"{\"alg\":[\"EdDSA\"]}", REASON_TOKEN_ALGORITHM},
        {"{\"alg\":null}", REASON_TOKEN_ALGORITHM},
        {"{\"typ\":\"JWT\"}", REASON_TOKEN_ALGORITHM},
        {"{}", REASON_TOKEN_ALGORITHM},
        {"[]", REASON_TOKEN_MALFORMED},
        {"\"EdDSA\"", REASON_TOKEN_MALFORMED},
        {"", REASON_TOKEN_MALFORMED},
        {"{\"alg\":\"EdDSA\"", REASON_TOKEN_MALFORMED},
        {"{\"alg\":\"EdDSA\"} {}", REASON_TOKEN_MALFORMED},
        {"{\"alg\":\"EdDSA\",}", REASON_TOKEN_MALFORMED},
        {"{'alg':'EdDSA'}", REASON_TOKEN_MALFORMED},
        {"{\"alg\":\"EdDSA\",\"a\":\"\xff\"}", REASON_TOKEN_MALFORMED},
        {"{\"alg\":\"EdDSA\",\"a\":\"\\ud800\"}", REASON_TOKEN_MALFORMED},
        {"{\"alg\":\"EdDSA\\u0000\"}", REASON_TOKEN_MALFORMED},
        {"\xef\xbb\xbf{\"alg\":\"EdDSA\"}", REASON_TOKEN_MALFORMED},
    };
    struct fixture x;
    open_with(&x, ed);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *bearer = maker_bearer(&x.arena, rows[i].header, fixture_payload(&x, ""), "EdDSA", ed);
        if (rows[i].reason == REASON_FORWARDED)
            fixture_accepted(&x, bearer, false);
        else
            fixture_refused(&x, bearer, rows[i].reason);
    }
    char kid[1024];
    memset(kid, 'k', 513);
    kid[513] = '\0';
    const char *header = arena_printf(&x.arena, "{\"alg\":\"EdDSA\",\"kid\":\"%s\"}", kid).p;
    fixture_refused(&x, maker_bearer(&x.arena, header, fixture_payload(&x, ""), "EdDSA", ed), REASON_TOKEN_HEADER);
    assert_int_equal(fake_fetch_started(x.fetch), 0);
    fixture_finish(&x);
}

static void test_form(void **state)
{
    (void)state;
    struct fixture x;
    open_with(&x, ed);
    struct slice input = maker_input(&x.arena, HEADER("EdDSA"), fixture_payload(&x, ""));
    const char *good = maker_join(&x.arena, input, maker_sign(&x.arena, "EdDSA", ed, input));
    const char *token = good + 7;
    const char *const malformed[] = {
        "Bearer a",
        "Bearer a.b",
        "Bearer ..",
        "Bearer a.b.c.d",
        "Bearer a.b.c.d.e",
        "Bearer .",
        "Bearer abc",
        arena_printf(&x.arena, "Bearer %s.", token).p,
        arena_printf(&x.arena, "Bearer .%s", token).p,
        arena_printf(&x.arena, "Bearer %s=", token).p,
        arena_printf(&x.arena, "Bearer %s==", token).p,
        arena_printf(&x.arena, "Bearer %s+", token).p,
        arena_printf(&x.arena, "Bearer %s\n", token).p,
        arena_printf(&x.arena, "Bearer %sAAA", token).p,
        arena_printf(&x.arena, "Bearer \"%s\"", token).p,
    };
    for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++)
        fixture_refused(&x, malformed[i], REASON_TOKEN_MALFORMED);
    fixture_refused(&x, arena_printf(&x.arena, "Bearer %sA", token).p, REASON_TOKEN_SIGNATURE); /* a byte more */
    /* the last character of a 64-byte signature carries four bits that must be zero */
    char *lax = (char *)arena_copy(&x.arena, slice_str(good)).p;
    char *last = lax + strlen(lax) - 1;
    assert_non_null(strchr("AQgw", *last));
    *last = (char)(*last + 1);
    fixture_refused(&x, lax, REASON_TOKEN_MALFORMED);
    fixture_accepted(&x, good, false);
    fixture_accepted(&x, arena_printf(&x.arena, "bEARER   %s", token).p, false);
    fixture_refused(&x, arena_printf(&x.arena, "%s, %s", good, good).p, REASON_CREDENTIAL_MULTIPLE);
    fixture_refused(&x, arena_printf(&x.arena, "%s Basic YTpi", good).p, REASON_CREDENTIAL_MULTIPLE);
    fixture_refused(&x, "Basic YTpi", REASON_CREDENTIAL_SCHEME);
    fixture_refused(&x, "apikey abc", REASON_CREDENTIAL_SCHEME);
    fixture_finish(&x);
}

static void test_too_long(void **state)
{
    (void)state;
    struct fixture x;
    open_with(&x, ed);
    char *filler = arena_alloc(&x.arena, 20000);
    memset(filler, 'a', 19999);
    filler[19999] = '\0';
    fixture_refused(&x, arena_printf(&x.arena, "Bearer %s", filler).p, REASON_TOKEN_MALFORMED);
    const char *big = fixture_payload(&x, arena_printf(&x.arena, ",\"a\":\"%s\"", filler).p);
    struct token_call c = fixture_check(&x, maker_bearer(&x.arena, HEADER("EdDSA"), big, "EdDSA", ed));
    assert_null(c.token);
    assert_string_equal(c.detail, "the credential is too long");
    filler[8000] = '\0';
    big = fixture_payload(&x, arena_printf(&x.arena, ",\"a\":\"%s\"", filler).p);
    fixture_accepted(&x, maker_bearer(&x.arena, HEADER("EdDSA"), big, "EdDSA", ed), false);
    fixture_finish(&x);
}

static void test_secret(void **state)
{
    (void)state;
    static const struct slice names[] = {{"HS256", 5}, {"HS384", 5}, {"HS512", 5}};
    char secret[64];
    for (size_t i = 0; i < sizeof secret; i++)
        secret[i] = (char)(i * 37); /* any bytes, a NUL among them */
    struct fixture x;
    fixture_init(&x);
    x.issuer.secret = slice_make(secret, sizeof secret);
    x.issuer.algorithms = (struct texts){names, 3};
    fixture_open(&x);
    const char *p = fixture_payload(&x, "");
    for (size_t i = 0; i < 3; i++) {
        const char *header = arena_printf(&x.arena, "{\"alg\":\"%s\",\"kid\":\"any\"}", names[i].p).p;
        fixture_accepted(&x, maker_bearer_mac(&x.arena, header, p, names[i].p, x.issuer.secret), false);
        fixture_refused(&x, maker_bearer_mac(&x.arena, header, p, names[i].p, slice_make(secret, 63)),
                        REASON_TOKEN_SIGNATURE);
    }
    struct slice input = maker_input(&x.arena, HEADER("HS256"), p);
    struct slice mac = maker_mac(&x.arena, "HS256", x.issuer.secret, input);
    fixture_refused(&x, maker_join(&x.arena, input, slice_make(mac.p, 16)), REASON_TOKEN_SIGNATURE);
    fixture_refused(&x, maker_bearer(&x.arena, HEADER("RS256"), p, "RS256", rsa), REASON_TOKEN_ALGORITHM);
    struct issuer_state s;
    tokens_issuer_state(x.tokens, 0, &s);
    assert_true(s.usable);
    fixture_finish(&x);
}

/* RFC 7515 appendix F and the like: eight keys are tried for a token without kid, not more. */
static void test_without_kid(void **state)
{
    (void)state;
    for (int before = 7; before <= 8; before++) {
        struct fixture x;
        fixture_init(&x);
        struct buf b;
        buf_init(&b, &x.arena);
        buf_add_lit(&b, "{\"keys\":[");
        for (int i = 0; i < before; i++) {
            EVP_PKEY *other = maker_ed("ED25519");
            buf_printf(&b, "%s,%s,", maker_kid_jwk(&x.arena, other, "o"), maker_kid_jwk(&x.arena, rsa, "r"));
            EVP_PKEY_free(other);
        }
        buf_printf(&b, "%s]}", maker_kid_jwk(&x.arena, ed, "o"));
        buf_add_char(&b, '\0');
        fixture_open_file(&x, b.p);
        const char *bearer = maker_bearer(&x.arena, HEADER("EdDSA"), fixture_payload(&x, ""), "EdDSA", ed);
        if (before == 7)
            fixture_accepted(&x, bearer, false);
        else
            fixture_refused(&x, bearer, REASON_TOKEN_SIGNATURE);
        fixture_finish(&x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_algorithm),
        cmocka_unit_test(test_what_comes_out),
        cmocka_unit_test(test_algorithm_confusion),
        cmocka_unit_test(test_only_listed_algorithms),
        cmocka_unit_test(test_none),
        cmocka_unit_test(test_headers),
        cmocka_unit_test(test_form),
        cmocka_unit_test(test_too_long),
        cmocka_unit_test(test_secret),
        cmocka_unit_test(test_without_kid),
    };
    return cmocka_run_group_tests(tests, make_keys, free_keys);
}
