/* proxy/authorize: POST /authorize. Called by own and, for its question, by the decide step. Refuses a body that does not
   name a resource and an action, and a what-if user where those are not allowed. */
#include "proxy/authorize.h"

#include <jansson.h>

#include "http/writer.h"
#include "proxy/reply.h"

static const struct {
    const char *action;
    struct slice method;
} actions[] = {
    {"read", {"GET", 3}},
    {"create", {"POST", 4}},
    {"update", {"PUT", 3}},
    {"delete", {"DELETE", 6}},
};

static struct slice copy_text(struct request *r, const json_t *value)
{
    return arena_copy(r->arena, slice_make(json_string_value(value), json_string_length(value)));
}

static struct slice dump(struct request *r, const json_t *value)
{
    size_t n = json_dumpb(value, NULL, 0, JSON_COMPACT | JSON_ENSURE_ASCII);
    char *text = arena_alloc(r->arena, n + 1);
    json_dumpb(value, text, n, JSON_COMPACT | JSON_ENSURE_ASCII);
    text[n] = 0;
    return slice_make(text, n);
}

/* The caller's context, less the members that are ours to say, without its braces. */
static struct slice context_members(struct request *r, json_t *context)
{
    static const char *const ours[] = {"method", "path", "query", "timestamp"};
    if (!context) return SLICE("");
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) json_object_del(context, ours[i]);
    if (json_object_size(context) == 0) return SLICE("");
    struct slice text = dump(r, context);
    return slice_make(text.p + 1, text.n - 2);
}

static void split_path(struct request *r, struct ask *ask)
{
    struct slice rest = ask->path, part;
    size_t max = 1;
    for (size_t i = 0; i < rest.n; i++) max += rest.p[i] == '/';
    ask->segments = arena_alloc(r->arena, max * sizeof *ask->segments);
    while (slice_next(&rest, '/', &part))
        if (part.n) ask->segments[ask->segments_n++] = part;
}

/* Empty when good, else what is wrong. */
static struct slice read_body(struct request *r, json_t *doc, struct ask *ask)
{
    const struct conf *conf = r->conf;
    json_t *resource = json_object_get(doc, "resource"), *action = json_object_get(doc, "action");
    json_t *token = json_object_get(doc, "jwt_token"), *user = json_object_get(doc, "user");
    json_t *context = json_object_get(doc, "context");
    if (!json_is_object(doc)) return SLICE("The body must be a JSON object.");
    if (!json_is_string(resource) || json_string_length(resource) == 0) return SLICE("resource is required.");
    if (!json_is_string(action)) return SLICE("action is required.");
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++)
        if (strcmp(json_string_value(action), actions[i].action) == 0) ask->method = actions[i].method;
    if (ask->method.n == 0) return SLICE("action must be read, create, update or delete.");
    if (context && !json_is_null(context) && !json_is_object(context)) return SLICE("context must be an object.");
    bool has_token = token && !json_is_null(token), has_user = user && !json_is_null(user);
    if (has_token && (!json_is_string(token) || json_string_length(token) == 0))
        return SLICE("jwt_token must be a text.");
    if (has_user && !json_is_object(user)) return SLICE("user must be an object.");
    if (has_user && has_token) return SLICE("jwt_token and user exclude each other.");
    if (has_user && !conf->authorize.what_if) return SLICE("user is not accepted here (authorize.what_if is off).");
    ask->resource = copy_text(r, resource);
    ask->action = copy_text(r, action);
    ask->context_extra = context_members(r, json_is_object(context) ? context : NULL);
    if (has_user) ask->user_json = dump(r, user);
    if (has_token)
        ask->credential = arena_printf(r->arena, "Bearer %.*s", (int)json_string_length(token),
                                       json_string_value(token));
    ask->path = arena_printf(r->arena, "%.*s%.*s", (int)conf->authorize.path_prefix.n, conf->authorize.path_prefix.p,
                             (int)ask->resource.n, ask->resource.p);
    split_path(r, ask);
    return SLICE("");
}

enum step_result authorize_begin(struct request *r)
{
    struct ask *ask = arena_zalloc(r->arena, sizeof *ask);
    json_t *doc = json_loadb(r->body.p ? r->body.p : "", r->body.n, JSON_REJECT_DUPLICATES, NULL);
    struct slice wrong = read_body(r, doc, ask);
    json_decref(doc);
    if (wrong.n) {
        r->message = wrong;
        return request_fail(r, REASON_BODY_INVALID, "the question of /authorize");
    }
    r->ask = ask;
    r->resource = ask->resource;
    r->action = ask->action;
    if (ask->user_json.n) {
        r->user = user_create(ask->user_json);
        r->step = STEP_DECIDE;
    } else if (ask->credential.n) {
        r->step = STEP_AUTHENTICATE;
    } else {
        r->step = STEP_IDENTIFY;
    }
    return STEP_NEXT;
}

enum step_result authorize_answer(struct request *r)
{
    return reply_body(r, 200, SLICE("application/json; charset=utf-8"), r->decision->rendered);
}

void authorize_question(const struct request *r, struct decision_question *q)
{
    const struct ask *ask = r->ask;
    *q = (struct decision_question){
        .use = DECISION_AUTHORIZE,
        .user = r->user,
        .token = r->token,
        .user_json = r->user->json,
        .resource = ask->resource,
        .action = ask->action,
        .method = ask->method,
        .path = ask->path,
        .segments = ask->segments,
        .segments_n = ask->segments_n,
        .context_extra = ask->context_extra,
        .host = r->host,
        .request_id = r->id,
        .uncached = ask->user_json.n > 0,
    };
}
