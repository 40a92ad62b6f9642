/* conf/node: the tree, its places, and the list of problems. Called by every reader of this room. It refuses nothing
   itself; a problem is one line and the caller goes on, so that all are told at once. */
#include "conf/node.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { SHOWN_BYTES = 60 };

struct node *node_create(struct arena *a, enum node_kind kind)
{
    struct node *n = arena_zalloc(a, sizeof *n);
    n->kind = kind;
    n->text = SLICE("");
    return n;
}

struct node *node_text(struct arena *a, struct slice text, const struct node *origin)
{
    struct node *n = node_create(a, NODE_TEXT);
    n->text = arena_copy(a, text);
    if (origin) {
        n->file = origin->file;
        n->line = origin->line;
        n->variable = origin->variable;
        n->nested = origin->nested;
        n->used = origin->used;
    }
    return n;
}

void node_append(struct node *parent, struct node *child)
{
    child->next = NULL;
    if (parent->last) parent->last->next = child;
    else parent->child = child;
    parent->last = child;
    parent->children++;
}

struct node *node_child(const struct node *map, struct slice key)
{
    if (!map || map->kind != NODE_MAP) return NULL;
    for (struct node *n = map->child; n; n = n->next)
        if (slice_eq(n->key, key)) return n;
    return NULL;
}

struct node *node_find(const struct node *map, const char *path)
{
    struct slice rest = slice_str(path), key;
    const struct node *n = map;
    while (slice_next(&rest, '.', &key)) {
        n = node_child(n, key);
        if (!n) return NULL;
    }
    return n->kind == NODE_NULL ? NULL : (struct node *)n;
}

static void replace(struct node *map, struct slice key, struct node *value)
{
    struct node kept = *map;
    map->child = map->last = NULL;
    map->children = 0;
    for (struct node *n = kept.child, *next; n; n = next) {
        next = n->next;
        if (!slice_eq(n->key, key)) node_append(map, n);
    }
    if (value) {
        value->key = key;
        node_append(map, value);
    }
}

bool node_put(struct arena *a, struct node *map, const char *path, struct node *value)
{
    struct slice rest = slice_str(path), key;
    struct node *at = map;
    slice_next(&rest, '.', &key);
    while (rest.p) {
        struct node *next = node_child(at, key);
        if (!next || next->kind == NODE_NULL) {
            next = node_create(a, NODE_MAP);
            next->variable = value->variable;
            next->file = value->file;
            next->line = value->line;
            replace(at, arena_copy(a, key), next);
        }
        if (next->kind != NODE_MAP) return false;
        at = next;
        slice_next(&rest, '.', &key);
    }
    replace(at, arena_copy(a, key), value);
    return true;
}

void node_drop(struct node *map, const char *path)
{
    const char *dot = strrchr(path, '.');
    struct node *parent = map;
    if (dot) {
        struct slice rest = slice_make(path, (size_t)(dot - path)), key;
        while (parent && slice_next(&rest, '.', &key)) parent = node_child(parent, key);
    }
    if (parent && parent->kind == NODE_MAP) replace(parent, slice_str(dot ? dot + 1 : path), NULL);
}

struct slice node_origin(struct arena *a, const struct node *n)
{
    if (!n) return SLICE("default");
    if (n->variable) return arena_printf(a, "environment %s", n->variable);
    if (n->line) return arena_printf(a, "%s:%d", n->file, n->line);
    return n->file ? slice_str(n->file) : SLICE("default");
}

void problem(struct problems *p, const struct node *n, const char *path, const char *format, ...)
{
    if (n && n->variable) {
        buf_printf(p->errors, "environment: %s: ", n->variable);
        if (n->nested && *path) buf_printf(p->errors, "%s: ", path);
    } else {
        if (n && n->line) buf_printf(p->errors, "%s:%d: ", n->file, n->line);
        else if (n && n->file) buf_printf(p->errors, "%s: ", n->file);
        if (*path) buf_printf(p->errors, "%s: ", path);
    }
    char what[512];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    buf_printf(p->errors, "%s\n", what);
    p->count++;
}

const char *node_shown(struct arena *a, struct slice s)
{
    char *out = arena_alloc(a, SHOWN_BYTES + 4);
    size_t n = s.n < SHOWN_BYTES ? s.n : SHOWN_BYTES;
    for (size_t i = 0; i < n; i++) out[i] = s.p[i] >= ' ' && s.p[i] <= '~' ? s.p[i] : '?';
    strcpy(out + n, s.n > n ? "..." : "");
    return out;
}
