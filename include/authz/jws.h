/* authz/jws: one compact JWS (RFC 7515 7.1) taken apart and read strictly, nothing verified. */
#ifndef AUTHZ_JWS_H
#define AUTHZ_JWS_H

#include <stdbool.h>

#include "authz/refusal.h"
#include "base/arena.h"
#include "base/slice.h"

struct json_t;

struct jws {
    struct json_t *header;
    struct json_t *payload;
    struct slice algorithm; /* never "none" */
    struct slice type;      /* `typ`; p is NULL when absent */
    bool has_kid;
    struct slice kid;
    struct slice input;     /* the bytes that were signed; part of the text */
    struct slice signature; /* decoded, in the arena; not empty */
};

/* text: the token; used as long as out. False: refused, nothing to finish. It refuses other than three parts, lax
   base64url, lax JSON, no algorithm, `none` in any case, and every header that would change how the token is to be
   verified or where keys come from: crit, b64, jwk, jku, x5u, x5c. */
bool jws_read(struct slice text, struct arena *a, struct jws *out, struct refusal *r);
void jws_finish(struct jws *j);

#endif
