/* authz/form: called by grant and decision. What the policy returned stands as it is, each object under its own name;
   nothing of the request is repeated. */
#include "authz/form.h"

#include <jansson.h>

#include "authz/document.h"

static void copy(json_t *to, const char *name, json_t *from, const char *from_name)
{
    json_t *value = json_object_get(from, from_name);
    if (value) json_object_set(to, name, value);
}

static json_t *policy_of(json_t *decision)
{
    if (!json_is_object(decision)) return json_null();
    json_t *policy = json_object();
    copy(policy, "allow", decision, "allow");
    copy(policy, "decision_id", decision, "id");
    copy(policy, "reason", decision, "reason");
    copy(policy, "bypassed", decision, "bypassed");
    return policy;
}

static void copy_rest(json_t *to, json_t *input)
{
    static const char *const names[] = {"constraints", "context", "filters", "headers"};
    json_t *decision = json_object_get(input, "decision");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        copy(to, names[i], decision, names[i]);
    copy(to, "timestamp", input, "timestamp");
}

static bool write_and_free(json_t *form, json_t *input, struct buf *out)
{
    document_write(form, out);
    json_decref(form);
    json_decref(input);
    return true;
}

bool form_grant(struct slice input_text, struct buf *out)
{
    json_t *input = document_object(input_text);
    if (!input) return false;
    json_t *form = json_object();
    copy(form, "user", input, "user");
    json_object_set_new(form, "policy", policy_of(json_object_get(input, "decision")));
    copy_rest(form, input);
    return write_and_free(form, input, out);
}

static bool is_plain(struct slice text)
{
    bool odd = false;
    for (size_t i = 0; i < text.n; i++)
        odd |= text.p[i] < ' ' || text.p[i] > '~' || text.p[i] == '\\';
    return !odd;
}

bool form_grant_plain(struct slice user, struct slice reason, const char *id, bool bypassed, const char *time,
                      struct buf *out)
{
    if (user.n < 2 || user.p[0] != '{' || !is_plain(user) || !is_plain(reason)) return false;
    buf_reserve(out, user.n + reason.n + 160);
    buf_add_lit(out, "{\"user\":");
    buf_add_slice(out, user);
    buf_add_lit(out, ",\"policy\":{\"allow\":true,\"decision_id\":\"");
    buf_add_slice(out, slice_str(id));
    buf_add_char(out, '"');
    buf_add_slice(out, reason);
    if (bypassed) buf_add_lit(out, ",\"bypassed\":true");
    buf_add_lit(out, "},\"timestamp\":\"");
    buf_add_slice(out, slice_str(time));
    buf_add_lit(out, "\"}");
    return true;
}

bool form_authorize(struct slice input_text, struct buf *out)
{
    json_t *input = document_object(input_text);
    if (!input) return false;
    json_t *form = json_object();
    json_object_set_new(form, "decision", policy_of(json_object_get(input, "decision")));
    copy(form, "user", input, "user");
    copy_rest(form, input);
    return write_and_free(form, input, out);
}
