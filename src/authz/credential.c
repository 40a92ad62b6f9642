/* authz/credential: called by token. It refuses other schemes, a second credential and texts that are not token68. */
#include "authz/credential.h"

static struct slice scheme_of(struct slice s)
{
    size_t n = 0;
    while (n < s.n && s.p[n] != ' ')
        n++;
    return slice_make(s.p, n);
}

static enum credential_scheme known(struct slice scheme)
{
    if (slice_eq_nocase(scheme, SLICE("Bearer"))) return CREDENTIAL_BEARER;
    if (slice_eq_nocase(scheme, SLICE("apikey"))) return CREDENTIAL_API_KEY;
    return CREDENTIAL_NONE;
}

/* Commas are at home in the parameters of other schemes (Digest): there only one of our schemes behind one is a second
   credential. */
static bool second_behind_comma(struct slice value)
{
    struct slice part;
    slice_next(&value, ',', &part);
    while (slice_next(&value, ',', &part)) {
        part = slice_trim(part);
        if (known(scheme_of(part)) != CREDENTIAL_NONE) return true;
    }
    return false;
}

static bool has(struct slice s, char c)
{
    return s.n && memchr(s.p, c, s.n) != NULL;
}

/* RFC 9110 11.2: letters, digits, -._~+/ and then only "=". */
static bool is_token68(struct slice s)
{
    size_t i = 0;
    for (; i < s.n; i++) {
        char c = s.p[i];
        bool alnum = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!alnum && (c == '\0' || !strchr("-._~+/", c))) break;
    }
    if (i == 0) return false;
    while (i < s.n && s.p[i] == '=')
        i++;
    return i == s.n;
}

bool credential_read(struct slice value, bool api_keys, enum credential_scheme *scheme, struct slice *text,
                     struct refusal *r)
{
    value = slice_trim(value);
    struct slice name = scheme_of(value);
    enum credential_scheme found = known(name);
    if (found == CREDENTIAL_NONE ? second_behind_comma(value) : has(value, ','))
        return refuse(r, REASON_CREDENTIAL_MULTIPLE, "more than one credential, by comma");
    if (found == CREDENTIAL_NONE || (found == CREDENTIAL_API_KEY && !api_keys))
        return refuse(r, REASON_CREDENTIAL_SCHEME, "the scheme is not accepted");
    size_t at = name.n;
    while (at < value.n && value.p[at] == ' ')
        at++;
    struct slice rest = slice_make(value.p + at, value.n - at);
    if (rest.n == 0) return refuse(r, REASON_TOKEN_MALFORMED, "nothing stands behind the scheme");
    if (has(rest, ' ')) return refuse(r, REASON_CREDENTIAL_MULTIPLE, "more than one credential, by space");
    if (!is_token68(rest))
        return refuse(r, REASON_TOKEN_MALFORMED, "the credential has a character that none may have");
    *scheme = found;
    *text = rest;
    return true;
}
