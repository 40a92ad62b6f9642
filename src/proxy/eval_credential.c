/* proxy/eval_credential: prepares the credential of a rehearsed request. Called by eval before the parts are made. The token
   is read by the reader of tokens, and judged by nobody here; it never gets into what is told of it. */
#include "proxy/eval_credential.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "authz/base64url.h"
#include "authz/credential.h"
#include "authz/jws.h"
#include "authz/stand_in.h"
#include "authz/strict.h"
#include "base/check.h"
#include "base/json.h"
#include "base/log.h"

#define CLAIMS_LIVE_S 300 /* an exp for claims that have none */

static const char not_checked[] = "not checked: the issuer's keys stand at a URL, which takes --network";

static struct conf_issuer *issuer_named(struct conf *conf, struct slice name)
{
    for (size_t i = 0; name.p && i < conf->tokens.issuers_n; i++)
        if (slice_eq(conf->tokens.issuers[i].issuer, name)) return &conf->tokens.issuers[i];
    return NULL;
}

static const struct signature_algorithm *first_algorithm(const struct conf_issuer *issuer)
{
    const struct signature_algorithm *a = NULL;
    for (size_t i = 0; issuer && !a && i < issuer->algorithms.n; i++) a = signature_find(issuer->algorithms.v[i]);
    return a ? a : signature_find(SLICE("ES256"));
}

static void use_keys(struct conf_issuer *issuer, struct slice jwks)
{
    issuer->jwks_url = issuer->secret = SLICE("");
    issuer->jwks = jwks;
}

/* Nobody's token comes from those: any set does. */
static void fill_in_keys(struct eval_credential *c, struct conf *conf)
{
    struct stand_in s;
    CHECK(stand_in_create(&s, signature_find(SLICE("ES256"))), "not an HMAC");
    stand_in_jwks(&s, slice_make(NULL, 0), &c->more_keys);
    stand_in_free(&s);
    for (size_t i = 0; i < conf->tokens.issuers_n; i++)
        if (conf->tokens.issuers[i].jwks_url.n) use_keys(&conf->tokens.issuers[i], buf_slice(&c->more_keys));
}

/* --- what may be told ---------------------------------------------------------------------------------------------- */

static void tell_text(struct json *j, const json_t *object, const char *claim, const char *key)
{
    struct slice text = strict_text(object, claim);
    if (!text.p) return;
    json_key(j, slice_str(key));
    json_text(j, text);
}

static void tell_time(struct json *j, const json_t *payload, const char *claim, const char *key)
{
    const json_t *value = json_object_get(payload, claim);
    double seconds = json_number_value(value);
    char text[LOG_TIME_BYTES];
    if (!json_is_number(value) || !(seconds >= 0 && seconds < 253402300800.0)) return;
    log_time((int64_t)(seconds * 1000), text);
    json_key(j, slice_str(key));
    json_text(j, slice_str(text));
}

static void tell_audience(struct json *j, const json_t *payload)
{
    const json_t *value = json_object_get(payload, "aud");
    if (json_is_string(value)) tell_text(j, payload, "aud", "audience");
    if (!json_is_array(value)) return;
    size_t i;
    const json_t *one;
    json_field(j, "audience");
    json_array_start(j);
    json_array_foreach(value, i, one)
        if (json_is_string(one)) json_text(j, slice_str(json_string_value(one)));
    json_array_end(j);
}

static void tell_token(struct eval_credential *c, const json_t *header, const json_t *payload)
{
    struct json j;
    json_init(&j, &c->facts);
    json_field_string(&j, "kind", c->from_claims ? SLICE("claims") : SLICE("bearer token"));
    if (!c->from_claims) {
        tell_text(&j, header, "alg", "algorithm");
        tell_text(&j, header, "kid", "kid");
        tell_text(&j, header, "typ", "type");
    }
    tell_text(&j, payload, "iss", "issuer");
    tell_text(&j, payload, "sub", "sub");
    tell_audience(&j, payload);
    tell_time(&j, payload, "nbf", "not_before");
    tell_time(&j, payload, "exp", "expires");
}

static void tell_kind(struct eval_credential *c, struct slice kind)
{
    struct json j;
    json_init(&j, &c->facts);
    json_field_string(&j, "kind", kind);
}

/* --- a token ------------------------------------------------------------------------------------------------------- */

/* Signed by us in the place of an issuer whose keys are not at hand. An algorithm that it may not use is left to be
   refused. */
static void sign_anew(struct eval_credential *c, struct conf_issuer *issuer, const struct jws *token)
{
    struct stand_in s;
    const struct signature_algorithm *a = signature_find(token->algorithm);
    if (!a || !stand_in_create(&s, a)) return;
    stand_in_jwks(&s, token->has_kid ? token->kid : slice_make(NULL, 0), &c->keys);
    use_keys(issuer, buf_slice(&c->keys));
    struct buf made;
    buf_init(&made, NULL);
    buf_reserve(&made, c->value.n + 1024); /* so that no copy is left behind */
    buf_add_lit(&made, "Bearer ");
    stand_in_sign(&s, token->input, &made);
    stand_in_free(&s);
    explicit_bzero(c->value.p, c->value.n);
    buf_free(&c->value);
    c->value = made;
}

