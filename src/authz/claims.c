/* authz/claims: called by issuer before a signature is verified (cheap refusals first) and by token in upstream mode.
   It refuses doubt: a time that is no number, an audience that is no text, a name that could be read in two ways. */
#include "authz/claims.h"

#include <jansson.h>
#include <math.h>

#include "authz/strict.h"
#include "authz/token.h"

enum time_found { TIME_ABSENT, TIME_WRONG, TIME_FOUND };

static int64_t within(double t)
{
    if (t > (double)CLAIMS_TIME_MAX) return CLAIMS_TIME_MAX;
    if (t < -(double)CLAIMS_TIME_MAX) return -CLAIMS_TIME_MAX;
    return (int64_t)t;
}

/* NumericDate (RFC 7519 2); a part of a second goes to the strict side: up for a beginning, down for an end. */
static enum time_found find_time(const json_t *payload, const char *name, bool is_end, int64_t *seconds)
{
    const json_t *v = json_object_get(payload, name);
    if (!v) return TIME_ABSENT;
    if (json_is_integer(v)) {
        json_int_t t = json_integer_value(v);
        if (t > CLAIMS_TIME_MAX) t = CLAIMS_TIME_MAX;
        if (t < -CLAIMS_TIME_MAX) t = -CLAIMS_TIME_MAX;
        *seconds = t;
        return TIME_FOUND;
    }
    if (!json_is_real(v) || !isfinite(json_real_value(v))) return TIME_WRONG;
    double t = json_real_value(v);
    *seconds = within(is_end ? floor(t) : ceil(t));
    return TIME_FOUND;
}

bool claims_expired(int64_t exp_s, int64_t now_s, int64_t leeway_s)
{
    return exp_s <= now_s - leeway_s;
}

bool claims_times(const struct json_t *payload, int64_t now_s, int64_t leeway_s, int64_t *exp_s, struct refusal *r)
{
    enum time_found found = find_time(payload, "exp", true, exp_s);
    if (found == TIME_ABSENT) return refuse(r, REASON_TOKEN_CLAIMS, "exp is missing");
    if (found == TIME_WRONG) return refuse(r, REASON_TOKEN_CLAIMS, "exp is not a number");
    if (claims_expired(*exp_s, now_s, leeway_s)) return refuse(r, REASON_TOKEN_EXPIRED, "the token has expired (exp)");
    int64_t from_s;
    found = find_time(payload, "nbf", false, &from_s);
    if (found == TIME_WRONG) return refuse(r, REASON_TOKEN_CLAIMS, "nbf is not a number");
    if (found == TIME_FOUND && from_s > now_s + leeway_s)
        return refuse(r, REASON_TOKEN_NOT_YET, "the token is not valid yet (nbf)");
    found = find_time(payload, "iat", false, &from_s);
    if (found == TIME_WRONG) return refuse(r, REASON_TOKEN_CLAIMS, "iat is not a number");
    if (found == TIME_FOUND && from_s > now_s + leeway_s)
        return refuse(r, REASON_TOKEN_NOT_YET, "the token was issued in the future (iat)");
    return true;
}

static bool is_ours(const json_t *audience, const struct texts *ours)
{
    struct slice a = slice_make(json_string_value(audience), json_string_length(audience));
    for (size_t i = 0; i < ours->n; i++)
        if (slice_eq(ours->v[i], a)) return true;
    return false;
}

bool claims_audience(const struct json_t *payload, const struct texts *ours, struct refusal *r)
{
    const json_t *aud = json_object_get(payload, "aud");
    if (!aud) return refuse(r, REASON_TOKEN_AUDIENCE, "aud is missing");
    bool found = false;
    if (json_is_string(aud)) {
        found = is_ours(aud, ours);
    } else if (json_is_array(aud)) {
        for (size_t i = 0; i < json_array_size(aud); i++) {
            const json_t *one = json_array_get(aud, i);
            if (!json_is_string(one)) return refuse(r, REASON_TOKEN_AUDIENCE, "aud has a member that is not a text");
            found = found || is_ours(one, ours);
        }
    } else {
        return refuse(r, REASON_TOKEN_AUDIENCE, "aud is neither a text nor an array");
    }
    return found || refuse(r, REASON_TOKEN_AUDIENCE, "the token is for another audience (aud)");
}

/* C0, DEL and, as UTF-8, C1. jansson has checked that the text is UTF-8. */
static bool has_control(struct slice s)
{
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        if (c < 0x20 || c == 0x7f) return true;
        if (c == 0xc2 && i + 1 < s.n && (unsigned char)s.p[i + 1] < 0xa0) return true;
    }
    return false;
}

bool claims_subject(const struct json_t *payload, struct slice name_claim, struct slice *subject, struct refusal *r)
{
    const json_t *v = name_claim.n ? json_object_getn(payload, name_claim.p, name_claim.n) : NULL;
    if (!v) v = json_object_get(payload, "sub");
    if (!v) return refuse(r, REASON_TOKEN_SUBJECT, "the token names no subject");
    if (!json_is_string(v)) return refuse(r, REASON_TOKEN_SUBJECT, "the subject is not a text");
    struct slice s = slice_make(json_string_value(v), json_string_length(v));
    if (s.n == 0) return refuse(r, REASON_TOKEN_SUBJECT, "the subject is empty");
    if (s.n > CLAIMS_SUBJECT_MAX) return refuse(r, REASON_TOKEN_SUBJECT, "the subject is longer than 512 bytes");
    if (has_control(s)) return refuse(r, REASON_TOKEN_SUBJECT, "the subject has a control character");
    *subject = s;
    return true;
}
