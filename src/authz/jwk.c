/* authz/jwk: JSON Web Keys to OpenSSL keys. Called by keyset. It refuses short RSA moduli, even exponents, coordinates
   of another length than the curve's, symmetric keys and keys that are meant for something else than signatures. */
#include "authz/jwk.h"

#include <jansson.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <stdlib.h>
#include <string.h>

#include "authz/base64url.h"
#include "authz/digest.h"
#include "authz/strict.h"
#include "base/check.h"

struct curve {
    struct slice name; /* `crv` */
    enum key_kind kind;
    const char *openssl; /* group or key type */
    size_t bytes;        /* of a coordinate, or of the point of an OKP key */
};

static const struct curve ec_curves[] = {
    {{"P-256", 5}, KEY_P256, "P-256", 32},
    {{"P-384", 5}, KEY_P384, "P-384", 48},
    {{"P-521", 5}, KEY_P521, "P-521", 66},
};

static const struct curve okp_curves[] = {
    {{"Ed25519", 7}, KEY_ED25519, "ED25519", 32},
    {{"Ed448", 5}, KEY_ED448, "ED448", 57},
};

static bool fail(const char **problem, const char *text)
{
    *problem = text;
    return false;
}

static bool is_for_verifying(const json_t *o, const char **problem)
{
    if (json_object_get(o, "use") && !slice_eq(strict_text(o, "use"), SLICE("sig")))
        return fail(problem, "the key is not for signatures (use)");
    const json_t *ops = json_object_get(o, "key_ops");
    if (!ops) return true;
    size_t i;
    const json_t *op;
    json_array_foreach(ops, i, op)
    {
        if (json_is_string(op) && strcmp(json_string_value(op), "verify") == 0) return true;
    }
    return fail(problem, "the key is not for verifying (key_ops)");
}

/* Decodes the text under name into out; false when it is absent, not strict base64url or longer than room. */
static bool material(const json_t *o, const char *name, uint8_t *out, size_t room, size_t *n)
{
    struct slice text = strict_text(o, name);
    if (!text.p || text.n == 0 || text.n > JWK_MATERIAL_MAX / 3 * 4) return false;
    uint8_t bytes[BASE64URL_ROOM(JWK_MATERIAL_MAX / 3 * 4)];
    if (!base64url_decode(text, bytes, n) || *n > room) return false;
    memcpy(out, bytes, *n);
    return true;
}

static void drop_leading_zeros(uint8_t *p, size_t *n)
{
    size_t zeros = 0;
    while (zeros < *n && p[zeros] == 0)
        zeros++;
    memmove(p, p + zeros, *n - zeros);
    *n -= zeros;
}

/* Some issuers write a leading zero (RFC 7518 2 says none): taken, the number is the same. */
static bool decode_rsa(const json_t *o, struct jwk_parts *out, const char **problem)
{
    if (!material(o, "n", out->first, sizeof out->first, &out->first_n) ||
        !material(o, "e", out->second, sizeof out->second, &out->second_n))
        return fail(problem, "n or e of the RSA key is missing, not base64url or too long");
    drop_leading_zeros(out->first, &out->first_n);
    drop_leading_zeros(out->second, &out->second_n);
    size_t bits = out->first_n * 8;
    for (uint8_t top = out->first_n ? out->first[0] : 0xff; !(top & 0x80); top = (uint8_t)(top << 1))
        bits--;
    if (bits < JWK_RSA_MIN_BITS) return fail(problem, "the RSA key has less than 2048 bits");
    if (bits > JWK_RSA_MAX_BITS) return fail(problem, "the RSA key has more than 16384 bits");
    bool odd = out->first[out->first_n - 1] & 1 && out->second_n && out->second[out->second_n - 1] & 1;
    bool one = out->second_n == 1 && out->second[0] == 1;
    if (!odd || one || out->second_n > 8) return fail(problem, "modulus or exponent of the RSA key cannot be one");
    out->kind = KEY_RSA;
    return true;
}

static const struct curve *find_curve(const struct curve *curves, size_t n, struct slice name)
{
    for (size_t i = 0; i < n; i++)
        if (slice_eq(curves[i].name, name)) return &curves[i];
    return NULL;
}

static bool decode_ec(const json_t *o, struct jwk_parts *out, const char **problem)
{
    const struct curve *c = find_curve(ec_curves, sizeof ec_curves / sizeof *ec_curves, strict_text(o, "crv"));
    if (!c) return fail(problem, "the curve is not P-256, P-384 or P-521");
    size_t x_n, y_n;
    out->first[0] = 4; /* uncompressed point, SEC 1 2.3.3 */
    if (!material(o, "x", out->first + 1, c->bytes, &x_n) || x_n != c->bytes ||
        !material(o, "y", out->first + 1 + c->bytes, c->bytes, &y_n) || y_n != c->bytes)
        return fail(problem, "x or y of the EC key is missing, not base64url or not as long as the curve says");
    out->first_n = 1 + 2 * c->bytes;
    out->kind = c->kind;
    return true;
}

static bool decode_okp(const json_t *o, struct jwk_parts *out, const char **problem)
{
    const struct curve *c = find_curve(okp_curves, sizeof okp_curves / sizeof *okp_curves, strict_text(o, "crv"));
    if (!c) return fail(problem, "the curve is not Ed25519 or Ed448");
    if (!material(o, "x", out->first, c->bytes, &out->first_n) || out->first_n != c->bytes)
        return fail(problem, "x of the OKP key is missing, not base64url or not as long as the curve says");
    out->kind = c->kind;
    return true;
}

