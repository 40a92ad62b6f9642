/* authz/grant: the door to libjwt. Called by decision when a decision is made, never on a hit. Refuses a value over
   max_bytes (a cut one would say something else) and anything but a JSON object. */
#include "authz/grant.h"

#include <jwt.h>
#include <limits.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

#include "authz/base64url.h"
#include "authz/form.h"
#include "authz/signing_key.h"
#include "base/check.h"

struct grant {
    struct grant_config config; /* texts are copies below */
    struct signing_key key;     /* JWS only */
    struct buf pem;             /* secret */
    char *issuer;
};

struct grant *grant_create(const struct grant_config *c, char **error)
{
    struct grant *g = xzalloc(sizeof *g);
    g->config = *c;
    buf_init(&g->pem, NULL);
    if (c->format != GRANT_JWS) return g;
    if (c->key_pem.n > INT_MAX || !signing_key_read(c->key_pem, &g->key, error)) {
        if (c->key_pem.n > INT_MAX) *error = xstrdup("the key is too large");
        free(g);
        return NULL;
    }
    buf_reserve(&g->pem, c->key_pem.n + 1);
    buf_add_slice(&g->pem, c->key_pem);
    g->config.key_pem = buf_slice(&g->pem);
    g->issuer = xstrndup(c->issuer.p ? c->issuer.p : "", c->issuer.n);
    return g;
}

void grant_destroy(struct grant *g)
{
    if (!g) return;
    if (g->pem.n) OPENSSL_cleanse(g->pem.p, g->pem.n);
    buf_free(&g->pem);
    buf_free(&g->key.jwks);
    free(g->issuer);
    free(g);
}

bool grant_try(struct shape *s, const char *name, char **error)
{
    const struct slice sample =
        SLICE("{\"user\":{\"id\":\"sample\",\"username\":\"sample\",\"email\":\"sample@example\",\"roles\":[\"role\"],"
              "\"offices\":[\"office\"],\"authenticated\":true},\"decision\":{\"allow\":true,\"id\":\"sample\","
              "\"reason\":\"sample\",\"filters\":{},\"headers\":{},\"constraints\":{},\"context\":{}},\"request\":{"
              "\"method\":\"GET\",\"path\":\"/sample\",\"query\":\"a=b\",\"resource\":\"sample\",\"action\":\"read\"},"
              "\"timestamp\":\"2026-01-01T00:00:00.000Z\"}");
    struct buf out;
    char *detail = NULL;
    buf_init(&out, NULL);
    bool good = shape_run(s, sample, &out, &detail) && out.n && out.p[0] == '{';
    buf_free(&out);
    if (!good) {
        buf_printf(&out, "%s: on a sample: %s", name, detail ? detail : "the output is not an object");
        buf_add_char(&out, '\0');
        *error = out.p;
    }
    free(detail);
    return good;
}

static int set_int(jwt_t *jwt, const char *name, int64_t value)
{
    jwt_del_grants(jwt, name);
    return jwt_add_grant_int(jwt, name, (long)value);
}

static int set_text(jwt_t *jwt, const char *name, const char *value)
{
    jwt_del_grants(jwt, name);
    return jwt_add_grant(jwt, name, value);
}

/* json: object text with a NUL behind it. iss, iat and exp are ours whatever the shape made of them. */
static char *sign(struct grant *g, const char *json, int64_t now_s, int64_t exp_s)
{
    jwt_t *jwt = NULL;
    char *text = NULL;
    jwt_alg_t alg = g->key.ec ? JWT_ALG_ES256 : JWT_ALG_RS256;
    const unsigned char *pem = (const unsigned char *)g->pem.p;
    if (jwt_new(&jwt)) return NULL;
    bool good = !jwt_add_grants_json(jwt, json) && !set_text(jwt, "iss", g->issuer) && !set_int(jwt, "iat", now_s) &&
                !set_int(jwt, "exp", exp_s) && !jwt_add_header(jwt, "kid", g->key.kid) &&
                !jwt_set_alg(jwt, alg, pem, (int)g->pem.n);
    if (good) text = jwt_encode_str(jwt);
    jwt_free(jwt);
    return text;
}

static bool make_object(struct grant *g, struct slice input, struct buf *json, char **detail)
{
    bool made = g->config.shape ? shape_run(g->config.shape, input, json, detail) : form_grant(input, json);
    if (made && json->n && json->p[0] == '{') return true;
    if (made && !*detail) *detail = xstrdup("the grant's shape did not give an object");
    return false;
}

static bool encode(struct grant *g, struct buf *json, int64_t now_s, int64_t exp_s, struct buf *value, char **detail)
{
    if (g->config.format == GRANT_JSON) {
        buf_add_slice(value, buf_slice(json));
    } else if (g->config.format == GRANT_BASE64URL) {
        base64url_encode(buf_slice(json), value);
    } else {
        buf_add_char(json, '\0');
        char *text = sign(g, json->p, now_s, exp_s);
        if (!text) {
            *detail = xstrdup("the grant could not be signed");
            return false;
        }
        buf_add_slice(value, slice_str(text));
        free(text);
    }
    return true;
}

bool grant_is_general(const struct grant *g)
{
    return !g->config.shape;
}

enum reason grant_encode(struct grant *g, struct buf *object, int64_t now_s, int64_t exp_s, struct buf *out,
                         char **detail)
{
    struct buf value;
    enum reason reason = REASON_GRANT_FAILED;
    *detail = NULL;
    buf_init(&value, NULL);
    if (encode(g, object, now_s, exp_s, &value, detail)) {
        reason = value.n > g->config.max_bytes ? REASON_GRANT_TOO_LARGE : REASON_FORWARDED;
        if (reason == REASON_FORWARDED) buf_add_slice(out, buf_slice(&value));
    }
    buf_free(&value);
    return reason;
}

enum reason grant_make(struct grant *g, struct slice input, int64_t now_s, int64_t exp_s, struct buf *out,
                       char **detail)
{
    struct buf object;
    enum reason reason = REASON_GRANT_FAILED;
    *detail = NULL;
    buf_init(&object, NULL);
    if (make_object(g, input, &object, detail)) reason = grant_encode(g, &object, now_s, exp_s, out, detail);
    buf_free(&object);
    return reason;
}

struct slice grant_jwks(const struct grant *g)
{
    return g->config.format == GRANT_JWS ? buf_slice(&g->key.jwks) : SLICE("{\"keys\":[]}");
}
