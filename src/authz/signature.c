/* authz/signature: table of algorithms and verification by EVP. Called by issuer (tokens), jwk (which algorithm fits a
   key). It refuses signatures of another length than the algorithm has, r or s of zero, DER for r and s. */
#include "authz/signature.h"

#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>
#include <stdint.h>

#include "base/check.h"

static const struct signature_algorithm algorithms[SIGNATURE_ALGORITHMS] = {
    {{"RS256", 5}, SIGNATURE_PKCS1, "SHA256", 32, KEY_RSA, 0},
    {{"RS384", 5}, SIGNATURE_PKCS1, "SHA384", 48, KEY_RSA, 0},
    {{"RS512", 5}, SIGNATURE_PKCS1, "SHA512", 64, KEY_RSA, 0},
    {{"PS256", 5}, SIGNATURE_PSS, "SHA256", 32, KEY_RSA, 0},
    {{"PS384", 5}, SIGNATURE_PSS, "SHA384", 48, KEY_RSA, 0},
    {{"PS512", 5}, SIGNATURE_PSS, "SHA512", 64, KEY_RSA, 0},
    {{"ES256", 5}, SIGNATURE_ECDSA, "SHA256", 32, KEY_P256, 64},
    {{"ES384", 5}, SIGNATURE_ECDSA, "SHA384", 48, KEY_P384, 96},
    {{"ES512", 5}, SIGNATURE_ECDSA, "SHA512", 64, KEY_P521, 132},
    {{"EdDSA", 5}, SIGNATURE_EDDSA, NULL, 0, KEY_ED25519, 0},
    {{"HS256", 5}, SIGNATURE_HMAC, "SHA256", 32, KEY_SECRET, 32},
    {{"HS384", 5}, SIGNATURE_HMAC, "SHA384", 48, KEY_SECRET, 48},
    {{"HS512", 5}, SIGNATURE_HMAC, "SHA512", 64, KEY_SECRET, 64},
};

/* r and s of P-521 in DER: two integers of at most 67 bytes with heads, in a sequence. */
#define DER_MAX 160

const struct signature_algorithm *signature_find(struct slice name)
{
    for (size_t i = 0; i < SIGNATURE_ALGORITHMS; i++)
        if (slice_eq(algorithms[i].name, name)) return &algorithms[i];
    return NULL;
}

unsigned signature_index(const struct signature_algorithm *a)
{
    return (unsigned)(a - algorithms);
}

bool signature_fits(const struct signature_algorithm *a, enum key_kind kind)
{
    if (kind == KEY_NONE) return false;
    return a->kind == kind || (a->scheme == SIGNATURE_EDDSA && kind == KEY_ED448);
}

/* Length in der, or 0. OpenSSL refuses r and s beyond the group's order. */
static size_t ecdsa_to_der(struct slice sig, uint8_t der[DER_MAX])
{
    const uint8_t *p = (const uint8_t *)sig.p;
    int half = (int)(sig.n / 2);
    BIGNUM *r = BN_bin2bn(p, half, NULL);
    BIGNUM *s = BN_bin2bn(p + half, half, NULL);
    ECDSA_SIG *pair = ECDSA_SIG_new();
    CHECK(r && s && pair, "out of memory");
    bool zero = BN_is_zero(r) || BN_is_zero(s);
    CHECK(ECDSA_SIG_set0(pair, r, s) == 1, "the pair takes both numbers");
    int n = zero ? 0 : i2d_ECDSA_SIG(pair, NULL);
    if (n > 0 && n <= DER_MAX) {
        uint8_t *out = der;
        n = i2d_ECDSA_SIG(pair, &out);
    } else {
        n = 0;
    }
    ECDSA_SIG_free(pair);
    return n > 0 ? (size_t)n : 0;
}

static bool verify_with(EVP_MD_CTX *ctx, const struct signature_algorithm *a, EVP_PKEY *key, struct slice input,
                        struct slice sig)
{
    EVP_PKEY_CTX *options = NULL; /* owned by ctx */
    if (EVP_DigestVerifyInit_ex(ctx, &options, a->digest, NULL, NULL, key, NULL) != 1) return false;
    if (a->scheme == SIGNATURE_PSS && (EVP_PKEY_CTX_set_rsa_padding(options, RSA_PKCS1_PSS_PADDING) != 1 ||
                                       EVP_PKEY_CTX_set_rsa_pss_saltlen(options, RSA_PSS_SALTLEN_DIGEST) != 1))
        return false;
    return EVP_DigestVerify(ctx, (const uint8_t *)sig.p, sig.n, (const uint8_t *)input.p, input.n) == 1;
}

bool signature_verify(const struct signature_algorithm *a, enum key_kind kind, struct evp_pkey_st *key,
                      struct slice input, struct slice sig)
{
    if (a->scheme == SIGNATURE_HMAC || !key || !signature_fits(a, kind)) return false;
    if (sig.n == 0 || (a->signature_bytes && sig.n != a->signature_bytes)) return false;
    uint8_t der[DER_MAX];
    if (a->scheme == SIGNATURE_ECDSA) {
        size_t n = ecdsa_to_der(sig, der);
        if (n == 0) return false;
        sig = slice_make((const char *)der, n);
    }
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    CHECK(ctx, "out of memory");
    bool ok = verify_with(ctx, a, key, input, sig);
    EVP_MD_CTX_free(ctx);
    if (!ok) ERR_clear_error();
    return ok;
}

bool signature_verify_secret(const struct signature_algorithm *a, struct slice secret, struct slice input,
                             struct slice sig)
{
    if (a->scheme != SIGNATURE_HMAC || secret.n < a->digest_bytes || sig.n != a->signature_bytes) return false;
    uint8_t mac[EVP_MAX_MD_SIZE];
    size_t n = 0;
    if (!EVP_Q_mac(NULL, "HMAC", NULL, a->digest, NULL, secret.p, secret.n, (const uint8_t *)input.p, input.n, mac,
                   sizeof mac, &n)) {
        ERR_clear_error();
        return false;
    }
    bool ok = n == sig.n && CRYPTO_memcmp(mac, sig.p, n) == 0;
    OPENSSL_cleanse(mac, sizeof mac);
    return ok;
}
