/* conf/values: the kinds of values, as a table: what each is called, which form its texts have, how it is stored. Called
   by read.c. It refuses wrong types, numbers and lengths out of range, and files that cannot be read; it never puts a
   secret, or a URL that may hold one, in a message. */
#include "conf/values.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/json.h"
#include "conf/form.h"
#include "conf/net.h"
#include "conf/policies.h"
#include "conf/source.h"

enum { SECRET_FILE_BYTES = 65536, FILE_BYTES = 1048576 };

/* How the texts of a kind are shown in messages and by conf_print. */
enum show { SHOW, SHOW_URL /* may have a password in it */, SHOW_NOTHING };

struct kind {
    const char *name;
    form *form;
    enum show show;
};

static const struct kind kinds[KIND_COUNT] = {
    [KIND_INT] = {"whole number", NULL, SHOW},
    [KIND_COUNT_AUTO] = {"whole number or auto", NULL, SHOW},
    [KIND_DOUBLE] = {"number", NULL, SHOW},
    [KIND_BOOL] = {"true or false", NULL, SHOW},
    [KIND_CHOICE] = {"choice", NULL, SHOW},
    [KIND_TEXT] = {"text", form_line, SHOW},
    [KIND_PREFIX_NAME] = {"prefix of names", form_prefix_name, SHOW},
    [KIND_PATH_TEXT] = {"path", form_path_text, SHOW},
    [KIND_URL] = {"URL", form_url, SHOW_URL},
    [KIND_NAMED_URL] = {"URL with {name}", form_named_url, SHOW_URL},
    [KIND_BASE_URL] = {"URL", form_base_url, SHOW_URL},
    [KIND_HEADER] = {"header name", form_grant_header, SHOW},
    [KIND_ADDRESS] = {"address:port", form_line, SHOW},
    [KIND_ROUTE_PATH] = {"path", form_route_path, SHOW},
    [KIND_ROUTE_PREFIX] = {"path", form_route_path, SHOW},
    [KIND_STRIP] = {"true, false or a path", form_line, SHOW},
    [KIND_RESOURCE] = {"name or $N", form_resource, SHOW},
    [KIND_REFERENCE] = {"name", form_reference, SHOW},
    [KIND_RULE] = {"rule", form_rule, SHOW},
    [KIND_SECRET] = {"secret", form_credential, SHOW_NOTHING},
    [KIND_SECRET_URL] = {"secret URL", form_redis_url, SHOW_NOTHING},
    [KIND_KEY] = {"secret PEM", form_private_key, SHOW_NOTHING},
    [KIND_FILE] = {"file", form_line, SHOW},
    [KIND_PEM_FILE] = {"file", form_line, SHOW},
    [KIND_KEY_FILE] = {"file", form_line, SHOW},
    [KIND_SHAPE] = {"file or builtin:name", form_line, SHOW},
    [KIND_POLICIES] = {"file or folder", form_line, SHOW},
    [KIND_TEXTS] = {"list of texts", form_line, SHOW},
    [KIND_BASE_URLS] = {"list of URLs", form_base_url, SHOW_URL},
    [KIND_HOSTS] = {"list of hosts", form_host, SHOW},
    [KIND_NETS] = {"list of address blocks", form_block, SHOW},
    [KIND_METHODS] = {"list of methods", form_method, SHOW},
    [KIND_HEADERS] = {"list of header names", form_header, SHOW},
    [KIND_STRIP_HEADERS] = {"list of header names", form_strip_header, SHOW},
    [KIND_ORIGINS] = {"list of origins", form_origin, SHOW},
    [KIND_ALGORITHMS] = {"list of algorithms", form_algorithm, SHOW},
    [KIND_QUERY] = {"list of query names", form_query, SHOW},
    [KIND_UPSTREAM] = {"an upstream", NULL, SHOW},
    [KIND_UPSTREAMS] = {"upstreams by name", NULL, SHOW},
    [KIND_ISSUERS] = {"list of issuers", NULL, SHOW},
    [KIND_ROUTES] = {"list of routes", NULL, SHOW},
};

