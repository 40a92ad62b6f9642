/* proxy/reload: called by main on SIGHUP. Refuses a configuration of which anything cannot be read, compiled, bound or
   used, with all that is wrong with it. The few options that only a start can change keep their values, and it says so. */
#include "proxy/reload.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/log.h"
#include "base/metric.h"
#include "conf/compare.h"
#include "proxy/conn.h"
#include "proxy/listener.h"
#include "proxy/ready.h"
#include "proxy/supervisor.h"
#include "proxy/team.h"
#include "proxy/wire.h"

#define LISTENERS 2

struct names { /* of options, for a line of the log */
    struct json json;
    struct buf text;
    size_t n;
    bool fixed; /* only those that keep their values; else all others */
};

static bool is_fixed(const char *path)
{
    return strncmp(path, "redis.", 6) == 0 || strcmp(path, "serve.metrics_prefix") == 0 ||
           strcmp(path, "workers") == 0;
}

static void on_difference(const char *path, void *arg)
{
    struct names *n = arg;
    if (is_fixed(path) != n->fixed) return;
    n->n++;
    json_text(&n->json, slice_str(path));
}

static void names_of(struct names *n, const struct conf *before, const struct conf *after, bool fixed)
{
    n->n = 0;
    n->fixed = fixed;
    buf_init(&n->text, NULL);
    json_init(&n->json, &n->text);
    json_array_start(&n->json);
    conf_differences(before, after, on_difference, n);
    json_array_end(&n->json);
}

static void count(const char *result)
{
    struct slice label = slice_str(result);
    metric_add(METRIC_CONFIG_RELOADS, &label, 1);
}

/* text: lines. */
static void tell_lines(enum log_level level, struct slice event, const char *member, struct slice text)
{
    struct slice one;
    if (!log_on(level)) return;
    struct log_line line;
    log_begin(&line, level, event);
    json_key(&line.json, slice_str(member));
    json_array_start(&line.json);
    while (slice_next(&text, '\n', &one))
        if (one.n) json_text(&line.json, one);
    json_array_end(&line.json);
    log_end(&line);
}

static bool refuse(struct slice errors)
{
    tell_lines(LOG_ERROR, SLICE("reload_refused"), "errors", errors);
    count("refused");
    return false;
}

bool reload_refuse(char *error)
{
    refuse(slice_str(error));
    free(error);
    return false;
}

static struct conf *load(const struct conf_source *source, bool quiet)
{
    struct buf errors, warnings;
    struct conf_source now = *source;
    now.hurried = true;
    buf_init(&errors, NULL);
    buf_init(&warnings, NULL);
    struct conf *conf = conf_load(&now, &errors, &warnings);
    if (!conf)
        refuse(buf_slice(&errors));
    else if (warnings.n && !quiet)
        tell_lines(LOG_WARN, SLICE("configuration_warnings"), "warnings", buf_slice(&warnings));
    buf_free(&errors);
    buf_free(&warnings);
    return conf;
}

/* What only a start can change: the connections to Redis, and the names that metrics have. */
static void keep_fixed(struct conf *conf, const struct conf *before, bool quiet)
{
    struct names kept;
    names_of(&kept, before, conf, true);
    if (kept.n && !quiet && log_on(LOG_WARN)) {
        struct log_line line;
        log_begin(&line, LOG_WARN, SLICE("reload_partly"));
        json_field_string(&line.json, "detail", SLICE("these options keep their values until the next start"));
        json_field_raw(&line.json, "options", buf_slice(&kept.text));
        log_end(&line);
    }
    buf_free(&kept.text);
    conf->redis = before->redis;
    conf->serve.metrics_prefix = before->serve.metrics_prefix;
    conf->workers = before->workers;
}

struct settings *reload_read(const struct conf_source *source, const struct conf *before, unsigned workers, bool quiet)
{
    char *error = NULL;
    struct conf *conf = load(source, quiet);
    if (!conf) return NULL;
    workers_share(conf, workers);
    keep_fixed(conf, before, quiet);
    struct settings *s = settings_create(conf, &error);
    if (!s) reload_refuse(error);
    return s;
}

struct address_of { /* one that we listen on */
    struct slice host;
    int port;
};

