/* proxy/upstream_parts: what an upstream is made of. For upstream.c, borrow.c and upstream_report.c; nobody
   else includes it. */
#ifndef PROXY_UPSTREAM_PARTS_H
#define PROXY_UPSTREAM_PARTS_H

#include "proxy/endpoint.h"
#include "proxy/member.h"
#include "proxy/upstream.h"

struct upstream {
    struct group group;
    struct balance balance;
    struct endpoint *endpoints;
    struct candidate *active[BALANCE_SLOTS]; /* the members that are used, of all endpoints */
    size_t active_n;
    struct deadline_list *silence, *name_timeout;
    struct list waiting; /* calls, for the first answer of the resolver */
    struct arena memory;
    unsigned refs;
};

static inline struct upstream *upstream_of(struct group *g)
{
    return container_of(g, struct upstream, group);
}

#endif