static void read_token(const struct eval_asked *asked, struct conf *conf, struct eval_credential *c, struct slice text)
{
    struct arena arena;
    struct jws token;
    struct refusal refusal;
    arena_init(&arena);
    if (jws_read(text, &arena, &token, &refusal)) {
        bool verified = conf->tokens.verify == VERIFY_KEYS;
        struct conf_issuer *issuer = issuer_named(conf, strict_text(token.payload, "iss"));
        tell_token(c, token.header, token.payload);
        if (!verified) c->signature = "not checked: tokens.verify is upstream";
        if (verified && issuer) c->signature = "checked";
        if (verified && issuer && issuer->jwks_url.n && !asked->network) {
            c->signature = not_checked;
            sign_anew(c, issuer, &token);
        }
        jws_finish(&token);
    } else {
        tell_kind(c, SLICE("bearer token that cannot be read"));
    }
    arena_reset(&arena);
}

static void take_authorization(const struct eval_asked *asked, struct conf *conf, struct eval_credential *c)
{
    enum credential_scheme scheme = CREDENTIAL_NONE;
    struct slice text;
    struct refusal refusal;
    buf_reserve(&c->value, asked->authorization.n + 1);
    buf_add_slice(&c->value, asked->authorization);
    if (!credential_read(asked->authorization, conf->tokens.api_keys, &scheme, &text, &refusal))
        tell_kind(c, SLICE("not one that is accepted"));
    else if (scheme == CREDENTIAL_API_KEY)
        tell_kind(c, SLICE("API key"));
    else
        read_token(asked, conf, c, text);
}

/* --- claims -------------------------------------------------------------------------------------------------------- */

static void add_part(struct buf *out, json_t *object)
{
    char *text = json_dumps(object, JSON_COMPACT);
    CHECK(text, "an object can be written");
    base64url_encode(slice_str(text), out);
    free(text);
}

/* What every token needs and the claims do not say. False: which issuer it is cannot be told. */
static bool complete(json_t *claims, struct conf *conf, struct conf_issuer **issuer)
{
    if (!json_object_get(claims, "iss")) {
        if (conf->tokens.issuers_n > 1) return false;
        if (conf->tokens.issuers_n == 1)
            json_object_set_new(claims, "iss", json_string(conf->tokens.issuers[0].issuer.p));
    }
    *issuer = issuer_named(conf, strict_text(claims, "iss"));
    if (!json_object_get(claims, "exp")) json_object_set_new(claims, "exp", json_integer(time(NULL) + CLAIMS_LIVE_S));
    if (*issuer && (*issuer)->audiences.n && !json_object_get(claims, "aud"))
        json_object_set_new(claims, "aud", json_string((*issuer)->audiences.v[0].p));
    return true;
}

/* One whose issuer is nobody is signed likewise, and refused for its issuer. */
static void sign_claims(struct eval_credential *c, struct conf_issuer *issuer, json_t *header, json_t *claims)
{
    const struct signature_algorithm *a = first_algorithm(issuer);
    struct buf input;
    struct stand_in s;
    json_object_set_new(header, "alg", json_stringn(a->name.p, a->name.n));
    if (issuer && issuer->types.n) json_object_set_new(header, "typ", json_string(issuer->types.v[0].p));
    buf_init(&input, NULL);
    add_part(&input, header);
    buf_add_char(&input, '.');
    add_part(&input, claims);
    buf_add_lit(&c->value, "Bearer ");
    if (stand_in_create(&s, a)) {
        stand_in_jwks(&s, slice_make(NULL, 0), &c->keys);
        if (issuer) use_keys(issuer, buf_slice(&c->keys));
        stand_in_sign(&s, buf_slice(&input), &c->value);
        stand_in_free(&s);
    } else {
        stand_in_sign_secret(a, issuer->secret, buf_slice(&input), &c->value);
    }
    buf_free(&input);
}

static bool take_claims(const struct eval_asked *asked, struct conf *conf, struct eval_credential *c, char **error)
{
    enum strict_problem problem;
    struct conf_issuer *issuer = NULL;
    json_t *claims = strict_object(asked->claims, &problem), *header = json_object();
    c->from_claims = true;
    c->signature = "none: claims were given, no token";
    if (!claims)
        *error = xstrdup("--claims: not one JSON object");
    else if (!complete(claims, conf, &issuer))
        *error = xstrdup("--claims: no iss, and the configuration has several issuers");
    else {
        sign_claims(c, issuer, header, claims);
        tell_token(c, header, claims);
    }
    json_decref(claims);
    json_decref(header);
    return *error == NULL;
}

bool eval_credential_make(const struct eval_asked *asked, struct conf *conf, struct eval_credential *c, char **error)
{
    *c = (struct eval_credential){0};
    *error = NULL;
    buf_init(&c->value, NULL);
    buf_init(&c->facts, NULL);
    buf_init(&c->keys, NULL);
    buf_init(&c->more_keys, NULL);
    bool good = true;
    if (asked->claims.p)
        good = take_claims(asked, conf, c, error);
    else if (asked->authorization.p)
        take_authorization(asked, conf, c);
    if (!asked->network) fill_in_keys(c, conf);
    return good;
}

void eval_credential_free(struct eval_credential *c)
{
    if (c->value.n) explicit_bzero(c->value.p, c->value.n);
    buf_free(&c->value);
    buf_free(&c->facts);
    buf_free(&c->keys);
    buf_free(&c->more_keys);
}
