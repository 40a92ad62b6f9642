/* conf/read: walks a tree along the tables. Called by options.c. It refuses keys that no table has, maps and lists in
   the wrong place, and a secret given both as it is and as a file. */
#include "conf/read.h"

#include <string.h>

#include "conf/values.h"

static void read_table(struct load *l, const struct table *t, const struct node *map, const char *prefix, void *base,
                       bool keep_defaults);

enum match { MATCH_NONE, MATCH_OPTION, MATCH_SECTION };

static enum match match(const struct table *t, const char *path)
{
    size_t n = strlen(path);
    for (size_t i = 0; i < t->n; i++) {
        const char *row = t->rows[i].path;
        if (strncmp(row, path, n) == 0 && (row[n] == '\0' || row[n] == '.')) return row[n] ? MATCH_SECTION : MATCH_OPTION;
        size_t m = strlen(row);
        if (value_is_secret(t->rows[i].kind) && n == m + 5 && strncmp(path, row, m) == 0 &&
            strcmp(path + m, "_file") == 0)
            return MATCH_OPTION;
    }
    return MATCH_NONE;
}

/* The keys that may stand in the section: "a, b, c". */
static const char *keys_of(struct load *l, const struct table *t, const char *section)
{
    size_t skip = strlen(section);
    struct slice last = SLICE("");
    struct buf b;
    buf_init(&b, l->problems.arena);
    for (size_t i = 0; i < t->n; i++) {
        const char *row = t->rows[i].path;
        if (strncmp(row, section, skip) != 0) continue;
        struct slice rest = slice_str(row + skip), key;
        slice_next(&rest, '.', &key);
        if (slice_eq(key, last)) continue;
        buf_printf(&b, "%s%.*s", b.n ? ", " : "", (int)key.n, key.p);
        if (!rest.p && value_is_secret(t->rows[i].kind)) buf_printf(&b, ", %.*s_file", (int)key.n, key.p);
        last = key;
    }
    buf_add_char(&b, '\0');
    return b.p;
}

/* section: "" or "listen." */
static void refuse_unknown(struct load *l, const struct table *t, const struct node *map, const char *prefix,
                           const char *section)
{
    for (const struct node *n = map->child; n; n = n->next) {
        const char *key = node_shown(l->problems.arena, n->key);
        const char *path = load_text(l, "%s%s", section, key);
        const char *whole = load_text(l, "%s%s", prefix, path);
        enum match m = memchr(n->key.p, '.', n->key.n) || !n->key.n ? MATCH_NONE : match(t, path);
        if (m == MATCH_NONE)
            problem(&l->problems, n, whole, "unknown key, expected one of %s", keys_of(l, t, section));
        else if (m == MATCH_SECTION && n->kind == NODE_MAP)
            refuse_unknown(l, t, n, prefix, load_text(l, "%s.", path));
        else if (m == MATCH_SECTION && n->kind != NODE_NULL)
            problem(&l->problems, n, whole, "a %s given, expected a map with %s",
                    n->kind == NODE_LIST ? "list" : "text", keys_of(l, t, load_text(l, "%s.", path)));
    }
}

static bool is_kind(struct load *l, const struct node *n, const char *path, enum node_kind kind)
{
    static const char *const names[] = {"nothing", "a text", "a list", "a map"};
    if (n->kind == kind) return true;
    if (!n->told) problem(&l->problems, n, path, "%s given, expected %s", names[n->kind], names[kind]);
    return false;
}

