/* What anybody may have written into Redis: a line for the generation, then the value of one subject, found by a whole
   lookup. It is used only when a second reading finds that subject's context in it, of now; else the API is asked. */
#include <jansson.h>
#include <stdio.h>

#include "authz/digest.h"
#include "authz/identity.h"
#include "base/metric.h"
#include "fakes/fake_fetch.h"
#include "fakes/fake_redis.h"
#include "fuzz.h"

#define ISSUER "https://issuer.test"
#define TTL_S 1800

static struct loop *loop;

struct outcome {
    struct identity_call call;
    bool done;
};

static void on_done(struct identity_call *c)
{
    container_of(c, struct outcome, call)->done = true;
}

/* A value with its length: fake_redis_put takes texts. */
static void put(struct redis *r, const char *key, struct slice value)
{
    struct fake_redis_item *i = xzalloc(sizeof *i);
    i->key = xstrdup(key);
    i->value = xmalloc(value.n + 1);
    if (value.n) memcpy(i->value, value.p, value.n);
    i->value[value.n] = '\0';
    i->value_n = value.n;
    i->next = r->items;
    r->items = i;
}

static long long number_of(struct slice text)
{
    long long n;
    return slice_to_int(text, &n) ? n : 0;
}

static bool is_text(const json_t *v, const char *text)
{
    return json_is_string(v) && strcmp(json_string_value(v), text) == 0;
}

static bool is_good(struct slice value, int64_t now_ms)
{
    json_t *o = json_loadb(value.p, value.n, JSON_REJECT_DUPLICATES, NULL);
    const json_t *stored = json_object_get(o, "stored"), *context = json_object_get(o, "context"),
                 *id = json_object_get(context, "id");
    bool good = json_is_object(o) && json_integer_value(json_object_get(o, "v")) == 1 &&
                is_text(json_object_get(o, "iss"), ISSUER) && is_text(json_object_get(o, "sub"), "alice") &&
                json_is_integer(stored) && json_integer_value(stored) >= 0 &&
                now_ms - json_integer_value(stored) < TTL_S * 1000 && json_is_string(id) && json_string_length(id);
    json_decref(o);
    return good;
}

static void answer(struct fetch *f)
{
    if (fake_fetch_open(f)) fake_fetch_answer(fake_fetch_oldest(f), 200, "{\"id\":\"alice\"}");
}

static void check(struct identities *d, struct fetch *f, struct redis *r, struct slice value, int64_t now_ms)
{
    struct token t = {.verified = true, .issuer = SLICE(ISSUER), .subject = SLICE("alice"), .exp_s = INT64_MAX};
    struct outcome o = {.call.on_done = on_done};
    CHECK(identity_find(d, &t, SLICE("Bearer x"), &o.call) == OP_PENDING, "it is not in memory");
    for (int i = 0; i < 4 && !o.done; i++) {
        fake_redis_deliver(r);
        answer(f);
    }
    CHECK(o.done && o.call.user, "found in Redis or at the API");
    CHECK(o.call.source != FOUND_REDIS || is_good(value, now_ms), "only a context of this subject is used");
    CHECK(o.call.source == FOUND_REDIS || fake_fetch_started(f) == 1, "else the API is asked");
    CHECK(o.call.user->end_ms <= loop_now_ms(loop) + TTL_S * 1000, "and for no longer than it may be");
    for (size_t i = 0; i < o.call.user->json.n; i++)
        CHECK(o.call.user->json.p[i] >= 0x20 && o.call.user->json.p[i] < 0x7f, "ASCII on one line");
    user_release(o.call.user);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct input in = input_make(data, n);
    const struct identity_config c = {.url = SLICE("http://api/profile"),
                                      .key_prefix = SLICE("p:"),
                                      .ttl_s = TTL_S,
                                      .memory_ttl_s = 30,
                                      .memory_entries = 10,
                                      .timeout_ms = 1000,
                                      .max_inflight = 4,
                                      .max_bytes = 65536};
    const struct slice parts[] = {SLICE("context v1 name"), SLICE(ISSUER), SLICE("alice")};
    uint8_t digest[DIGEST_BYTES];
    char hex[DIGEST_HEX_BYTES], key[128];
    if (!loop) {
        metric_init("fuzz_");
        loop = loop_create();
    }
    struct slice generation = input_line(&in), value = input_rest(&in);
    digest_fields(parts, 3, digest);
    digest_hex(digest, hex);
    snprintf(key, sizeof key, "p:v1:%lld:%s", number_of(generation), hex);
    struct fetch *f = fetch_create(loop);
    struct redis *r = redis_create(loop, NULL, NULL);
    if (generation.n) put(r, "p:generation", generation);
    put(r, key, value);
    struct identities *d = identities_create(loop, f, r, &c);
    check(d, f, r, value, loop_wall_ms(loop));
    identities_destroy(d);
    redis_destroy(r, NULL, NULL);
    fetch_destroy(f, NULL, NULL);
    return 0;
}
