/* authz/form: the general forms of the grant and of the answer of /authorize, for when no shape is configured. */
#ifndef AUTHZ_FORM_H
#define AUTHZ_FORM_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/slice.h"

/* input: what a grant's shape is given, see authz/grant.h. Both: ASCII JSON appended to out; false when input is no
   JSON object.
   Grant: {user, policy: {allow, decision_id, reason?, bypassed?} or null, constraints?, context?, filters?, headers?,
   timestamp}. Authorize: {decision: {allow, decision_id, reason?}, user, constraints?, …, timestamp}. */
bool form_grant(struct slice input, struct buf *out);
bool form_authorize(struct slice input, struct buf *out);

/* form_grant of a decision that allows and tells no more than a reason, without reading anything: user: JSON object;
   reason: ,"reason":"…" or empty; id and time need no escapes. False, and nothing is appended, where user or reason is
   not ASCII without escapes, which is left to form_grant. */
bool form_grant_plain(struct slice user, struct slice reason, const char *id, bool bypassed, const char *time,
                      struct buf *out);

#endif
