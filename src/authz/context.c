/* authz/context: what a context is, as text and as a stored value. Called by identity. Refuses what is not a whole
   context of the subject asked for; a stored value may have been written by anybody who can reach Redis. */
#include "authz/context.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "authz/digest.h"
#include "authz/document.h"
#include "base/check.h"
#include "base/json.h"
#include "base/log.h"

#define STORED_VERSION 1

/* One allocation: the struct, then json and id, each with a NUL. */
static struct user *make(struct slice json, struct slice id)
{
    struct user *u = xzalloc(sizeof *u + json.n + 1 + id.n + 1);
    char *p = (char *)(u + 1);
    cache_entry_init(&u->entry);
    memcpy(p, json.p, json.n);
    u->json = slice_make(p, json.n);
    digest_parts(&u->json, 1, u->json_digest);
    p += json.n + 1;
    if (id.n) memcpy(p, id.p, id.n);
    u->id = slice_make(p, id.n);
    u->entry.bytes = (uint32_t)(sizeof *u + json.n + id.n + 2);
    u->end_ms = INT64_MAX;
    return u;
}

static struct slice text_of(const json_t *value)
{
    return slice_make(json_string_value(value), json_string_length(value));
}

struct user *context_anonymous(void)
{
    struct user *u = make(SLICE("{\"id\":\"anonymous\",\"username\":\"anonymous\",\"roles\":[],\"offices\":[],"
                                "\"authenticated\":false}"),
                          SLICE("anonymous"));
    u->anonymous = true;
    return u;
}

/* All contexts are written by the same writer: from the API or from Redis, the same context is the same bytes, and they
   are part of the decision's key. */
static struct user *of_object(const json_t *context, const char **detail)
{
    const json_t *id = json_object_get(context, "id");
    if (!json_is_string(id) || json_string_length(id) == 0) {
        *detail = "the context has no id";
        return NULL;
    }
    struct buf text;
    buf_init(&text, NULL);
    document_write(context, &text);
    struct user *u = make(buf_slice(&text), text_of(id));
    buf_free(&text);
    return u;
}

/* What the shape makes of it; NULL with *detail. */
static json_t *shaped(struct slice document, struct shape *shape, const char **detail)
{
    struct buf text;
    char *error = NULL;
    json_t *value = NULL;
    buf_init(&text, NULL);
    if (!shape_run(shape, document, &text, &error)) {
        *detail = "the context's shape failed";
        if (error) log_event(LOG_WARN, "context_shape_failed", slice_str(error));
    } else {
        value = document_object(buf_slice(&text));
        if (!value) *detail = "the context's shape did not give an object";
    }
    free(error);
    buf_free(&text);
    return value;
}

struct user *context_of(struct slice document, struct shape *shape, const char **detail)
{
    json_t *value = document_object(document);
    if (!value) {
        *detail = "the profile is not a JSON object, or has a name twice";
        return NULL;
    }
    if (shape) {
        json_decref(value);
        value = shaped(document, shape, detail);
        if (!value) return NULL;
    }
    struct user *u = of_object(value, detail);
    json_decref(value);
    return u;
}

struct user *user_create(struct slice json)
{
    json_t *value = document_object(json);
    if (!value) return NULL;
    struct buf text;
    buf_init(&text, NULL);
    document_write(value, &text);
    const json_t *id = json_object_get(value, "id");
    struct user *u = make(buf_slice(&text), json_is_string(id) ? text_of(id) : SLICE(""));
    json_decref(value);
    buf_free(&text);
    return u;
}

void context_store(const struct user *u, const struct subject *s, int64_t stored_wall_ms, struct buf *out)
{
    struct json j;
    json_init(&j, out);
    json_object_start(&j);
    json_field_int(&j, "v", STORED_VERSION);
    json_field_string(&j, "iss", s->issuer);
    json_field_string(&j, "sub", s->name);
    if (s->made_by.n) json_field_string(&j, "by", s->made_by);
    json_field_int(&j, "stored", stored_wall_ms);
    json_field_raw(&j, "context", u->json);
    json_object_end(&j);
}

static bool is_text(const json_t *value, struct slice text)
{
    return json_is_string(value) && slice_eq(text_of(value), text);
}

/* By us and as now: another configuration makes other contexts of the same profile. */
static bool is_made_by(const json_t *value, struct slice made_by)
{
    if (made_by.n == 0) return json_object_size(value) == 5;
    return json_object_size(value) == 6 && is_text(json_object_get(value, "by"), made_by);
}

struct user *context_load(struct slice stored, const struct subject *s, int64_t *stored_wall_ms)
{
    struct user *u = NULL;
    json_t *value = document_object(stored);
    const json_t *version = json_object_get(value, "v");
    const json_t *at = json_object_get(value, "stored");
    const json_t *context = json_object_get(value, "context");
    if (json_is_integer(version) && json_integer_value(version) == STORED_VERSION && json_is_integer(at) &&
        json_integer_value(at) >= 0 && is_text(json_object_get(value, "iss"), s->issuer) &&
        is_text(json_object_get(value, "sub"), s->name) && json_is_object(context) &&
        is_made_by(value, s->made_by)) {
        const char *detail;
        u = of_object(context, &detail);
        *stored_wall_ms = json_integer_value(at);
    }
    json_decref(value);
    return u;
}

void context_free(struct cache_entry *e)
{
    free(container_of(e, struct user, entry));
}
