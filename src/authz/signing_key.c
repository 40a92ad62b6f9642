/* authz/signing_key: reads the PEM of grant.key_file with OpenSSL. Called by grant at load. Refuses keys too short to
   be trusted and kinds that libjwt would sign with another algorithm than the set says. */
#include "authz/signing_key.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <stdlib.h>
#include <string.h>

#include "authz/base64url.h"
#include "authz/digest.h"
#include "base/check.h"

#define RSA_MIN_BITS 2048
#define EC_COORDINATE_BYTES 32

/* Without it OpenSSL would ask the terminal. */
static int on_password(char *buf, int size, int writing, void *arg)
{
    (void)buf, (void)size, (void)writing, (void)arg;
    return -1;
}

/* A number of the key, big-endian, at least width bytes, as base64url. */
static bool add_number(const EVP_PKEY *key, const char *name, int width, struct buf *out)
{
    BIGNUM *n = NULL;
    if (EVP_PKEY_get_bn_param(key, name, &n) != 1) return false;
    int size = BN_num_bytes(n) > width ? BN_num_bytes(n) : width;
    char *bytes = xmalloc((size_t)size + 1);
    bool good = BN_bn2binpad(n, (unsigned char *)bytes, size) == size;
    if (good) base64url_encode(slice_make(bytes, (size_t)size), out);
    free(bytes);
    BN_free(n);
    return good;
}

/* The members that RFC 7638 takes, in its order. */
static bool add_required(const EVP_PKEY *key, bool ec, struct buf *out)
{
    if (ec) {
        buf_add_lit(out, "\"crv\":\"P-256\",\"kty\":\"EC\",\"x\":\"");
        if (!add_number(key, OSSL_PKEY_PARAM_EC_PUB_X, EC_COORDINATE_BYTES, out)) return false;
        buf_add_lit(out, "\",\"y\":\"");
        if (!add_number(key, OSSL_PKEY_PARAM_EC_PUB_Y, EC_COORDINATE_BYTES, out)) return false;
    } else {
        buf_add_lit(out, "\"e\":\"");
        if (!add_number(key, OSSL_PKEY_PARAM_RSA_E, 1, out)) return false;
        buf_add_lit(out, "\",\"kty\":\"RSA\",\"n\":\"");
        if (!add_number(key, OSSL_PKEY_PARAM_RSA_N, 1, out)) return false;
    }
    buf_add_char(out, '"');
    return true;
}

static void take_thumbprint(struct signing_key *k, struct slice required)
{
    uint8_t digest[DIGEST_BYTES];
    struct slice parts[] = {SLICE("{"), required, SLICE("}")};
    struct buf kid;
    digest_parts(parts, 3, digest);
    buf_init(&kid, NULL);
    base64url_encode(slice_make((const char *)digest, sizeof digest), &kid);
    CHECK(kid.n < sizeof k->kid, "a digest is 43 characters");
    memcpy(k->kid, kid.p, kid.n);
    k->kid[kid.n] = '\0';
    buf_free(&kid);
}

static const char *describe(const EVP_PKEY *key, struct signing_key *k)
{
    char group[32] = "";
    k->ec = EVP_PKEY_is_a(key, "EC");
    if (k->ec) {
        EVP_PKEY_get_group_name(key, group, sizeof group, NULL);
        if (strcmp(group, "prime256v1") != 0) return "an EC key on another curve than P-256";
    } else if (!EVP_PKEY_is_a(key, "RSA")) {
        return "neither an RSA nor an EC key";
    } else if (EVP_PKEY_get_bits(key) < RSA_MIN_BITS) {
        return "an RSA key of less than 2048 bits";
    }
    struct buf required;
    buf_init(&required, NULL);
    bool good = add_required(key, k->ec, &required);
    if (good) {
        take_thumbprint(k, buf_slice(&required));
        buf_init(&k->jwks, NULL);
        buf_printf(&k->jwks, "{\"keys\":[{\"use\":\"sig\",\"alg\":\"%s\",\"kid\":\"%s\",", k->ec ? "ES256" : "RS256",
                   k->kid);
        buf_add_slice(&k->jwks, buf_slice(&required));
        buf_add_lit(&k->jwks, "}]}");
    }
    buf_free(&required);
    return good ? NULL : "a key whose public half cannot be told";
}

bool signing_key_read(struct slice pem, struct signing_key *k, char **error)
{
    memset(k, 0, sizeof *k);
    BIO *bio = BIO_new_mem_buf(pem.p ? pem.p : "", (int)pem.n);
    EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, on_password, NULL) : NULL;
    BIO_free(bio);
    const char *fault = key ? describe(key, k) : "not an unencrypted private key in PEM";
    EVP_PKEY_free(key);
    if (!fault) return true;
    struct buf b;
    buf_init(&b, NULL);
    buf_printf(&b, "%s; expected an RSA key of 2048 bits or more, or an EC key on P-256", fault);
    buf_add_char(&b, '\0');
    *error = b.p;
    return false;
}
