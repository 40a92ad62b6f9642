/* conf/yamldoc: libyaml's events to a tree with line numbers; the only file that knows yaml.h. Called by options.c for
   the file and for the embedded drop-in settings. It refuses what two readers could take differently or what could
   blow up: keys given twice, anchors, aliases, tags, more than one document, depth over NODE_MAX_DEPTH, NULs. */
#include "conf/yamldoc.h"

#include <string.h>
#include <yaml.h>

struct reader {
    struct problems *problems;
    const char *file;
    yaml_parser_t parser;
    bool failed; /* told already; nothing more can be read */
};

static struct node *read_value(struct reader *r, yaml_event_t *event, const char *path, int depth);

static struct node *place(struct reader *r, enum node_kind kind, const yaml_event_t *event)
{
    struct node *n = node_create(r->problems->arena, kind);
    n->file = r->file;
    n->line = (int)event->start_mark.line + 1;
    return n;
}

static void fail(struct reader *r, const struct node *at, const char *path, const char *what)
{
    if (!r->failed) problem(r->problems, at, path, "%s", what);
    r->failed = true;
}

/* The next event; false at a syntax error, which has been told then. The caller deletes the event. */
static bool next_event(struct reader *r, yaml_event_t *event)
{
    if (r->failed) return false;
    if (yaml_parser_parse(&r->parser, event)) return true;
    struct node at = {.file = r->file, .line = (int)r->parser.problem_mark.line + 1};
    const char *what = r->parser.problem ? r->parser.problem : "not readable";
    if (r->parser.error == YAML_READER_ERROR) at.line = 0;
    if (r->parser.context) problem(r->problems, &at, "", "YAML: %s, %s", r->parser.context, what);
    else problem(r->problems, &at, "", "YAML: %s, expected UTF-8 text in YAML", what);
    r->failed = true;
    return false;
}

static void refuse_extras(struct reader *r, const struct node *n, const char *path, const yaml_char_t *anchor,
                          const yaml_char_t *tag)
{
    if (anchor) problem(r->problems, n, path, "YAML anchors are not supported, write the value out");
    if (tag) problem(r->problems, n, path, "YAML tags are not supported, write the plain value");
}

static bool is_null(const yaml_event_t *event)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL"};
    if (event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE) return false;
    for (size_t i = 0; i < sizeof nulls / sizeof nulls[0]; i++)
        if (strcmp((const char *)event->data.scalar.value, nulls[i]) == 0) return true;
    return false;
}

static struct node *read_scalar(struct reader *r, const yaml_event_t *event, const char *path)
{
    struct node *n = place(r, is_null(event) ? NODE_NULL : NODE_TEXT, event);
    struct slice text = slice_make((const char *)event->data.scalar.value, event->data.scalar.length);
    refuse_extras(r, n, path, event->data.scalar.anchor, event->data.scalar.tag);
    if (memchr(text.p, 0, text.n)) {
        problem(r->problems, n, path, "a NUL is in the text, expected none");
        return n;
    }
    n->text = arena_copy(r->problems->arena, text);
    n->quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    return n;
}

static struct node *read_list(struct reader *r, const yaml_event_t *event, const char *path, int depth)
{
    struct node *list = place(r, NODE_LIST, event);
    refuse_extras(r, list, path, event->data.sequence_start.anchor, event->data.sequence_start.tag);
    yaml_event_t next;
    while (next_event(r, &next)) {
        bool end = next.type == YAML_SEQUENCE_END_EVENT;
        if (!end) {
            const char *below = arena_printf(r->problems->arena, "%s[%zu]", path, list->children).p;
            struct node *n = read_value(r, &next, below, depth + 1);
            if (n) node_append(list, n);
        }
        yaml_event_delete(&next);
        if (end) break;
    }
    return list;
}

/* The key of a map, put on its value by the caller; empty with a problem when it is none. */
static struct slice read_key(struct reader *r, const yaml_event_t *event, const struct node *map, const char *path)
{
    if (event->type != YAML_SCALAR_EVENT || !event->data.scalar.length) {
        struct node at = {.file = r->file, .line = (int)event->start_mark.line + 1};
        fail(r, &at, path, "YAML: a key that is no plain name, expected the name of an option");
        return SLICE("");
    }
    struct slice key = slice_make((const char *)event->data.scalar.value, event->data.scalar.length);
    refuse_extras(r, map, path, event->data.scalar.anchor, event->data.scalar.tag);
    return arena_copy(r->problems->arena, key);
}

