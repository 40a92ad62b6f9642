/* proxy/route: the step that says what a request is for: its target in normal form, its host, and then an endpoint of
   our own, a preflight, or the route that serves it. Refuses what has two readings and what no route names. */
#include "proxy/request.h"

#include "base/check.h"
#include "proxy/cors.h"
#include "proxy/own.h"
#include "proxy/reply.h"

static bool is_in_host(char c, bool bracketed)
{
    char letter = (char)(c | 0x20);
    if (c >= '0' && c <= '9') return true;
    if (letter >= 'a' && letter <= (bracketed ? 'f' : 'z')) return true;
    return bracketed ? c == ':' || c == '.' : c == '.' || c == '-' || c == '_' || c == '~';
}

/* RFC 3986 3.2: a name, an IPv4 address or an IPv6 address in brackets, and perhaps a port; no user information, and no
   escapes, which some decode and some do not. */
static bool host_is_valid(struct slice host)
{
    if (host.n == 0 || host.n > 255) return false;
    bool bracketed = host.p[0] == '[';
    size_t end = bracketed;
    while (end < host.n && is_in_host(host.p[end], bracketed)) end++;
    if (end == bracketed || (bracketed && (end == host.n || host.p[end++] != ']'))) return false;
    if (end == host.n) return true;
    struct slice port = slice_make(host.p + end + 1, host.n - end - 1);
    long long number = 0;
    return host.p[end] == ':' && (port.n == 0 || (slice_to_int(port, &number) && number <= 65535));
}

static struct slice lower(struct arena *a, struct slice s)
{
    size_t i = 0;
    while (i < s.n && !(s.p[i] >= 'A' && s.p[i] <= 'Z')) i++;
    if (i == s.n) return s;
    char *copy = arena_alloc(a, s.n);
    for (i = 0; i < s.n; i++) copy[i] = s.p[i] >= 'A' && s.p[i] <= 'Z' ? (char)(s.p[i] | 0x20) : s.p[i];
    return slice_make(copy, s.n);
}

static bool host_is_listed(const struct conf_list *hosts, struct slice host)
{
    if (hosts->n == 0) return true;
    struct slice name = host;
    const char *colon = host.n ? memrchr(host.p, ':', host.n) : NULL;
    if (colon && !memchr(colon, ']', host.n - (size_t)(colon - host.p))) name.n = (size_t)(colon - host.p);
    for (size_t i = 0; i < hosts->n; i++)
        if (slice_eq(hosts->v[i], host) || slice_eq(hosts->v[i], name)) return true;
    return false;
}

/* Sets r->host from Host or the absolute form. */
static enum reason check_host(struct request *r)
{
    struct header *header = head_find(r->head, HEADER_HOST, NULL);
    if (header && !host_is_valid(header->value)) return REASON_HOST_INVALID;
    struct slice host = header ? lower(r->arena, header->value) : SLICE("");
    if (r->target.authority.n) {
        struct slice authority = lower(r->arena, r->target.authority);
        if (!host_is_valid(authority) || (header && !slice_eq(authority, host))) return REASON_HOST_INVALID;
        host = authority;
    }
    r->host = host;
    bool listed = r->conn->admin || host_is_listed(&r->conf->listen.hosts, host); /* names of the main port */
    return listed ? REASON_FORWARDED : REASON_HOST_UNKNOWN;
}

