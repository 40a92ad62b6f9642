/* Authorization values through tokens_check. What is taken must also pass a second verification, made here with OpenSSL
   and jansson alone. The first byte says what the rest is: a value as it is, edits of a good token, header and payload
   that the right key signs, or header and payload under a signature that is not the issuer's. */
#include <ctype.h>
#include <jansson.h>
#include <openssl/core_names.h>

#include "authz/token.h"
#include "base/metric.h"
#include "fuzz.h"
#include "unit/authz/token_maker.h"

#define ISSUER_KEYS "https://keys.test"
#define ISSUER_SECRET "https://secret.test"
#define SECRET "the-secret-that-fuzzing-signs-with" /* of these tests only */
#define LEEWAY_S 10

/* The public keys of RFC 7515 A.2 and A.3, so that there is something to confuse the third with. */
#define RSA_KEY                                                                                                        \
    "{\"kty\":\"RSA\",\"kid\":\"rsa\",\"e\":\"AQAB\",\"n\":\"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_"                       \
    "wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4q"                                                                            \
    "PCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5"    \
    "z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF"    \
    "8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ\"}"
#define EC_KEY                                                                                                         \
    "{\"kty\":\"EC\",\"kid\":\"ec\",\"crv\":\"P-256\",\"x\":\"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU\","          \
    "\"y\":\"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0\"}"

enum mode { MODE_AS_IT_IS, MODE_EDITS, MODE_SIGNED, MODE_FORGED, MODES };

static struct {
    struct loop *loop;
    struct fetch *fetch;
    struct arena arena;
    EVP_PKEY *key, *other;
    const char *jwks;
    const char *good[2]; /* by key, by secret: whole values */
    struct tokens *verified, *upstream;
} w;

static struct tokens *open_tokens(bool upstream)
{
    static const struct slice audiences[] = {{"api", 3}};
    static const struct slice algorithms[] = {{"RS256", 5}, {"PS256", 5}, {"ES256", 5}, {"EdDSA", 5}};
    static const struct slice by_secret[] = {{"HS256", 5}};
    static const struct slice claims[] = {{"roles", 5}};
    const struct issuer_config issuers[] = {{.issuer = SLICE(ISSUER_KEYS),
                                             .jwks = slice_str(w.jwks),
                                             .audiences = {audiences, 1},
                                             .algorithms = {algorithms, 4}},
                                            {.issuer = SLICE(ISSUER_SECRET),
                                             .secret = SLICE(SECRET),
                                             .audiences = {audiences, 1},
                                             .algorithms = {by_secret, 1}}};
    char *error = NULL;
    struct tokens *t = tokens_create(w.loop, w.fetch,
                                     &(struct tokens_config){.issuers = issuers,
                                                             .issuers_n = 2,
                                                             .claims = {claims, 1},
                                                             .name_claim = SLICE("name"),
                                                             .leeway_s = LEEWAY_S,
                                                             .upstream = upstream,
                                                             .api_keys = upstream,
                                                             .max_entries = 100,
                                                             .max_bytes = 16384},
                                     &error);
    CHECK(t, error);
    return t;
}

static const char *sign(struct arena *a, bool by_secret, const char *header, const char *payload)
{
    if (by_secret) return maker_bearer_mac(a, header, payload, "HS256", SLICE(SECRET));
    return maker_bearer(a, header, payload, "EdDSA", w.key);
}

static bool accepted(struct tokens *t, struct slice value, struct token_call *c)
{
    struct slice exact = input_exact(value);
    *c = (struct token_call){0};
    CHECK(tokens_check(t, exact, c) == OP_DONE, "nothing is waited for");
    free((char *)(uintptr_t)exact.p);
    CHECK((c->token != NULL) == (c->reason == REASON_FORWARDED), "a token or a reason");
    CHECK(c->token || (c->detail && reason_status(c->reason) >= 400 && reason_status(c->reason) < 500), "and why");
    return c->token != NULL;
}

static void set_up(void)
{
    static const unsigned char seed[32] = "one private key, for fuzzing", second[32] = "another one of the same kind";
    if (w.loop) return;
    metric_init("fuzz_");
    arena_init(&w.arena);
    w.loop = loop_create();
    w.fetch = fetch_create(w.loop);
    w.key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, seed, sizeof seed);
    w.other = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, second, sizeof second);
    w.jwks = maker_jwks(&w.arena, RSA_KEY, EC_KEY, maker_kid_jwk(&w.arena, w.key, "ed"));
    w.good[0] = sign(&w.arena, false, "{\"alg\":\"EdDSA\",\"kid\":\"ed\"}",
                     "{\"iss\":\"" ISSUER_KEYS "\",\"aud\":\"api\",\"sub\":\"alice\",\"exp\":253402300799}");
    w.good[1] = sign(&w.arena, true, "{\"alg\":\"HS256\"}",
                     "{\"iss\":\"" ISSUER_SECRET "\",\"aud\":[\"x\",\"api\"],\"sub\":\"bob\",\"exp\":253402300799}");
    w.verified = open_tokens(false);
    w.upstream = open_tokens(true);
    for (int i = 0; i < 2; i++) {
        struct token_call c;
        CHECK(accepted(w.verified, slice_str(w.good[i]), &c), "a good token is taken");
        token_release(c.token);
    }
}

