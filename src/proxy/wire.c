/* proxy/wire: the configuration to the parts below proxy/. Called by main and the flow tests. Plain copying: what a value
   means is said in conf/ and in the part's own header. */
#include "proxy/wire.h"

#include <stdio.h>
#include <stdlib.h>

#include "authz/digest.h"
#include "base/check.h"
#include "base/metric.h"
#include "io/tls.h"
#include "proxy/announce.h"
#include "proxy/keypair.h"
#include "proxy/policies.h"
#include "proxy/upstream.h"

#define MADE_BY_DIGITS 16

struct wire {
    struct held held;
    struct conf *conf;
    struct issuer_config *issuers;
    struct shape *context_shape, *grant_shape, *authorize_shape;
    struct grant *grant;
    struct rego_engine *rego;          /* NULL: an engine is asked, or none */
    char made_by[DIGEST_HEX_BYTES];    /* how contexts are made */
    struct keypair *keypair;           /* of the listener; NULL: plain */
    struct tls_context **upstream_tls; /* in the order of conf->upstreams; NULL entries: plain */
};

static struct texts texts_of(struct conf_list list)
{
    return (struct texts){list.v, list.n};
}

static bool compile(struct shape **out, struct slice name, struct slice program, char **error)
{
    if (program.n == 0) return true;
    *out = shape_compile(name.p, program, error);
    return *out != NULL;
}

static struct fetch_tls tls_of(struct conf_tls tls)
{
    return (struct fetch_tls){.ca = tls.ca, .certificate = tls.certificate, .key = tls.key};
}

static void copy_issuers(struct wire *w)
{
    const struct conf *c = w->conf;
    w->issuers = xzalloc((c->tokens.issuers_n + 1) * sizeof *w->issuers);
    for (size_t i = 0; i < c->tokens.issuers_n; i++) {
        const struct conf_issuer *from = &c->tokens.issuers[i];
        w->issuers[i] = (struct issuer_config){
            .issuer = from->issuer,
            .jwks_url = from->jwks_url,
            .tls = tls_of(from->tls),
            .jwks = from->jwks,
            .secret = from->secret,
            .audiences = texts_of(from->audiences),
            .any_audience = from->any_audience,
            .algorithms = texts_of(from->algorithms),
            .types = texts_of(from->types),
            .max_stale_s = from->max_stale_s,
        };
    }
}

/* Whoever shares the Redis and makes contexts otherwise does not take ours for its own. */
static void take_made_by(struct wire *w)
{
    const struct conf *c = w->conf;
    struct slice anonymous = c->tokens.anonymous == ANONYMOUS_JUDGE ? SLICE("judge") : SLICE("");
    struct slice by = c->context.service_authorization.n ? SLICE("service") : SLICE("");
    struct slice fields[] = {SLICE("context v1"), c->context.url, c->context.service_url, by, c->context.shape, anonymous,
                             c->tokens.name_claim};
    uint8_t digest[DIGEST_BYTES];
    digest_fields(fields, sizeof fields / sizeof *fields, digest);
    digest_hex(digest, w->made_by);
}

static void on_wire_gone(struct held *h)
{
    struct wire *w = container_of(h, struct wire, held);
    if (w->grant) grant_destroy(w->grant);
    keypair_free(w->keypair);
    rego_engine_destroy(w->rego);
    if (w->context_shape) shape_destroy(w->context_shape);
    if (w->grant_shape) shape_destroy(w->grant_shape);
    if (w->authorize_shape) shape_destroy(w->authorize_shape);
    for (size_t i = 0; w->upstream_tls && i < w->conf->upstreams_n; i++) tls_context_release(w->upstream_tls[i]);
    free(w->upstream_tls);
    free(w->issuers);
    conf_destroy(w->conf);
    free(w);
}

