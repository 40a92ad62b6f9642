/* conf/checkroutes: upstreams and routes against each other. Called by options.c once all values are read. It refuses
   routes given twice, routes that can never match, and upstreams that are named but not there. */
#include "conf/checkroutes.h"

#include <stdlib.h>

#include "base/check.h"
#include "conf/check.h"
#include "conf/net.h"

/* n: the upstream's map, or NULL. */
static void derive_upstream(struct load *l, const struct node *n, const char *path, struct conf_upstream *u)
{
    const struct conf_list urls = u->urls.n ? u->urls : (struct conf_list){&u->url, u->url.n > 0};
    const struct node *given = n ? node_find(n, "urls") : NULL;
    u->endpoints = arena_zalloc(l->kept, (urls.n + 1) * sizeof *u->endpoints);
    for (size_t i = 0; i < urls.n; i++) {
        struct net_url url;
        struct conf_endpoint *e = &u->endpoints[u->endpoints_n];
        if (net_url(urls.v[i], &url)) continue; /* told already */
        while (url.path.n && url.path.p[url.path.n - 1] == '/') url.path.n--;
        bool secure = slice_eq(url.scheme, SLICE("https"));
        if (u->endpoints_n && (secure != u->secure || !slice_eq(url.path, u->base_path)))
            problem(&l->problems, given, load_text(l, "%s.urls[%zu]", path, i),
                    "another scheme or base path than the first, expected the same for all");
        u->endpoints_n++;
        *e = (struct conf_endpoint){load_keep(l, urls.v[i]), load_keep(l, url.host), url.port, load_keep(l, url.authority)};
        u->secure = secure;
        u->base_path = load_keep(l, url.path);
    }
    if (u->urls.n && n && node_find(n, "url"))
        problem(&l->problems, given, load_text(l, "%s.urls", path), "given together with url, expected one of the two");
    else if (u->urls.n)
        load_unrecord(l, load_text(l, "%s.url", path), SLICE("urls is given"));
    check_tls(l, n, path);
}

static void check_upstreams(struct load *l, const struct node *top, struct conf *c)
{
    const struct node *more = node_find(top, "upstreams");
    const struct node *n = more ? more->child : NULL;
    const struct node *only = node_find(top, "upstream.url");
    if (only && only->kind == NODE_TEXT && !only->text.n && !only->told)
        problem(&l->problems, only, "upstream.url", "empty, expected the URL of the API");
    derive_upstream(l, node_find(top, "upstream"), "upstream", &c->upstreams[0]);
    for (size_t i = 1; i < c->upstreams_n; i++, n = n->next) {
        struct conf_upstream *u = &c->upstreams[i];
        const char *path = load_text(l, "upstreams.%s", node_shown(l->problems.arena, u->name));
        bool named = u->name.n > 0 && u->name.n <= 64;
        for (size_t b = 0; b < u->name.n; b++) named = named && u->name.p[b] > ' ' && u->name.p[b] <= '~';
        if (!named) problem(&l->problems, n, path, "no name for an upstream, expected letters, digits and -._");
        if (slice_eq(u->name, SLICE("default")))
            problem(&l->problems, n, path, "default is the name of upstream, expected another");
        const struct node *url = node_find(n, "url");
        bool none = !url || (url->kind == NODE_TEXT && !url->text.n && !url->told);
        if (n->kind == NODE_MAP && none && !node_find(n, "urls")) problem(&l->problems, n, path, "no url, expected one");
        else derive_upstream(l, n, path, u);
    }
}

static const struct conf_upstream *find_upstream(const struct conf *c, struct slice name)
{
    for (size_t i = 0; i < c->upstreams_n; i++)
        if (slice_eq(c->upstreams[i].name, name)) return &c->upstreams[i];
    return NULL;
}

/* strip: true, false, or a prefix of the path that ends where a segment ends. */
static void check_strip(struct load *l, const struct node *n, const char *path, struct conf_route *r)
{
    const struct node *given = node_find(n, "strip");
    struct slice strip = r->strip_prefix;
    if (slice_eq(strip, SLICE("true"))) {
        r->strip_prefix = r->path;
        return;
    }
    if (!strip.n || slice_eq(strip, SLICE("false"))) {
        r->strip_prefix = SLICE("");
        return;
    }
    if (strip.p[strip.n - 1] == '/') strip.n--;
    if (slice_starts(r->path, strip) && (r->path.n == strip.n || r->path.p[strip.n] == '/')) {
        r->strip_prefix = load_keep(l, strip);
        return;
    }
    problem(&l->problems, given, load_text(l, "%s.strip", path),
            "\"%s\" is no prefix of the route's path, expected true, false or one",
            node_shown(l->problems.arena, r->strip_prefix));
}

