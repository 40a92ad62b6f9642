/* bench/load/line: clients in a line, first come first served. */
#ifndef BENCH_LOAD_LINE_H
#define BENCH_LOAD_LINE_H

#include <stddef.h>

#include "load/client.h"

struct line {
    struct client *first, *last;
};

static inline void line_add(struct line *l, struct client *c)
{
    if (c->queued) return;
    c->queued = true;
    c->next = NULL;
    *(l->first ? &l->last->next : &l->first) = c;
    l->last = c;
}

static inline struct client *line_take(struct line *l)
{
    struct client *c = l->first;
    if (!c) return NULL;
    l->first = c->next;
    c->queued = false;
    return c;
}

#endif
