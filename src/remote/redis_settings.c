/* remote/redis_settings: reads the configuration of a Redis. Called by remote/redis_route. Refuses contradictions: a
   database or a UNIX socket with a cluster, sentinels with a cluster, rediss without what TLS needs. */
#include "remote/redis_settings.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "io/tls.h"

#define SENTINEL_PORT 26379
#define NODE_PORT 6379

static char *copy(struct slice s)
{
    return s.n ? xstrndup(s.p, s.n) : NULL;
}

static const char *contradiction(const struct redis_settings *s, const struct redis_config *c)
{
    if (c->cluster && c->sentinels_n) return "a cluster has no sentinels";
    if (s->mode != REDIS_SINGLE && s->url.path) return "a unix socket leads to one server: no sentinels, no cluster";
    if (s->mode == REDIS_CLUSTER && s->url.db) return "a cluster has no database but 0";
    return s->url.tls && !c->tls ? "rediss:// without TLS" : NULL;
}

static const char *read_seeds(struct redis_settings *s, const struct slice *places, size_t n, int default_port)
{
    for (size_t i = 0; i < n; i++) {
        const char *wrong = redis_address_parse(places[i], default_port, &s->seeds[s->seeds_n]);
        if (wrong) return wrong;
        s->seeds_n++;
    }
    return NULL;
}

static const char *read_places(struct redis_settings *s, const struct redis_config *c)
{
    s->seeds = xzalloc((c->sentinels_n + c->nodes_n + 1) * sizeof *s->seeds);
    if (s->mode == REDIS_SENTINEL) return read_seeds(s, c->sentinels, c->sentinels_n, SENTINEL_PORT);
    if (s->mode == REDIS_SINGLE) return NULL;
    s->seeds[0].host = xstrdup(s->url.host);
    s->seeds[0].port = s->url.port;
    s->seeds_n = 1;
    return read_seeds(s, c->nodes, c->nodes_n, NODE_PORT);
}

static void make_logins(struct redis_settings *s, const struct redis_config *c)
{
    s->tls_name = copy(c->tls_name);
    s->sentinel_user = copy(c->sentinel_user);
    s->sentinel_password = copy(c->sentinel_password);
    s->login = (struct redis_login){
        .user = s->url.user,
        .password = s->url.password,
        .db = s->url.db,
        .tls = s->url.tls ? tls_context_hold(c->tls) : NULL,
        .tls_name = s->tls_name,
    };
    s->scout = s->login;
    if (s->mode != REDIS_SENTINEL) return;
    s->scout.user = s->sentinel_user;
    s->scout.password = s->sentinel_password;
    s->scout.db = 0;
}

const char *redis_settings_read(struct redis_settings *out, const struct redis_config *c)
{
    memset(out, 0, sizeof *out);
    buf_init(&out->prefix, NULL);
    buf_init(&out->channel, NULL);
    out->mode = c->cluster ? REDIS_CLUSTER : c->sentinels_n ? REDIS_SENTINEL : REDIS_SINGLE;
    const char *wrong = redis_url_parse(c->url, &out->url);
    if (!wrong) wrong = contradiction(out, c);
    if (!wrong) wrong = read_places(out, c);
    if (wrong) {
        redis_settings_finish(out);
        return wrong;
    }
    make_logins(out, c);
    buf_add_slice(&out->prefix, c->track_prefix);
    if (c->track_prefix.n) buf_printf(&out->channel, "%.*sflush", (int)c->track_prefix.n, c->track_prefix.p);
    return NULL;
}

void redis_settings_finish(struct redis_settings *s)
{
    if (s->sentinel_password) explicit_bzero(s->sentinel_password, strlen(s->sentinel_password));
    for (size_t i = 0; i < s->seeds_n; i++)
        redis_url_finish(&s->seeds[i]);
    tls_context_release(s->login.tls);
    redis_url_finish(&s->url);
    free(s->seeds);
    free(s->tls_name);
    free(s->sentinel_user);
    free(s->sentinel_password);
    buf_free(&s->prefix);
    buf_free(&s->channel);
    memset(s, 0, sizeof *s);
}