/* --- the second verification -------------------------------------------------------------------------------------- */

static struct slice decode(struct arena *a, struct slice text)
{
    char *padded = arena_zalloc(a, text.n + 4);
    unsigned char *out = arena_alloc(a, text.n + 4);
    for (size_t i = 0; i < text.n; i++) {
        CHECK(isalnum((unsigned char)text.p[i]) || text.p[i] == '-' || text.p[i] == '_', "base64url");
        padded[i] = text.p[i] == '-' ? '+' : text.p[i] == '_' ? '/' : text.p[i];
    }
    size_t n = text.n;
    while (n % 4)
        padded[n++] = '=';
    CHECK(n - text.n < 3, "no length that base64 does not have");
    int len = EVP_DecodeBlock(out, (unsigned char *)padded, (int)n);
    CHECK(len >= 0, "base64");
    struct slice bytes = slice_make((char *)out, (size_t)len - (n - text.n));
    CHECK(slice_eq(slice_str(maker_base64url(a, bytes.p, bytes.n)), text), "the one text of these bytes");
    return bytes;
}

static json_t *read_object(struct slice text)
{
    json_t *o = json_loadb(text.p, text.n, JSON_REJECT_DUPLICATES, NULL);
    CHECK(json_is_object(o), "an object, no name twice");
    return o;
}

static bool is_text(const json_t *v, const char *text)
{
    return json_is_string(v) && strcmp(json_string_value(v), text) == 0;
}

static bool has_audience(const json_t *aud)
{
    if (is_text(aud, "api")) return true;
    for (size_t i = 0; i < json_array_size(aud); i++)
        if (is_text(json_array_get(aud, i), "api")) return true;
    return false;
}

static bool key_verifies(struct slice input, struct slice sig)
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    bool good =
        EVP_DigestVerifyInit(ctx, NULL, NULL, NULL, w.key) == 1 &&
        EVP_DigestVerify(ctx, (const unsigned char *)sig.p, sig.n, (const unsigned char *)input.p, input.n) == 1;
    EVP_MD_CTX_free(ctx);
    return good;
}

static void check_claims(const struct token *t, const json_t *payload)
{
    double now_s = (double)(loop_wall_ms(w.loop) / 1000);
    const json_t *exp = json_object_get(payload, "exp"), *nbf = json_object_get(payload, "nbf"),
                 *name = json_object_get(payload, "name");
    if (!name) name = json_object_get(payload, "sub");
    CHECK(json_is_number(exp) && json_number_value(exp) > now_s - LEEWAY_S, "it has an end, and not yet");
    CHECK(!nbf || (json_is_number(nbf) && json_number_value(nbf) <= now_s + LEEWAY_S), "it has begun");
    CHECK(has_audience(json_object_get(payload, "aud")), "it is for us");
    CHECK(is_text(json_object_get(payload, "iss"), t->issuer.p), "its issuer");
    CHECK(json_is_string(name) && t->subject.n && strcmp(json_string_value(name), t->subject.p) == 0, "its subject");
    CHECK((double)t->exp_s <= json_number_value(exp), "kept no longer than it says");
    for (size_t i = 0; i < t->payload.n; i++)
        CHECK(t->payload.p[i] >= 0x20 && t->payload.p[i] < 0x7f, "ASCII");
    json_t *again = read_object(t->payload);
    CHECK(json_equal(again, payload), "the payload as it was");
    json_decref(again);
    again = read_object(t->claims);
    const json_t *roles = json_object_get(payload, "roles");
    CHECK(json_object_size(again) == (roles != NULL), "the claims that are asked for, if they are there");
    CHECK(!roles || json_equal(json_object_get(again, "roles"), roles), "as they were");
    json_decref(again);
}

static void check_verified(const struct token *t, struct slice text)
{
    static const char *const refused[] = {"crit", "b64", "jwk", "jku", "x5u", "x5c"};
    struct arena a;
    arena_init(&a);
    const char *dot = memchr(text.p, '.', text.n), *last = memrchr(text.p, '.', text.n);
    CHECK(dot && dot < last, "three parts");
    struct slice input = slice_make(text.p, (size_t)(last - text.p));
    struct slice sig = decode(&a, slice_make(last + 1, text.n - input.n - 1));
    json_t *header = read_object(decode(&a, slice_make(text.p, (size_t)(dot - text.p))));
    json_t *payload = read_object(decode(&a, slice_make(dot + 1, (size_t)(last - dot) - 1)));
    const json_t *alg = json_object_get(header, "alg");
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        CHECK(!json_object_get(header, refused[i]), "no header that says how to verify");
    if (slice_eq(t->issuer, SLICE(ISSUER_KEYS)))
        CHECK(is_text(alg, "EdDSA") && key_verifies(input, sig), "the key signed it");
    else
        CHECK(slice_eq(t->issuer, SLICE(ISSUER_SECRET)) && is_text(alg, "HS256") &&
                  slice_eq(sig, maker_mac(&a, "HS256", SLICE(SECRET), input)),
              "the secret signed it");
    check_claims(t, payload);
    json_decref(header);
    json_decref(payload);
    arena_reset(&a);
}

