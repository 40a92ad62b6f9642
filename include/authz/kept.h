/* authz/kept: what a struct token is allocated in: the token, its texts in one block, the key that vouches for it. */
#ifndef AUTHZ_KEPT_H
#define AUTHZ_KEPT_H

#include "authz/issuer.h"
#include "authz/jwk.h"
#include "authz/token.h"

struct json_t;

struct kept {
    struct token token;
    const struct issuer *issuer; /* NULL: not verified. Only followed while in the cache */
    struct jwk *key;             /* held; NULL: a secret, or not verified */
    char text[];
};

/* With one reference, exp_s and the key in the cache unset. claims: names of those that go into token.claims. */
struct kept *kept_verified(const struct issuer *issuer, struct jwk *key, const struct json_t *payload,
                           struct slice subject, const struct texts *claims);
/* An API key, or a token in upstream mode: no text of it is an identity. */
struct kept *kept_unverified(void);

static inline struct kept *kept_of(struct cache_entry *e)
{
    return container_of(e, struct kept, token.entry);
}

void kept_destroy(struct cache_entry *e);

#endif
