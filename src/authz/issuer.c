/* authz/issuer: called by token, once the unverified `iss` has named it. It refuses an algorithm that the configuration
   does not list, whatever the key says, and a key that does not allow the algorithm, whatever the configuration says:
   no token chooses how it is verified (RFC 8725 3.1). */
#include "authz/issuer.h"

#include <stdlib.h>

#include "authz/claims.h"
#include "authz/signature.h"
#include "base/check.h"

static void on_keys(void *arg)
{
    struct issuer *i = arg;
    i->on_settled(i);
}

/* *bits: by signature_index. */
static const char *check_algorithms(const struct issuer_config *c, uint32_t *bits)
{
    const struct texts *names = &c->algorithms;
    *bits = 0;
    if (names->n == 0) return "no algorithms";
    bool secret = c->secret.n != 0;
    for (size_t n = 0; n < names->n; n++) {
        const struct signature_algorithm *a = signature_find(names->v[n]);
        if (!a) return "an algorithm that is not known";
        if ((a->scheme == SIGNATURE_HMAC) != secret)
            return secret ? "only HS256, HS384 and HS512 go with a secret" : "HS256, HS384 and HS512 need a secret";
        if (secret && c->secret.n < a->digest_bytes)
            return "the secret must be as long as the hash: 32 bytes for HS256, 48 for HS384, 64 for HS512";
        *bits |= 1u << signature_index(a);
    }
    return NULL;
}

static const char *check_config(const struct issuer_config *c)
{
    if (c->issuer.n == 0) return "no issuer";
    if ((c->jwks_url.n != 0) + (c->jwks.n != 0) + (c->secret.n != 0) != 1)
        return "exactly one of a key set address, a key set file and a secret is needed";
    if (c->audiences.n == 0 && !c->any_audience) return "no audiences, and any_audience is not true";
    return c->jwks_url.n ? fetch_url_check(c->jwks_url) : NULL;
}

static struct jwks_config keys_of(struct issuer *i)
{
    const struct issuer_config *c = &i->config;
    int64_t max_s = INT64_MAX / 1000;
    return (struct jwks_config){.issuer = c->issuer,
                                .url = c->jwks_url,
                                .tls = c->tls,
                                .max_stale_ms = (c->max_stale_s < max_s ? c->max_stale_s : max_s) * 1000,
                                .on_settled = on_keys,
                                .arg = i};
}

const char *issuer_init(struct issuer *i, const struct issuer_config *c, struct loop *l, struct fetch *f,
                        void (*on_settled)(struct issuer *i))
{
    *i = (struct issuer){.config = *c, .on_settled = on_settled};
    list_init(&i->waiting);
    const char *error = check_config(c);
    if (!error) error = check_algorithms(c, &i->algorithms);
    if (error || c->secret.n) return error;
    if (c->jwks.n) {
        i->jwks = jwks_create_fixed(l, c->issuer, c->jwks, &error);
        return error;
    }
    struct jwks_config keys = keys_of(i);
    i->jwks = jwks_create(l, f, &keys);
    return NULL;
}

void issuer_finish(struct issuer *i)
{
    if (i->jwks) jwks_destroy(i->jwks);
    i->jwks = NULL;
}

const char *issuer_check(const struct issuer_config *c)
{
    uint32_t algorithms;
    struct keyset keys = {0};
    const char *error = check_config(c);
    if (!error) error = check_algorithms(c, &algorithms);
    if (!error && c->jwks.n && keyset_replace(&keys, c->jwks, &error)) keyset_clear(&keys);
    return error;
}

static bool same_texts(const struct texts *a, const struct texts *b)
{
    if (a->n != b->n) return false;
    for (size_t i = 0; i < a->n; i++)
        if (!slice_eq(a->v[i], b->v[i])) return false;
    return true;
}

bool issuer_same_keys(const struct issuer_config *a, const struct issuer_config *b)
{
    /* whom to believe is part of where they come from; what is shown there is not */
    return slice_eq(a->jwks_url, b->jwks_url) && slice_eq(a->tls.ca, b->tls.ca) && slice_eq(a->jwks, b->jwks) &&
           slice_eq(a->secret, b->secret);
}

bool issuer_same_rules(const struct issuer_config *a, const struct issuer_config *b)
{
    return same_texts(&a->audiences, &b->audiences) && a->any_audience == b->any_audience &&
           same_texts(&a->algorithms, &b->algorithms) && same_texts(&a->types, &b->types);
}

void issuer_adjust(struct issuer *i, const struct issuer_config *c)
{
    i->config = *c;
    CHECK(check_algorithms(c, &i->algorithms) == NULL, "it was checked before");
    if (!i->jwks) return;
    struct jwks_config keys = keys_of(i);
    jwks_adjust(i->jwks, &keys);
}

