/* conf/dropin: the reference proxy's variables to options, where ${...} in config/cwms/drop-in.yaml does not do. Called
   by options.c. It refuses what the reference would have taken for something else in silence: a BYPASS_AUTH that is
   neither true nor false, listed paths that are patterns or outside its prefix. */
#include "conf/dropin.h"

#include <string.h>

#include "conf/environ.h"
#include "conf/jsondoc.h"
#include "conf/net.h"

#define PROXIED "/cwms-data"

struct mapping {
    const char *variable;
    const char *fallback; /* NULL: nothing to do when it is not set */
    void (*map)(struct load *l, struct node *top, const char *variable, const char *value);
};

bool dropin_is_meant(struct load *l, bool asked, bool have_file)
{
    if (asked) return true;
    bool urls = environ_get(l, "CWMS_API_URL") && environ_get(l, "OPA_URL");
    return environ_flag(l, "DOORWARD_DROP_IN", urls && !have_file);
}

static void refuse(struct load *l, const char *variable, const char *value, const char *expected)
{
    struct node at = {.variable = variable};
    problem(&l->problems, &at, "", "\"%s\" given, expected %s", node_shown(l->problems.arena, slice_str(value)), expected);
}

/* value at path; named by the variable when that is set, else by the settings file. */
static void put(struct load *l, struct node *top, const char *path, const char *variable, const char *value)
{
    struct node *n = node_text(l->problems.arena, slice_str(value), NULL);
    n->file = l->file;
    if (variable && environ_get(l, variable)) n->variable = variable;
    node_put(l->problems.arena, top, path, n);
}

/* text without the slashes at its end. */
static struct slice without_slash(struct slice text)
{
    while (text.n && text.p[text.n - 1] == '/') text.n--;
    return text;
}

static void map_address(struct load *l, struct node *top, const char *variable, const char *port)
{
    struct slice parsed;
    int number;
    const char *host = environ_get(l, "HOST");
    if (strcmp(port, "0") != 0 && !net_is_port(slice_str(port), &number)) {
        refuse(l, variable, port, "a port from 0 to 65535");
        port = "0";
    }
    if (!host || !*host) host = "0.0.0.0";
    if (strcmp(host, "localhost") == 0) host = "127.0.0.1";
    const char *address = load_text(l, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
    if (net_address(slice_str(address), &parsed, &number)) {
        refuse(l, "HOST", host, "an IP address");
        return;
    }
    put(l, top, "listen.address", environ_get(l, variable) ? variable : "HOST", address);
}

/* What is asked for a user: the caller's own profile, and by name with the key of our own. */
static void map_api(struct load *l, struct node *top, const char *variable, const char *key)
{
    const struct node *url = node_find(top, "upstream.url");
    if (!url || url->kind != NODE_TEXT) return;
    struct slice api = without_slash(url->text);
    struct node *n = node_text(l->problems.arena, arena_printf(l->problems.arena, "%.*s/user/profile", (int)api.n, api.p),
                               url);
    node_put(l->problems.arena, top, "context.url", n);
    if (!*key) return;
    put(l, top, "context.service_authorization", variable, load_text(l, "apikey %s", key));
    put(l, top, "context.service_url", "CWMS_API_URL",
        load_text(l, "%.*s/users/{name}?include-roles=true", (int)api.n, api.p));
}

static void map_policy(struct load *l, struct node *top, const char *variable, const char *url)
{
    const char *path = environ_get(l, "OPA_POLICY_PATH");
    struct slice base = without_slash(slice_str(url));
    if (!path || !*path) path = "/v1/data/cwms/authz/allow";
    bool named = environ_get(l, variable) != NULL;
    put(l, top, "policy.url", named ? variable : "OPA_POLICY_PATH",
        load_text(l, "%.*s%s%s", (int)base.n, base.p, *path == '/' ? "" : "/", path));
}

static void map_redis(struct load *l, struct node *top, const char *variable, const char *url)
{
    if (!*url) put(l, top, "redis.url", variable, "");
}

static void map_bypass(struct load *l, struct node *top, const char *variable, const char *value)
{
    if (strcmp(value, "true") == 0) put(l, top, "policy.on_error", variable, "allow");
    else if (strcmp(value, "false") != 0 && *value) refuse(l, variable, value, "true or false");
}

/* A denial is not kept longer than an allow. */
static void map_ttl(struct load *l, struct node *top, const char *variable, const char *value)
{
    long long ttl;
    if (slice_to_int(slice_str(value), &ttl) && ttl < 30) put(l, top, "decisions.deny_ttl_s", variable, value);
}

static void map_log_level(struct load *l, struct node *top, const char *variable, const char *value)
{
    static const char *const levels[][2] = {{"trace", "debug"}, {"debug", "debug"}, {"info", "info"},  {"warn", "warn"},
                                            {"error", "error"}, {"fatal", "error"}, {"silent", "off"}, {"", "info"}};
    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++) {
        if (strcmp(value, levels[i][0]) != 0) continue;
        put(l, top, "log.level", variable, levels[i][1]);
        return;
    }
    refuse(l, variable, value, "trace, debug, info, warn, error, fatal or silent");
}