/* The fields of compound kinds stand as values.h has them. */
#define FOLLOWS(owner, first, second, as, member) \
    _Static_assert(offsetof(owner, second) - offsetof(owner, first) == offsetof(struct as, member), #second)
FOLLOWS(struct conf, listen.host, listen.port, address, port);
FOLLOWS(struct conf, admin.host, admin.port, address, port);
FOLLOWS(struct conf, listen.trusted, listen.trusted_n, nets, n);
FOLLOWS(struct conf, context.shape, context.shape_name, named_text, name);
FOLLOWS(struct conf, grant.shape, grant.shape_name, named_text, name);
FOLLOWS(struct conf, authorize.shape, authorize.shape_name, named_text, name);
FOLLOWS(struct conf, listen.tls.certificate, listen.tls.certificate_file, named_text, name);
FOLLOWS(struct conf, listen.tls.key, listen.tls.key_file, named_text, name);
FOLLOWS(struct conf, listen.tls.client_ca, listen.tls.client_ca_file, named_text, name);
FOLLOWS(struct conf, policy.path, policy.files, policies, v);
FOLLOWS(struct conf, policy.path, policy.files_n, policies, n);
FOLLOWS(struct conf, policy.path, policy.mark, policies, mark);
FOLLOWS(struct conf_route, path, prefix, route_path, prefix);

bool value_is_secret(enum option_kind kind)
{
    return kind >= KIND_SECRET && kind <= KIND_KEY;
}

bool value_is_list(enum option_kind kind)
{
    return kind >= KIND_TEXTS && kind <= KIND_QUERY;
}

const char *value_kind_name(enum option_kind kind)
{
    return kinds[kind].name;
}

/* One value being read. */
struct reading {
    struct load *l;
    const struct option *o;
    const char *path;
    const struct node *n; /* a text, or a list for lists; its own place for messages */
    struct slice value;   /* for the record */
};

/* What stands there, for a message: "\"abc\"", or what it is when the text is not to be shown. */
static const char *given(const struct reading *r, const struct node *n)
{
    if (n->kind == NODE_LIST) return "a list";
    if (n->kind == NODE_MAP) return "a map";
    if (n->kind == NODE_NULL) return "nothing";
    if (kinds[r->o->kind].show == SHOW_NOTHING) return "a text";
    const char *text = load_text(r->l, "\"%s\"", node_shown(r->l->problems.arena, n->text));
    return n->quoted && !n->expanded && r->o->kind <= KIND_BOOL ? load_text(r->l, "the text %s", text) : text;
}

static bool expected(const struct reading *r, const char *what)
{
    problem(&r->l->problems, r->n, r->path, "%s given, expected %s", given(r, r->n), what);
    return false;
}

/* A text that is no number or bool by its quotes, unless a variable was put in it. */
static bool is_plain(const struct node *n)
{
    return n->kind == NODE_TEXT && (!n->quoted || n->expanded);
}

static bool read_int(struct reading *r, void *field)
{
    long long v;
    bool good = is_plain(r->n) && slice_to_int(r->n->text, &v) && (r->n->text.n == 1 || r->n->text.p[0] != '0');
    if (!good || v < r->o->least || v > r->o->most)
        return expected(r, load_text(r->l, "a whole number from %lld to %lld", (long long)r->o->least,
                                     (long long)r->o->most));
    int64_t stored = v;
    memcpy(field, &stored, sizeof stored);
    return true;
}

/* auto is stored as 0. */
static bool read_count(struct reading *r, void *field)
{
    static const int64_t automatic = 0;
    long long v;
    if (r->n->kind == NODE_TEXT && slice_eq(r->n->text, SLICE("auto"))) {
        memcpy(field, &automatic, sizeof automatic);
        return true;
    }
    if (is_plain(r->n) && slice_to_int(r->n->text, &v)) return read_int(r, field);
    return expected(r, load_text(r->l, "auto or a whole number from %lld to %lld", (long long)r->o->least,
                                 (long long)r->o->most));
}

/* Digits with at most one point; no sign, no exponent, no locale. */
static bool to_double(struct slice s, double *out)
{
    double v = 0, unit = 0;
    size_t digits = 0;
    if (s.n > 12) return false;
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '.' && unit == 0 && i > 0) {
            unit = 1;
            continue;
        }
        if (s.p[i] < '0' || s.p[i] > '9') return false;
        if (unit > 0) unit /= 10;
        v = unit > 0 ? v + (s.p[i] - '0') * unit : v * 10 + (s.p[i] - '0');
        digits++;
    }
    *out = v;
    return digits > 0;
}

