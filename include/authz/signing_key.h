/* authz/signing_key: the private key of JWS grants, as far as the outside may know it: algorithm, key id,
   public set. */
#ifndef AUTHZ_SIGNING_KEY_H
#define AUTHZ_SIGNING_KEY_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/slice.h"

struct signing_key {
    bool ec;         /* ES256; else RS256 */
    char kid[44];    /* RFC 7638 thumbprint */
    struct buf jwks; /* RFC 7517 set with the public half, heap */
};

/* pem: an unencrypted RSA key of at least 2048 bits or an EC key on P-256. False: *error is heap text without anything
   of the key; k is not to be freed. */
bool signing_key_read(struct slice pem, struct signing_key *k, char **error);

#endif
