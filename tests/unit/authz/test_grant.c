/* The grant: three formats, one size limit, and a signature that OpenSSL verifies with the key from the public set. */
#include "authz/grant.h"

#include <jansson.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <openssl/pem.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "authz/base64url.h"
#include "authz/form.h"
#include "authz/signing_key.h"

#define NOW 1700000000
#define EXP 1700000090
#define INPUT                                                                                                          \
    "{\"user\":{\"id\":\"u\",\"n\":\"Zo\xc3\xab\"},\"decision\":{\"allow\":true,\"id\":\"d1\",\"reason\":\"why\","     \
    "\"constraints\":{\"b\":1,\"a\":2}},\"request\":{\"path\":\"/x\"},\"timestamp\":\"T\"}"
#define GENERAL                                                                                                        \
    "{\"user\":{\"id\":\"u\",\"n\":\"Zo\\u00EB\"},\"policy\":{\"allow\":true,\"decision_id\":\"d1\",\"reason\":"       \
    "\"why\"},"                                                                                                        \
    "\"constraints\":{\"b\":1,\"a\":2},\"timestamp\":\"T\"}"

static struct grant *create(struct grant_config c)
{
    char *error = NULL;
    if (!c.max_bytes) c.max_bytes = 7168;
    struct grant *g = grant_create(&c, &error);
    if (!g) fail_msg("%s", error);
    return g;
}

static char *make(struct grant *g, const char *input, enum reason expected)
{
    struct buf out;
    char *detail = NULL;
    buf_init(&out, NULL);
    enum reason r = grant_make(g, slice_str(input), NOW, EXP, &out, &detail);
    if (r != expected) fail_msg("%s: %s", reason_code(r), detail ? detail : "");
    free(detail);
    if (r != REASON_FORWARDED) {
        assert_int_equal(out.n, 0);
        return NULL;
    }
    buf_add_char(&out, '\0');
    return out.p;
}

