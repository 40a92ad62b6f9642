/* authz/signature: the algorithms of RFC 7518 3 and RFC 8037 that a token may be signed with, which keys they fit, and
   the verification itself by OpenSSL. An algorithm never verifies with a key of another kind: that is checked here once
   more, whatever the caller checked (RFC 8725 3.1, 3.2). */
#ifndef AUTHZ_SIGNATURE_H
#define AUTHZ_SIGNATURE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/slice.h"

#define SIGNATURE_ALGORITHMS 13

struct evp_pkey_st; /* OpenSSL's EVP_PKEY */

enum signature_scheme { SIGNATURE_PKCS1, SIGNATURE_PSS, SIGNATURE_ECDSA, SIGNATURE_EDDSA, SIGNATURE_HMAC };

/* The zero fits no algorithm. */
enum key_kind {
    KEY_NONE,
    KEY_RSA,
    KEY_P256,
    KEY_P384,
    KEY_P521,
    KEY_ED25519,
    KEY_ED448,
    KEY_SECRET,
};

struct signature_algorithm {
    struct slice name;
    enum signature_scheme scheme;
    const char *digest;     /* OpenSSL's name; NULL for EdDSA */
    size_t digest_bytes;    /* HMAC: the shortest secret too (RFC 7518 3.2) */
    enum key_kind kind;     /* EdDSA: Ed448 fits as well */
    size_t signature_bytes; /* exact; 0: as long as the key says */
};

/* By exact name (case matters); NULL: not one of ours. Never finds `none`. */
const struct signature_algorithm *signature_find(struct slice name);
/* 0 to SIGNATURE_ALGORITHMS - 1: for sets of algorithms as bits. */
unsigned signature_index(const struct signature_algorithm *a);
bool signature_fits(const struct signature_algorithm *a, enum key_kind kind);

/* input: the bytes that were signed. sig: the decoded signature, for ECDSA r and s (RFC 7518 3.4), never DER. */
bool signature_verify(const struct signature_algorithm *a, enum key_kind kind, struct evp_pkey_st *key,
                      struct slice input, struct slice sig);
/* HMAC only; in constant time. */
bool signature_verify_secret(const struct signature_algorithm *a, struct slice secret, struct slice input,
                             struct slice sig);

#endif
