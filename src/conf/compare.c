/* conf/compare: called by proxy/ when a configuration takes another's place. Refuses nothing: both were read without a
   problem. */
#include "conf/compare.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "conf/policies.h"
#include "conf/table.h"
#include "conf/values.h"

enum { PATH_BYTES = 512 };

struct walk {
    void (*each)(const char *path, void *arg);
    void *arg;
};

static struct slice text_at(const void *field)
{
    struct slice s;
    memcpy(&s, field, sizeof s);
    return s;
}

static bool same_lists(const void *a, const void *b)
{
    const struct conf_list *x = a, *y = b;
    if (x->n != y->n) return false;
    for (size_t i = 0; i < x->n; i++)
        if (!slice_eq(x->v[i], y->v[i])) return false;
    return true;
}

static bool same_nets(const void *a, const void *b)
{
    const struct nets *x = a, *y = b;
    if (x->n != y->n) return false;
    for (size_t i = 0; i < x->n; i++)
        if (x->v[i].family != y->v[i].family || x->v[i].bits != y->v[i].bits ||
            memcmp(x->v[i].bytes, y->v[i].bytes, sizeof x->v[i].bytes) != 0)
            return false;
    return true;
}

static struct slice name_of(const void *reference)
{
    const struct conf_upstream *u;
    memcpy(&u, reference, sizeof u);
    return u ? u->name : SLICE("");
}

static bool has_file_name(enum option_kind kind)
{
    return kind == KIND_PEM_FILE || kind == KIND_KEY_FILE;
}

static bool same_policies(const void *a, const void *b)
{
    const struct policies *x = a, *y = b;
    if (!slice_eq(x->path, y->path) || x->n != y->n) return false;
    for (size_t i = 0; i < x->n; i++)
        if (!slice_eq(x->v[i].name, y->v[i].name) || !slice_eq(x->v[i].bytes, y->v[i].bytes)) return false;
    return true;
}

/* a and b: the structs of the table. */
static bool same_value(const struct option *o, const void *a, const void *b)
{
    const char *x = (const char *)a + o->offset, *y = (const char *)b + o->offset;
    const size_t second = offsetof(struct named_text, name);
    if (o->kind <= KIND_CHOICE) return memcmp(x, y, o->size) == 0;
    if (o->kind == KIND_NETS) return same_nets(x, y);
    if (value_is_list(o->kind)) return same_lists(x, y);
    if (o->kind == KIND_POLICIES) return same_policies(x, y);
    if (o->kind == KIND_REFERENCE) return slice_eq(name_of(x), name_of(y));
    if (!slice_eq(text_at(x), text_at(y))) return false;
    if (o->kind == KIND_ADDRESS) {
        const size_t port = offsetof(struct address, port);
        return memcmp(x + port, y + port, sizeof(int)) == 0;
    }
    if (o->kind == KIND_ROUTE_PATH || o->kind == KIND_ROUTE_PREFIX) {
        const size_t prefix = offsetof(struct route_path, prefix);
        return memcmp(x + prefix, y + prefix, sizeof(bool)) == 0;
    }
    return !has_file_name(o->kind) || slice_eq(text_at(x + second), text_at(y + second));
}

static void tell(const struct walk *w, const char *front, const char *path)
{
    char whole[PATH_BYTES];
    snprintf(whole, sizeof whole, "%s%s", front, path);
    w->each(whole, w->arg);
}

/* Of a route's two ways to name its path both rows are the same field: told once. */
static bool is_repeated(const struct table *t, size_t i)
{
    return i && t->rows[i].offset == t->rows[i - 1].offset;
}

static void walk_rows(const struct walk *w, const struct table *t, const char *front, const void *a, const void *b)
{
    for (size_t i = 0; i < t->n; i++) {
        if (table_below(t->rows[i].kind) || is_repeated(t, i) || same_value(&t->rows[i], a, b)) continue;
        tell(w, front, t->rows[i].path);
    }
}

static const struct conf_upstream *named(const struct conf *c, struct slice name)
{
    for (size_t i = 1; i < c->upstreams_n; i++)
        if (slice_eq(c->upstreams[i].name, name)) return &c->upstreams[i];
    return NULL;
}

static void walk_upstreams(const struct walk *w, const struct conf *a, const struct conf *b)
{
    char path[PATH_BYTES];
    for (size_t i = 1; i < a->upstreams_n; i++) {
        const struct conf_upstream *u = &a->upstreams[i], *other = named(b, u->name);
        snprintf(path, sizeof path, "upstreams.%.*s%s", (int)u->name.n, u->name.p, other ? "." : "");
        if (other) walk_rows(w, &table_upstream, path, u, other);
        else w->each(path, w->arg);
    }
    for (size_t i = 1; i < b->upstreams_n; i++) {
        if (named(a, b->upstreams[i].name)) continue;
        snprintf(path, sizeof path, "upstreams.%.*s", (int)b->upstreams[i].name.n, b->upstreams[i].name.p);
        w->each(path, w->arg);
    }
}