static void test_general_forms(void **state)
{
    (void)state;
    static const struct {
        bool (*form)(struct slice, struct buf *);
        const char *input, *output;
    } rows[] = {
        {form_grant, INPUT, GENERAL},
        {form_grant, "{\"user\":{},\"decision\":null,\"request\":{},\"timestamp\":\"T\"}",
         "{\"user\":{},\"policy\":null,\"timestamp\":\"T\"}"},
        {form_grant, "{\"user\":{},\"decision\":{\"allow\":true,\"id\":\"d\",\"bypassed\":true},\"timestamp\":\"T\"}",
         "{\"user\":{},\"policy\":{\"allow\":true,\"decision_id\":\"d\",\"bypassed\":true},\"timestamp\":\"T\"}"},
        {form_grant,
         "{\"user\":{},\"decision\":{\"allow\":true,\"id\":\"d\",\"context\":{\"c\":1},\"filters\":{\"f\":1}},"
         "\"timestamp\":\"T\"}",
         "{\"user\":{},\"policy\":{\"allow\":true,\"decision_id\":\"d\"},\"context\":{\"c\":1},\"filters\":{\"f\":1},"
         "\"timestamp\":\"T\"}"},
        {form_authorize,
         "{\"user\":{},\"decision\":{\"allow\":false,\"id\":\"d\",\"reason\":\"r\"},\"timestamp\":\"T\"}",
         "{\"decision\":{\"allow\":false,\"decision_id\":\"d\",\"reason\":\"r\"},\"user\":{},\"timestamp\":\"T\"}"},
        {form_grant, "[]", NULL},
        {form_grant, "{\"user\":1,\"user\":2}", NULL},
        {form_authorize, "", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct buf out;
        buf_init(&out, NULL);
        bool made = rows[i].form(slice_str(rows[i].input), &out);
        assert_int_equal(made, rows[i].output != NULL);
        if (made && !slice_eq(buf_slice(&out), slice_str(rows[i].output))) fail_msg("%zu: %.*s", i, (int)out.n, out.p);
        buf_free(&out);
    }
}

/* What is written without reading is what reading gives; what is not plain is left to it. */
static void test_plain_form(void **state)
{
    (void)state;
    static const struct {
        const char *user, *reason;
        bool bypassed, plain;
    } rows[] = {
        {"{}", "", false, true},
        {"{\"id\":\"u\",\"roles\":[\"a\",\"b c\"],\"n\":1.5}", ",\"reason\":\"why\"", false, true},
        {"{\"id\":\"u\"}", ",\"reason\":\"by\"", true, true},
        {"{\"id\":\"Zo\xc3\xab\"}", "", false, false},
        {"{\"id\":\"a\\\"b\"}", "", false, false},
        {"{\"id\":\"a\x7f\"}", "", false, false},
        {"{\"id\":\"u\"}", ",\"reason\":\"\xc3\xab\"", false, false},
        {"{\"id\":\"u\"}", ",\"reason\":\"a\\nb\"", false, false},
        {"[]", "", false, false},
        {"", "", false, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct buf out, input, read;
        buf_init(&out, NULL);
        buf_init(&input, NULL);
        buf_init(&read, NULL);
        bool plain =
            form_grant_plain(slice_str(rows[i].user), slice_str(rows[i].reason), "d1", rows[i].bypassed, "T", &out);
        if (plain != rows[i].plain) fail_msg("%zu", i);
        buf_printf(&input, "{\"user\":%s,\"decision\":{\"allow\":true,\"id\":\"d1\"%s%s},\"timestamp\":\"T\"}",
                   rows[i].user, rows[i].reason, rows[i].bypassed ? ",\"bypassed\":true" : "");
        if (plain) {
            assert_true(form_grant(buf_slice(&input), &read));
            if (!slice_eq(buf_slice(&out), buf_slice(&read))) fail_msg("%.*s", (int)out.n, out.p);
        } else {
            assert_int_equal(out.n, 0);
        }
        buf_free(&out);
        buf_free(&input);
        buf_free(&read);
    }
}

static void test_formats(void **state)
{
    (void)state;
    struct grant *json = create((struct grant_config){.format = GRANT_JSON});
    struct grant *base64url = create((struct grant_config){.format = GRANT_BASE64URL});
    char *plain = make(json, INPUT, REASON_FORWARDED);
    char *encoded = make(base64url, INPUT, REASON_FORWARDED);
    uint8_t decoded[1024];
    size_t n;
    assert_string_equal(plain, GENERAL);
    assert_true(base64url_decode(slice_str(encoded), decoded, &n));
    assert_true(slice_eq(slice_make((const char *)decoded, n), slice_str(plain)));
    assert_true(slice_eq(grant_jwks(json), SLICE("{\"keys\":[]}")));
    free(plain);
    free(encoded);
    grant_destroy(json);
    grant_destroy(base64url);
}

static void test_limit(void **state)
{
    (void)state;
    size_t n = sizeof GENERAL - 1;
    struct grant *fits = create((struct grant_config){.max_bytes = n});
    struct grant *over = create((struct grant_config){.max_bytes = n - 1});
    struct grant *encoded_over = create((struct grant_config){.format = GRANT_BASE64URL, .max_bytes = n});
    free(make(fits, INPUT, REASON_FORWARDED));
    make(over, INPUT, REASON_GRANT_TOO_LARGE);
    make(encoded_over, INPUT, REASON_GRANT_TOO_LARGE);
    grant_destroy(fits);
    grant_destroy(over);
    grant_destroy(encoded_over);
}

static void test_shapes(void **state)
{
    (void)state;
    static const struct {
        const char *program;
        enum reason reason;
        const char *output;
    } rows[] = {
        {"{id: .user.id, d: .decision.id, p: .request.path, t: .timestamp}", REASON_FORWARDED,
         "{\"id\":\"u\",\"d\":\"d1\",\"p\":\"/x\",\"t\":\"T\"}"},
        {".user.n", REASON_GRANT_FAILED, NULL},
        {"[.]", REASON_GRANT_FAILED, NULL},
        {"null", REASON_GRANT_FAILED, NULL},
        {"empty", REASON_GRANT_FAILED, NULL},
        {"error(\"x\")", REASON_GRANT_FAILED, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *error = NULL;
        struct shape *s = shape_compile("t", slice_str(rows[i].program), &error);
        assert_non_null(s);
        struct grant *g = create((struct grant_config){.shape = s});
        char *out = make(g, INPUT, rows[i].reason);
        if (rows[i].output) assert_string_equal(out, rows[i].output);
        free(out);
        grant_destroy(g);
        shape_destroy(s);
    }
}

static void test_sample(void **state)
{
    (void)state;
    static const struct {
        const char *program, *mentions;
    } rows[] = {
        {"{id: .user.id, d: .decision.id, q: .request.query, at: .timestamp}", NULL},
        {".decision.constraints", NULL},
        {"env", "x.jq: on a sample: a shape has no env"},
        {".user.id", "x.jq: on a sample: the output is not an object"},
        {"empty", "x.jq: on a sample: no output"},
        {"{a: (.user.id | keys)}", "x.jq: on a sample: "},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *error = NULL;
        struct shape *s = shape_compile("x.jq", slice_str(rows[i].program), &error);
        assert_int_equal(grant_try(s, "x.jq", &error), rows[i].mentions == NULL);
        if (rows[i].mentions) assert_non_null(strstr(error, rows[i].mentions));
        free(error);
        shape_destroy(s);
    }
}

static char *pem_of(EVP_PKEY *key)
{
    char *data, *pem;
    BIO *bio = BIO_new(BIO_s_mem());
    assert_int_equal(PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL), 1);
    long n = BIO_get_mem_data(bio, &data);
    pem = strndup(data, (size_t)n);
    BIO_free(bio);
    return pem;
}

static BIGNUM *number_of(const json_t *jwk, const char *name)
{
    uint8_t bytes[1024];
    size_t n;
    const char *text = json_string_value(json_object_get(jwk, name));
    assert_non_null(text);
    assert_true(base64url_decode(slice_str(text), bytes, &n));
    return BN_bin2bn(bytes, (int)n, NULL);
}

/* The public key as an API would make it, from the set alone. */
static EVP_PKEY *key_of(const json_t *jwk, bool ec)
{
    EVP_PKEY *key = NULL;
    OSSL_PARAM_BLD *bld = OSSL_PARAM_BLD_new();
    BIGNUM *a = number_of(jwk, ec ? "x" : "n"), *b = number_of(jwk, ec ? "y" : "e");
    unsigned char point[65] = {4};
    if (ec) {
        assert_int_equal(BN_bn2binpad(a, point + 1, 32), 32);
        assert_int_equal(BN_bn2binpad(b, point + 33, 32), 32);
        OSSL_PARAM_BLD_push_utf8_string(bld, OSSL_PKEY_PARAM_GROUP_NAME, "prime256v1", 0);
        OSSL_PARAM_BLD_push_octet_string(bld, OSSL_PKEY_PARAM_PUB_KEY, point, sizeof point);
    } else {
        OSSL_PARAM_BLD_push_BN(bld, OSSL_PKEY_PARAM_RSA_N, a);
        OSSL_PARAM_BLD_push_BN(bld, OSSL_PKEY_PARAM_RSA_E, b);
    }
    OSSL_PARAM *params = OSSL_PARAM_BLD_to_param(bld);
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, ec ? "EC" : "RSA", NULL);
    assert_int_equal(EVP_PKEY_fromdata_init(ctx), 1);
    assert_int_equal(EVP_PKEY_fromdata(ctx, &key, EVP_PKEY_PUBLIC_KEY, params), 1);
    EVP_PKEY_CTX_free(ctx);
    OSSL_PARAM_free(params);
    OSSL_PARAM_BLD_free(bld);
    BN_free(a);
    BN_free(b);
    return key;
}

static bool verifies(EVP_PKEY *key, bool ec, struct slice signed_part, const uint8_t *signature, size_t n)
{
    unsigned char *der = NULL;
    if (ec) { /* RFC 7518 3.4: r and s, 32 bytes each */
        if (n != 64) return false;
        ECDSA_SIG *sig = ECDSA_SIG_new();
        ECDSA_SIG_set0(sig, BN_bin2bn(signature, 32, NULL), BN_bin2bn(signature + 32, 32, NULL));
        n = (size_t)i2d_ECDSA_SIG(sig, &der);
        ECDSA_SIG_free(sig);
    }
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    bool good =
        EVP_DigestVerifyInit(ctx, NULL, EVP_sha256(), NULL, key) == 1 &&
        EVP_DigestVerify(ctx, der ? der : signature, n, (const unsigned char *)signed_part.p, signed_part.n) == 1;
    EVP_MD_CTX_free(ctx);
    OPENSSL_free(der);
    return good;
}

static json_t *decode_json(struct slice part)
{
    uint8_t bytes[4096];
    size_t n;
    assert_true(base64url_decode(part, bytes, &n));
    json_t *value = json_loadb((const char *)bytes, n, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(value);
    return value;
}

static void check_jws(EVP_PKEY *private, bool ec)
{
    char *pem = pem_of(private), *error = NULL;
    /* the shape's own iss, iat and exp do not win */
    struct shape *s = shape_compile("t", SLICE("{user, iss: \"forged\", iat: 1, exp: 99999999999}"), &error);
    struct grant *g = create((struct grant_config){
        .format = GRANT_JWS, .shape = s, .key_pem = slice_str(pem), .issuer = SLICE("https://doorward.example")});
    json_t *set = json_loadb(grant_jwks(g).p, grant_jwks(g).n, JSON_REJECT_DUPLICATES, NULL);
    const json_t *jwk = json_array_get(json_object_get(set, "keys"), 0);
    assert_int_equal(json_array_size(json_object_get(set, "keys")), 1);
    assert_null(json_object_get(jwk, "d"));
    assert_string_equal(json_string_value(json_object_get(jwk, "use")), "sig");
    assert_string_equal(json_string_value(json_object_get(jwk, "alg")), ec ? "ES256" : "RS256");

    char *jws = make(g, INPUT, REASON_FORWARDED);
    struct slice rest = slice_str(jws), header, payload, signature;
    assert_true(slice_next(&rest, '.', &header) && slice_next(&rest, '.', &payload) &&
                slice_next(&rest, '.', &signature));
    json_t *h = decode_json(header), *p = decode_json(payload);
    assert_string_equal(json_string_value(json_object_get(h, "alg")), ec ? "ES256" : "RS256");
    assert_string_equal(json_string_value(json_object_get(h, "kid")), json_string_value(json_object_get(jwk, "kid")));
    assert_string_equal(json_string_value(json_object_get(p, "iss")), "https://doorward.example");
    assert_int_equal(json_integer_value(json_object_get(p, "iat")), NOW);
    assert_int_equal(json_integer_value(json_object_get(p, "exp")), EXP);
    assert_string_equal(json_string_value(json_object_get(json_object_get(p, "user"), "id")), "u");

    uint8_t bytes[1024];
    size_t n;
    EVP_PKEY *public = key_of(jwk, ec);
    struct slice signed_part = slice_make(jws, header.n + 1 + payload.n);
    assert_true(base64url_decode(signature, bytes, &n));
    assert_true(verifies(public, ec, signed_part, bytes, n));
    bytes[5] ^= 1;
    assert_false(verifies(public, ec, signed_part, bytes, n));

    EVP_PKEY_free(public);
    json_decref(h);
    json_decref(p);
    json_decref(set);
    free(jws);
    grant_destroy(g);
    shape_destroy(s);
    free(pem);
}

static void test_jws_rsa(void **state)
{
    (void)state;
    EVP_PKEY *key = EVP_RSA_gen(2048);
    check_jws(key, false);
    EVP_PKEY_free(key);
}

static void test_jws_ec(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++) { /* coordinates and signatures with leading zeros come by */
        EVP_PKEY *key = EVP_EC_gen("P-256");
        check_jws(key, true);
        EVP_PKEY_free(key);
    }
}

/* RFC 7638 3: the required members in lexicographic order, nothing else. */
static void test_kid_is_the_thumbprint(void **state)
{
    (void)state;
    EVP_PKEY *key = EVP_EC_gen("P-256");
    char *pem = pem_of(key), *error = NULL;
    struct signing_key k;
    assert_true(signing_key_read(slice_str(pem), &k, &error));
    json_t *set = json_loadb(k.jwks.p, k.jwks.n, 0, NULL);
    const json_t *jwk = json_array_get(json_object_get(set, "keys"), 0);
    struct buf text;
    buf_init(&text, NULL);
    buf_printf(&text, "{\"crv\":\"P-256\",\"kty\":\"EC\",\"x\":\"%s\",\"y\":\"%s\"}",
               json_string_value(json_object_get(jwk, "x")), json_string_value(json_object_get(jwk, "y")));
    unsigned char digest[32];
    uint8_t decoded[64];
    size_t n;
    EVP_Digest(text.p, text.n, digest, NULL, EVP_sha256(), NULL);
    assert_true(base64url_decode(slice_str(k.kid), decoded, &n));
    assert_int_equal(n, 32);
    assert_memory_equal(decoded, digest, 32);
    buf_free(&text);
    buf_free(&k.jwks);
    json_decref(set);
    free(pem);
    EVP_PKEY_free(key);
}

static void refuse_key(struct slice pem, const char *mentions)
{
    char *error = NULL;
    struct grant_config c = {.format = GRANT_JWS, .key_pem = pem, .max_bytes = 100};
    assert_null(grant_create(&c, &error));
    if (!strstr(error, mentions)) fail_msg("%s", error);
    free(error);
}

static void test_refused_keys(void **state)
{
    (void)state;
    static const struct {
        const char *kind, *mentions;
    } rows[] = {{"P-384", "another curve"}, {"secp256k1", "another curve"}, {"ED25519", "neither"}, {"1024", "2048"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        EVP_PKEY *key = NULL;
        if (strcmp(rows[i].kind, "1024") == 0)
            key = EVP_RSA_gen(1024);
        else if (strcmp(rows[i].kind, "ED25519") == 0)
            key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
        else
            key = EVP_EC_gen(rows[i].kind);
        char *pem = pem_of(key);
        refuse_key(slice_str(pem), rows[i].mentions);
        free(pem);
        EVP_PKEY_free(key);
    }
    refuse_key(SLICE(""), "not an unencrypted private key");
    refuse_key(SLICE("-----BEGIN PRIVATE KEY-----\nnonsense\n-----END PRIVATE KEY-----\n"), "not an unencrypted");
}

/* An encrypted key is refused without a question on the terminal. */
static void test_encrypted_key(void **state)
{
    (void)state;
    char *data;
    EVP_PKEY *key = EVP_EC_gen("P-256");
    BIO *bio = BIO_new(BIO_s_mem());
    PEM_write_bio_PrivateKey(bio, key, EVP_aes_128_cbc(), (const unsigned char *)"pw", 2, NULL, NULL);
    long n = BIO_get_mem_data(bio, &data);
    refuse_key(slice_make(data, (size_t)n), "not an unencrypted");
    BIO_free(bio);
    EVP_PKEY_free(key);
}

static void test_base64url(void **state)
{
    (void)state;
    static const struct {
        const char *in, *out;
    } rows[] = {{"", ""}, {"f", "Zg"}, {"fo", "Zm8"}, {"foo", "Zm9v"}, {"foob", "Zm9vYg"}, {"\xff\xfe\xfb", "__77"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct buf out;
        buf_init(&out, NULL);
        base64url_encode(slice_str(rows[i].in), &out);
        assert_true(slice_eq(buf_slice(&out), slice_str(rows[i].out)));
        buf_free(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_general_forms),
        cmocka_unit_test(test_plain_form),
        cmocka_unit_test(test_formats),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_sample),
        cmocka_unit_test(test_jws_rsa),
        cmocka_unit_test(test_jws_ec),
        cmocka_unit_test(test_kid_is_the_thumbprint),
        cmocka_unit_test(test_refused_keys),
        cmocka_unit_test(test_encrypted_key),
        cmocka_unit_test(test_base64url),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
