/* conf/jsondoc: jansson's value to a tree. Called by environ.c and dropin.c for lists given in variables. It refuses
   keys given twice, NULs, and depth over NODE_MAX_DEPTH. */
#include "conf/jsondoc.h"

#include <jansson.h>

static struct node *convert(struct problems *p, const char *variable, json_t *json, int depth)
{
    struct node *n = node_create(p->arena, NODE_NULL);
    n->variable = variable;
    n->nested = depth > 0;
    if (depth > NODE_MAX_DEPTH) {
        problem(p, n, "", "JSON nested too deep, expected at most 16 levels");
        return n;
    }
    if (json_is_object(json)) {
        n->kind = NODE_MAP;
        const char *key;
        json_t *value;
        json_object_foreach(json, key, value) {
            struct node *child = convert(p, variable, value, depth + 1);
            child->key = arena_copy(p->arena, slice_str(key));
            node_append(n, child);
        }
        if (n->children > NODE_MAX_KEYS) problem(p, n, "", "more keys than an object may have, expected at most 1024");
    } else if (json_is_array(json)) {
        n->kind = NODE_LIST;
        size_t i;
        json_t *value;
        json_array_foreach(json, i, value) node_append(n, convert(p, variable, value, depth + 1));
    } else if (json_is_string(json)) {
        n->kind = NODE_TEXT;
        n->quoted = true;
        n->text = arena_copy(p->arena, slice_make(json_string_value(json), json_string_length(json)));
    } else if (!json_is_null(json)) {
        n->kind = NODE_TEXT;
        n->text = json_is_integer(json) ? arena_printf(p->arena, "%" JSON_INTEGER_FORMAT, json_integer_value(json))
                  : json_is_real(json)  ? arena_printf(p->arena, "%.6f", json_real_value(json))
                  : json_is_true(json)  ? SLICE("true")
                                        : SLICE("false");
    }
    return n;
}

struct node *jsondoc_read(struct problems *p, const char *variable, struct slice text)
{
    json_error_t error;
    json_t *json = json_loadb(text.p, text.n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    if (!json) {
        struct node at = {.variable = variable};
        bool twice = json_error_code(&error) == json_error_duplicate_key;
        problem(p, &at, "", "%s at byte %d, expected JSON",
                twice ? "a key given twice" : "not JSON", error.position);
        return NULL;
    }
    struct node *n = convert(p, variable, json, 0);
    json_decref(json);
    return n;
}