static bool read_double(struct reading *r, void *field)
{
    double v;
    if (!is_plain(r->n) || !to_double(r->n->text, &v) || v < (double)r->o->least || v > (double)r->o->most)
        return expected(r, load_text(r->l, "a number from %lld to %lld", (long long)r->o->least,
                                     (long long)r->o->most));
    memcpy(field, &v, sizeof v);
    return true;
}

static bool read_bool(struct reading *r, void *field)
{
    bool v = slice_eq(r->n->text, SLICE("true"));
    if (!is_plain(r->n) || (!v && !slice_eq(r->n->text, SLICE("false")))) return expected(r, "true or false");
    memcpy(field, &v, sizeof v);
    return true;
}

static bool read_choice(struct reading *r, void *field)
{
    struct slice rest = slice_str(r->o->choices), choice;
    unsigned i = 0;
    for (; slice_next(&rest, '|', &choice); i++) {
        if (r->n->kind != NODE_TEXT || !slice_eq(choice, r->n->text)) continue;
        bool second = i == 1;
        if (r->o->size == sizeof second) memcpy(field, &second, sizeof second);
        else memcpy(field, &i, sizeof i);
        return true;
    }
    struct buf b;
    buf_init(&b, r->l->problems.arena);
    for (rest = slice_str(r->o->choices); slice_next(&rest, '|', &choice);)
        buf_printf(&b, "%s%.*s", b.n ? (rest.p ? ", " : " or ") : "", (int)choice.n, choice.p);
    buf_add_char(&b, '\0');
    return expected(r, b.p);
}

static bool check_form(struct reading *r, struct slice *text)
{
    const char *wrong = kinds[r->o->kind].form(r->l->problems.arena, text);
    if (!wrong) return true;
    if (kinds[r->o->kind].show == SHOW) problem(&r->l->problems, r->n, r->path, "%s %s", given(r, r->n), wrong);
    else problem(&r->l->problems, r->n, r->path, "%s", wrong);
    return false;
}

static bool check_length(struct reading *r, struct slice text)
{
    if (!r->o->most || (text.n >= (size_t)r->o->least && text.n <= (size_t)r->o->most)) return true;
    problem(&r->l->problems, r->n, r->path, "%zu bytes long, expected %lld to %lld", text.n, (long long)r->o->least,
            (long long)r->o->most);
    return false;
}

static bool store_address(struct reading *r, struct slice text, void *field)
{
    struct address a = {SLICE(""), 0};
    const char *wrong = text.n ? net_address(text, &a.host, &a.port) : NULL;
    if (wrong) {
        problem(&r->l->problems, r->n, r->path, "%s %s", given(r, r->n), wrong);
        return false;
    }
    a.host = load_keep(r->l, a.host);
    memcpy(field, &a, offsetof(struct address, port) + sizeof a.port);
    return true;
}

static bool read_file(struct reading *r, struct slice name, struct slice *out)
{
    const char *wrong;
    if (r->o->kind == KIND_SHAPE && slice_starts(name, SLICE("builtin:"))) {
        if (source_builtin(slice_make(name.p + 8, name.n - 8), out)) return true;
        wrong = "nothing of that name is built in";
    } else {
        const char *path = source_below(r->l->problems.arena, r->l->folder, name);
        wrong = source_file(r->l->kept, path, FILE_BYTES, &r->l->pipe_ms, out);
        if (!wrong) return true;
    }
    problem(&r->l->problems, r->n, r->path, "%s: %s, expected a file that can be read", given(r, r->n), wrong);
    return false;
}

static bool is_file(enum option_kind kind)
{
    return kind >= KIND_FILE && kind <= KIND_KEY_FILE;
}

static bool store_policies(struct reading *r, struct slice text, void *field)
{
    struct policies p = {.path = SLICE("")};
    const char *wrong = NULL;
    if (text.n) {
        p.path = load_keep(r->l, slice_str(source_below(r->l->problems.arena, r->l->folder, text)));
        wrong = policies_read(r->l->kept, &r->l->pipe_ms, &p);
    }
    memcpy(field, &p, sizeof p);
    if (wrong) problem(&r->l->problems, r->n, r->path, "%s: %s", given(r, r->n), wrong);
    return !wrong;
}

