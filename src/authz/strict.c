/* authz/strict: the one place where the flags of jansson are chosen for tokens and keys. Called by jws and keyset, and
   by their neighbours for the texts in it. */
#include "authz/strict.h"

#include <jansson.h>

/* Brackets in strings do not count. */
static bool too_deep(struct slice text)
{
    unsigned depth = 0;
    bool quoted = false;
    for (size_t i = 0; i < text.n; i++) {
        char c = text.p[i];
        if (quoted) {
            if (c == '\\')
                i++;
            else if (c == '"')
                quoted = false;
        } else if (c == '"') {
            quoted = true;
        } else if (c == '{' || c == '[') {
            if (++depth > STRICT_MAX_DEPTH) return true;
        } else if ((c == '}' || c == ']') && depth) {
            depth--;
        }
    }
    return false;
}

struct json_t *strict_object(struct slice text, enum strict_problem *problem)
{
    if (too_deep(text)) {
        *problem = STRICT_TOO_DEEP;
        return NULL;
    }
    json_error_t error;
    json_t *root = json_loadb(text.n ? text.p : "", text.n, JSON_REJECT_DUPLICATES, &error);
    if (!root) {
        *problem = json_error_code(&error) == json_error_duplicate_key ? STRICT_DUPLICATE : STRICT_INVALID;
        return NULL;
    }
    if (!json_is_object(root)) {
        json_decref(root);
        *problem = STRICT_NO_OBJECT;
        return NULL;
    }
    return root;
}

struct slice strict_text(const struct json_t *object, const char *key)
{
    const json_t *v = json_object_get(object, key);
    if (!json_is_string(v)) return slice_make(NULL, 0);
    return slice_make(json_string_value(v), json_string_length(v));
}
