/* authz/input: called by decision for every judged request, so it is on the hot path: one pass, one buffer, no tree.
   Refuses to let a name of the query stand for a member that says what is judged. */
#include "authz/input.h"

#include <string.h>

#include "authz/digest.h"
#include "base/check.h"
#include "base/json.h"

#define FIXED_BYTES 512 /* names of members, punctuation */

static size_t room_for(const struct decision_question *q)
{
    size_t n = FIXED_BYTES + q->user_json.n + 2 * (q->path.n + q->query.n) + q->context_extra.n + q->host.n +
               q->resource.n + q->action.n + q->source_certificate.n + 3 * q->segments_n + 16 * (q->params_n + q->lifted_n);
    n += q->query.n * 2;
    if (q->token) n += q->token->claims.n;
    return n;
}

static bool seen_before(const struct decision_question *q, size_t i)
{
    for (size_t k = 0; k < i; k++) {
        if (slice_eq(q->params[k].name, q->params[i].name)) return true;
    }
    return false;
}

static size_t next_of_name(const struct decision_question *q, size_t i)
{
    for (size_t k = i + 1; k < q->params_n; k++) {
        if (slice_eq(q->params[k].name, q->params[i].name)) return k;
    }
    return q->params_n;
}

/* {name: value}, {name: [values]} for a repeated name, in the order of the first of each name. */
static void add_params(struct json *j, const struct decision_question *q)
{
    json_object_start(j);
    for (size_t i = 0; i < q->params_n; i++) {
        if (seen_before(q, i)) continue;
        json_key(j, q->params[i].name);
        size_t next = next_of_name(q, i);
        if (next == q->params_n) {
            json_text(j, q->params[i].value);
            continue;
        }
        json_array_start(j);
        json_text(j, q->params[i].value);
        for (; next < q->params_n; next = next_of_name(q, next))
            json_text(j, q->params[next].value);
        json_array_end(j);
    }
    json_object_end(j);
}

static bool is_reserved(struct slice name)
{
    return slice_eq(name, SLICE("method")) || slice_eq(name, SLICE("path")) || slice_eq(name, SLICE("query")) ||
           slice_eq(name, SLICE("timestamp"));
}

/* path?query as one text. */
static void add_full_path(struct json *j, const struct decision_question *q, struct arena *a)
{
    json_field(j, "path");
    if (q->query.n == 0) {
        json_text(j, q->path);
        return;
    }
    char *p = arena_alloc(a, q->path.n + 1 + q->query.n);
    if (q->path.n) memcpy(p, q->path.p, q->path.n);
    p[q->path.n] = '?';
    memcpy(p + q->path.n + 1, q->query.p, q->query.n);
    json_text(j, slice_make(p, q->path.n + 1 + q->query.n));
}

/* Gives back the text of the query object, to be written a second time. It stays good when the buffer grows: an arena
   keeps the old copy. */
static struct slice add_context(struct json *j, const struct decision_question *q, struct arena *a)
{
    json_field(j, "context");
    json_object_start(j);
    json_field_string(j, "method", q->method);
    add_full_path(j, q, a);
    json_field(j, "query");
    size_t from = j->out->n;
    add_params(j, q);
    struct slice params = slice_make(j->out->p + from, j->out->n - from);
    for (size_t i = 0; i < q->lifted_n; i++) {
        if (is_reserved(q->lifted[i].name)) continue;
        json_key(j, q->lifted[i].name);
        json_text(j, q->lifted[i].value);
    }
    if (q->context_extra.n) json_raw(j, q->context_extra);
    return params;
}

static void add_request(struct json *j, const struct decision_question *q, struct slice params)
{
    json_field(j, "request");
    json_object_start(j);
    json_field_string(j, "method", q->method);
    json_field_string(j, "path", q->path);
    json_field(j, "segments");
    json_array_start(j);
    for (size_t i = 0; i < q->segments_n; i++)
        json_text(j, q->segments[i]);
    json_array_end(j);
    json_field_raw(j, "query", params);
    json_field_string(j, "host", q->host);
}

static void add_source(struct json *j, const struct decision_question *q)
{
    if (q->source_ip.n == 0 && q->source_certificate.n == 0) return;
    json_field(j, "source");
    json_object_start(j);
    if (q->source_ip.n) json_field_string(j, "ip", q->source_ip);
    if (q->source_certificate.n) {
        json_field(j, "certificate");
        json_object_start(j);
        json_field_string(j, "subject", q->source_certificate);
        json_object_end(j);
    }
    json_object_end(j);
}

void input_write(const struct decision_question *q, struct arena *a, struct input *in)
{
    struct json j;
    buf_init(&in->stable, a);
    buf_reserve(&in->stable, room_for(q));
    json_init(&j, &in->stable);
    json_object_start(&j);
    json_field(&j, "input");
    json_object_start(&j);
    json_field(&j, "user");
    in->user_at = in->stable.n;
    json_raw(&j, q->user_json);
    json_field_string(&j, "resource", q->resource);
    json_field_string(&j, "action", q->action);
    if (q->token && q->token->verified && q->token->claims.n > 2) json_field_raw(&j, "token", q->token->claims);
    add_source(&j, q);
    struct slice params = add_context(&j, q, a);
    in->timestamp_at = in->stable.n;
    json_object_end(&j);
    add_request(&j, q, params);
    in->id_at = in->stable.n;
    json_object_end(&j);
    json_object_end(&j);
    json_object_end(&j);
}

/* Known where it is the user's own text. */
static void user_digest(const struct decision_question *q, uint8_t out[DIGEST_BYTES])
{
    if (q->user && q->user_json.p == q->user->json.p && q->user_json.n == q->user->json.n)
        memcpy(out, q->user->json_digest, DIGEST_BYTES);
    else
        digest_parts(&q->user_json, 1, out);
}

void input_key(const struct input *in, const struct decision_question *q, uint8_t key[CACHE_KEY_BYTES])
{
    char use = (char)('0' + (int)q->use);
    uint64_t tags[2] = {0, 0};
    if (q->token) memcpy(tags, q->token->entry.tags, sizeof tags);
    uint8_t user[DIGEST_BYTES];
    user_digest(q, user);
    size_t behind = in->user_at + q->user_json.n; /* what stands before it is always the same */
    struct slice rest = slice_make(in->stable.p + behind, in->stable.n - behind);
    struct slice parts[] = {{(const char *)user, sizeof user}, rest, {&use, 1}, {(const char *)tags, sizeof tags}};
    digest_parts(parts, 4, key);
}

static void add_volatile(struct buf *out, struct slice before, struct slice value)
{
    struct json j;
    buf_add_slice(out, before);
    json_init(&j, out);
    json_text(&j, value);
}

void input_body(const struct input *in, struct slice timestamp, struct slice request_id, struct buf *out)
{
    const char *p = in->stable.p;
    buf_reserve(out, in->stable.n + 128);
    buf_add(out, p, in->timestamp_at);
    add_volatile(out, SLICE(",\"timestamp\":"), timestamp);
    buf_add(out, p + in->timestamp_at, in->id_at - in->timestamp_at);
    add_volatile(out, SLICE(",\"id\":"), request_id);
    buf_add(out, p + in->id_at, in->stable.n - in->id_at);
}

struct slice input_value(struct slice body)
{
    static const struct slice front = {"{\"input\":", 9};
    CHECK(slice_starts(body, front) && body.p[body.n - 1] == '}', "a body is one input");
    return slice_make(body.p + front.n, body.n - front.n - 1);
}
