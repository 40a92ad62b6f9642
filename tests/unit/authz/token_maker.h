/* token_maker: keys, key sets and tokens for tests, made with OpenSSL alone, so that what the code under test reads was
   not written by it. Texts are in the caller's arena, with a NUL behind them. */
#ifndef UNIT_AUTHZ_TOKEN_MAKER_H
#define UNIT_AUTHZ_TOKEN_MAKER_H

#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/check.h"

static inline EVP_PKEY *maker_rsa(size_t bits)
{
    return EVP_PKEY_Q_keygen(NULL, NULL, "RSA", bits);
}

/* "P-256", "P-384", "P-521", "secp256k1" */
static inline EVP_PKEY *maker_ec(const char *curve)
{
    return EVP_PKEY_Q_keygen(NULL, NULL, "EC", curve);
}

/* "ED25519", "ED448" */
static inline EVP_PKEY *maker_ed(const char *type)
{
    return EVP_PKEY_Q_keygen(NULL, NULL, type);
}

static inline const char *maker_base64url(struct arena *a, const void *bytes, size_t n)
{
    char *out = arena_alloc(a, (n + 2) / 3 * 4 + 1);
    int len = EVP_EncodeBlock((unsigned char *)out, bytes, (int)n);
    while (len && out[len - 1] == '=')
        len--;
    out[len] = '\0';
    for (char *c = out; *c; c++)
        *c = *c == '+' ? '-' : *c == '/' ? '_' : *c;
    return out;
}

static inline const char *maker_number(struct arena *a, EVP_PKEY *key, const char *name, int bytes)
{
    BIGNUM *n = NULL;
    CHECK(EVP_PKEY_get_bn_param(key, name, &n) == 1, name);
    unsigned char raw[2048];
    if (bytes == 0) bytes = BN_num_bytes(n);
    CHECK(BN_bn2binpad(n, raw, bytes) == bytes, name);
    BN_free(n);
    return maker_base64url(a, raw, (size_t)bytes);
}

static inline const char *maker_ec_jwk(struct arena *a, EVP_PKEY *key, const char *more)
{
    int bits = EVP_PKEY_get_bits(key), bytes = (bits + 7) / 8;
    return arena_printf(a, "{\"kty\":\"EC\",\"crv\":\"P-%d\",\"x\":\"%s\",\"y\":\"%s\"%s}", bits,
                        maker_number(a, key, OSSL_PKEY_PARAM_EC_PUB_X, bytes),
                        maker_number(a, key, OSSL_PKEY_PARAM_EC_PUB_Y, bytes), more)
        .p;
}

/* more: further members, each after a comma, e.g. ",\"kid\":\"a\"" */
static inline const char *maker_jwk(struct arena *a, EVP_PKEY *key, const char *more)
{
    if (EVP_PKEY_is_a(key, "RSA"))
        return arena_printf(a, "{\"kty\":\"RSA\",\"n\":\"%s\",\"e\":\"%s\"%s}",
                            maker_number(a, key, OSSL_PKEY_PARAM_RSA_N, 0),
                            maker_number(a, key, OSSL_PKEY_PARAM_RSA_E, 0), more)
            .p;
    if (EVP_PKEY_is_a(key, "EC")) return maker_ec_jwk(a, key, more);
    unsigned char raw[57];
    size_t n = sizeof raw;
    CHECK(EVP_PKEY_get_raw_public_key(key, raw, &n) == 1, "an Edwards key");
    return arena_printf(a, "{\"kty\":\"OKP\",\"crv\":\"%s\",\"x\":\"%s\"%s}", n == 32 ? "Ed25519" : "Ed448",
                        maker_base64url(a, raw, n), more)
        .p;
}

static inline const char *maker_kid_jwk(struct arena *a, EVP_PKEY *key, const char *kid)
{
    return maker_jwk(a, key, arena_printf(a, ",\"kid\":\"%s\"", kid).p);
}

/* Of up to three keys; NULL: none. */
static inline const char *maker_jwks(struct arena *a, const char *one, const char *two, const char *three)
{
    return arena_printf(a, "{\"keys\":[%s%s%s%s%s]}", one ? one : "", two ? "," : "", two ? two : "", three ? "," : "",
                        three ? three : "")
        .p;
}

