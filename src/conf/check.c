/* conf/check: contradictions between options other than routes. Called by options.c once all values are read. It refuses
   whatever would open more than was meant, or could not work. */
#include "conf/check.h"

#include "conf/form.h"
#include "conf/net.h"

struct checking {
    struct load *l;
    const struct node *top;
    struct conf *conf;
};

/* Tells a problem with the option at path, at its place, else at its section's. */
static void tell(const struct checking *k, const char *path, const char *what)
{
    const struct node *n = node_find(k->top, path);
    const char *dot = strchr(path, '.');
    if (!n && dot) n = node_child(k->top, slice_make(path, (size_t)(dot - path)));
    struct node at = {.file = k->l->file};
    if (!n || n->variable) n = n && node_find(k->top, path) == n ? n : &at;
    problem(&k->l->problems, n, path, "%s", what);
}

/* Something stands there, right or wrong. */
static bool is_given(const struct checking *k, const char *path)
{
    const struct node *n = node_find(k->top, path);
    return n && (n->kind != NODE_TEXT || n->text.n || n->told);
}

static bool has_secret(const struct checking *k, const char *path)
{
    return is_given(k, path) || is_given(k, load_text(k->l, "%s_file", path));
}

static void check_listen(const struct checking *k)
{
    const struct conf *c = k->conf;
    const struct node *n = node_find(k->top, "listen.address");
    if (n && n->kind == NODE_TEXT && !n->text.n && !n->told) tell(k, "listen.address", "empty, expected address:port");
    if (c->listen.max_header_bytes && c->listen.max_target_bytes > c->listen.max_header_bytes)
        tell(k, "listen.max_target_bytes", "more than listen.max_header_bytes, expected at most that");
    if (c->listen.max_connections && c->listen.max_connections_per_address > c->listen.max_connections)
        tell(k, "listen.max_connections_per_address", "more than listen.max_connections, expected at most that");
    if (!c->admin.host.n) return;
    if (slice_eq(c->admin.host, c->listen.host) && c->admin.port == c->listen.port && c->admin.port)
        tell(k, "admin.address", "the same as listen.address, expected another");
    if (!net_is_loopback(c->admin.host) && !has_secret(k, "admin.token"))
        tell(k, "admin.address", "not a loopback address and no admin.token_file, expected 127.0.0.1 or a token");
}

static void check_tls_listener(const struct checking *k)
{
    bool certificate = is_given(k, "listen.tls.certificate_file"), key = is_given(k, "listen.tls.key_file");
    bool asks = k->conf->listen.tls.client_certificates != CLIENT_CERTIFICATES_OFF;
    if (certificate != key)
        tell(k, certificate ? "listen.tls.certificate_file" : "listen.tls.key_file",
             certificate ? "without listen.tls.key_file, expected both or none"
                         : "without listen.tls.certificate_file, expected both or none");
    if (asks && !certificate) tell(k, "listen.tls.client_certificates", "without listen.tls.certificate_file, expected it");
    if (asks != is_given(k, "listen.tls.client_ca_file"))
        tell(k, asks ? "listen.tls.client_certificates" : "listen.tls.client_ca_file",
             asks ? "without listen.tls.client_ca_file, expected it"
                  : "given, but listen.tls.client_certificates is off, expected optional or required");
}

void check_tls(struct load *l, const struct node *n, const char *path)
{
    if (!n) return;
    const struct node *certificate = node_find(n, "tls.certificate_file"), *key = node_find(n, "tls.key");
    if (!key) key = node_find(n, "tls.key_file");
    if ((certificate != NULL) != (key != NULL))
        problem(&l->problems, certificate ? certificate : key, load_text(l, "%s.tls", path),
                certificate ? "a certificate without its key, expected both" : "a key without its certificate, expected both");
}

/* Of a url that was read already: a number other than 0 behind the last slash. */
static bool has_database(struct slice url)
{
    const char *slash = memrchr(url.p ? url.p : "", '/', url.n);
    long long db;
    return slash && slice_to_int(slice_make(slash + 1, url.n - (size_t)(slash - url.p) - 1), &db) && db != 0;
}

