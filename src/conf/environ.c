/* conf/environ: reading of the environment. Called by options.c and dropin.c. It refuses names that are not set, and
   JSON that is none; it never shows the value of a variable it does not know. */
#include "conf/environ.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "conf/jsondoc.h"
#include "conf/values.h"

struct taken {
    char *name, *value;
    struct taken *next;
};

struct conf_taken {
    struct taken *first;
};

struct conf_taken *conf_taken_create(void)
{
    return xzalloc(sizeof(struct conf_taken));
}

void conf_taken_destroy(struct conf_taken *t)
{
    if (!t) return;
    while (t->first) {
        struct taken *v = t->first;
        t->first = v->next;
        explicit_bzero(v->value, strlen(v->value));
        free(v->value);
        free(v->name);
        free(v);
    }
    free(t);
}

static const char *taken_value(const struct conf_taken *t, const char *name)
{
    for (const struct taken *v = t->first; v; v = v->next)
        if (strcmp(v->name, name) == 0) return v->value;
    return NULL;
}

static void keep(struct conf_taken *t, const char *name, const char *value)
{
    if (!value || taken_value(t, name)) return;
    struct taken *v = xzalloc(sizeof *v);
    *v = (struct taken){xstrdup(name), xstrdup(value), t->first};
    t->first = v;
}

const char *environ_get(const struct load *l, const char *name)
{
    size_t n = strlen(name);
    for (char **e = l->environ; e && *e; e++)
        if (strncmp(*e, name, n) == 0 && (*e)[n] == '=') return *e + n + 1;
    return l->store ? taken_value(l->store, name) : NULL;
}

bool environ_flag(struct load *l, const char *name, bool otherwise)
{
    const char *v = environ_get(l, name);
    if (!v) return otherwise;
    if (strcmp(v, "1") == 0 || strcmp(v, "true") == 0) return true;
    if (strcmp(v, "0") != 0 && strcmp(v, "false") != 0 && *v) {
        struct node at = {.variable = name};
        problem(&l->problems, &at, "", "\"%s\" given, expected 1 or 0",
                node_shown(l->problems.arena, slice_str(v)));
    }
    return false;
}

/* One ${...} of a text. rest: behind the "${". Appends its value; false when it was wrong. */
static bool expand_one(struct load *l, struct node *n, const char *path, struct slice *rest, struct buf *out)
{
    const char *end = memchr(rest->p, '}', rest->n);
    size_t length = 0, whole = end ? (size_t)(end - rest->p) : 0;
    while (length < whole && (rest->p[length] == '_' || (rest->p[length] >= 'A' && rest->p[length] <= 'Z') ||
                              (rest->p[length] >= 'a' && rest->p[length] <= 'z') ||
                              (length && rest->p[length] >= '0' && rest->p[length] <= '9')))
        length++;
    bool has_default = length + 1 < whole && rest->p[length] == ':' && rest->p[length + 1] == '-';
    if (!length || (length < whole && !has_default)) {
        problem(&l->problems, n, path, "${ without a name and }, expected ${NAME} or ${NAME:-default}");
        return false;
    }
    const char *name = arena_copy(l->problems.arena, slice_make(rest->p, length)).p;
    const char *value = environ_get(l, name);
    if (!value && !has_default) {
        problem(&l->problems, n, path, "${%s} is not set, expected a value in the environment or ${%s:-default}", name, name);
        return false;
    }
    if (has_default && (!value || !*value)) {
        buf_add(out, rest->p + length + 2, whole - length - 2);
    } else {
        struct node_variable *used = arena_alloc(l->problems.arena, sizeof *used);
        *used = (struct node_variable){name, n->used};
        n->used = used;
        buf_add_slice(out, slice_str(value));
    }
    *rest = slice_make(end + 1, rest->n - whole - 1);
    return true;
}

static void expand_text(struct load *l, struct node *n, const char *path, bool named)
{
    struct slice rest = n->text;
    struct buf out;
    if (!n->file || !memmem(rest.p, rest.n, "${", 2)) return;
    buf_init(&out, l->problems.arena);
    while (rest.n) {
        bool dollar = rest.p[0] == '$' && rest.n > 1;
        if (dollar && rest.n > 2 && rest.p[1] == '$' && rest.p[2] == '{') {
            buf_add_lit(&out, "${");
            rest = slice_make(rest.p + 3, rest.n - 3);
        } else if (dollar && rest.p[1] == '{') {
            rest = slice_make(rest.p + 2, rest.n - 2);
            if (!expand_one(l, n, path, &rest, &out)) {
                n->told = true;
                return;
            }
        } else {
            buf_add_char(&out, rest.p[0]);
            rest = slice_make(rest.p + 1, rest.n - 1);
        }
    }
    n->text = arena_copy(l->problems.arena, buf_slice(&out));
    n->expanded = true;
    if (named && n->used) n->variable = n->used->name;
}