static void add_entry(struct reader *r, struct node *map, struct node *n, const char *path)
{
    struct node *before = node_child(map, n->key);
    if (before) {
        problem(r->problems, n, path, "given twice (first in line %d), expected once", before->line);
        return;
    }
    node_append(map, n);
    if (map->children > NODE_MAX_KEYS) fail(r, n, path, "more keys than a map may have, expected at most 1024");
}

static struct node *read_map(struct reader *r, const yaml_event_t *event, const char *path, int depth)
{
    struct node *map = place(r, NODE_MAP, event);
    refuse_extras(r, map, path, event->data.mapping_start.anchor, event->data.mapping_start.tag);
    yaml_event_t next;
    while (next_event(r, &next)) {
        bool end = next.type == YAML_MAPPING_END_EVENT;
        int line = (int)next.start_mark.line + 1;
        struct slice key = end ? SLICE("") : read_key(r, &next, map, path);
        yaml_event_delete(&next);
        if (end || !next_event(r, &next)) break;
        const char *shown = node_shown(r->problems->arena, key);
        const char *below = arena_printf(r->problems->arena, "%s%s%s", path, *path ? "." : "", shown).p;
        struct node *n = read_value(r, &next, below, depth + 1);
        yaml_event_delete(&next);
        if (!n) continue;
        n->key = key;
        n->line = line;
        add_entry(r, map, n, below);
    }
    return map;
}

static struct node *read_value(struct reader *r, yaml_event_t *event, const char *path, int depth)
{
    struct node at = {.file = r->file, .line = (int)event->start_mark.line + 1};
    if (depth > NODE_MAX_DEPTH) {
        fail(r, &at, path, "YAML: nested too deep, expected at most 16 levels");
        return NULL;
    }
    if (event->type == YAML_SCALAR_EVENT) return read_scalar(r, event, path);
    if (event->type == YAML_SEQUENCE_START_EVENT) return read_list(r, event, path, depth);
    if (event->type == YAML_MAPPING_START_EVENT) return read_map(r, event, path, depth);
    problem(r->problems, &at, path, "YAML aliases are not supported, write the value out");
    return NULL;
}

/* STREAM-START DOCUMENT-START value DOCUMENT-END STREAM-END */
static struct node *read_stream(struct reader *r)
{
    struct node *top = NULL;
    bool end = false;
    yaml_event_t event;
    int documents = 0;
    while (!end && next_event(r, &event)) {
        end = event.type == YAML_STREAM_END_EVENT;
        if (event.type == YAML_DOCUMENT_START_EVENT && ++documents > 1) {
            struct node at = {.file = r->file, .line = (int)event.start_mark.line + 1};
            fail(r, &at, "", "YAML: a second document, expected one");
        } else if (event.type == YAML_SCALAR_EVENT || event.type == YAML_SEQUENCE_START_EVENT ||
                   event.type == YAML_MAPPING_START_EVENT || event.type == YAML_ALIAS_EVENT) {
            top = read_value(r, &event, "", 0);
        }
        yaml_event_delete(&event);
    }
    if (r->failed) return NULL;
    if (!top || top->kind == NODE_NULL) {
        top = node_create(r->problems->arena, NODE_MAP);
        top->file = r->file;
    }
    if (top->kind == NODE_MAP) return top;
    problem(r->problems, top, "", "the document is no map, expected options like \"listen:\"");
    return NULL;
}

struct node *yamldoc_read(struct problems *p, const char *file, struct slice text)
{
    struct reader r = {.problems = p, .file = file};
    if (!yaml_parser_initialize(&r.parser)) {
        problem(p, NULL, "", "libyaml has no memory");
        return NULL;
    }
    yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text.p, text.n);
    struct node *top = read_stream(&r);
    yaml_parser_delete(&r.parser);
    return top;
}
