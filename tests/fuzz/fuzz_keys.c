/* Key sets as an issuer may send them, one after the other: a line of Cache-Control, then two documents with a line of
   %% between them. Every key taken is one that may verify, a refresh keeps what stays and marks what goes, and the next
   fetch comes within bounds. */
#include <jansson.h>
#include <openssl/evp.h>

#include "authz/jwks.h"
#include "base/metric.h"
#include "fakes/fake_fetch.h"
#include "fuzz.h"

static struct loop *loop;

static void on_settled(void *arg)
{
    (*(int *)arg)++;
}

static void answer(struct fetch *f, struct slice body, struct slice cache_control)
{
    struct fetch_call *c = fake_fetch_oldest(f);
    CHECK(c && fake_fetch_open(f) == 1, "one fetch is out");
    struct slice exact = input_exact(body);
    c->state = FAKE_CALL_ANSWERED;
    c->on_answer(
        &(struct fetch_answer){.outcome = FETCH_ANSWERED, .status = 200, .body = exact, .cache_control = cache_control},
        c->arg);
    free((char *)(uintptr_t)exact.p);
}

static void check_algorithms(const struct jwk *k)
{
    static const char *const names[] = {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256",
                                        "ES384", "ES512", "EdDSA", "HS256", "HS384", "HS512"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct signature_algorithm *a = signature_find(slice_str(names[i]));
        if (!jwk_allows(k, a)) continue;
        CHECK(a->scheme != SIGNATURE_HMAC && signature_fits(a, k->kind), "an algorithm of this kind of key");
        CHECK(!k->algorithm || k->algorithm == a, "the key's own, if it says so");
    }
}

static void check_key(const struct jwk *k)
{
    CHECK(k->kind > KEY_NONE && k->kind < KEY_SECRET && k->key && !k->gone, "a public key in use");
    CHECK(k->has_kid || !k->kid.n, "a key id or none");
    CHECK(k->kind != KEY_RSA ||
              (EVP_PKEY_get_bits(k->key) >= JWK_RSA_MIN_BITS && EVP_PKEY_get_bits(k->key) <= JWK_RSA_MAX_BITS),
          "an RSA key of a good length");
    CHECK((k->kind == KEY_RSA) == EVP_PKEY_is_a(k->key, "RSA"), "the kind is OpenSSL's");
    CHECK((k->kind == KEY_P256 || k->kind == KEY_P384 || k->kind == KEY_P521) == EVP_PKEY_is_a(k->key, "EC"), "EC too");
    check_algorithms(k);
}

static void check_set(const struct keyset *s, struct slice document)
{
    json_t *o = json_loadb(document.p, document.n, JSON_REJECT_DUPLICATES, NULL);
    const json_t *list = json_object_get(o, "keys");
    CHECK(json_is_array(list) && s->n && s->n + s->skipped == json_array_size(list), "the document's keys");
    json_decref(o);
    for (size_t i = 0; i < s->n; i++) {
        check_key(s->keys[i]);
        for (size_t j = 0; j < i; j++)
            CHECK(memcmp(s->keys[i]->id, s->keys[j]->id, JWK_ID_BYTES) != 0, "no key twice");
    }
}

static bool has(const struct keyset *s, const struct jwk *k)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->keys[i] == k) return true;
    return false;
}

/* From now until the next fetch: not before least, not after most. The real clock runs on meanwhile, hence the second.
 */
static void await_fetch(const struct fetch *f, int64_t least_ms, int64_t most_ms)
{
    if (least_ms > 1000) {
        loop_advance(loop, least_ms - 1000);
        loop_turn(loop);
        CHECK(fake_fetch_open(f) == 0, "not fetched again too soon");
        most_ms -= least_ms - 1000;
    }
    loop_advance(loop, most_ms + 100);
    loop_turn(loop);
    CHECK(fake_fetch_open(f) == 1, "fetched again in time");
}

struct held { /* the keys of a set, so that they can be looked at when it is gone */
    struct jwk *keys[KEYSET_MAX];
    size_t n;
};

static void hold(struct held *h, const struct keyset *s)
{
    for (h->n = 0; h->n < s->n; h->n++) {
        h->keys[h->n] = s->keys[h->n];
        jwk_hold(h->keys[h->n]);
    }
}

static void check_refresh(const struct held *before, const struct keyset *s, bool taken)
{
    for (size_t i = 0; i < before->n; i++) {
        struct jwk *k = before->keys[i];
        CHECK(k->gone != has(s, k), "gone or in the set");
        CHECK(taken || !k->gone, "a bad refresh takes nothing away");
        for (size_t j = 0; j < s->n; j++)
            CHECK(s->keys[j] == k || memcmp(s->keys[j]->id, k->id, JWK_ID_BYTES) != 0,
                  "the same key is the same struct");
    }
}

static void run(struct jwks *j, struct fetch *f, struct slice cache_control, struct slice first, struct slice second)
{
    static struct held before;
    answer(f, first, cache_control);
    bool loaded = !jwks_error(j);
    CHECK(loaded == jwks_usable(j) && loaded == (jwks_keys(j)->n > 0), "usable with keys");
    if (loaded) check_set(jwks_keys(j), first);
    hold(&before, jwks_keys(j));
    if (loaded)
        await_fetch(f, JWKS_REFRESH_MIN_MS, JWKS_REFRESH_MAX_MS);
    else
        await_fetch(f, JWKS_RETRY_MIN_MS, JWKS_RETRY_MAX_MS);
    answer(f, second, SLICE(""));
    bool again = !jwks_error(j);
    CHECK(jwks_usable(j) == (loaded || again), "old keys stay");
    if (again) check_set(jwks_keys(j), second);
    check_refresh(&before, jwks_keys(j), again);
    for (size_t i = 0; i < before.n; i++)
        jwk_release(before.keys[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct input in = input_make(data, n);
    int settled = 0;
    if (!loop) {
        metric_init("fuzz_");
        loop = loop_create();
    }
    struct slice cache_control = input_line(&in), first = input_rest(&in), second = {"", 0};
    const char *cut = first.n ? memmem(first.p, first.n, "\n%%\n", 4) : NULL;
    if (cut) {
        second = slice_make(cut + 4, first.n - (size_t)(cut - first.p) - 4);
        first.n = (size_t)(cut - first.p);
    }
    struct fetch *f = fetch_create(loop);
    struct jwks *j = jwks_create(loop, f,
                                 &(struct jwks_config){.issuer = SLICE("https://issuer.test"),
                                                       .url = SLICE("https://issuer.test/keys"),
                                                       .max_stale_ms = 86400000,
                                                       .on_settled = on_settled,
                                                       .arg = &settled});
    run(j, f, cache_control, first, second);
    CHECK(settled == 2, "told of both");
    jwks_destroy(j);
    fetch_destroy(f, NULL, NULL);
    return 0;
}