static void expand_below(struct load *l, struct node *n, const char *path, bool named)
{
    size_t i = 0;
    if (n->kind == NODE_TEXT) expand_text(l, n, path, named);
    for (struct node *child = n->child; child; child = child->next, i++) {
        const char *below;
        if (n->kind == NODE_LIST) below = load_text(l, "%s[%zu]", path, i);
        else below = load_text(l, "%s%s%s", path, *path ? "." : "", node_shown(l->problems.arena, child->key));
        expand_below(l, child, below, named);
    }
}

void environ_expand(struct load *l, struct node *top, bool named)
{
    expand_below(l, top, "", named);
}

/* Calls fn for each variable that an option has; the row's whole path, what it ends in ("", "_file"). */
typedef void each_variable(struct load *l, const struct option *o, const char *path, const char *variable, void *arg);

static void each(struct load *l, const struct table *t, const char *prefix, each_variable *fn, void *arg)
{
    for (size_t i = 0; i < t->n; i++) {
        const struct option *o = &t->rows[i];
        const char *path = load_text(l, "%s%s", prefix, o->path);
        if (o->kind == KIND_UPSTREAM) {
            each(l, table_below(o->kind), load_text(l, "%s.", path), fn, arg);
            continue;
        }
        fn(l, o, path, table_variable(l->problems.arena, "", path, ""), arg);
        if (!value_is_secret(o->kind)) continue;
        path = load_text(l, "%s_file", path);
        fn(l, o, path, table_variable(l->problems.arena, "", path, ""), arg);
    }
}

static void on_any(struct load *l, const struct option *o, const char *path, const char *variable, void *arg)
{
    (void)o;
    (void)path;
    if (environ_get(l, variable)) *(bool *)arg = true;
}

bool environ_any(struct load *l)
{
    bool any = false;
    each(l, &table_options, "", on_any, &any);
    return any;
}

static void on_overlay(struct load *l, const struct option *o, const char *path, const char *variable, void *arg)
{
    struct node *top = arg, *n;
    const char *value = environ_get(l, variable);
    if (!value) return;
    struct slice text = slice_trim(slice_str(value));
    bool json = table_below(o->kind) || (value_is_list(o->kind) && text.n && text.p[0] == '[');
    if (json) {
        n = jsondoc_read(&l->problems, variable, text);
        if (!n) return;
    } else {
        n = node_create(l->problems.arena, NODE_TEXT);
        n->text = arena_copy(l->problems.arena, slice_str(value));
        n->variable = variable;
    }
    /* A secret and its file are two ways to say one thing: the variable wins over the other way too. */
    if (value_is_secret(o->kind)) {
        size_t length = strlen(path);
        bool is_file = length > 5 && strcmp(path + length - 5, "_file") == 0;
        const char *other = is_file ? arena_copy(l->problems.arena, slice_make(path, length - 5)).p
                                    : load_text(l, "%s_file", path);
        const struct node *there = node_find(top, other);
        if (there && !there->variable) node_drop(top, other);
    }
    node_put(l->problems.arena, top, path, n);
}

struct known {
    const char *name;
    bool found;
};

static void on_known(struct load *l, const struct option *o, const char *path, const char *variable, void *arg)
{
    struct known *k = arg;
    (void)l;
    (void)o;
    (void)path;
    if (strcmp(k->name, variable) == 0) k->found = true;
}

static void warn_of_unknown(struct load *l)
{
    for (char **e = l->environ; e && *e; e++) {
        const char *equals = strchr(*e, '=');
        if (!equals || strncmp(*e, "DOORWARD_", 9) != 0) continue;
        struct slice name = slice_make(*e, (size_t)(equals - *e));
        struct known k = {arena_copy(l->problems.arena, name).p, false};
        if (strcmp(k.name, "DOORWARD_CONFIG") == 0 || strcmp(k.name, "DOORWARD_DROP_IN") == 0) continue;
        each(l, &table_options, "", on_known, &k);
        if (!k.found)
            buf_printf(l->warnings, "environment: %s: no option has this variable, ignored\n",
                       node_shown(l->problems.arena, name));
    }
}

void environ_overlay(struct load *l, struct node *top)
{
    each(l, &table_options, "", on_overlay, top);
    warn_of_unknown(l);
}

void environ_take(struct load *l)
{
    for (const struct node_variable *v = l->taken; v; v = v->next) {
        char *own = getenv(v->name);
        const char *given = environ_get(l, v->name);
        if (l->store) keep(l->store, v->name, given);
        /* Only bytes of the process's own environment are ours to wipe. */
        if (own && own == given) explicit_bzero(own, strlen(own));
        unsetenv(v->name);
    }
}