static struct address_of address(const struct conf *c, size_t i)
{
    if (i) return (struct address_of){c->admin.host, c->admin.port};
    return (struct address_of){c->listen.host, c->listen.port};
}

bool reload_moves(const struct conf *before, const struct conf *c, size_t i)
{
    struct address_of old = address(before, i), new = address(c, i);
    return !slice_eq(old.host, new.host) || (new.host.n && old.port != new.port);
}

/* Those that are new are open then; *moved says which are other ones than before. */
static bool open_listeners(struct proxy *p, const struct conf *c, struct listener *opened[LISTENERS],
                           bool moved[LISTENERS], char **error)
{
    for (size_t i = 0; i < LISTENERS; i++) {
        opened[i] = NULL;
        moved[i] = reload_moves(p->settings->conf, c, i);
    }
    for (size_t i = 0; i < LISTENERS; i++) {
        struct address_of new = address(c, i);
        if (!moved[i] || new.host.n == 0) continue;
        opened[i] = listener_create(p, new.host, new.port, i == 1, NULL, error);
        if (!opened[i]) return false;
    }
    return true;
}

static void close_all(struct listener *opened[LISTENERS])
{
    for (size_t i = 0; i < LISTENERS; i++) listener_close(opened[i]);
}

static void swap_listeners(struct proxy *p, struct listener *opened[LISTENERS], const bool moved[LISTENERS])
{
    for (size_t i = 0; i < LISTENERS; i++) {
        if (!moved[i]) continue;
        listener_rest(p->listeners[i]);
        listener_close(p->listeners[i]);
        p->listeners[i] = opened[i];
    }
    if (moved[0]) team_close_listeners(p->team, true);
}

/* Nothing can go wrong any more. */
static void swap(struct proxy *p, struct settings *s)
{
    struct settings *before = p->settings;
    settings_attach(s, p, before);
    p->settings = s;
    log_set_level(s->conf->log.level);
    for (struct list *at = p->conns.next; at != &p->conns && s->idle_timeout != before->idle_timeout; at = at->next)
        conn_adjust(container_of(at, struct conn, link));
    ready_adjust(p->ready, before->conf);
}

void reload_tell(const struct settings *s, const struct conf *before)
{
    struct names changed;
    names_of(&changed, before, s->conf, false);
    count("ok");
    if (log_on(LOG_INFO)) {
        struct log_line line;
        log_begin(&line, LOG_INFO, SLICE("reloaded"));
        json_field_int(&line.json, "revision", (long long)s->revision);
        json_field_string(&line.json, "digest", slice_str(s->digest));
        json_field_raw(&line.json, "changed", buf_slice(&changed.text));
        log_end(&line);
    }
    buf_free(&changed.text);
}

void reload_tell_revision(const struct proxy *p)
{
    metric_set(METRIC_CONFIG_REVISION, NULL, (double)p->settings->revision);
    metric_set(METRIC_CONFIG_LOADED, NULL, (double)(p->settings->loaded_wall_ms / 1000));
}

void reload_ignore(struct slice why)
{
    log_event(LOG_WARN, "reload_ignored", why);
    count("ignored");
}

bool reload(struct proxy *p, const struct conf_source *source)
{
    if (p->draining) {
        reload_ignore(SLICE("draining"));
        return false;
    }
    char *error = NULL;
    struct settings *s = reload_read(source, p->settings->conf, team_workers(p->team), p->team != NULL);
    if (!s) return false;
    struct listener *opened[LISTENERS];
    bool moved[LISTENERS];
    if (!open_listeners(p, s->conf, opened, moved, &error) || !wire_retoken(s->wire, p, &error)) {
        close_all(opened);
        settings_release(s);
        return reload_refuse(error);
    }
    struct settings *before = p->settings;
    swap(p, s);
    swap_listeners(p, opened, moved);
    reload_tell_revision(p);
    if (p->team)
        log_event(LOG_DEBUG, "reloaded", SLICE(""));
    else
        reload_tell(p->settings, before->conf);
    settings_release(before);
    return true;
}

bool reload_policies(struct proxy *p, const struct conf_source *source)
{
    const struct conf *c = p->settings->conf;
    struct conf_source again = *source;
    again.files = conf_files_again(c, c->policy.path.p);
    bool taken = reload(p, &again);
    conf_files_destroy(again.files);
    return taken;
}