static void check_redis(const struct checking *k)
{
    const struct conf *c = k->conf;
    bool sentinels = c->redis.sentinels.n > 0;
    if (sentinels && c->redis.cluster) tell(k, "redis.cluster", "true together with redis.sentinels, expected one of the two");
    if (c->redis.nodes.n && !c->redis.cluster) tell(k, "redis.nodes", "given, but redis.cluster is not true");
    if ((sentinels || c->redis.cluster) && !slice_starts(c->redis.url, SLICE("redis")))
        tell(k, "redis.url", "no redis:// or rediss:// URL, expected one with redis.sentinels or redis.cluster");
    if (c->redis.cluster && has_database(c->redis.url)) tell(k, "redis.url", "a database, expected none with redis.cluster");
    check_tls(k->l, node_find(k->top, "redis"), "redis");
}

/* Not wrong, but an answer that was allowed more time than that will never have it. */
static void check_budget(const struct checking *k)
{
    const struct conf *c = k->conf;
    for (size_t i = 0; c->listen.budget_ms && i < c->upstreams_n; i++) {
        const struct conf_upstream *u = &c->upstreams[i];
        if (u->response_timeout_ms <= c->listen.budget_ms) continue;
        buf_printf(k->l->warnings, "listen.budget_ms: less than the response_timeout_ms of upstream %.*s, which it ends first\n",
                   (int)u->name.n, u->name.p);
    }
}

static void warn_unused_tls(const struct checking *k, struct conf_tls tls, const char *path, bool secure)
{
    if (secure || (!tls.ca.n && !(tls.certificate.n && tls.key.n))) return; /* one without the other is refused */
    buf_printf(k->l->warnings, "%s.tls: given, but not used: the URL is of plain %s\n", path,
               strcmp(path, "redis") == 0 ? "redis, not rediss" : "http, not https");
}

/* Not wrong where the URL comes from elsewhere; but who gave certificates may think that nobody can listen. */
static void check_unused_tls(const struct checking *k)
{
    const struct conf *c = k->conf;
    const struct slice https = SLICE("https:");
    bool context = slice_starts(c->context.url, https) || slice_starts(c->context.service_url, https);
    if (!is_given(k, "policy.path")) warn_unused_tls(k, c->policy.tls, "policy", slice_starts(c->policy.url, https));
    warn_unused_tls(k, c->context.tls, "context", context);
    warn_unused_tls(k, c->redis.tls, "redis", slice_starts(c->redis.url, SLICE("rediss:")));
    for (size_t i = 0; i < c->upstreams_n; i++) {
        const char *name = node_shown(k->l->problems.arena, c->upstreams[i].name);
        warn_unused_tls(k, c->upstreams[i].tls, i ? load_text(k->l, "upstreams.%s", name) : "upstream",
                        c->upstreams[i].secure);
    }
    for (size_t i = 0; i < c->tokens.issuers_n; i++)
        warn_unused_tls(k, c->tokens.issuers[i].tls, load_text(k->l, "tokens.issuers[%zu]", i),
                        slice_starts(c->tokens.issuers[i].jwks_url, https));
}

static void check_breakers(const struct checking *k)
{
    if (k->conf->breakers.rest_ms > k->conf->breakers.max_rest_ms)
        tell(k, "breakers.rest_ms", "more than breakers.max_rest_ms, expected at most that");
}

static bool is_hmac(struct slice algorithm)
{
    return slice_starts(algorithm, SLICE("HS"));
}

static void check_algorithms(const struct checking *k, const struct node *n, const char *path, struct conf_issuer *i,
                             bool secret)
{
    static struct slice rsa = {"RS256", 5}, hmac = {"HS256", 5};
    const struct node *given = node_find(n, "algorithms");
    if (given && given->children == 0 && !i->algorithms.n && given->kind == NODE_LIST) given = NULL;
    if (!given) {
        i->algorithms = (struct conf_list){secret ? &hmac : &rsa, 1};
        return;
    }
    for (size_t a = 0; a < i->algorithms.n; a++) {
        struct slice name = i->algorithms.v[a];
        const char *at = load_text(k->l, "%s.algorithms[%zu]", path, a);
        if (!name.n || is_hmac(name) == secret) continue;
        problem(&k->l->problems, given, at,
                secret ? "%s needs keys but the issuer has a secret, expected HS256, HS384 or HS512"
                       : "%s needs a secret but the issuer has none, expected secret_file or another algorithm",
                name.p);
    }
}