static bool store_text(struct reading *r, struct slice text, void *field)
{
    if (r->o->kind == KIND_ADDRESS) return store_address(r, text, field);
    if (r->o->kind == KIND_POLICIES) return store_policies(r, text, field);
    if (r->o->kind == KIND_REFERENCE) return true;
    struct slice kept = value_is_secret(r->o->kind) ? load_keep_secret(r->l, text) : load_keep(r->l, text);
    struct named_text file = {kept, kept};
    struct route_path route = {kept, r->o->kind == KIND_ROUTE_PREFIX};
    if (is_file(r->o->kind) && text.n && !read_file(r, text, &file.text)) return false;
    if (r->o->kind == KIND_PEM_FILE || r->o->kind == KIND_KEY_FILE) { /* where it is found again when renewed */
        if (text.n) file.name = load_keep(r->l, slice_str(source_below(r->l->problems.arena, r->l->folder, text)));
        if (r->o->kind == KIND_KEY_FILE) load_wipe(r->l, file.text);
        memcpy(field, &file, sizeof file);
    } else if (r->o->kind == KIND_SHAPE) memcpy(field, &file, sizeof file);
    else if (r->o->kind == KIND_ROUTE_PATH || r->o->kind == KIND_ROUTE_PREFIX)
        memcpy(field, &route, offsetof(struct route_path, prefix) + sizeof route.prefix);
    else memcpy(field, &file.text, sizeof file.text);
    return true;
}

/* A URL with its user and password as stars. */
static struct slice mask_user(struct arena *a, struct slice url)
{
    const char *at = memrchr(url.p, '@', url.n), *start = memmem(url.p, url.n, "://", 3);
    if (!at || !start) return url;
    return arena_printf(a, "%.*s********%.*s", (int)(start + 3 - url.p), url.p, (int)(url.p + url.n - at), at);
}

static bool read_text(struct reading *r, void *field, bool is_default)
{
    if (r->n->kind != NODE_TEXT) return expected(r, load_text(r->l, "a %s", kinds[r->o->kind].name));
    struct slice text = r->n->text;
    if (value_is_secret(r->o->kind)) load_secret(r->l, text, r->n);
    if (!(is_default && !text.n) && !check_length(r, text)) return false;
    if (text.n && !check_form(r, &text)) return false;
    if (r->o->kind == KIND_SECRET_URL) r->value = mask_user(r->l->problems.arena, text);
    else if (kinds[r->o->kind].show == SHOW_NOTHING) r->value = text.n ? SLICE("********") : text;
    else r->value = text.n || !r->n->text.n ? text : SLICE("/");
    return store_text(r, text, field);
}

/* The entries of a list: of a YAML or JSON list, or of a text with commas where a variable gave it. */
static struct node *entries(struct reading *r, bool *good)
{
    struct arena *a = r->l->problems.arena;
    struct node *list = node_create(a, NODE_LIST);
    *good = true;
    if (r->n->kind == NODE_LIST) return (struct node *)r->n;
    bool from_variable = r->n->kind == NODE_TEXT && (r->n->variable || r->n->expanded || !r->n->file);
    if (!from_variable) {
        *good = expected(r, load_text(r->l, "a %s", kinds[r->o->kind].name));
        return list;
    }
    struct slice rest = slice_trim(r->n->text), part;
    if (!rest.n) return list;
    while (slice_next(&rest, ',', &part)) node_append(list, node_text(a, slice_trim(part), r->n));
    return list;
}

static bool read_entry(struct reading *r, const struct node *n, size_t i, struct slice *out)
{
    struct reading entry = {r->l, r->o, load_text(r->l, "%s[%zu]", r->path, i), n, {NULL, 0}};
    if (n->told) return false;
    if (n->kind != NODE_TEXT || !n->text.n) {
        problem(&r->l->problems, n, entry.path, "%s given, expected an entry of a %s",
                n->kind == NODE_TEXT ? "an empty text" : given(&entry, n), kinds[r->o->kind].name);
        return false;
    }
    struct slice text = n->text;
    if (!check_form(&entry, &text)) return false;
    *out = load_keep(r->l, text);
    return true;
}