static void name_key(struct jwk_parts *k)
{
    const char kind = (char)k->kind, has_kid = (char)k->has_kid;
    const struct slice fields[] = {
        slice_make(&kind, 1),
        slice_make(&has_kid, 1),
        k->kid,
        k->algorithm ? k->algorithm->name : slice_make(NULL, 0),
        slice_make((const char *)k->first, k->first_n),
        slice_make((const char *)k->second, k->second_n),
    };
    digest_fields(fields, sizeof fields / sizeof *fields, k->id);
}

static bool decode_names(const json_t *o, struct jwk_parts *out, const char **problem)
{
    out->has_kid = json_object_get(o, "kid") != NULL;
    out->kid = strict_text(o, "kid");
    if (out->has_kid && (!out->kid.p || out->kid.n > JWK_KID_MAX))
        return fail(problem, "kid is not a text of at most 512 bytes");
    if (!json_object_get(o, "alg")) return true;
    out->algorithm = signature_find(strict_text(o, "alg"));
    if (!out->algorithm) return fail(problem, "the key's alg is not a signature algorithm that is known");
    if (!signature_fits(out->algorithm, out->kind)) return fail(problem, "the key's alg does not fit its type");
    return true;
}

bool jwk_decode(const struct json_t *object, struct jwk_parts *out, const char **problem)
{
    out->kind = KEY_NONE;
    out->algorithm = NULL;
    out->first_n = out->second_n = 0;
    if (!json_is_object(object)) return fail(problem, "the key is not an object");
    if (!is_for_verifying(object, problem)) return false;
    struct slice type = strict_text(object, "kty");
    bool ok;
    if (slice_eq(type, SLICE("RSA")))
        ok = decode_rsa(object, out, problem);
    else if (slice_eq(type, SLICE("EC")))
        ok = decode_ec(object, out, problem);
    else if (slice_eq(type, SLICE("OKP")))
        ok = decode_okp(object, out, problem);
    else
        ok = fail(problem, "the key type is not RSA, EC or OKP");
    if (!ok || !decode_names(object, out, problem)) return false;
    name_key(out);
    return true;
}

static EVP_PKEY *from_params(const char *type, OSSL_PARAM_BLD *build)
{
    OSSL_PARAM *params = OSSL_PARAM_BLD_to_param(build);
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, type, NULL);
    CHECK(params && ctx, "out of memory");
    EVP_PKEY *key = NULL;
    if (EVP_PKEY_fromdata_init(ctx) != 1 || EVP_PKEY_fromdata(ctx, &key, EVP_PKEY_PUBLIC_KEY, params) != 1) key = NULL;
    EVP_PKEY_CTX_free(ctx);
    OSSL_PARAM_free(params);
    return key;
}

static EVP_PKEY *make_rsa(const struct jwk_parts *k)
{
    OSSL_PARAM_BLD *build = OSSL_PARAM_BLD_new();
    BIGNUM *n = BN_bin2bn(k->first, (int)k->first_n, NULL);
    BIGNUM *e = BN_bin2bn(k->second, (int)k->second_n, NULL);
    CHECK(build && n && e && OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_RSA_N, n) == 1 &&
              OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_RSA_E, e) == 1,
          "out of memory");
    EVP_PKEY *key = from_params("RSA", build);
    BN_free(n);
    BN_free(e);
    OSSL_PARAM_BLD_free(build);
    return key;
}

static EVP_PKEY *make_ec(const struct jwk_parts *k)
{
    const char *group = ec_curves[k->kind - KEY_P256].openssl;
    OSSL_PARAM_BLD *build = OSSL_PARAM_BLD_new();
    CHECK(build && OSSL_PARAM_BLD_push_utf8_string(build, OSSL_PKEY_PARAM_GROUP_NAME, group, 0) == 1 &&
              OSSL_PARAM_BLD_push_octet_string(build, OSSL_PKEY_PARAM_PUB_KEY, k->first, k->first_n) == 1,
          "out of memory");
    EVP_PKEY *key = from_params("EC", build);
    OSSL_PARAM_BLD_free(build);
    return key;
}

static EVP_PKEY *make_okp(const struct jwk_parts *k)
{
    const char *type = okp_curves[k->kind - KEY_ED25519].openssl;
    return EVP_PKEY_new_raw_public_key_ex(NULL, type, NULL, k->first, k->first_n);
}

struct jwk *jwk_make(const struct jwk_parts *parts)
{
    EVP_PKEY *key;
    if (parts->kind == KEY_RSA)
        key = make_rsa(parts);
    else if (parts->kind == KEY_ED25519 || parts->kind == KEY_ED448)
        key = make_okp(parts);
    else
        key = make_ec(parts);
    if (!key) {
        ERR_clear_error();
        return NULL;
    }
    struct jwk *k = xzalloc(sizeof *k);
    k->refs = 1;
    k->kind = parts->kind;
    k->algorithm = parts->algorithm;
    k->has_kid = parts->has_kid;
    k->kid = slice_make(xstrndup(parts->kid.n ? parts->kid.p : "", parts->kid.n), parts->kid.n);
    k->key = key;
    memcpy(k->id, parts->id, sizeof k->id);
    return k;
}

void jwk_hold(struct jwk *k)
{
    k->refs++;
}

void jwk_release(struct jwk *k)
{
    CHECK(k->refs, "a key is released as often as it is held");
    if (--k->refs) return;
    EVP_PKEY_free(k->key);
    free((char *)k->kid.p);
    free(k);
}

bool jwk_allows(const struct jwk *k, const struct signature_algorithm *a)
{
    return signature_fits(a, k->kind) && (!k->algorithm || k->algorithm == a);
}
