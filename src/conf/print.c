/* conf/print: the options as texts for people: the effective values, the docs page, the sample file. Called by main and
   by the test that keeps docs/ in step. It shows no secret: what is recorded is masked already. */
#include "conf/print.h"

#include <stdio.h>

#include "base/json.h"
#include "conf/load.h"
#include "conf/values.h"

enum { COMMENT_COLUMNS = 110 };

static bool is_plain(struct slice s)
{
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
        if (!word && !(i && strchr("./-+", c)) && c != '/') return false;
    }
    return s.n > 0;
}

/* As YAML reads it as one text. */
static void add_text(struct buf *out, struct slice s)
{
    struct json json;
    json_init(&json, out);
    if (is_plain(s)) buf_add_slice(out, s);
    else json_text(&json, s);
}

void conf_print(const struct conf *c, struct buf *out)
{
    const struct conf_whole *whole = (const struct conf_whole *)(const void *)c;
    for (const struct conf_record *r = whole->records; r; r = r->next) {
        size_t start = out->n;
        buf_printf(out, "%s: ", r->path);
        if (r->value.n && r->value.p[0] == '[') buf_add_slice(out, r->value);
        else add_text(out, r->value);
        do buf_add_char(out, ' ');
        while (out->n - start < 48);
        buf_add_lit(out, "# ");
        buf_add_slice(out, r->origin);
        buf_add_char(out, '\n');
    }
}

/* In a cell of a Markdown table. */
static void add_cell(struct buf *out, struct slice s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '|') buf_add_char(out, '\\');
        buf_add_char(out, s.p[i]);
    }
}

static void add_kind(struct buf *out, const struct option *o)
{
    struct slice rest = slice_str(o->choices), choice;
    if (o->kind == KIND_CHOICE) {
        while (slice_next(&rest, '|', &choice))
            buf_printf(out, "`%.*s`%s", (int)choice.n, choice.p, rest.p ? ", " : "");
        return;
    }
    buf_add_slice(out, slice_str(value_kind_name(o->kind)));
    if (o->kind == KIND_INT || o->kind == KIND_COUNT_AUTO || o->kind == KIND_DOUBLE)
        buf_printf(out, ", %lld to %lld", (long long)o->least, (long long)o->most);
    if (value_is_secret(o->kind)) buf_printf(out, ", or `%s_file`", o->path);
    if (o->kind == KIND_SECRET && o->least > 1) buf_printf(out, ", at least %lld bytes", (long long)o->least);
}

static void add_row(struct buf *out, const struct option *o, const char *prefix, bool variables)
{
    struct arena arena;
    arena_init(&arena);
    buf_printf(out, "| `%s%s` | ", prefix, o->path);
    add_kind(out, o);
    buf_add_lit(out, " | ");
    if (*o->fallback) {
        buf_add_char(out, '`');
        add_cell(out, slice_str(o->fallback));
        buf_add_char(out, '`');
    }
    buf_add_lit(out, " | ");
    add_cell(out, slice_str(o->help));
    if (variables) buf_printf(out, " | `%s`", table_variable(&arena, prefix, o->path, ""));
    buf_add_lit(out, " |\n");
    arena_reset(&arena);
}

static void add_table(struct buf *out, const struct table *t, const char *prefix, const char *title, bool variables)
{
    buf_printf(out, "\n## %s\n\n", title);
    if (variables) buf_add_lit(out, "| option | value | default | meaning | variable |\n|---|---|---|---|---|\n");
    else buf_add_lit(out, "| key | value | default | meaning |\n|---|---|---|---|\n");
    for (size_t i = 0; i < t->n; i++) add_row(out, &t->rows[i], prefix, variables);
}

static struct slice section_of(const struct option *o)
{
    const char *dot = strchr(o->path, '.');
    return dot ? slice_make(o->path, (size_t)(dot - o->path)) : SLICE("");
}

void conf_print_options(struct buf *out)
{
    const struct table *t = &table_options;
    buf_add_lit(out, "# Options\n\n"
                     "Made by `doorward --print-options`; a test keeps it in step with the program.\n\n"
                     "An option stands in the YAML file under its path (`policy.timeout_ms` is `timeout_ms` under "
                     "`policy`), or in its\nvariable, which wins. In a variable a list is written with commas or as JSON, "
                     "a list of maps as JSON. In the file\n`${NAME}` and `${NAME:-default}` stand for variables, and `$${` "
                     "for a plain `${`. Names of files are relative to the\nconfiguration's folder; `builtin:name` is a file "
                     "of the program itself. A secret can be given by a file, and a\nvariable that held one is taken out of "
                     "the environment. Times and sizes have their unit in the name.\n");
    for (size_t i = 0; i < t->n;) {
        struct table section = {&t->rows[i], 0, 0};
        struct slice name = section_of(&t->rows[i]);
        while (i < t->n && slice_eq(section_of(&t->rows[i]), name) && (name.n || section.n == 0)) section.n++, i++;
        const struct option *first = section.rows;
        const char *title = name.n ? name.p : first->path;
        char copy[64];
        snprintf(copy, sizeof copy, "%.*s", name.n ? (int)name.n : 63, title);
        if (first->kind == KIND_UPSTREAM) add_table(out, &table_upstream, "upstream.", copy, true);
        else add_table(out, &section, "", copy, true);
    }
    add_table(out, &table_issuer, "", "An entry of tokens.issuers", false);
    add_table(out, &table_upstream, "", "An entry of upstreams", false);
    add_table(out, &table_route, "", "An entry of routes", false);
}

