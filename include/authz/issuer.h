/* authz/issuer: one configured issuer: what its tokens must look like, and the keys that verify them. */
#ifndef AUTHZ_ISSUER_H
#define AUTHZ_ISSUER_H

#include <stdbool.h>
#include <stdint.h>

#include "authz/jwks.h"
#include "authz/jws.h"
#include "authz/refusal.h"
#include "authz/token.h"
#include "base/list.h"

#define ISSUER_TRIES 8 /* keys tried for one token at most */

struct issuer {
    struct issuer_config config; /* texts kept by pointer */
    uint32_t algorithms;         /* bits by signature_index */
    struct jwks *jwks;           /* NULL: a secret */
    struct list waiting;         /* of struct token_call, told when a fetch of keys ends */
    void (*on_settled)(struct issuer *i);
};

/* Starts the fetching of keys. NULL, or what is wrong with the configuration (fixed text); nothing to finish then. */
const char *issuer_init(struct issuer *i, const struct issuer_config *c, struct loop *l, struct fetch *f,
                        void (*on_settled)(struct issuer *i));
void issuer_finish(struct issuer *i);
/* NULL, or what is wrong with the configuration (fixed text): what issuer_init would say. */
const char *issuer_check(const struct issuer_config *c);
/* Are the keys of one as good for the other? And what is asked of their tokens beside? */
bool issuer_same_keys(const struct issuer_config *a, const struct issuer_config *b);
bool issuer_same_rules(const struct issuer_config *a, const struct issuer_config *b);
/* c is good and has the same keys. */
void issuer_adjust(struct issuer *i, const struct issuer_config *c);

/* Algorithm, type, times, audience: all that costs little. */
bool issuer_accepts(const struct issuer *i, const struct jws *j, int64_t now_s, int64_t leeway_s, int64_t *exp_s,
                    struct refusal *r);

enum issuer_verdict { ISSUER_REFUSED, ISSUER_VERIFIED, ISSUER_WAIT };

/* Key and signature. *key: which one verified it (not held), NULL for a secret. WAIT only with may_wait: on_settled
   will come. */
enum issuer_verdict issuer_verify(struct issuer *i, const struct jws *j, bool may_wait, struct jwk **key,
                                  struct refusal *r);

/* Are tokens that this key verified before still good? key NULL: a secret. */
bool issuer_vouches(const struct issuer *i, const struct jwk *key);

#endif
