/* proxy/eval_credential: the credential of a rehearsed request, and what may be told of it. */
#ifndef PROXY_EVAL_CREDENTIAL_H
#define PROXY_EVAL_CREDENTIAL_H

#include <stdbool.h>

#include "base/buf.h"
#include "conf/options.h"
#include "proxy/eval.h"

struct eval_credential {
    struct buf value;      /* of the Authorization line that is played; empty: none. Secret, wiped in the end */
    struct buf facts;      /* members of a JSON object, without braces: what the token says of itself */
    const char *signature; /* in words: whether it is checked; NULL: nothing to check */
    bool from_claims;      /* no token was given */
    struct buf keys;       /* key sets in the place of those that are not at hand */
    struct buf more_keys;
};

/* Without a network issuers whose keys stand at a URL get a key of ours, and a token of theirs is signed anew with it:
   then all but its signature is checked as ever. Claims become a token likewise. False: *error (heap text) says what is
   wrong with the claims. What conf points to afterwards lives in c. */
bool eval_credential_make(const struct eval_asked *asked, struct conf *conf, struct eval_credential *c, char **error);
void eval_credential_free(struct eval_credential *c);

#endif