static struct slice without_application(struct slice type)
{
    const struct slice prefix = SLICE("application/");
    if (type.n < prefix.n || !slice_eq_nocase(slice_make(type.p, prefix.n), prefix)) return type;
    return slice_make(type.p + prefix.n, type.n - prefix.n);
}

/* RFC 7515 4.1.9, RFC 8725 3.11. */
static bool type_is_listed(const struct texts *types, struct slice type)
{
    for (size_t n = 0; n < types->n; n++)
        if (slice_eq_nocase(without_application(types->v[n]), without_application(type))) return true;
    return false;
}

/* NULL: not known, or not listed for this issuer. */
static const struct signature_algorithm *listed(const struct issuer *i, const struct jws *j)
{
    const struct signature_algorithm *a = signature_find(j->algorithm);
    return a && i->algorithms >> signature_index(a) & 1 ? a : NULL;
}

bool issuer_accepts(const struct issuer *i, const struct jws *j, int64_t now_s, int64_t leeway_s, int64_t *exp_s,
                    struct refusal *r)
{
    if (!listed(i, j)) return refuse(r, REASON_TOKEN_ALGORITHM, "alg is not one that this issuer may use");
    if (i->config.types.n) {
        if (!j->type.p) return refuse(r, REASON_TOKEN_TYPE, "typ is missing");
        if (!type_is_listed(&i->config.types, j->type))
            return refuse(r, REASON_TOKEN_TYPE, "typ is not one that this issuer may use");
    }
    if (!claims_times(j->payload, now_s, leeway_s, exp_s, r)) return false;
    return i->config.any_audience || claims_audience(j->payload, &i->config.audiences, r);
}

struct search {      /* what was seen on the way through the keys */
    bool named;      /* a key has the token's kid, or the token has none */
    bool fitting;    /* and allows its algorithm */
    struct jwk *key; /* and verified it */
};

static struct search try_keys(const struct keyset *s, const struct jws *j, const struct signature_algorithm *a)
{
    struct search found = {.named = !j->has_kid};
    unsigned tries = 0;
    for (size_t n = 0; n < s->n && tries < ISSUER_TRIES; n++) {
        struct jwk *k = s->keys[n];
        if (j->has_kid && !(k->has_kid && slice_eq(k->kid, j->kid))) continue;
        found.named = true;
        if (!jwk_allows(k, a)) continue;
        found.fitting = true;
        tries++;
        if (!signature_verify(a, k->kind, k->key, j->input, j->signature)) continue;
        found.key = k;
        break;
    }
    return found;
}

static enum issuer_verdict refused(struct refusal *r, enum reason reason, const char *detail)
{
    refuse(r, reason, detail);
    return ISSUER_REFUSED;
}

enum issuer_verdict issuer_verify(struct issuer *i, const struct jws *j, bool may_wait, struct jwk **key,
                                  struct refusal *r)
{
    const struct signature_algorithm *a = listed(i, j);
    *key = NULL;
    if (!a) return refused(r, REASON_TOKEN_ALGORITHM, "alg is not one that this issuer may use");
    if (!i->jwks) {
        if (signature_verify_secret(a, i->config.secret, j->input, j->signature)) return ISSUER_VERIFIED;
        return refused(r, REASON_TOKEN_SIGNATURE, "the signature is not that of the secret");
    }
    if (!jwks_usable(i->jwks)) {
        bool never = jwks_never_loaded(i->jwks);
        if (never && may_wait && jwks_fetching(i->jwks)) return ISSUER_WAIT;
        return refused(r, REASON_KEYS_UNAVAILABLE,
                       never ? "the issuer's keys were never loaded" : "the issuer's keys are stale");
    }
    struct search found = try_keys(jwks_keys(i->jwks), j, a);
    if (found.key) {
        *key = found.key;
        return ISSUER_VERIFIED;
    }
    if (!found.named) {
        if (may_wait && jwks_refetch(i->jwks)) return ISSUER_WAIT;
        return refused(r, REASON_TOKEN_KEY, "the issuer has no key of this kid");
    }
    if (!found.fitting) return refused(r, REASON_TOKEN_ALGORITHM, "alg does not fit the issuer's key");
    return refused(r, REASON_TOKEN_SIGNATURE,
                   j->has_kid ? "the signature is not that of the key" : "no key of the issuer verifies the signature");
}

bool issuer_vouches(const struct issuer *i, const struct jwk *key)
{
    return !key || (!key->gone && jwks_usable(i->jwks));
}