static void check_issuer(const struct checking *k, const struct node *n, const char *path, struct conf_issuer *i)
{
    bool secret = node_find(n, "secret") || node_find(n, "secret_file");
    int sources = (node_find(n, "jwks_url") != NULL) + (node_find(n, "jwks_file") != NULL) + secret;
    const struct node *audiences = node_find(n, "audiences");
    if (!node_find(n, "issuer")) problem(&k->l->problems, n, path, "no issuer, expected the iss of its tokens");
    if (sources == 0) problem(&k->l->problems, n, path, "no keys, expected one of jwks_url, jwks_file, secret_file");
    if (sources > 1)
        problem(&k->l->problems, n, path, "keys from several places, expected one of jwks_url, jwks_file, secret_file");
    if (sources == 1 && !secret && node_find(n, "jwks_url") && !i->jwks_url.n && node_find(n, "jwks_url")->text.n == 0)
        problem(&k->l->problems, n, path, "no keys, jwks_url is empty, expected a URL");
    if (!i->any_audience && (!audiences || (audiences->kind == NODE_LIST && !audiences->children) ||
                             (audiences->kind == NODE_TEXT && !audiences->text.n && !audiences->told)))
        problem(&k->l->problems, n, path, "no audiences, expected some, or any_audience: true");
    if (i->any_audience && i->audiences.n)
        problem(&k->l->problems, n, path, "any_audience together with audiences, expected one of the two");
    check_algorithms(k, n, path, i, secret);
    check_tls(k->l, n, path);
}

static void check_issuers(const struct checking *k)
{
    const struct node *list = node_find(k->top, "tokens.issuers");
    const struct node *n = list ? list->child : NULL;
    for (size_t i = 0; i < k->conf->tokens.issuers_n && n; i++, n = n->next) {
        const char *path = load_text(k->l, "tokens.issuers[%zu]", i);
        struct conf_issuer *issuer = &k->conf->tokens.issuers[i];
        if (n->kind != NODE_MAP) continue;
        check_issuer(k, n, path, issuer);
        for (size_t j = 0; j < i; j++) {
            if (!issuer->issuer.n || !slice_eq(issuer->issuer, k->conf->tokens.issuers[j].issuer)) continue;
            problem(&k->l->problems, n, path, "the same issuer as tokens.issuers[%zu], expected each once", j);
            break;
        }
    }
}

/* Is a route authorized, or (not authorized_only) authenticated? What is wrong in itself counts for neither. */
static bool any_route(const struct checking *k, bool authorized_only)
{
    const struct node *list = node_find(k->top, "routes");
    for (const struct node *n = list ? list->child : NULL; n; n = n->next) {
        const struct node *access = node_find(n, "access");
        if (n->kind != NODE_MAP) continue;
        if (!access || slice_eq(access->text, SLICE("authorized"))) return true;
        if (!authorized_only && slice_eq(access->text, SLICE("authenticated"))) return true;
    }
    return false;
}

static void check_tokens(const struct checking *k)
{
    bool issuers = is_given(k, "tokens.issuers") && node_find(k->top, "tokens.issuers")->children;
    bool url = is_given(k, "context.url");
    if (k->conf->tokens.verify == VERIFY_UPSTREAM) {
        if (!url) tell(k, "tokens.verify", "upstream without context.url, expected the URL that is asked");
        if (issuers) tell(k, "tokens.verify", "upstream together with tokens.issuers, expected keys");
    } else if (!issuers && any_route(k, false)) {
        tell(k, "tokens.issuers", "none, but a route is not public, expected at least one");
    }
    if (k->conf->tokens.api_keys && !url)
        tell(k, "tokens.api_keys", "true without context.url, expected the URL that judges them");
}