/* Says of which upstream a fault of its certificates is. */
static bool name_fault(const struct conf_upstream *u, bool only, char **error)
{
    char text[400];
    snprintf(text, sizeof text, only ? "upstream%.0s.tls: %s" : "upstreams.%.100s.tls: %s", u->name.p, *error);
    free(*error);
    *error = xstrdup(text);
    return false;
}

static bool make_upstream_tls(struct wire *w, char **error)
{
    const struct conf *c = w->conf;
    w->upstream_tls = xzalloc((c->upstreams_n + 1) * sizeof *w->upstream_tls);
    for (size_t i = 0; i < c->upstreams_n; i++) {
        const struct conf_upstream *u = &c->upstreams[i];
        struct tls_config tls = {.ca = u->tls.ca, .certificate = u->tls.certificate, .key = u->tls.key, .http = true};
        if (!u->secure) continue;
        w->upstream_tls[i] = tls_client_create(&tls, error);
        if (!w->upstream_tls[i]) return name_fault(u, i == 0, error);
    }
    return true;
}

/* Can what is given be used? Said now, not by the first call. */
static bool try_tls(struct conf_tls given, const char *where, char **error)
{
    struct tls_config tls = {.ca = given.ca, .certificate = given.certificate, .key = given.key};
    if (!tls.ca.n && !tls.certificate.n) return true;
    struct tls_context *ctx = tls_client_create(&tls, error);
    if (ctx) {
        tls_context_release(ctx);
        return true;
    }
    struct buf text;
    buf_init(&text, NULL);
    buf_printf(&text, "%s.tls: %s", where, *error);
    buf_add_char(&text, '\0');
    free(*error);
    *error = text.p;
    return false;
}

static bool try_clients(const struct conf *c, char **error)
{
    if (!try_tls(c->policy.tls, "policy", error) || !try_tls(c->context.tls, "context", error) ||
        !try_tls(c->redis.tls, "redis", error))
        return false;
    for (size_t i = 0; i < c->tokens.issuers_n; i++)
        if (!try_tls(c->tokens.issuers[i].tls, c->tokens.issuers[i].issuer.p, error)) return false;
    return true;
}

struct wire *wire_create(struct conf *c, char **error)
{
    static const enum grant_format formats[] = {
        [CONF_GRANT_JSON] = GRANT_JSON, [CONF_GRANT_BASE64URL] = GRANT_BASE64URL, [CONF_GRANT_JWS] = GRANT_JWS};
    struct wire *w = xzalloc(sizeof *w);
    held_init(&w->held, on_wire_gone);
    w->conf = c;
    take_made_by(w);
    copy_issuers(w);
    bool ok = compile(&w->context_shape, c->context.shape_name, c->context.shape, error) &&
              compile(&w->grant_shape, c->grant.shape_name, c->grant.shape, error) &&
              compile(&w->authorize_shape, c->authorize.shape_name, c->authorize.shape, error) &&
              (!w->grant_shape || grant_try(w->grant_shape, c->grant.shape_name.p, error)) &&
              (!w->authorize_shape || grant_try(w->authorize_shape, c->authorize.shape_name.p, error)) &&
              policies_compile(c, &w->rego, error) && keypair_create(c, &w->keypair, error) && make_upstream_tls(w, error) && try_clients(c, error);
    if (ok) {
        struct grant_config grant = {
            .format = formats[c->grant.format],
            .shape = w->grant_shape,
            .key_pem = c->grant.key,
            .issuer = c->grant.issuer,
            .max_bytes = (size_t)c->grant.max_bytes,
        };
        w->grant = grant_create(&grant, error);
        ok = w->grant != NULL;
    }
    if (ok) return w;
    wire_release(w);
    return NULL;
}

const struct conf *wire_conf(const struct wire *w)
{
    return w->conf;
}

struct grant *wire_grant(const struct wire *w)
{
    return w->grant;
}

struct keypair *wire_keypair(const struct wire *w)
{
    return w->keypair;
}

const struct rego_engine *wire_rego(const struct wire *w)
{
    return w->rego;
}