static struct slice behind_scheme(struct slice value)
{
    value = slice_trim(value);
    const char *space = memchr(value.p, ' ', value.n);
    CHECK(space && slice_eq_nocase(slice_make(value.p, (size_t)(space - value.p)), SLICE("Bearer")), "a bearer token");
    while (*space == ' ')
        space++;
    return slice_make(space, value.n - (size_t)(space - value.p));
}

/* --- the values --------------------------------------------------------------------------------------------------- */

static struct slice edited(struct input *in, struct arena *a)
{
    struct buf b;
    buf_init(&b, a);
    buf_add_slice(&b, slice_str(w.good[input_byte(in) & 1]));
    while (in->n >= 4 && b.n) {
        unsigned op = input_byte(in), high = input_byte(in);
        size_t at = (high << 8 | input_byte(in)) % b.n, n = b.n - at;
        char c = (char)input_byte(in);
        switch (op % 6) {
        case 0:
            b.p[at] = c;
            break;
        case 1:
            b.p[at] = (char)(b.p[at] ^ 1 << (c & 7));
            break;
        case 2:
            buf_add_char(&b, c);
            memmove(b.p + at + 1, b.p + at, n);
            b.p[at] = c;
            break;
        case 3:
            memmove(b.p + at, b.p + at + 1, n - 1);
            b.n--;
            break;
        case 4:
            b.n = at;
            break;
        case 5:
            if (b.n < 8192) buf_add(&b, arena_copy(a, slice_make(b.p + at, n)).p, n);
            break;
        }
    }
    return buf_slice(&b);
}

static struct slice forged(struct input *in, struct arena *a)
{
    unsigned how = input_byte(in) % 6;
    const char *header = arena_copy(a, input_line(in)).p, *payload = arena_copy(a, input_rest(in)).p;
    struct slice text = maker_input(a, header, payload);
    unsigned char public[32];
    size_t n = sizeof public;
    switch (how) {
    case 0:
        return slice_str(maker_join(a, text, maker_sign(a, "EdDSA", w.other, text)));
    case 1: /* RFC 8725 3.1: a public key is no secret */
        CHECK(EVP_PKEY_get_raw_public_key(w.key, public, &n) == 1, "a public key");
        return slice_str(maker_join(a, text, maker_mac(a, "HS256", slice_make((char *)public, n), text)));
    case 2:
        return slice_str(maker_join(a, text, maker_mac(a, "HS256", slice_str(w.jwks), text)));
    case 3:
        return slice_str(maker_join(a, text, maker_mac(a, "HS256", SLICE(""), text)));
    case 4: /* of another token */
        return arena_printf(a, "Bearer %s%s", text.p, strrchr(w.good[0], '.'));
    default:
        return arena_printf(a, "Bearer %s.", text.p);
    }
}

static struct slice value_of(enum mode mode, struct input *in, struct arena *a)
{
    if (mode == MODE_EDITS) return edited(in, a);
    if (mode == MODE_FORGED) return forged(in, a);
    if (mode != MODE_SIGNED) return input_rest(in);
    bool by_secret = input_byte(in) & 1;
    const char *header = arena_copy(a, input_line(in)).p;
    return slice_str(sign(a, by_secret, header, arena_copy(a, input_rest(in)).p));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct input in = input_make(data, n);
    struct arena a;
    struct token_call c;
    set_up();
    arena_init(&a);
    enum mode mode = (enum mode)(input_byte(&in) % MODES);
    struct slice value = value_of(mode, &in, &a);
    for (int pass = 0; pass < 2 && value.n; pass++) { /* the second time it may come from the cache */
        if (!accepted(w.verified, value, &c)) continue;
        struct slice text = behind_scheme(value);
        CHECK(mode != MODE_FORGED || slice_eq(value, slice_str(w.good[0])), "no forgery is taken");
        CHECK(mode != MODE_EDITS || slice_eq(text, behind_scheme(slice_str(w.good[0]))) ||
                  slice_eq(text, behind_scheme(slice_str(w.good[1]))),
              "only the token itself is taken");
        CHECK(c.token->verified && (c.cached || pass == 0), "verified once, then found");
        check_verified(c.token, text);
        token_release(c.token);
    }
    if (value.n && accepted(w.upstream, value, &c)) {
        CHECK(!c.token->verified && !c.token->issuer.n && !c.token->subject.n && !c.token->payload.n, "no identity");
        token_release(c.token);
    }
    arena_reset(&a);
    return 0;
}