static void check_context(const struct checking *k)
{
    bool url = is_given(k, "context.service_url"), secret = has_secret(k, "context.service_authorization");
    if (url && !secret) tell(k, "context.service_url", "no context.service_authorization_file, expected one with it");
    if (secret && !url) tell(k, "context.service_authorization", "no context.service_url, expected one with it");
    /* Right for two addresses of one issuer, so it is not refused. */
    if (url && k->conf->tokens.issuers_n > 1)
        buf_printf(k->l->warnings,
                   "context.service_url: asked by the name alone, so a name is one person to all %zu issuers\n",
                   k->conf->tokens.issuers_n);
}

/* Who gave them may think that they do something. */
static void warn_unused_policy(const struct checking *k)
{
    static const char *const of_url[] = {"policy.authorization", "policy.authorization_file", "policy.tls"};
    static const char text[] = "%s: given, but not used: policy.path is evaluated in this process\n";
    for (size_t i = 0; i < sizeof of_url / sizeof *of_url; i++)
        if (is_given(k, of_url[i])) buf_printf(k->l->warnings, text, of_url[i]);
    if (k->conf->policy.on_error_allow) buf_printf(k->l->warnings, text, "policy.on_error");
}

static void check_policy(const struct checking *k)
{
    const struct conf_list *q = &k->conf->policy.query;
    bool path = is_given(k, "policy.path"), rule = is_given(k, "policy.rule"), url = is_given(k, "policy.url");
    if (!url && !path && any_route(k, true))
        tell(k, "policy.url", "none, but a route is authorized, expected the URL of a policy, or policy.path");
    if (url && path) tell(k, "policy.path", "given together with policy.url, expected one of the two");
    if (path && !rule)
        tell(k, "policy.rule", "none, but policy.path is given, expected the rule to ask, as data.example.authz.allow");
    if (rule && !path) tell(k, "policy.rule", "given without policy.path, expected both or none");
    if (path) warn_unused_policy(k);
    for (size_t i = 0; i < q->n; i++) {
        struct slice rest = q->v[i], name;
        while (slice_next(&rest, '|', &name)) {
            bool twice = rest.p && form_query_has(rest, name);
            for (size_t j = 0; j < i; j++) twice = twice || form_query_has(q->v[j], name);
            if (twice && name.n)
                tell(k, "policy.query", load_text(k->l, "%.*s is named twice, expected each name once", (int)name.n, name.p));
        }
    }
}

static void check_grant(const struct checking *k)
{
    bool jws = k->conf->grant.format == CONF_GRANT_JWS, key = has_secret(k, "grant.key");
    if (jws && !key) tell(k, "grant.format", "jws without grant.key_file, expected a private key");
    const struct node *format = node_find(k->top, "grant.format");
    bool plain = !format || slice_eq(format->text, SLICE("json")) || slice_eq(format->text, SLICE("base64url"));
    if (key && plain) tell(k, "grant.key", "given, but grant.format is not jws, expected both or none");
}

static void check_cors(const struct checking *k)
{
    struct conf *c = k->conf;
    c->cors.on = c->cors.origins.n > 0;
    for (size_t i = 0; i < c->cors.origins.n && c->cors.credentials; i++)
        if (slice_eq(c->cors.origins.v[i], SLICE("*")))
            tell(k, "cors.credentials", "true together with origins '*', expected the origins by name");
}

void check_options(struct load *l, const struct node *top, struct conf *conf)
{
    struct checking k = {l, top, conf};
    check_listen(&k);
    check_tls_listener(&k);
    check_issuers(&k);
    check_tokens(&k);
    check_context(&k);
    check_policy(&k);
    check_grant(&k);
    check_cors(&k);
    check_redis(&k);
    check_breakers(&k);
    check_budget(&k);
    check_unused_tls(&k);
    check_tls(l, node_find(top, "policy"), "policy");
    check_tls(l, node_find(top, "context"), "context");
}
