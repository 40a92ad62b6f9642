/* proxy/ready: what we depend on, probed in the background. Called by own for /ready. Policy: something defined for a
   fixed input. Upstreams: what health knows of their addresses. Redis: only ever degraded. */
#include "proxy/ready.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/json.h"
#include "base/log.h"
#include "conf/compare.h"
#include "proxy/policies.h"
#include "proxy/upstream_report.h"

#define PROBE_TIMEOUT_MS 5000
#define PROBE_RETRY_MS 1000 /* while something is down */
#define PROBE_BYTES 1048576

struct ready {
    struct proxy *proxy;
    struct deadline next;
    struct fetch_call *call;    /* the probe of the policy that is out */
    bool ok;
    const char *state;          /* fixed text */
    int64_t checked_ms;         /* monotonic; 0: never */
};

static void on_probe_due(struct deadline *d);
static void on_probe_answer(const struct fetch_answer *a, void *arg);

static const struct slice probe_input = {
    "{\"input\":{\"user\":{\"id\":\"anonymous\",\"username\":\"anonymous\",\"roles\":[],\"offices\":[],"
    "\"authenticated\":false},\"resource\":\"health\",\"action\":\"read\",\"context\":{\"method\":\"GET\","
    "\"path\":\"/health\",\"query\":{}},\"request\":{\"method\":\"GET\",\"path\":\"/health\",\"segments\":"
    "[\"health\"],\"query\":{},\"host\":\"\",\"id\":\"probe\"}}}",
    0};

static const struct conf *conf_of(const struct ready *d)
{
    return d->proxy->settings->conf;
}

static void probe(struct ready *d)
{
    const struct conf *conf = conf_of(d);
    if (conf->policy.url.n == 0) return; /* no route asks one, or it is in this process */
    struct arena a;
    arena_init(&a);
    struct slice lines[] = {SLICE("Content-Type: application/json"), SLICE("")};
    if (conf->policy.authorization.n) lines[1] = arena_printf(&a, "Authorization: %s", conf->policy.authorization.p);
    struct fetch_tls tls = {conf->policy.tls.ca, conf->policy.tls.certificate, conf->policy.tls.key};
    struct fetch_request q = {
        .method = SLICE("POST"),
        .url = conf->policy.url,
        .headers = lines,
        .headers_n = 1 + (lines[1].n > 0),
        .body = slice_str(probe_input.p),
        .timeout_ms = PROBE_TIMEOUT_MS,
        .max_bytes = PROBE_BYTES,
        .tls = &tls,
    };
    d->call = fetch_start(d->proxy->fetch, &q, on_probe_answer, d);
    arena_reset(&a);
}

static void on_probe_due(struct deadline *deadline)
{
    probe(container_of(deadline, struct ready, next));
}

static bool has_result(struct slice body)
{
    json_t *doc = json_loadb(body.p ? body.p : "", body.n, JSON_REJECT_DUPLICATES, NULL);
    json_t *result = json_object_get(doc, "result");
    bool defined = result && !json_is_null(result);
    json_decref(doc);
    return defined;
}

static const char *judge(const struct fetch_answer *a, bool *ok)
{
    *ok = false;
    if (a->outcome != FETCH_ANSWERED) return a->error ? a->error : "no answer";
    if (a->status != 200) return "answers with an error status";
    *ok = has_result(a->body);
    return *ok ? "available" : "the policy path is undefined";
}

static void on_probe_answer(const struct fetch_answer *a, void *arg)
{
    struct ready *d = arg;
    bool before = d->ok, first = d->checked_ms == 0;
    d->call = NULL;
    d->state = judge(a, &d->ok);
    d->checked_ms = loop_now_ms(d->proxy->loop);
    if (d->ok) decisions_wake(d->proxy->settings->decisions);
    if ((first || before != d->ok) && log_on(d->ok ? LOG_INFO : LOG_WARN)) {
        struct log_line line;
        log_begin(&line, d->ok ? LOG_INFO : LOG_WARN, d->ok ? SLICE("dependency_up") : SLICE("dependency_down"));
        json_field_string(&line.json, "dependency", SLICE("policy"));
        json_field_string(&line.json, "detail", slice_str(d->state));
        log_end(&line);
    }
    int64_t interval = conf_of(d)->serve.probe_interval_ms;
    deadline_after(d->proxy->loop, &d->next, d->ok || interval < PROBE_RETRY_MS ? interval : PROBE_RETRY_MS);
}

static void begin(struct ready *d)
{
    d->ok = false;
    d->checked_ms = 0;
    d->state = "not probed yet";
    probe(d);
}

struct ready *ready_create(struct proxy *proxy)
{
    struct ready *d = xzalloc(sizeof *d);
    d->proxy = proxy;
    deadline_init(&d->next, on_probe_due);
    begin(d);
    return d;
}

void ready_adjust(struct ready *d, const struct conf *before)
{
    if (conf_same(before, conf_of(d), "policy.") && conf_same(before, conf_of(d), "serve.probe_interval_ms")) return;
    ready_stop(d);
    if (!conf_of(d)->policy.url.n || !before->policy.url.n)
        begin(d);
    else
        probe(d);
}

