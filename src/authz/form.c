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
