/* authz/answer: called by decision with every answer of the engine. Refuses every doubt: what is not said exactly as
   the contract has it is no decision, and the request is refused for a reason of its own. */
#include "authz/answer.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

#include "authz/document.h"
#include "authz/rego_engine.h"
#include "base/cache.h"
#include "base/json.h"

#define TTL_MAX_S 1e9 /* longer is as good as this; keeps the sum of times in range */

static void refuse(struct answer *out, enum reason reason, const char *kind, const char *detail)
{
    out->reason = reason;
    out->kind = kind;
    out->detail = detail;
    out->allow = false;
}

static void not_answered(const struct fetch_answer *a, struct answer *out)
{
    switch (a->outcome) {
    case FETCH_UNREACHABLE:
        refuse(out, REASON_POLICY_UNAVAILABLE, "unreachable", "the policy engine cannot be reached");
        return;
    case FETCH_TIMEOUT:
        refuse(out, REASON_POLICY_TIMEOUT, "timeout", "the policy engine did not answer in time");
        return;
    case FETCH_TOO_LARGE:
        refuse(out, REASON_POLICY_GARBAGE, "garbage", "the answer is over policy.max_response_bytes");
        return;
    case FETCH_BROKEN:
        if (!a->insecure) break;
        refuse(out, REASON_POLICY_UNAVAILABLE, "tls", a->error);
        return;
    case FETCH_ANSWERED:
        break;
    }
    refuse(out, REASON_POLICY_UNAVAILABLE, "garbage", "the policy engine broke off");
}

void answer_read(const struct fetch_answer *a, struct answer *out)
{
    *out = (struct answer){.reason = REASON_UNSET};
    if (a->outcome != FETCH_ANSWERED) {
        not_answered(a, out);
    } else if (a->status == 401 || a->status == 403) {
        refuse(out, REASON_POLICY_UNAVAILABLE, "status", "the policy engine refused our credential");
    } else if (a->status != 200) {
        refuse(out, REASON_POLICY_UNAVAILABLE, "status", "the policy engine answered with another status than 200");
    } else {
        answer_parse(a->body, out);
    }
}

/* The same whatever the order of the bundles. */
static uint64_t revision_of(const json_t *provenance)
{
    uint64_t sum = 0;
    const char *name;
    json_t *bundle;
    const json_t *single = json_object_get(provenance, "revision");
    if (json_is_string(single) && json_string_length(single)) {
        sum ^= cache_tag(NULL, 0, json_string_value(single), json_string_length(single));
    }
    json_object_foreach(json_object_get(provenance, "bundles"), name, bundle)
    {
        const json_t *revision = json_object_get(bundle, "revision");
        if (!json_is_string(revision) || json_string_length(revision) == 0) continue;
        sum ^= cache_tag(name, strlen(name), json_string_value(revision), json_string_length(revision));
    }
    return sum;
}

static bool read_ttl(const json_t *ttl, struct answer *out)
{
    if (!ttl) return true;
    double s = json_number_value(ttl);
    if (!json_is_number(ttl) || !(s >= 0)) return false;
    out->has_ttl = true;
    out->ttl_ms = (int64_t)(fmin(s, TTL_MAX_S) * 1000);
    return true;
}

static bool read_reason(const json_t *reason, struct answer *out)
{
    struct json j;
    if (!reason) return true;
    if (!json_is_string(reason)) return false;
    buf_add(&out->message, json_string_value(reason), json_string_length(reason));
    buf_add_lit(&out->members, ",\"reason\":");
    json_init(&j, &out->members);
    json_text(&j, buf_slice(&out->message));
    return true;
}

static bool read_objects(const json_t *result, struct answer *out)
{
    static const char *const names[] = {"filters", "headers", "constraints", "context"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const json_t *value = json_object_get(result, names[i]);
        if (!value) continue;
        if (!json_is_object(value)) return false;
        buf_printf(&out->members, ",\"%s\":", names[i]);
        document_write(value, &out->members);
    }
    return true;
}

static const char *read_object(const json_t *result, struct answer *out)
{
    const json_t *allow = json_object_get(result, "allow");
    if (!json_is_boolean(allow)) return "the result's allow is not true or false";
    if (!read_ttl(json_object_get(result, "ttl"), out)) return "the result's ttl is not a number of seconds";
    if (!read_reason(json_object_get(result, "reason"), out)) return "the result's reason is not a text";
    if (!read_objects(result, out)) return "the result's filters, headers, constraints or context is not an object";
    out->allow = json_is_true(allow);
    return NULL;
}

static void read_result(const json_t *result, struct answer *out)
{
    const char *fault = NULL;
    if (json_is_boolean(result))
        out->allow = json_is_true(result);
    else if (json_is_object(result))
        fault = read_object(result, out);
    else
        fault = "the result is neither true or false nor an object";
    if (fault)
        refuse(out, REASON_POLICY_MALFORMED, NULL, fault);
    else
        out->reason = REASON_FORWARDED;
}

void answer_parse(struct slice body, struct answer *out)
{
    *out = (struct answer){.reason = REASON_UNSET};
    buf_init(&out->message, NULL);
    buf_init(&out->members, NULL);
    json_t *document = document_object(body);
    const json_t *result = json_object_get(document, "result");
    if (!document) {
        refuse(out, REASON_POLICY_GARBAGE, "garbage", "the answer is not a JSON object, or has a name twice");
        return;
    }
    out->revision = revision_of(json_object_get(document, "provenance"));
    if (result)
        read_result(result, out);
    else
        refuse(out, REASON_POLICY_UNDEFINED, NULL, "the answer has no result: the policy path is not defined");
    json_decref(document);
}

void answer_free(struct answer *a)
{
    buf_free(&a->message);
    buf_free(&a->members);
}

void answer_of_silence(struct answer *out)
{
    *out = (struct answer){.reason = REASON_UNSET};
    refuse(out, REASON_POLICY_TIMEOUT, "timeout", "waiting for a thread and the evaluation went over policy.timeout_ms");
}

/* As the body of an engine that is asked by HTTP. */
static void read_value(const struct rego_said *said, struct answer *out)
{
    struct buf body;
    buf_init(&body, NULL);
    buf_reserve(&body, said->n + 16);
    buf_add_lit(&body, "{\"result\":");
    buf_add(&body, said->text, said->n);
    buf_add_char(&body, '}');
    answer_parse(buf_slice(&body), out);
    buf_free(&body);
}

void answer_of_evaluation(const struct rego_said *said, uint64_t revision, struct answer *out)
{
    *out = (struct answer){.reason = REASON_POLICY_FAILED, .kind = "failed", .detail = "the evaluation failed"};
    buf_init(&out->message, NULL);
    buf_init(&out->members, NULL);
    if (said->word == REGO_SAID) {
        read_value(said, out);
    } else if (said->word == REGO_SAID_UNDEFINED) {
        out->reason = REASON_POLICY_UNDEFINED;
        out->kind = NULL;
        out->detail = "the rule is not defined for this input";
    } else if (said->word == REGO_SAID_LIMIT) {
        out->reason = REASON_POLICY_LIMIT;
        out->kind = "limit";
        out->detail = "the evaluation went over policy.eval_limit_ms, or its answer over policy.max_response_bytes";
    }
    out->revision = revision;
}
