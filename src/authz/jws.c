/* authz/jws: from the text of a token to its header, payload and signature. Called by token. The cheap refusals stand
   first: number of parts, header, then the longer payload. */
#include "authz/jws.h"

#include <jansson.h>

#include "authz/base64url.h"
#include "authz/jwk.h"
#include "authz/strict.h"

struct problems { /* one text per way a part can be wrong, since a detail is a fixed text */
    const char *base64url;
    const char *json[STRICT_NO_OBJECT + 1];
};

static const struct problems header_problems = {
    .base64url = "the header is not strict base64url",
    .json =
        {
            [STRICT_INVALID] = "the header is not JSON",
            [STRICT_DUPLICATE] = "the header has a name twice",
            [STRICT_TOO_DEEP] = "the header is nested too deep",
            [STRICT_NO_OBJECT] = "the header is not an object",
        },
};

static const struct problems payload_problems = {
    .base64url = "the payload is not strict base64url",
    .json =
        {
            [STRICT_INVALID] = "the payload is not JSON",
            [STRICT_DUPLICATE] = "the payload has a name twice",
            [STRICT_TOO_DEEP] = "the payload is nested too deep",
            [STRICT_NO_OBJECT] = "the payload is not an object",
        },
};

static bool split(struct slice text, struct slice parts[3], struct refusal *r)
{
    size_t n = 1;
    for (size_t i = 0; i < text.n; i++)
        n += text.p[i] == '.';
    if (n == 5) return refuse(r, REASON_TOKEN_MALFORMED, "encrypted tokens (JWE) are not accepted");
    if (n != 3) return refuse(r, REASON_TOKEN_MALFORMED, "the token does not have three parts");
    for (size_t i = 0; i < 3; i++)
        slice_next(&text, '.', &parts[i]);
    return true;
}

static struct json_t *read_part(struct slice part, struct arena *a, const struct problems *problems, struct refusal *r)
{
    uint8_t *bytes = arena_alloc(a, BASE64URL_ROOM(part.n));
    size_t n;
    if (!base64url_decode(part, bytes, &n)) {
        refuse(r, REASON_TOKEN_MALFORMED, problems->base64url);
        return NULL;
    }
    enum strict_problem problem;
    struct json_t *object = strict_object(slice_make((const char *)bytes, n), &problem);
    if (!object) refuse(r, REASON_TOKEN_MALFORMED, problems->json[problem]);
    return object;
}

static bool check_names(const json_t *header, struct refusal *r)
{
    static const struct {
        const char *name;
        const char *detail;
    } refused[] = {
        {"crit", "critical extensions (crit) are not accepted"},
        {"b64", "unencoded payloads (b64) are not accepted"},
        {"jwk", "keys embedded in the token (jwk) are not accepted"},
        {"jku", "key set addresses in the token (jku) are not accepted"},
        {"x5u", "certificate addresses in the token (x5u) are not accepted"},
        {"x5c", "certificates embedded in the token (x5c) are not accepted"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (json_object_get(header, refused[i].name)) return refuse(r, REASON_TOKEN_HEADER, refused[i].detail);
    return true;
}

static bool check_header(struct jws *j, struct refusal *r)
{
    j->algorithm = strict_text(j->header, "alg");
    if (!j->algorithm.p) return refuse(r, REASON_TOKEN_ALGORITHM, "alg is missing or not a text");
    if (slice_eq_nocase(j->algorithm, SLICE("none")))
        return refuse(r, REASON_TOKEN_ALGORITHM, "unsigned tokens (alg none) are not accepted");
    if (!check_names(j->header, r)) return false;
    j->has_kid = json_object_get(j->header, "kid") != NULL;
    j->kid = strict_text(j->header, "kid");
    if (j->has_kid && (!j->kid.p || j->kid.n > JWK_KID_MAX))
        return refuse(r, REASON_TOKEN_HEADER, "kid is not a text of at most 512 bytes");
    j->type = strict_text(j->header, "typ");
    if (!j->type.p && json_object_get(j->header, "typ")) return refuse(r, REASON_TOKEN_HEADER, "typ is not a text");
    return true;
}

static bool read_signature(struct slice part, struct arena *a, struct jws *out, struct refusal *r)
{
    uint8_t *bytes = arena_alloc(a, BASE64URL_ROOM(part.n));
    size_t n;
    if (!base64url_decode(part, bytes, &n))
        return refuse(r, REASON_TOKEN_MALFORMED, "the signature is not strict base64url");
    if (n == 0) return refuse(r, REASON_TOKEN_SIGNATURE, "the signature is empty");
    out->signature = slice_make((const char *)bytes, n);
    return true;
}

bool jws_read(struct slice text, struct arena *a, struct jws *out, struct refusal *r)
{
    *out = (struct jws){0};
    struct slice parts[3];
    if (!split(text, parts, r)) return false;
    out->input = slice_make(text.p, parts[0].n + 1 + parts[1].n);
    out->header = read_part(parts[0], a, &header_problems, r);
    if (out->header && check_header(out, r) && read_signature(parts[2], a, out, r)) {
        out->payload = read_part(parts[1], a, &payload_problems, r);
        if (out->payload) return true;
    }
    jws_finish(out);
    return false;
}

void jws_finish(struct jws *j)
{
    json_decref(j->header);
    json_decref(j->payload);
    j->header = j->payload = NULL;
}
