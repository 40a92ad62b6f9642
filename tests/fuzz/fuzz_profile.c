/* Profiles as the API may answer them, through no shape and through the agency's. The first byte picks status, shape
   and how it was asked; the rest is the body. A context has the id that a second reading finds, is ASCII, and comes
   back from the store as it went in. */
#include <jansson.h>
#include <stdio.h>

#include "authz/context.h"
#include "authz/profile.h"
#include "base/metric.h"
#include "fuzz.h"

/* libjq keeps its stack by the pointer to its end, which LeakSanitizer does not follow. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:jv_mem_realloc\n";
}

static struct shape *cwms;

static void set_up(void)
{
    static char program[16384];
    char *error = NULL;
    if (cwms) return;
    metric_init("fuzz_");
    FILE *f = fopen(SOURCE_DIR "/config/cwms/context.jq", "rb");
    CHECK(f, "the shape is there");
    size_t n = fread(program, 1, sizeof program, f);
    fclose(f);
    cwms = shape_compile("context.jq", slice_make(program, n), &error);
    CHECK(cwms, error);
}

static json_t *strict(struct slice text)
{
    return json_loadb(text.p, text.n, JSON_REJECT_DUPLICATES, NULL);
}

static void check_context(const struct user *u, struct slice body, bool shaped)
{
    const char *name = shaped ? "user-name" : "id";
    json_t *profile = strict(body), *context = strict(u->json);
    CHECK(json_is_object(profile) && json_is_object(context), "objects both");
    const json_t *id = json_object_get(context, "id"), *was = json_object_get(profile, name);
    CHECK(json_is_string(id) && json_string_length(id) && slice_eq(u->id, slice_str(json_string_value(id))), "an id");
    CHECK(json_equal(id, was), "it is the profile's");
    CHECK(shaped || json_equal(context, profile), "without a shape all is as it was");
    CHECK(u->json.p[u->json.n] == '\0' && u->id.p[u->id.n] == '\0', "NUL behind");
    for (size_t i = 0; i < u->json.n; i++)
        CHECK(u->json.p[i] >= 0x20 && u->json.p[i] < 0x7f, "ASCII on one line");
    json_decref(profile);
    json_decref(context);
}

static void check_stored(const struct user *u, struct slice name)
{
    const struct subject s = {.issuer = SLICE("https://issuer.test"), .name = name};
    const struct subject other = {.issuer = SLICE("https://issuer.test"), .name = SLICE("x")};
    struct buf b;
    int64_t stored = 0;
    buf_init(&b, NULL);
    context_store(u, &s, 12345, &b);
    size_t nested = 0;
    for (size_t i = 0; i < u->json.n; i++)
        nested += u->json.p[i] == '[' || u->json.p[i] == '{';
    struct user *again = context_load(buf_slice(&b), &s, &stored);
    if (!again && nested > 2000) { /* one level more than the reader takes: stored in vain */
        buf_free(&b);
        return;
    }
    CHECK(again && stored == 12345 && slice_eq(again->json, u->json) && slice_eq(again->id, u->id), "as it went in");
    CHECK(!context_load(buf_slice(&b), &other, &stored), "nobody else's");
    user_release(again);
    buf_free(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const int statuses[] = {200, 200, 200, 404, 401, 500, 204, 302};
    struct input in = input_make(data, n);
    enum reason reason = REASON_UNSET;
    const char *detail = NULL;
    set_up();
    uint8_t how = input_byte(&in);
    bool shaped = how & 8, service = how & 16, judge = how & 32;
    int status = statuses[how & 7];
    struct slice body = input_exact(input_rest(&in));
    struct identity_config c = {.shape = shaped ? cwms : NULL, .judge_anonymous = judge};
    struct fetch_answer a = {.outcome = FETCH_ANSWERED, .status = status, .body = body};
    struct user *u = profile_read(&c, service, &a, &reason, &detail);
    CHECK(u || (detail && reason_status(reason) >= 400), "a user or a refusal");
    CHECK(!u || status == 200 || (status == 404 && judge && u->anonymous), "of a profile, or nobody");
    if (u && status == 200) {
        CHECK(!u->anonymous, "somebody");
        check_context(u, body, shaped);
        check_stored(u, SLICE("alice"));
    }
    if (u) user_release(u);
    free((char *)(uintptr_t)body.p);
    return 0;
}