static void walk_entries(const struct walk *w, const struct option *o, const void *a, size_t a_n, const void *b, size_t b_n)
{
    const struct table *t = table_below(o->kind);
    char path[PATH_BYTES];
    for (size_t i = 0; i < a_n || i < b_n; i++) {
        bool both = i < a_n && i < b_n;
        snprintf(path, sizeof path, "%s[%zu]%s", o->path, i, both ? "." : "");
        if (both) walk_rows(w, t, path, (const char *)a + i * t->size, (const char *)b + i * t->size);
        else w->each(path, w->arg);
    }
}

void conf_differences(const struct conf *a, const struct conf *b, void (*each)(const char *path, void *arg), void *arg)
{
    const struct walk w = {each, arg};
    for (size_t i = 0; i < table_options.n; i++) {
        const struct option *o = &table_options.rows[i];
        if (o->kind == KIND_UPSTREAM) walk_rows(&w, &table_upstream, "upstream.", &a->upstreams[0], &b->upstreams[0]);
        else if (o->kind == KIND_UPSTREAMS) walk_upstreams(&w, a, b);
        else if (o->kind == KIND_ISSUERS)
            walk_entries(&w, o, a->tokens.issuers, a->tokens.issuers_n, b->tokens.issuers, b->tokens.issuers_n);
        else if (o->kind == KIND_ROUTES) walk_entries(&w, o, a->routes, a->routes_n, b->routes, b->routes_n);
        else if (!same_value(o, a, b)) tell(&w, "", o->path);
    }
}

bool conf_same(const struct conf *a, const struct conf *b, const char *prefix)
{
    size_t n = strlen(prefix);
    for (size_t i = 0; i < table_options.n; i++) {
        const struct option *o = &table_options.rows[i];
        if (strncmp(o->path, prefix, n) == 0 && !table_below(o->kind) && !same_value(o, a, b)) return false;
    }
    return true;
}

static void add_text(struct buf *out, struct slice s)
{
    buf_printf(out, "%zu:", s.n);
    buf_add_slice(out, s);
}

static void add_value(struct buf *out, const struct option *o, const void *base)
{
    const char *field = (const char *)base + o->offset;
    const struct conf_list *list = (const void *)field;
    const struct nets *nets = (const void *)field;
    const struct policies *policies = (const void *)field;
    if (o->kind <= KIND_CHOICE) {
        add_text(out, slice_make(field, o->size));
    } else if (o->kind == KIND_NETS) {
        for (size_t i = 0; i < nets->n; i++) add_text(out, slice_make((const char *)&nets->v[i], sizeof nets->v[i]));
    } else if (value_is_list(o->kind)) {
        for (size_t i = 0; i < list->n; i++) add_text(out, list->v[i]);
    } else if (o->kind == KIND_POLICIES) {
        add_text(out, policies->path);
        for (size_t i = 0; i < policies->n; i++) {
            add_text(out, policies->v[i].name);
            add_text(out, policies->v[i].bytes);
        }
    } else if (o->kind == KIND_REFERENCE) {
        add_text(out, name_of(field));
    } else if (!value_is_secret(o->kind) && o->kind != KIND_KEY_FILE) {
        add_text(out, text_at(field));
        if (o->kind == KIND_ADDRESS) add_text(out, slice_make(field + offsetof(struct address, port), sizeof(int)));
        if (o->kind == KIND_ROUTE_PATH)
            add_text(out, slice_make(field + offsetof(struct route_path, prefix), sizeof(bool)));
    }
}

static void add_rows(struct buf *out, const struct table *t, const void *base)
{
    for (size_t i = 0; i < t->n; i++) {
        if (table_below(t->rows[i].kind)) continue;
        buf_printf(out, "%s=", t->rows[i].path);
        add_value(out, &t->rows[i], base);
        buf_add_char(out, '\n');
    }
}

void conf_canonical(const struct conf *c, struct buf *out)
{
    add_rows(out, &table_options, c);
    for (size_t i = 0; i < c->upstreams_n; i++) {
        buf_add_lit(out, "upstream ");
        add_text(out, c->upstreams[i].name);
        add_rows(out, &table_upstream, &c->upstreams[i]);
    }
    for (size_t i = 0; i < c->tokens.issuers_n; i++) add_rows(out, &table_issuer, &c->tokens.issuers[i]);
    for (size_t i = 0; i < c->routes_n; i++) add_rows(out, &table_route, &c->routes[i]);
}
