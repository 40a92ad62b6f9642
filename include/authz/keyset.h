/* authz/keyset: the keys of one JWK set document (RFC 7517 5). Broken, foreign and repeated keys are skipped and
   counted; a document that is no set, has more than KEYSET_MAX keys or none that is usable is refused whole. */
#ifndef AUTHZ_KEYSET_H
#define AUTHZ_KEYSET_H

#include <stdbool.h>
#include <stddef.h>

#include "authz/jwk.h"
#include "base/slice.h"

#define KEYSET_MAX 1000

struct keyset {        /* zeroed: no keys */
    struct jwk **keys; /* each held once */
    size_t n;
    size_t skipped;
};

/* Replaces the keys of *s by those of the document. A key that was there before stays the same struct jwk; one that is
   not there any more is marked `gone` and released. False: nothing changed, *error is a fixed text. */
bool keyset_replace(struct keyset *s, struct slice document, const char **error);
/* Marks all keys gone and releases them. */
void keyset_clear(struct keyset *s);

#endif