/* r and s of a DER signature, each in half of out. */
static inline size_t maker_raw_ecdsa(const unsigned char *der, size_t n, size_t half, unsigned char *out)
{
    ECDSA_SIG *sig = d2i_ECDSA_SIG(NULL, &der, (long)n);
    CHECK(sig && BN_bn2binpad(ECDSA_SIG_get0_r(sig), out, (int)half) == (int)half &&
              BN_bn2binpad(ECDSA_SIG_get0_s(sig), out + half, (int)half) == (int)half,
          "an ECDSA signature");
    ECDSA_SIG_free(sig);
    return 2 * half;
}

static inline const char *maker_digest(const char *alg)
{
    if (strcmp(alg, "EdDSA") == 0) return NULL;
    return alg[2] == '2' ? "SHA256" : alg[2] == '3' ? "SHA384" : "SHA512";
}

/* Signs with the key whether or not the algorithm suits it; for ES the halves are as long as the key's curve says.
   salt: of PS, RSA_PSS_SALTLEN_DIGEST for a right one. DER for ES with raw false. */
static inline struct slice maker_sign_with(struct arena *a, const char *alg, EVP_PKEY *key, struct slice input,
                                           int salt, bool raw)
{
    unsigned char *out = arena_alloc(a, 2048), der[256];
    size_t n = 2048;
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    EVP_PKEY_CTX *options = NULL;
    CHECK(EVP_DigestSignInit_ex(ctx, &options, maker_digest(alg), NULL, NULL, key, NULL) == 1, alg);
    if (alg[0] == 'P')
        CHECK(EVP_PKEY_CTX_set_rsa_padding(options, RSA_PKCS1_PSS_PADDING) == 1 &&
                  EVP_PKEY_CTX_set_rsa_pss_saltlen(options, salt) == 1,
              alg);
    CHECK(EVP_DigestSign(ctx, out, &n, (const unsigned char *)input.p, input.n) == 1, alg);
    EVP_MD_CTX_free(ctx);
    if (EVP_PKEY_is_a(key, "EC") && raw) {
        memcpy(der, out, n);
        n = maker_raw_ecdsa(der, n, (size_t)(EVP_PKEY_get_bits(key) + 7) / 8, out);
    }
    return slice_make((const char *)out, n);
}

static inline struct slice maker_sign(struct arena *a, const char *alg, EVP_PKEY *key, struct slice input)
{
    return maker_sign_with(a, alg, key, input, RSA_PSS_SALTLEN_DIGEST, true);
}

static inline struct slice maker_mac(struct arena *a, const char *alg, struct slice secret, struct slice input)
{
    unsigned char *out = arena_alloc(a, EVP_MAX_MD_SIZE);
    size_t n = 0;
    CHECK(EVP_Q_mac(NULL, "HMAC", NULL, maker_digest(alg), NULL, secret.p, secret.n, (const unsigned char *)input.p,
                    input.n, out, EVP_MAX_MD_SIZE, &n),
          alg);
    return slice_make((const char *)out, n);
}

static inline struct slice maker_input(struct arena *a, const char *header, const char *payload)
{
    return arena_printf(a, "%s.%s", maker_base64url(a, header, strlen(header)),
                        maker_base64url(a, payload, strlen(payload)));
}

static inline const char *maker_join(struct arena *a, struct slice input, struct slice signature)
{
    return arena_printf(a, "Bearer %s.%s", input.p, maker_base64url(a, signature.p, signature.n)).p;
}

/* The whole Authorization value. */
static inline const char *maker_bearer(struct arena *a, const char *header, const char *payload, const char *alg,
                                       EVP_PKEY *key)
{
    struct slice input = maker_input(a, header, payload);
    return maker_join(a, input, maker_sign(a, alg, key, input));
}

static inline const char *maker_bearer_mac(struct arena *a, const char *header, const char *payload, const char *alg,
                                           struct slice secret)
{
    struct slice input = maker_input(a, header, payload);
    return maker_join(a, input, maker_mac(a, alg, secret, input));
}

#endif
