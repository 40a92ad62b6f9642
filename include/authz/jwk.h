/* authz/jwk: one public key of a key set (RFC 7517, RFC 7518 6, RFC 8037 2) as a kept OpenSSL key. Two steps: decoding
   is cheap and names the key; making the OpenSSL key is not, and is left out for a key that is known already. */
#ifndef AUTHZ_JWK_H
#define AUTHZ_JWK_H

#include <stdbool.h>
#include <stdint.h>

#include "authz/signature.h"
#include "base/slice.h"

#define JWK_ID_BYTES 32
#define JWK_KID_MAX 512 /* bytes */
#define JWK_RSA_MIN_BITS 2048
#define JWK_RSA_MAX_BITS 16384
#define JWK_MATERIAL_MAX (JWK_RSA_MAX_BITS / 8 + 16)

struct json_t;

struct jwk {
    unsigned refs;
    bool gone; /* no longer in the set of its issuer: nothing that it verified is good any more */
    enum key_kind kind;
    bool has_kid;
    struct slice kid;
    const struct signature_algorithm *algorithm; /* the key's own `alg`; NULL: any that fits */
    struct evp_pkey_st *key;
    uint8_t id[JWK_ID_BYTES]; /* digest of all of the above: the same key in the next document has the same */
};

struct jwk_parts { /* what decoding found; texts point into the document */
    enum key_kind kind;
    bool has_kid;
    struct slice kid;
    const struct signature_algorithm *algorithm;
    size_t first_n, second_n; /* RSA: n, e. EC: 04 x y. OKP: the point */
    uint8_t first[JWK_MATERIAL_MAX];
    uint8_t second[16];
    uint8_t id[JWK_ID_BYTES];
};

/* False: not a key that verifies tokens, *problem says why (fixed text). Symmetric keys (`oct`) are none: a secret
   comes from the configuration only. use must be sig, key_ops must have verify, where they are there. */
bool jwk_decode(const struct json_t *object, struct jwk_parts *out, const char **problem);

/* With one reference, or NULL when OpenSSL refuses the numbers (a point off its curve, say). */
struct jwk *jwk_make(const struct jwk_parts *parts);
void jwk_hold(struct jwk *k);
void jwk_release(struct jwk *k);

/* May a signature of that algorithm be verified with it? Kind and own `alg`, both. */
bool jwk_allows(const struct jwk *k, const struct signature_algorithm *a);

#endif