struct upstream *wire_upstream(struct wire *w, struct proxy *p, size_t i, struct upstream *same)
{
    const struct conf *c = w->conf;
    struct upstream_config config = {
        .conf = &c->upstreams[i],
        .breaker = {.failures = (unsigned)c->breakers.failures,
                    .ratio = c->breakers.ratio,
                    .volume = (unsigned)c->breakers.volume,
                    .window_ms = c->breakers.window_ms,
                    .rest_ms = c->breakers.rest_ms,
                    .max_rest_ms = c->breakers.max_rest_ms},
        .tls = w->upstream_tls[i],
        .probe_interval_ms = c->serve.probe_interval_ms,
        .still = p->rehearsal != NULL,
    };
    int64_t expires_s = config.tls ? tls_context_expiry(config.tls) : 0;
    if (expires_s) metric_set(METRIC_TLS_EXPIRY, &config.conf->name, (double)expires_s);
    return same && upstream_same(same, &config) ? upstream_hold(same) : upstream_create(p->loop, &config);
}

void wire_hold(struct wire *w)
{
    held_take(&w->held);
}

void wire_release(struct wire *w)
{
    held_release(&w->held);
}

static bool start_redis(struct wire *w, struct proxy *p, char **error)
{
    const struct conf *c = w->conf;
    if (c->redis.url.n == 0) return true;
    struct tls_context *tls = NULL;
    if (slice_starts(c->redis.url, SLICE("rediss:"))) {
        struct tls_config config = {
            .certificate = c->redis.tls.certificate, .key = c->redis.tls.key, .ca = c->redis.tls.ca};
        if (!(tls = tls_client_create(&config, error))) return false;
    }
    struct redis_config redis = {
        .url = c->redis.url,
        .timeout_ms = c->redis.timeout_ms,
        .sentinels = c->redis.sentinels.v,
        .sentinels_n = c->redis.sentinels.n,
        .sentinel_user = c->redis.sentinel_user,
        .sentinel_password = c->redis.sentinel_password,
        .breaker = wire_breaker(c),
        .cluster = c->redis.cluster,
        .nodes = c->redis.nodes.v,
        .nodes_n = c->redis.nodes.n,
        .tls = tls,
        .tls_name = c->redis.tls_server_name,
        .track_prefix = c->redis.tracking ? c->redis.key_prefix : slice_make(NULL, 0),
        .on_invalidated = announce_on_invalidated,
        .on_message = announce_on_message,
        .watch_arg = p,
    };
    p->redis = redis_create(p->loop, &redis, error);
    tls_context_release(tls);
    if (p->redis && redis.track_prefix.n) p->announce = announce_create(p, redis.track_prefix);
    return p->redis != NULL;
}

static struct tokens_config tokens_of(const struct wire *w)
{
    const struct conf *c = w->conf;
    return (struct tokens_config){
        .issuers = w->issuers,
        .issuers_n = c->tokens.issuers_n,
        .claims = texts_of(c->tokens.claims),
        .name_claim = c->tokens.name_claim,
        .leeway_s = c->tokens.leeway_s,
        .upstream = c->tokens.verify == VERIFY_UPSTREAM,
        .api_keys = c->tokens.api_keys,
        .max_entries = (size_t)c->tokens.cache_entries,
        .max_bytes = (size_t)c->tokens.max_bytes,
    };
}

static bool start_tokens(struct wire *w, struct proxy *p, char **error)
{
    struct tokens_config tokens = tokens_of(w);
    p->tokens = tokens_create(p->loop, p->fetch, &tokens, error);
    return p->tokens != NULL;
}

bool wire_retoken(struct wire *w, struct proxy *p, char **error)
{
    struct tokens_config tokens = tokens_of(w);
    return tokens_reconfigure(p->tokens, &tokens, error);
}

struct breaker_rules wire_breaker(const struct conf *c)
{
    return (struct breaker_rules){
        .failures = (unsigned)c->breakers.failures,
        .ratio = c->breakers.ratio,
        .volume = (unsigned)c->breakers.volume,
        .window_ms = c->breakers.window_ms,
        .rest_ms = c->breakers.rest_ms,
        .max_rest_ms = c->breakers.max_rest_ms,
    };
}