/* A path of the list without the slash at its end; false when it cannot be judged as a path with all below it. */
static bool listed_path(struct load *l, const char *variable, const struct node *n, struct slice *path)
{
    const struct slice prefix = SLICE(PROXIED);
    struct node at = {.variable = variable};
    *path = without_slash(n->text);
    const char *wrong = NULL;
    if (n->kind != NODE_TEXT || !n->text.n) wrong = "an entry that is no path, expected a JSON list of paths";
    else if (!slice_starts(*path, prefix) || (path->n > prefix.n && path->p[prefix.n] != '/'))
        wrong = "is not below " PROXIED ", expected a path that is proxied";
    if (!wrong) return true;
    if (n->kind == NODE_TEXT && n->text.n)
        problem(&l->problems, &at, "", "\"%s\" %s", node_shown(l->problems.arena, n->text), wrong);
    else problem(&l->problems, &at, "", "%s", wrong);
    return false;
}

/* One of the first `count` routes is for that path. */
static bool has_path(const struct node *routes, size_t count, struct slice path)
{
    for (const struct node *n = routes->child; n && count; n = n->next, count--) {
        const struct node *given = node_find(n, "prefix");
        if (!given) given = node_find(n, "path");
        if (given && slice_eq(given->text, path)) return true;
    }
    return false;
}

/* A copy of the settings' first route with another prefix. */
static struct node *listed_route(struct load *l, const struct node *template, const char *variable, struct slice path)
{
    struct node *route = node_create(l->problems.arena, NODE_MAP);
    route->file = template->file;
    route->line = template->line;
    if (environ_get(l, variable)) route->variable = variable;
    for (const struct node *n = template->child; n; n = n->next) {
        struct node *copy = node_create(l->problems.arena, n->kind);
        *copy = *n;
        if (slice_eq(n->key, SLICE("prefix"))) {
            copy = node_text(l->problems.arena, path, route);
            copy->key = n->key;
        }
        node_append(route, copy);
    }
    return route;
}

/* The listed paths, then those of the settings that are not listed themselves. */
static void map_listed(struct load *l, struct node *top, const char *variable, const char *value)
{
    struct node *given = node_find(top, "routes"), *routes = node_create(l->problems.arena, NODE_LIST);
    struct node *list = jsondoc_read(&l->problems, variable, slice_str(value));
    if (list && list->kind != NODE_LIST) refuse(l, variable, value, "a JSON list of paths");
    for (struct node *n = list && list->kind == NODE_LIST ? list->child : NULL; n; n = n->next) {
        struct slice path;
        if (listed_path(l, variable, n, &path) && !has_path(routes, routes->children, path))
            node_append(routes, listed_route(l, given->child, variable, path));
    }
    size_t listed = routes->children;
    for (struct node *n = given->child->next, *next; n; n = next) {
        next = n->next;
        const struct node *own = node_find(n, "prefix") ? node_find(n, "prefix") : node_find(n, "path");
        if (!has_path(routes, listed, own->text)) node_append(routes, n);
    }
    node_put(l->problems.arena, top, "routes", routes);
}

static const struct mapping mappings[] = {
    {"PORT", "3001", map_address},
    {"CWMS_API_KEY", "", map_api},
    {"OPA_URL", "http://localhost:8181", map_policy},
    {"REDIS_URL", NULL, map_redis},
    {"BYPASS_AUTH", NULL, map_bypass},
    {"CACHE_TTL_SECONDS", NULL, map_ttl},
    {"LOG_LEVEL", NULL, map_log_level},
    {"OPA_WHITELIST_ENDPOINTS", "[\"/cwms-data/timeseries\",\"/cwms-data/offices\"]", map_listed},
};

void dropin_map(struct load *l, struct node *top)
{
    for (size_t i = 0; i < sizeof mappings / sizeof mappings[0]; i++) {
        const struct mapping *m = &mappings[i];
        const char *value = environ_get(l, m->variable);
        if (value && !*value && m->fallback) value = m->fallback; /* set to nothing is not set, as in the reference */
        if (!value) value = m->fallback;
        if (value) m->map(l, top, m->variable, value);
    }
}

void dropin_finish(struct load *l, struct node *top)
{
    const struct node *issuers = node_find(top, "tokens.issuers"), *verify = node_find(top, "tokens.verify");
    if (issuers && issuers->children && !verify->variable) put(l, top, "tokens.verify", "DOORWARD_TOKENS_ISSUERS", "keys");
}