/* "office" and "office_id" as two entries are one value under two names, which must not be read differently. */
static void merge_synonyms(struct conf_list *v)
{
    size_t office = v->n, office_id = v->n;
    for (size_t i = 0; i < v->n; i++) {
        if (slice_eq(v->v[i], SLICE("office"))) office = i;
        if (slice_eq(v->v[i], SLICE("office_id"))) office_id = i;
    }
    if (office == v->n || office_id == v->n) return;
    size_t kept = office < office_id ? office : office_id, gone = office < office_id ? office_id : office;
    v->v[kept] = SLICE("office_id|office");
    memmove(&v->v[gone], &v->v[gone + 1], (--v->n - gone) * sizeof *v->v);
}

static struct slice list_as_json(struct arena *a, const struct conf_list *v)
{
    struct buf b;
    struct json json;
    buf_init(&b, a);
    json_init(&json, &b);
    json_array_start(&json);
    for (size_t i = 0; i < v->n; i++) json_text(&json, v->v[i]);
    json_array_end(&json);
    return buf_slice(&b);
}

static bool read_list(struct reading *r, void *field)
{
    bool good;
    const struct node *list = entries(r, &good);
    if (!good) return false;
    if (list->children < (size_t)r->o->least || list->children > (size_t)r->o->most) {
        problem(&r->l->problems, r->n, r->path, "%zu entries, expected %lld to %lld", list->children,
                (long long)r->o->least, (long long)r->o->most);
        return false;
    }
    struct conf_list v = {arena_alloc(r->l->kept, list->children * sizeof *v.v), 0};
    struct nets nets = {arena_alloc(r->l->kept, list->children * sizeof *nets.v), list->children};
    for (const struct node *n = list->child; n; n = n->next, v.n++) {
        if (!read_entry(r, n, v.n, &v.v[v.n])) {
            good = false;
            v.v[v.n] = SLICE("");
        } else if (r->o->kind == KIND_NETS) {
            CHECK(net_block(v.v[v.n], &nets.v[v.n]) == NULL, "a block of good form is read");
        }
    }
    if (r->o->kind == KIND_QUERY) merge_synonyms(&v);
    r->value = list_as_json(r->l->problems.arena, &v);
    if (r->o->kind == KIND_NETS) memcpy(field, &nets, sizeof nets);
    else memcpy(field, &v, sizeof v);
    return good;
}

bool value_read(struct load *l, const struct option *o, const char *path, const struct node *n, void *base,
                bool keep_default)
{
    struct node fallback = {.kind = NODE_TEXT, .text = slice_str(o->fallback)};
    struct reading r = {l, o, path, n ? n : &fallback, slice_str(o->fallback)};
    void *field = (char *)base + o->offset;
    bool good;
    if (n && n->told) return false;
    if (o->kind == KIND_INT) good = read_int(&r, field);
    else if (o->kind == KIND_COUNT_AUTO) good = read_count(&r, field);
    else if (o->kind == KIND_DOUBLE) good = read_double(&r, field);
    else if (o->kind == KIND_BOOL) good = read_bool(&r, field);
    else if (o->kind == KIND_CHOICE) good = read_choice(&r, field);
    else if (value_is_list(o->kind)) good = read_list(&r, field);
    else good = read_text(&r, field, n == NULL);
    if (o->kind <= KIND_CHOICE) r.value = r.n->text;
    if (good && (n || keep_default)) load_record(l, path, r.value, node_origin(l->problems.arena, n));
    return good;
}

struct node *value_from_file(struct load *l, const char *path, const struct node *n)
{
    struct slice text;
    if (n->told) return NULL;
    if (n->kind != NODE_TEXT || !n->text.n) {
        problem(&l->problems, n, path, "no name of a file given, expected one");
        return NULL;
    }
    const char *wrong = source_file(l->problems.arena, source_below(l->problems.arena, l->folder, n->text),
                                    SECRET_FILE_BYTES, &l->pipe_ms, &text);
    if (!wrong && text.n && text.p[text.n - 1] == '\n') text.n--;
    if (!wrong && text.n && text.p[text.n - 1] == '\r') text.n--;
    if (!wrong && !text.n) wrong = "the file is empty";
    if (wrong) {
        problem(&l->problems, n, path, "\"%s\": %s, expected a file that can be read",
                node_shown(l->problems.arena, n->text), wrong);
        return NULL;
    }
    ((char *)text.p)[text.n] = '\0';
    struct node *content = node_create(l->problems.arena, NODE_TEXT);
    content->file = n->file;
    content->line = n->line;
    content->nested = n->nested;
    content->variable = n->variable;
    content->text = text;
    return content;
}
