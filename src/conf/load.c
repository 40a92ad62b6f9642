/* conf/load: what is kept while the options are read. Called by the readers of this room. */
#include "conf/load.h"

#include <stdarg.h>
#include <stdio.h>

static void take(struct load *l, const char *name)
{
    for (const struct node_variable *v = l->taken; v; v = v->next)
        if (v->name == name) return;
    struct node_variable *v = arena_alloc(l->problems.arena, sizeof *v);
    *v = (struct node_variable){name, l->taken};
    l->taken = v;
}

static void note(struct arena *a, struct conf_secret **list, struct slice text)
{
    if (!text.n) return;
    struct conf_secret *s = arena_alloc(a, sizeof *s);
    *s = (struct conf_secret){text, *list};
    *list = s;
}

void load_secret(struct load *l, struct slice text, const struct node *n)
{
    note(l->problems.arena, &l->seen, text);
    if (n->variable) take(l, n->variable);
    for (const struct node_variable *v = n->used; v; v = v->next) take(l, v->name);
}

struct slice load_keep_secret(struct load *l, struct slice text)
{
    struct slice copy = load_keep(l, text);
    note(l->kept, &l->whole->secrets, copy);
    return copy;
}

void load_wipe(struct load *l, struct slice text)
{
    note(l->kept, &l->whole->secrets, text);
}

struct slice load_keep(struct load *l, struct slice text)
{
    return text.n ? arena_copy(l->kept, text) : SLICE("");
}

void load_record(struct load *l, const char *path, struct slice value, struct slice origin)
{
    struct conf_record *r = arena_alloc(l->kept, sizeof *r);
    *r = (struct conf_record){load_keep(l, slice_str(path)).p, load_keep(l, value), load_keep(l, origin), NULL};
    if (l->whole->last_record) l->whole->last_record->next = r;
    else l->whole->records = r;
    l->whole->last_record = r;
}

void load_unrecord(struct load *l, const char *path, struct slice why)
{
    for (struct conf_record *r = l->whole->records; r; r = r->next)
        if (strcmp(r->path, path) == 0) r->value = SLICE(""), r->origin = load_keep(l, why);
}

const char *load_text(struct load *l, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = arena_alloc(l->problems.arena, (size_t)n + 1);
    va_start(args, format);
    vsnprintf(text, (size_t)n + 1, format, args);
    va_end(args);
    return text;
}
