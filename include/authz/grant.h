/* authz/grant: the header value the API trusts, made from user, decision and request by the shape: ASCII JSON,
   base64url of it, or a JWS (RFC 7515) signed by libjwt. */
#ifndef AUTHZ_GRANT_H
#define AUTHZ_GRANT_H

#include <stdbool.h>
#include <stdint.h>

#include "authz/shape.h"
#include "base/buf.h"
#include "base/reason.h"
#include "base/slice.h"

enum grant_format { GRANT_JSON, GRANT_BASE64URL, GRANT_JWS };

struct grant_config {
    enum grant_format format;
    struct shape *shape;  /* NULL: the general form {user, policy, constraints, context, timestamp} */
    struct slice key_pem; /* JWS: private key, RSA (RS256) or EC P-256 (ES256) */
    struct slice issuer;  /* JWS: `iss` */
    size_t max_bytes;
};

struct grant;

struct grant *grant_create(const struct grant_config *c, char **error);
void grant_destroy(struct grant *g);

/* Runs a shape of the grant or of /authorize once, at load, on a sample with everything in it. False: *error (heap
   text) says with what name's shape failed; it would fail each request. */
bool grant_try(struct shape *s, const char *name, char **error);

/* input: JSON text {"user":…,"decision":…|null,"request":…,"timestamp":…}. Appends the header value to out.
   exp_s: Unix, for JWS. REASON_FORWARDED when made; else GRANT_TOO_LARGE or GRANT_FAILED (*detail: heap text
   or NULL). */
enum reason grant_make(struct grant *g, struct slice input, int64_t now_s, int64_t exp_s, struct buf *out,
                       char **detail);

/* Has it no shape? Then the object may be made elsewhere: authz/form.h. */
bool grant_is_general(const struct grant *g);

/* The rest of grant_make for an object that is made already: ASCII JSON; it may be written to. */
enum reason grant_encode(struct grant *g, struct buf *object, int64_t now_s, int64_t exp_s, struct buf *out,
                         char **detail);

/* {"keys":[…]} of the signing key; "{"keys":[]}" when the format is not JWS. */
struct slice grant_jwks(const struct grant *g);

#endif