void ready_stop(struct ready *d)
{
    deadline_stop(&d->next);
    if (d->call) fetch_cancel(d->call);
    d->call = NULL;
}

void ready_free(struct ready *d)
{
    free(d);
}

static void write_row(struct json *j, const char *kind, struct slice name, bool ok, const char *state, int64_t age_ms)
{
    json_object_start(j);
    json_field_string(j, "kind", slice_str(kind));
    json_field_string(j, "name", name);
    json_field_bool(j, "ok", ok);
    json_field_string(j, "state", slice_str(state));
    if (age_ms >= 0) json_field_int(j, "age_ms", age_ms);
    json_object_end(j);
}

/* What could not be evaluated is not in force. */
static void write_embedded(const struct settings *s, struct json *j)
{
    json_object_start(j);
    json_field_string(j, "kind", SLICE("policy"));
    json_field_string(j, "name", SLICE("policy"));
    json_field_bool(j, "ok", true);
    json_field_string(j, "state", SLICE("in this process"));
    policies_write(s, j);
    json_object_end(j);
}

static bool write_issuers(const struct ready *d, struct json *j)
{
    bool all = true;
    for (size_t i = 0; i < tokens_issuers(d->proxy->tokens); i++) {
        struct issuer_state s;
        tokens_issuer_state(d->proxy->tokens, i, &s);
        all &= s.usable;
        write_row(j, "issuer", s.issuer, s.usable, s.error ? s.error : s.usable ? "keys loaded" : "no keys", s.age_ms);
    }
    return all;
}

static bool write_redis(const struct ready *d, struct json *j, int64_t now)
{
    struct redis_state s;
    if (!d->proxy->redis) return true;
    redis_state(d->proxy->redis, &s);
    char master[320];
    snprintf(master, sizeof master, "connected to %s", s.master ? s.master : "");
    const char *detail = s.connected ? s.master ? master : "connected" : s.error ? s.error : "not connected";
    write_row(j, "redis", SLICE("redis"), s.connected, detail, now - s.since_ms);
    return s.connected;
}

static void write_configuration(const struct settings *s, struct json *j)
{
    char time[LOG_TIME_BYTES];
    log_time(s->loaded_wall_ms, time);
    json_field(j, "configuration");
    json_object_start(j);
    json_field_int(j, "revision", (long long)s->revision);
    json_field_string(j, "digest", slice_str(s->digest));
    json_field_string(j, "loaded", slice_str(time));
    json_object_end(j);
}

/* Ready are those that should be there: all of them. Who is not says why. */
static bool write_workers(const struct team_call *all, struct json *j)
{
    bool ready = all->whole;
    json_field(j, "workers");
    json_array_start(j);
    for (size_t i = 0; i < all->parts_n; i++) {
        const struct team_part *part = &all->parts[i];
        ready &= part->good;
        json_object_start(j);
        json_field_int(j, "worker", part->worker);
        json_field_int(j, "pid", part->pid);
        json_field_string(j, "state", slice_str(part->state));
        json_field_bool(j, "ready", part->good);
        if (!part->good && part->body.n) json_field_raw(j, "says", part->body);
        json_object_end(j);
    }
    json_array_end(j);
    return ready;
}

bool ready_write(const struct ready *d, const struct team_call *all, struct buf *out)
{
    struct proxy *p = d->proxy;
    int64_t now = loop_now_ms(p->loop);
    struct buf rows, workers;
    struct json j;
    buf_init(&rows, NULL);
    buf_init(&workers, NULL);
    json_init(&j, &rows);
    json_array_start(&j);
    bool ready = !p->draining, upstream = true;
    const struct settings *s = p->settings;
    for (size_t i = 0; i < s->conf->upstreams_n; i++) upstream &= upstream_ready(s->upstreams[i], &j);
    ready &= upstream;
    if (s->conf->policy.path.n) write_embedded(s, &j);
    if (s->conf->policy.url.n) {
        write_row(&j, "policy", SLICE("policy"), d->ok, d->state, d->checked_ms ? now - d->checked_ms : -1);
        ready &= d->ok;
    }
    ready &= write_issuers(d, &j);
    bool whole = write_redis(d, &j, now);
    json_array_end(&j);
    json_init(&j, &workers);
    if (all) ready &= write_workers(all, &j);
    char time[LOG_TIME_BYTES];
    log_time(loop_wall_ms(p->loop), time);
    json_init(&j, out);
    json_object_start(&j);
    json_field_string(&j, "status", ready ? SLICE("ready") : SLICE("not-ready"));
    json_field_string(&j, "downstream", upstream ? SLICE("available") : SLICE("unavailable"));
    json_field_bool(&j, "degraded", !whole);
    json_field_bool(&j, "draining", p->draining);
    write_configuration(s, &j);
    json_field_raw(&j, "dependencies", buf_slice(&rows));
    if (all) json_raw(&j, buf_slice(&workers));
    json_field_string(&j, "timestamp", slice_str(time));
    json_object_end(&j);
    buf_free(&rows);
    buf_free(&workers);
    return ready;
}
