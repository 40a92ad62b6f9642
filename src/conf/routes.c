/* conf/routes: the table of routes. Called by proxy/ for each request. One pass over the path computes the hash of
   every prefix that ends where a segment ends; each is looked up once, so the cost is that of the path, not of the
   number of routes. It refuses nothing: what matches nothing is NULL. */
#include "conf/routes.h"

#include <stdlib.h>

#include "base/check.h"

#define HASH_START UINT64_C(14695981039346656037)
#define HASH_PRIME UINT64_C(1099511628211)

struct slot {
    uint64_t hash;
    struct slice path;
    const struct conf_route *exact, *prefix; /* both NULL: free */
};

struct routes {
    struct slot *slots;
    size_t mask;
    size_t longest; /* of all paths: beyond it no prefix can match */
};

static uint64_t hash_byte(uint64_t h, char c)
{
    return (h ^ (unsigned char)c) * HASH_PRIME;
}

static uint64_t hash_path(struct slice path)
{
    uint64_t h = HASH_START;
    for (size_t i = 0; i < path.n; i++) h = hash_byte(h, path.p[i]);
    return h;
}

/* The slot of that path, or the free one where it would be. */
static struct slot *slot_of(const struct routes *r, uint64_t hash, struct slice path)
{
    size_t i = (size_t)(hash ^ hash >> 32) & r->mask;
    for (;; i = (i + 1) & r->mask) {
        struct slot *s = &r->slots[i];
        if (!s->exact && !s->prefix) return s;
        if (s->hash == hash && slice_eq(s->path, path)) return s;
    }
}

struct routes *routes_create(const struct conf_route *v, size_t n)
{
    struct routes *r = xzalloc(sizeof *r);
    size_t size = 4;
    while (size < n * 2) size *= 2;
    r->slots = xzalloc(size * sizeof *r->slots);
    r->mask = size - 1;
    for (size_t i = 0; i < n; i++) {
        uint64_t hash = hash_path(v[i].path);
        struct slot *s = slot_of(r, hash, v[i].path);
        s->hash = hash;
        s->path = v[i].path;
        if (v[i].prefix) s->prefix = &v[i];
        else s->exact = &v[i];
        if (v[i].path.n > r->longest) r->longest = v[i].path.n;
    }
    return r;
}

void routes_destroy(struct routes *r)
{
    if (!r) return;
    free(r->slots);
    free(r);
}

const struct conf_route *routes_find(const struct routes *r, struct slice path)
{
    const struct conf_route *best = NULL;
    uint64_t h = HASH_START;
    if (path.n == 0 || path.p[0] != '/') return NULL;
    if (path.p[path.n - 1] == '/') path.n--;
    for (size_t i = 0; i <= path.n && i <= r->longest; i++) {
        if (i == path.n || path.p[i] == '/') {
            const struct slot *s = slot_of(r, h, slice_make(path.p, i));
            if (i == path.n && s->exact) return s->exact;
            if (s->prefix) best = s->prefix;
        }
        if (i < path.n) h = hash_byte(h, path.p[i]);
    }
    return best;
}

bool route_allows(const struct conf_route *route, struct slice method)
{
    bool head = slice_eq(method, SLICE("HEAD"));
    for (size_t i = 0; i < route->methods.n; i++) {
        if (slice_eq(route->methods.v[i], method)) return true;
        if (head && slice_eq(route->methods.v[i], SLICE("GET"))) return true;
    }
    return route->methods.n == 0;
}
