/* authz/stand_in: a key of our own in the place of an issuer's, for a rehearsal (doorward eval): where the issuer's keys are
   not at hand, a token is signed anew with it, and every other check is the real one. Nothing that serves uses it. */
#ifndef AUTHZ_STAND_IN_H
#define AUTHZ_STAND_IN_H

#include <stdbool.h>

#include "authz/signature.h"
#include "base/buf.h"
#include "base/slice.h"

struct stand_in {
    const struct signature_algorithm *algorithm;
    struct evp_pkey_st *key;
};

/* False: not an algorithm of keys (HMAC). Else stand_in_free is due. */
bool stand_in_create(struct stand_in *s, const struct signature_algorithm *a);
void stand_in_free(struct stand_in *s);
/* Appends a set of keys (RFC 7517) with the public half. kid: p NULL for none. */
void stand_in_jwks(const struct stand_in *s, struct slice kid, struct buf *out);

/* input: the first two parts of a compact JWS. Appends the whole of it: input, a dot, the signature. */
void stand_in_sign(const struct stand_in *s, struct slice input, struct buf *out);
/* Likewise with a secret, long enough for the algorithm, which is an HMAC. */
void stand_in_sign_secret(const struct signature_algorithm *a, struct slice secret, struct slice input, struct buf *out);

#endif