/* A path that its own path_policy refuses matches nothing. */
static void check_reachable(struct load *l, const struct node *at, const char *path, const struct conf_route *r)
{
    bool slash = false, parameter = memchr(r->path.p, ';', r->path.n) != NULL;
    for (size_t i = 0; i + 2 < r->path.n; i++) {
        if (r->path.p[i] != '%') continue;
        slash = slash || memcmp(r->path.p + i, "%2F", 3) == 0 || memcmp(r->path.p + i, "%5C", 3) == 0;
        parameter = parameter || memcmp(r->path.p + i, "%3B", 3) == 0;
    }
    if (parameter && !r->keep_path_parameters)
        problem(&l->problems, at, path, "a ; in the path, expected path_policy.path_parameters: keep with it");
    if (slash && !r->keep_encoded_slashes)
        problem(&l->problems, at, path, "an encoded slash in the path, expected path_policy.encoded_slashes: keep with it");
}

static void check_route(struct load *l, const struct node *n, const char *path, const struct conf *c,
                        struct conf_route *r)
{
    const struct node *exact = node_find(n, "path"), *prefix = node_find(n, "prefix");
    const struct node *upstream = node_find(n, "upstream");
    if (!exact == !prefix)
        problem(&l->problems, n, path, "%s, expected one of the two", exact ? "path and prefix" : "neither path nor prefix");
    r->upstream = &c->upstreams[0];
    if (upstream && upstream->kind == NODE_TEXT && upstream->text.n) {
        r->upstream = find_upstream(c, upstream->text);
        if (!r->upstream)
            problem(&l->problems, upstream, load_text(l, "%s.upstream", path),
                    "\"%s\" is no upstream, expected default or a name of upstreams",
                    node_shown(l->problems.arena, upstream->text));
    }
    if (!r->path.p || !exact == !prefix) return;
    check_strip(l, n, path, r);
    check_reachable(l, exact ? exact : prefix, load_text(l, "%s.%s", path, exact ? "path" : "prefix"), r);
    if (!r->name.n) r->name = r->path.n ? r->path : SLICE("/");
}

/* A route and where it was given, for sorting. */
struct place {
    const struct conf_route *route;
    const struct node *node;
};

static int compare(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    size_t n = x->route->path.n < y->route->path.n ? x->route->path.n : y->route->path.n;
    int order = n ? memcmp(x->route->path.p, y->route->path.p, n) : 0;
    if (order) return order;
    if (x->route->path.n != y->route->path.n) return x->route->path.n < y->route->path.n ? -1 : 1;
    if (x->route->prefix != y->route->prefix) return x->route->prefix ? 1 : -1;
    return x->route < y->route ? -1 : 1;
}

static void refuse_duplicates(struct load *l, const struct conf *c, struct place *places, size_t n)
{
    if (n) qsort(places, n, sizeof *places, compare);
    for (size_t i = 1; i < n; i++) {
        const struct conf_route *before = places[i - 1].route, *r = places[i].route;
        if (!slice_eq(before->path, r->path) || before->prefix != r->prefix) continue;
        problem(&l->problems, places[i].node, load_text(l, "routes[%td]", r - c->routes),
                "the same %s as routes[%td], expected each once", r->prefix ? "prefix" : "path", before - c->routes);
    }
}

void check_routes(struct load *l, const struct node *top, struct conf *c)
{
    const struct node *list = node_find(top, "routes");
    check_upstreams(l, top, c);
    if (!list || (list->kind == NODE_LIST && !list->children)) {
        struct node at = {.file = l->file};
        problem(&l->problems, list ? list : &at, "routes", "none, expected at least one");
        return;
    }
    struct place *places = arena_alloc(l->problems.arena, (c->routes_n + 1) * sizeof *places);
    const struct node *n = list->child;
    size_t good = 0;
    for (size_t i = 0; i < c->routes_n; i++, n = n->next) {
        CHECK(n, "each route has its node");
        if (n->kind != NODE_MAP) continue;
        check_route(l, n, load_text(l, "routes[%zu]", i), c, &c->routes[i]);
        if (c->routes[i].path.p) places[good++] = (struct place){&c->routes[i], n};
    }
    refuse_duplicates(l, c, places, good);
}