struct identities *wire_identities(struct wire *w, struct proxy *p, struct identities *same)
{
    const struct conf *c = w->conf;
    struct identity_config identity = {
        .owner = &w->held,
        .url = c->context.url,
        .service_url = c->context.service_url,
        .service_authorization = c->context.service_authorization,
        .shape = w->context_shape,
        .judge_anonymous = c->tokens.anonymous == ANONYMOUS_JUDGE,
        .key_prefix = c->redis.key_prefix,
        .made_by = slice_make(w->made_by, MADE_BY_DIGITS),
        .ttl_s = c->context.ttl_s,
        .memory_ttl_s = c->context.memory_ttl_s,
        .stale_s = c->context.stale_s,
        .jitter = c->context.jitter,
        .memory_entries = (size_t)c->context.memory_entries,
        .timeout_ms = c->context.timeout_ms,
        .max_inflight = (unsigned)c->context.max_inflight,
        .max_waiting = (unsigned)c->context.max_waiting,
        .max_bytes = (size_t)c->context.max_bytes,
        .tls = tls_of(c->context.tls),
        .breaker = wire_breaker(c),
        .on_raised = announce_on_raised,
        .raised_arg = p,
    };
    if (!same) return identities_create(p->loop, p->fetch, p->redis, &identity);
    identities_hold(same);
    identities_adjust(same, &identity);
    return same;
}

struct decisions *wire_decisions(struct wire *w, struct proxy *p, struct decisions *same)
{
    const struct conf *c = w->conf;
    struct decisions_config decisions = {
        .owner = &w->held,
        .rego = w->rego,
        .eval_limit_ms = c->policy.eval_limit_ms,
        .threads = (unsigned)c->policy.threads,
        .url = c->policy.url,
        .authorization = c->policy.authorization,
        .timeout_ms = c->policy.timeout_ms,
        .max_inflight = (unsigned)c->policy.max_inflight,
        .max_waiting = (unsigned)c->policy.max_waiting,
        .on_error_allow = c->policy.on_error_allow,
        .max_response_bytes = (size_t)c->policy.max_response_bytes,
        .tls = tls_of(c->policy.tls),
        .ttl_s = c->decisions.ttl_s,
        .deny_ttl_s = c->decisions.deny_ttl_s,
        .stale_s = c->decisions.stale_s,
        .revision_grace_s = c->decisions.revision_grace_s,
        .max_entries = (size_t)c->decisions.max_entries,
        .max_bytes = (size_t)c->decisions.max_bytes,
        .jitter = c->decisions.jitter,
        .what_if_max_inflight = (unsigned)c->authorize.max_inflight,
        .breaker = wire_breaker(c),
        .grant = w->grant,
        .authorize_shape = w->authorize_shape,
    };
    if (!same) return decisions_create(p->loop, p->fetch, &decisions);
    decisions_hold(same);
    decisions_adjust(same, &decisions);
    return same;
}

bool wire_start(struct wire *w, struct proxy *p, char **error)
{
    wire_hold(w);
    p->first = w;
    p->fetch = fetch_create(p->loop);
    if (p->rehearsal) fetch_instead(p->fetch, p->rehearsal->on_fetch, p);
    return start_redis(w, p, error) && start_tokens(w, p, error);
}

static void on_stopped(void *arg)
{
    (void)arg; /* the loop ends by itself when no handle is left */
}

void wire_stop(struct proxy *p)
{
    if (p->tokens) tokens_destroy(p->tokens);
    announce_destroy(p->announce);
    p->announce = NULL;
    if (p->redis) redis_destroy(p->redis, on_stopped, NULL);
    fetch_destroy(p->fetch, on_stopped, NULL);
    p->tokens = NULL;
    p->redis = NULL;
    p->fetch = NULL;
}