static struct slice action_of(struct slice method)
{
    static const struct {
        struct slice method, action;
    } table[] = {
        {{"GET", 3}, {"read", 4}},   {{"HEAD", 4}, {"read", 4}},    {{"POST", 4}, {"create", 6}},
        {{"PUT", 3}, {"update", 6}}, {{"PATCH", 5}, {"update", 6}}, {{"DELETE", 6}, {"delete", 6}},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (slice_eq(method, table[i].method)) return table[i].action;
    return SLICE("unknown");
}

/* The route's resource: a name, or $N for the Nth segment of the path. */
static struct slice resource_of(const struct conf_route *route, const struct target *t)
{
    if (route->resource.n && route->resource.p[0] != '$') return route->resource;
    long long at = 1;
    if (route->resource.n) slice_to_int(slice_make(route->resource.p + 1, route->resource.n - 1), &at);
    if (at < 1 || (size_t)at > t->segments_n || t->segments[at - 1].n == 0) return SLICE("unknown");
    return t->segments[at - 1];
}

static bool has(struct slice s, char c)
{
    return s.n && memchr(s.p, c, s.n) != NULL;
}

/* Does the text have that name behind a ';'? Some servers part parameters there too. */
static bool behind_semicolon(struct slice text, struct slice name)
{
    while (text.n) {
        const char *semicolon = memchr(text.p, ';', text.n);
        if (!semicolon) return false;
        text = slice_make(semicolon + 1, (size_t)(text.p + text.n - semicolon) - 1);
        if (slice_starts(text, name) && (text.n == name.n || text.p[name.n] == '=' || text.p[name.n] == ';'))
            return true;
    }
    return false;
}

/* One value for the policy from one name and its synonyms, all of which the API may read. */
static enum reason lift(struct request *r, const struct lift *names)
{
    const struct target_param *found = NULL;
    for (size_t k = 0; k < names->n; k++) {
        const struct target_param *same = NULL;
        for (size_t i = 0; i < r->target.params_n; i++) {
            const struct target_param *p = &r->target.params[i];
            /* to a laxer reader a name that cannot be decoded may be this one, and so may one behind a ';' */
            if (p->undecodable && (has(p->name, '%') || has(p->value, ';'))) return REASON_QUERY_AMBIGUOUS;
            if (behind_semicolon(p->name, names->names[k]) || behind_semicolon(p->value, names->names[k]))
                return REASON_QUERY_AMBIGUOUS;
            if (!slice_eq(p->name, names->names[k])) continue;
            if (same || p->undecodable) return REASON_QUERY_AMBIGUOUS;
            same = p;
        }
        if (same && found && !slice_eq(same->value, found->value)) return REASON_QUERY_AMBIGUOUS;
        if (!found) found = same;
    }
    if (!found) return REASON_FORWARDED;
    r->lifted[r->lifted_n++] = (struct named){names->names[0], found->value};
    return REASON_FORWARDED;
}

/* NULL, or for the log what the route does not keep. */
static const char *path_fault(const struct conf_route *route, const struct target *t)
{
    if (t->encoded_slash && !route->keep_encoded_slashes) return "an encoded slash (path_policy.encoded_slashes)";
    if (t->path_parameter && !route->keep_path_parameters) return "a semicolon (path_policy.path_parameters)";
    return NULL;
}

/* The path as a server takes it that decodes slashes, drops parameters, or both. */
static struct slice read_loosely(struct arena *a, struct slice path, bool slashes, bool parameters)
{
    char *out = arena_alloc(a, path.n);
    size_t n = 0;
    bool inside = false; /* a parameter */
    for (size_t i = 0; i < path.n; i++) {
        struct slice rest = slice_make(path.p + i, path.n - i);
        bool slash = slashes && (slice_starts(rest, SLICE("%2F")) || slice_starts(rest, SLICE("%5C")));
        bool parameter = parameters && (path.p[i] == ';' || slice_starts(rest, SLICE("%3B")));
        char c = slash ? '/' : path.p[i];
        if (slash || (parameter && c == '%')) i += 2;
        inside = c != '/' && (inside || parameter);
        if (inside || (c == '/' && n && out[n - 1] == '/')) continue;
        out[n++] = c;
    }
    return slice_make(out, n);
}

/* What a route keeps must lead to that route in every reading: "/listed;x" is no way past the route of "/listed". */
static enum reason check_readings(struct request *r)
{
    const struct target *t = &r->target;
    for (int i = 1; i < 4; i++) {
        bool slashes = i & 1, parameters = i & 2;
        if ((slashes && !t->encoded_slash) || (parameters && !t->path_parameter)) continue;
        struct slice path = read_loosely(r->arena, t->path, slashes, parameters);
        if (routes_find(r->settings->routes, path) != r->route) return REASON_PATH_AMBIGUOUS;
    }
    return REASON_FORWARDED;
}

static struct slice sent_path(struct request *r)
{
    const struct conf_route *route = r->route;
    struct slice base = route->upstream->base_path, path = r->target.path;
    if (route->strip_prefix.n && slice_starts(path, route->strip_prefix)) {
        path.p += route->strip_prefix.n;
        path.n -= route->strip_prefix.n;
    }
    if (base.n == 0) return path.n ? path : SLICE("/");
    struct buf out;
    buf_init(&out, r->arena);
    buf_reserve(&out, base.n + path.n);
    buf_add_slice(&out, base);
    buf_add_slice(&out, path);
    return buf_slice(&out);
}

static struct slice allowed_methods(struct request *r, const struct conf_list *methods)
{
    struct buf out;
    buf_init(&out, r->arena);
    for (size_t i = 0; i < methods->n; i++) {
        if (i) buf_add_lit(&out, ", ");
        buf_add_slice(&out, methods->v[i]);
    }
    return buf_slice(&out);
}

static enum step_result answer_options(struct request *r)
{
    return reply_body(r, 204, SLICE(""), SLICE(""));
}

/* A route of the configuration serves it, or nothing does. */
static enum step_result take_route(struct request *r)
{
    r->route = routes_find(r->settings->routes, r->target.path);
    if (!r->route) return request_fail(r, REASON_NO_ROUTE, NULL);
    if (!route_allows(r->route, r->head->method)) {
        r->allow = allowed_methods(r, &r->route->methods);
        return request_fail(r, REASON_METHOD, NULL);
    }
    const char *fault = path_fault(r->route, &r->target);
    if (fault) return request_fail(r, REASON_PATH_AMBIGUOUS, fault);
    enum reason reason = check_readings(r);
    if (reason != REASON_FORWARDED) return request_fail(r, reason, "read otherwise, it leads to another route");
    r->sent_path = sent_path(r);
    r->websocket &= r->route->websocket != WEBSOCKET_OFF;
    r->resource = resource_of(r->route, &r->target);
    r->action = action_of(r->head->method);
    if (r->route->access == ACCESS_PUBLIC) {
        r->step = STEP_CONNECT;
        return STEP_NEXT;
    }
    if (target_params(&r->target, r->arena) != REASON_FORWARDED)
        return request_fail(r, REASON_QUERY_AMBIGUOUS, "too many parameters");
    for (size_t i = 0; i < r->settings->lifts_n; i++) {
        const struct lift *names = &r->settings->lifts[i];
        reason = lift(r, names);
        if (reason == REASON_FORWARDED) continue;
        struct slice first = names->names[0];
        return request_fail(r, reason, arena_printf(r->arena, "policy.query: %.*s", (int)first.n, first.p).p);
    }
    r->step = STEP_AUTHENTICATE;
    return STEP_NEXT;
}

enum step_result step_route(struct request *r)
{
    static const struct slice star_allow = {"GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS", 44};
    if (slice_eq(r->head->method, SLICE("CONNECT"))) {
        r->allow = star_allow;
        return request_fail(r, REASON_METHOD, NULL);
    }
    enum reason reason = target_parse(r->head->target, r->arena, &r->target);
    if (reason == REASON_FORWARDED) reason = check_host(r);
    /* whoever checks our health asks an address, not one of listen.hosts */
    if (reason == REASON_HOST_UNKNOWN && own_is_health(own_find(r))) reason = REASON_FORWARDED;
    if (reason == REASON_PATH_AMBIGUOUS)
        return request_fail(r, reason, "a dot or empty segment, an encoded NUL, or invalid UTF-8");
    if (reason != REASON_FORWARDED) return request_fail(r, reason, NULL);
    if (r->target.asterisk) {
        if (!slice_eq(r->head->method, SLICE("OPTIONS"))) return request_fail(r, REASON_TARGET_INVALID, NULL);
        r->allow = star_allow;
        return answer_options(r);
    }
    if (cors_is_preflight(r)) return answer_options(r);
    r->own = own_find(r);
    if (r->own) {
        r->step = STEP_COLLECT;
        return STEP_NEXT;
    }
    if (r->conn->admin) return request_fail(r, REASON_NO_ROUTE, NULL);
    return take_route(r);
}
