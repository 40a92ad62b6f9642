/* authz/context: a document (profile, claims, Redis value) to a user. Strict: a context is an object with a non-empty
   text `id`, or it is none. */
#ifndef AUTHZ_CONTEXT_H
#define AUTHZ_CONTEXT_H

#include <stdint.h>

#include "authz/identity.h"

struct subject { /* whose context it is */
    struct slice issuer;
    struct slice name;
    struct slice made_by; /* identity_config.made_by */
};

/* The profile (or claims) through the shape; shape NULL: the document as it is. NULL: not a context, *detail says why
   (fixed text). refs 1, times unset. */
struct user *context_of(struct slice document, struct shape *shape, const char **detail);
struct user *context_anonymous(void);

/* {"v":1,"iss","sub","by","stored":Unix ms,"context":{…}}; "by" only where made_by is not empty */
void context_store(const struct user *u, const struct subject *s, int64_t stored_wall_ms, struct buf *out);
/* NULL unless it is exactly that and of this subject. */
struct user *context_load(struct slice stored, const struct subject *s, int64_t *stored_wall_ms);

void context_free(struct cache_entry *e); /* of the struct user around it */

#endif
