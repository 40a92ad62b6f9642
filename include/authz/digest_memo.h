/* authz/digest_memo: the SHA-256 of the credentials that came last, found again by comparing their bytes, which costs a
   twentieth of the digest where the processor has no instructions for it. Only that: what a digest stands for is asked
   anew each time, so that nothing here can be out of date. */
#ifndef AUTHZ_DIGEST_MEMO_H
#define AUTHZ_DIGEST_MEMO_H

#include <stdbool.h>

#include "authz/digest.h"

struct digest_memo;

struct digest_memo *digest_memo_create(void);
/* The texts are overwritten before their memory is freed, here and wherever one of them is let go. */
void digest_memo_destroy(struct digest_memo *m);

/* True: out is the digest of text (digest_parts of this one part). The time it takes does not depend on how much of
   text is like what is kept. */
bool digest_memo_find(const struct digest_memo *m, struct slice text, uint8_t out[DIGEST_BYTES]);
/* Keeps a copy, perhaps in place of another. No text that is very long. */
void digest_memo_keep(struct digest_memo *m, struct slice text, const uint8_t digest[DIGEST_BYTES]);
/* Of a text that is no longer good for anything. */
void digest_memo_forget(struct digest_memo *m, struct slice text);
void digest_memo_clear(struct digest_memo *m);

#endif
