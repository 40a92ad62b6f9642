/* authz/claims: the registered claims of RFC 7519 4.1 that decide whether a token is good here and now. */
#ifndef AUTHZ_CLAIMS_H
#define AUTHZ_CLAIMS_H

#include <stdbool.h>
#include <stdint.h>

#include "authz/refusal.h"
#include "base/slice.h"

#define CLAIMS_SUBJECT_MAX 512       /* bytes */
#define CLAIMS_TIME_MAX 253402300799 /* the year 9999: later times are this one, so that sums cannot overflow */

struct json_t;
struct texts;

/* exp is required, nbf and iat are obeyed where they are there; all numbers, whole or not. *exp_s: whole seconds, never
   later than what the token says. */
bool claims_times(const struct json_t *payload, int64_t now_s, int64_t leeway_s, int64_t *exp_s, struct refusal *r);
bool claims_expired(int64_t exp_s, int64_t now_s, int64_t leeway_s);

/* aud: a text or an array of texts; one of them must be one of ours. */
bool claims_audience(const struct json_t *payload, const struct texts *ours, struct refusal *r);

/* The claim of that name (empty: none), or `sub` where it is absent: a text, not empty, of at most CLAIMS_SUBJECT_MAX
   bytes, without control characters. Valid as long as the payload. */
bool claims_subject(const struct json_t *payload, struct slice name_claim, struct slice *subject, struct refusal *r);

#endif
