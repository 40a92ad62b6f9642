/* What a policy engine may answer. The first byte picks outcome and status, the rest is the body. An allow must be one
   in a second reading of the body by jansson, and what the first refuses as no decision is none there. */
#include <jansson.h>

#include "authz/answer.h"
#include "fuzz.h"

static const struct {
    enum fetch_outcome outcome;
    int status;
} cases[] = {{FETCH_ANSWERED, 200},  {FETCH_ANSWERED, 500},  {FETCH_ANSWERED, 201},
             {FETCH_ANSWERED, 401},  {FETCH_ANSWERED, 404},  {FETCH_TIMEOUT, 0},
             {FETCH_UNREACHABLE, 0}, {FETCH_TOO_LARGE, 200}, {FETCH_BROKEN, 200}};

static bool is_decision(const json_t *result)
{
    static const char *const objects[] = {"filters", "headers", "constraints", "context"};
    if (json_is_boolean(result)) return true;
    const json_t *ttl = json_object_get(result, "ttl"), *reason = json_object_get(result, "reason");
    if (!json_is_boolean(json_object_get(result, "allow"))) return false;
    if (ttl && !(json_is_number(ttl) && json_number_value(ttl) >= 0)) return false;
    if (reason && !json_is_string(reason)) return false;
    for (size_t i = 0; i < sizeof objects / sizeof *objects; i++) {
        const json_t *v = json_object_get(result, objects[i]);
        if (v && !json_is_object(v)) return false;
    }
    return true;
}

static void check_members(const struct answer *a, const json_t *result)
{
    if (!a->members.n) return;
    struct buf b;
    const char *key;
    json_t *value;
    buf_init(&b, NULL);
    buf_add_lit(&b, "{\"_\":1");
    buf_add_slice(&b, buf_slice(&a->members));
    buf_add_char(&b, '}');
    for (size_t i = 0; i < b.n; i++)
        CHECK(b.p[i] >= 0x20 && b.p[i] < 0x7f, "members are ASCII on one line");
    json_t *members = json_loadb(b.p, b.n, JSON_REJECT_DUPLICATES, NULL);
    CHECK(members, "members are JSON");
    json_object_del(members, "_");
    json_object_foreach(members, key, value)
    {
        CHECK(json_equal(value, json_object_get(result, key)), "a member is the policy's");
    }
    json_decref(members);
    buf_free(&b);
}

static void check(const struct answer *a, bool answered, struct slice body)
{
    json_t *o = answered ? json_loadb(body.p, body.n, JSON_REJECT_DUPLICATES, NULL) : NULL;
    const json_t *result = json_is_object(o) ? json_object_get(o, "result") : NULL;
    bool allows = json_is_true(result) || json_is_true(json_object_get(result, "allow"));
    bool decision = result && is_decision(result);
    CHECK(!a->allow || (a->reason == REASON_FORWARDED && decision && allows), "an allow is one");
    CHECK((a->reason == REASON_FORWARDED) == decision, "a decision or none");
    CHECK(a->reason == REASON_FORWARDED || (a->detail && reason_status(a->reason) >= 400), "refused, and why");
    CHECK(!decision || a->allow == allows, "allow as it says");
    CHECK(!a->has_ttl || a->ttl_ms >= 0, "a time to keep it");
    if (decision) check_members(a, result);
    json_decref(o);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct input in = input_make(data, n);
    size_t at = input_byte(&in) % (sizeof cases / sizeof *cases);
    struct slice body = input_exact(input_rest(&in));
    struct answer a;
    answer_read(&(struct fetch_answer){.outcome = cases[at].outcome, .status = cases[at].status, .body = body}, &a);
    check(&a, at == 0, body);
    answer_free(&a);
    free((char *)(uintptr_t)body.p);
    return 0;
}