/* The default upstream first, then those by name. */
static void read_upstreams(struct load *l, const struct node *top, struct conf *conf)
{
    const struct node *first = node_find(top, "upstream"), *more = node_find(top, "upstreams");
    if (more && !is_kind(l, more, "upstreams", NODE_MAP)) more = NULL;
    conf->upstreams = arena_zalloc(l->kept, (1 + (more ? more->children : 0)) * sizeof *conf->upstreams);
    conf->upstreams_n = 1;
    conf->upstreams[0].name = SLICE("default");
    if (first && !is_kind(l, first, "upstream", NODE_MAP)) first = NULL;
    read_table(l, &table_upstream, first, "upstream.", &conf->upstreams[0], true);
    for (const struct node *n = more ? more->child : NULL; n; n = n->next) {
        struct conf_upstream *u = &conf->upstreams[conf->upstreams_n++];
        const char *path = load_text(l, "upstreams.%s", node_shown(l->problems.arena, n->key));
        u->name = load_keep(l, n->key);
        if (!is_kind(l, n, path, NODE_MAP)) continue;
        read_table(l, &table_upstream, n, load_text(l, "%s.", path), u, false);
    }
}

/* v and n stand one behind the other in conf: an array of the table's structs and its length. */
struct maps {
    void *v;
    size_t n;
};
_Static_assert(offsetof(struct conf, tokens.issuers_n) - offsetof(struct conf, tokens.issuers) == offsetof(struct maps, n),
               "issuers");
_Static_assert(offsetof(struct conf, routes_n) - offsetof(struct conf, routes) == offsetof(struct maps, n), "routes");

static void read_maps(struct load *l, const struct option *o, const struct node *list, void *base)
{
    const struct table *t = table_below(o->kind);
    struct maps maps = {NULL, 0};
    if (!list || !is_kind(l, list, o->path, NODE_LIST)) return;
    if (list->children > (size_t)o->most) {
        problem(&l->problems, list, o->path, "%zu entries, expected at most %lld", list->children, (long long)o->most);
        return;
    }
    maps.v = arena_zalloc(l->kept, list->children * t->size);
    for (const struct node *n = list->child; n; n = n->next, maps.n++) {
        const char *path = load_text(l, "%s[%zu]", o->path, maps.n);
        if (is_kind(l, n, path, NODE_MAP))
            read_table(l, t, n, load_text(l, "%s.", path), (char *)maps.v + maps.n * t->size, false);
    }
    memcpy((char *)base + o->offset, &maps, sizeof maps);
}

static void read_secret(struct load *l, const struct option *o, const char *path, const struct node *map, void *base,
                        bool keep_default)
{
    const char *file_path = load_text(l, "%s_file", path);
    const struct node *plain = node_find(map, o->path);
    const struct node *file = node_find(map, load_text(l, "%s_file", o->path));
    if (plain && file) {
        problem(&l->problems, file, file_path, "given together with %s, expected one of the two", path);
        return;
    }
    if (!file || (file->kind == NODE_TEXT && !file->text.n && !file->told)) {
        value_read(l, o, path, plain, base, keep_default);
        return;
    }
    const struct node *content = value_from_file(l, file_path, file);
    if (content && value_read(l, o, file_path, content, base, false)) {
        struct conf_record *r = l->whole->last_record;
        r->value = load_keep(l, file->text);
    }
}

static void read_table(struct load *l, const struct table *t, const struct node *map, const char *prefix, void *base,
                       bool keep_defaults)
{
    struct node nothing = {.kind = NODE_MAP};
    if (!map) map = &nothing;
    refuse_unknown(l, t, map, prefix, "");
    for (size_t i = 0; i < t->n; i++) {
        const struct option *o = &t->rows[i];
        const char *path = load_text(l, "%s%s", prefix, o->path);
        const struct node *n = node_find(map, o->path);
        if (o->kind == KIND_UPSTREAM) continue;
        if (o->kind == KIND_UPSTREAMS) read_upstreams(l, map, base);
        else if (table_below(o->kind)) read_maps(l, o, n, base);
        else if (value_is_secret(o->kind)) read_secret(l, o, path, map, base, keep_defaults);
        /* Of a route's two ways to name its path, the one that is not given must not undo the other. */
        else if (n || (o->kind != KIND_ROUTE_PATH && o->kind != KIND_ROUTE_PREFIX))
            value_read(l, o, path, n, base, keep_defaults);
    }
}

void read_options(struct load *l, const struct node *top, struct conf *conf)
{
    read_table(l, &table_options, top, "", conf, true);
}