/* The help as comment lines. */
static void add_comment(struct buf *out, int indent, const char *text)
{
    struct slice rest = slice_str(text), word;
    size_t column = 0;
    while (slice_next(&rest, ' ', &word)) {
        if (column && column + 1 + word.n > COMMENT_COLUMNS) {
            buf_add_char(out, '\n');
            column = 0;
        }
        if (column) column += 1 + word.n;
        else column = (size_t)indent + 2 + word.n;
        if (column == (size_t)indent + 2 + word.n) buf_printf(out, "%*s# ", indent, "");
        else buf_add_char(out, ' ');
        buf_add_slice(out, word);
    }
    buf_add_char(out, '\n');
}

static void add_value(struct buf *out, const struct option *o, const char *value)
{
    struct slice rest = slice_str(value), part;
    if (!value_is_list(o->kind)) {
        add_text(out, rest);
        return;
    }
    buf_add_char(out, '[');
    while (*value && slice_next(&rest, ',', &part)) {
        add_text(out, part);
        if (rest.p) buf_add_lit(out, ", ");
    }
    buf_add_char(out, ']');
}

/* One key with its comment; lead stands before it ("- " for the first of an entry). */
static void add_key(struct buf *out, const struct option *o, const char *key, int indent, const char *lead)
{
    const char *value = *o->fallback ? o->fallback : o->sample;
    add_comment(out, indent, o->help);
    buf_printf(out, "%*s", indent - (int)strlen(lead), "");
    buf_add_slice(out, slice_str(lead));
    if (!*value && !value_is_list(o->kind)) {
        buf_printf(out, "# %s%s:\n", key, value_is_secret(o->kind) ? "_file" : "");
        return;
    }
    buf_printf(out, "%s: ", key);
    add_value(out, o, value);
    buf_add_char(out, '\n');
}

static void add_rows(struct buf *out, const struct table *t, int indent, bool entry)
{
    struct slice section = SLICE("");
    for (size_t i = 0; i < t->n; i++) {
        const struct option *o = &t->rows[i];
        struct slice own = section_of(o);
        if (own.n && !slice_eq(own, section)) buf_printf(out, "%*s%.*s:\n", indent, "", (int)own.n, own.p);
        section = own;
        add_key(out, o, own.n ? o->path + own.n + 1 : o->path, own.n ? indent + 2 : indent, entry && i == 0 ? "- " : "");
    }
}

/* A key of a section, or of a section within it ("tls.key"). */
static void add_below(struct buf *out, const struct option *o, const char *key, int indent, struct slice *within)
{
    const char *dot = strchr(key, '.');
    struct slice own = dot ? slice_make(key, (size_t)(dot - key)) : SLICE("");
    if (own.n && !slice_eq(own, *within)) buf_printf(out, "%*s%.*s:\n", indent, "", (int)own.n, own.p);
    *within = own;
    add_key(out, o, dot ? dot + 1 : key, dot ? indent + 2 : indent, "");
}

void conf_print_sample(struct buf *out)
{
    struct slice section = SLICE(""), within = SLICE("");
    buf_add_lit(out, "# Every option with its default; what has none is commented out, or shown as an example.\n"
                     "# Made from the table of options; a test keeps it in step with the program.\n");
    for (size_t i = 0; i < table_options.n; i++) {
        const struct option *o = &table_options.rows[i];
        struct slice own = section_of(o);
        if (!own.n || !slice_eq(own, section)) buf_add_char(out, '\n');
        if (own.n && !slice_eq(own, section)) {
            buf_printf(out, "%.*s:\n", (int)own.n, own.p);
            within = SLICE("");
        }
        section = own;
        const char *key = own.n ? o->path + own.n + 1 : o->path;
        int indent = own.n ? 2 : 0;
        if (!table_below(o->kind) || o->kind == KIND_UPSTREAMS) {
            add_below(out, o, key, indent, &within);
            continue;
        }
        add_comment(out, indent, o->help);
        buf_printf(out, "%*s%s:\n", indent, "", key);
        add_rows(out, table_below(o->kind), indent + (o->kind == KIND_UPSTREAM ? 2 : 4), o->kind != KIND_UPSTREAM);
    }
}
