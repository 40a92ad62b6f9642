/* authz/stand_in: makes a key pair for an algorithm and signs with it. Called by proxy/eval only. The private half never
   leaves this file, and goes with the process. */
#include "authz/stand_in.h"

#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>
#include <stdlib.h>

#include "authz/base64url.h"
#include "base/check.h"
#include "base/json.h"

#define RSA_BITS 2048
#define SIGNATURE_BYTES_MAX 256 /* of RSA_BITS; every other one is smaller */
#define ED25519_BYTES 32

static const char *curve_of(enum key_kind kind)
{
    return kind == KEY_P256 ? "P-256" : kind == KEY_P384 ? "P-384" : "P-521";
}

static EVP_PKEY *make_key(enum key_kind kind)
{
    if (kind == KEY_RSA) return EVP_PKEY_Q_keygen(NULL, NULL, "RSA", (size_t)RSA_BITS);
    if (kind == KEY_ED25519) return EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    return EVP_PKEY_Q_keygen(NULL, NULL, "EC", curve_of(kind));
}

bool stand_in_create(struct stand_in *s, const struct signature_algorithm *a)
{
    if (a->scheme == SIGNATURE_HMAC) return false;
    s->algorithm = a;
    s->key = make_key(a->kind);
    CHECK(s->key, "OpenSSL makes a key of a kind that it verifies");
    return true;
}

void stand_in_free(struct stand_in *s)
{
    EVP_PKEY_free(s->key);
    s->key = NULL;
}

/* "name":"…", a number of the key in base64url, at least width bytes. */
static void add_number(const struct stand_in *s, const char *param, const char *name, int width, struct buf *out)
{
    BIGNUM *n = NULL;
    CHECK(EVP_PKEY_get_bn_param(s->key, param, &n) == 1, "a key has its numbers");
    int size = BN_num_bytes(n) > width ? BN_num_bytes(n) : width;
    unsigned char *bytes = xmalloc((size_t)size + 1);
    CHECK(BN_bn2binpad(n, bytes, size) == size, "it fits");
    buf_printf(out, ",\"%s\":\"", name);
    base64url_encode(slice_make((const char *)bytes, (size_t)size), out);
    buf_add_char(out, '"');
    free(bytes);
    BN_free(n);
}

static void add_material(const struct stand_in *s, struct buf *out)
{
    int width = (int)s->algorithm->signature_bytes / 2;
    unsigned char point[ED25519_BYTES];
    size_t n = sizeof point;
    if (s->algorithm->kind == KEY_RSA) {
        buf_add_lit(out, "\"kty\":\"RSA\"");
        add_number(s, OSSL_PKEY_PARAM_RSA_N, "n", 1, out);
        add_number(s, OSSL_PKEY_PARAM_RSA_E, "e", 1, out);
    } else if (s->algorithm->kind == KEY_ED25519) {
        CHECK(EVP_PKEY_get_raw_public_key(s->key, point, &n) == 1, "a point has 32 bytes");
        buf_add_lit(out, "\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"");
        base64url_encode(slice_make((const char *)point, n), out);
        buf_add_char(out, '"');
    } else {
        buf_printf(out, "\"kty\":\"EC\",\"crv\":\"%s\"", curve_of(s->algorithm->kind));
        add_number(s, OSSL_PKEY_PARAM_EC_PUB_X, "x", width, out);
        add_number(s, OSSL_PKEY_PARAM_EC_PUB_Y, "y", width, out);
    }
}

void stand_in_jwks(const struct stand_in *s, struct slice kid, struct buf *out)
{
    struct json j;
    buf_add_lit(out, "{\"keys\":[{");
    add_material(s, out);
    if (kid.p) {
        buf_add_lit(out, ",\"kid\":");
        json_init(&j, out);
        json_text(&j, kid);
    }
    buf_add_lit(out, "}]}");
}

static void append(struct slice input, struct slice signature, struct buf *out)
{
    buf_add_slice(out, input);
    buf_add_char(out, '.');
    base64url_encode(signature, out);
}

/* RFC 7518 3.4: r and s one behind the other, not DER. */
static size_t ecdsa_from_der(const unsigned char *der, size_t n, int half, unsigned char *out)
{
    ECDSA_SIG *pair = d2i_ECDSA_SIG(NULL, &der, (long)n);
    CHECK(pair && BN_bn2binpad(ECDSA_SIG_get0_r(pair), out, half) == half &&
              BN_bn2binpad(ECDSA_SIG_get0_s(pair), out + half, half) == half,
          "r and s are no longer than the group's order");
    ECDSA_SIG_free(pair);
    return (size_t)half * 2;
}

void stand_in_sign(const struct stand_in *s, struct slice input, struct buf *out)
{
    const struct signature_algorithm *a = s->algorithm;
    unsigned char made[SIGNATURE_BYTES_MAX], pair[SIGNATURE_BYTES_MAX];
    const unsigned char *signature = made;
    size_t n = sizeof made;
    EVP_PKEY_CTX *options = NULL; /* owned by ctx */
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    CHECK(ctx && EVP_DigestSignInit_ex(ctx, &options, a->digest, NULL, NULL, s->key, NULL) == 1, "its own key signs");
    if (a->scheme == SIGNATURE_PSS)
        CHECK(EVP_PKEY_CTX_set_rsa_padding(options, RSA_PKCS1_PSS_PADDING) == 1 &&
                  EVP_PKEY_CTX_set_rsa_pss_saltlen(options, RSA_PSS_SALTLEN_DIGEST) == 1,
              "an RSA key takes the padding");
    CHECK(EVP_DigestSign(ctx, made, &n, (const unsigned char *)input.p, input.n) == 1, "its own key signs");
    EVP_MD_CTX_free(ctx);
    if (a->scheme == SIGNATURE_ECDSA) {
        n = ecdsa_from_der(made, n, (int)a->signature_bytes / 2, pair);
        signature = pair;
    }
    append(input, slice_make((const char *)signature, n), out);
}

void stand_in_sign_secret(const struct signature_algorithm *a, struct slice secret, struct slice input, struct buf *out)
{
    unsigned char mac[EVP_MAX_MD_SIZE];
    size_t n = 0;
    CHECK(EVP_Q_mac(NULL, "HMAC", NULL, a->digest, NULL, secret.p, secret.n, (const unsigned char *)input.p, input.n, mac,
                    sizeof mac, &n),
          "HMAC takes any secret");
    append(input, slice_make((const char *)mac, n), out);
}
