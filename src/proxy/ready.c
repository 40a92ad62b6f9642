/* proxy/ready: what we depend on, probed in the background. Called by own for /ready. Policy: something defined for a
   fixed input. Upstream: any status under 500. Redis: only ever degraded. */
#include "proxy/ready.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/json.h"
#include "base/log.h"

#define PROBE_TIMEOUT_MS 5000
#define PROBE_RETRY_MS 1000 /* while something is down */
#define PROBE_BYTES 1048576

struct probe {
    struct ready *ready;
    struct slice name;          /* of the upstream, or "policy" */
    char *url;
    struct slice authorization; /* a whole line, or empty */
    bool policy;
    struct fetch_call *call;
    bool ok;
    const char *state;          /* fixed text */
    int64_t checked_ms;         /* monotonic; 0: never */
};

struct ready {
    struct proxy *proxy;
    struct deadline next;
    struct probe *probes;
    size_t n;
    size_t out;
};

static void on_probe_due(struct deadline *d);
static void on_probe_answer(const struct fetch_answer *a, void *arg);

static const struct slice probe_input = {
    "{\"input\":{\"user\":{\"id\":\"anonymous\",\"username\":\"anonymous\",\"roles\":[],\"offices\":[],"
    "\"authenticated\":false},\"resource\":\"health\",\"action\":\"read\",\"context\":{\"method\":\"GET\","
    "\"path\":\"/health\",\"query\":{}},\"request\":{\"method\":\"GET\",\"path\":\"/health\",\"segments\":"
    "[\"health\"],\"query\":{},\"host\":\"\",\"id\":\"probe\"}}}",
    0};

static void probe(struct probe *p)
{
    struct slice lines[] = {SLICE("Content-Type: application/json"), p->authorization};
    struct fetch_request q = {
        .method = p->policy ? SLICE("POST") : SLICE("HEAD"),
        .url = slice_str(p->url),
        .headers = p->policy ? lines : NULL,
        .headers_n = p->policy ? 1 + (p->authorization.n > 0) : 0,
        .body = p->policy ? slice_str(probe_input.p) : SLICE(""),
        .timeout_ms = PROBE_TIMEOUT_MS,
        .max_bytes = PROBE_BYTES,
    };
    p->ready->out++;
    p->call = fetch_start(p->ready->proxy->fetch, &q, on_probe_answer, p);
}

static void probe_all(struct ready *d)
{
    for (size_t i = 0; i < d->n; i++)
        if (!d->probes[i].call) probe(&d->probes[i]);
}

static void on_probe_due(struct deadline *deadline)
{
    probe_all(container_of(deadline, struct ready, next));
}

static bool has_result(struct slice body)
{
    json_t *doc = json_loadb(body.p ? body.p : "", body.n, JSON_REJECT_DUPLICATES, NULL);
    json_t *result = json_object_get(doc, "result");
    bool defined = result && !json_is_null(result);
    json_decref(doc);
    return defined;
}

static const char *judge(const struct probe *p, const struct fetch_answer *a, bool *ok)
{
    *ok = false;
    if (a->outcome != FETCH_ANSWERED) return a->error ? a->error : "no answer";
    if (!p->policy) {
        *ok = a->status < 500;
        return *ok ? "available" : "answers with a server error";
    }
    if (a->status != 200) return "answers with an error status";
    *ok = has_result(a->body);
    return *ok ? "available" : "the policy path is undefined";
}

static void on_probe_answer(const struct fetch_answer *a, void *arg)
{
    struct probe *p = arg;
    struct ready *d = p->ready;
    bool before = p->ok, first = p->checked_ms == 0;
    p->call = NULL;
    p->state = judge(p, a, &p->ok);
    p->checked_ms = loop_now_ms(d->proxy->loop);
    if ((first || before != p->ok) && log_on(p->ok ? LOG_INFO : LOG_WARN)) {
        struct log_line line;
        log_begin(&line, p->ok ? LOG_INFO : LOG_WARN, p->ok ? SLICE("dependency_up") : SLICE("dependency_down"));
        json_field_string(&line.json, "dependency", p->policy ? SLICE("policy") : SLICE("upstream"));
        if (!p->policy) json_field_string(&line.json, "name", p->name);
        json_field_string(&line.json, "detail", slice_str(p->state));
        log_end(&line);
    }
    if (--d->out) return;
    bool all = true;
    for (size_t i = 0; i < d->n; i++) all &= d->probes[i].ok;
    int64_t interval = d->proxy->settings->conf->serve.probe_interval_ms;
    deadline_after(d->proxy->loop, &d->next, all || interval < PROBE_RETRY_MS ? interval : PROBE_RETRY_MS);
}

static void add_probe(struct ready *d, bool policy, struct slice name, struct slice url)
{
    struct probe *p = &d->probes[d->n++];
    p->ready = d;
    p->policy = policy;
    p->name = name;
    p->url = xstrndup(url.p, url.n);
    p->state = "not probed yet";
}

struct ready *ready_create(struct proxy *proxy)
{
    const struct conf *conf = proxy->settings->conf;
    struct ready *d = xzalloc(sizeof *d);
    d->proxy = proxy;
    deadline_init(&d->next, on_probe_due);
    d->probes = xzalloc((conf->upstreams_n + 1) * sizeof *d->probes);
    struct arena a;
    arena_init(&a);
    for (size_t i = 0; i < conf->upstreams_n; i++) {
        const struct conf_upstream *u = &conf->upstreams[i];
        add_probe(d, false, u->name,
                  arena_printf(&a, "http://%s%s/", u->endpoints[0].authority.p, u->base_path.n ? u->base_path.p : ""));
    }
    if (conf->policy.url.n) {
        add_probe(d, true, SLICE("policy"), conf->policy.url);
        struct slice auth = conf->policy.authorization;
        if (auth.n) {
            struct slice line = arena_printf(&a, "Authorization: %s", auth.p);
            d->probes[d->n - 1].authorization = slice_make(xstrndup(line.p, line.n), line.n);
        }
    }
    arena_reset(&a);
    probe_all(d);
    return d;
}

void ready_stop(struct ready *d)
{
    deadline_stop(&d->next);
    for (size_t i = 0; i < d->n; i++) {
        if (d->probes[i].call) fetch_cancel(d->probes[i].call);
        d->probes[i].call = NULL;
    }
}

void ready_free(struct ready *d)
{
    for (size_t i = 0; i < d->n; i++) {
        free(d->probes[i].url);
        free((char *)(uintptr_t)d->probes[i].authorization.p);
    }
    free(d->probes);
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

bool ready_write(const struct ready *d, struct buf *out)
{
    struct proxy *p = d->proxy;
    int64_t now = loop_now_ms(p->loop);
    struct buf rows;
    struct json j;
    buf_init(&rows, NULL);
    json_init(&j, &rows);
    json_array_start(&j);
    bool ready = !p->draining, upstream = true;
    for (size_t i = 0; i < d->n; i++) {
        const struct probe *probe_row = &d->probes[i];
        ready &= probe_row->ok;
        if (!probe_row->policy) upstream &= probe_row->ok;
        write_row(&j, probe_row->policy ? "policy" : "upstream", probe_row->name, probe_row->ok, probe_row->state,
                  probe_row->checked_ms ? now - probe_row->checked_ms : -1);
    }
    ready &= write_issuers(d, &j);
    bool whole = write_redis(d, &j, now);
    json_array_end(&j);
    char time[LOG_TIME_BYTES];
    log_time(loop_wall_ms(p->loop), time);
    json_init(&j, out);
    json_object_start(&j);
    json_field_string(&j, "status", ready ? SLICE("ready") : SLICE("not-ready"));
    json_field_string(&j, "downstream", upstream ? SLICE("available") : SLICE("unavailable"));
    json_field_bool(&j, "degraded", !whole);
    json_field_bool(&j, "draining", p->draining);
    json_field_raw(&j, "dependencies", buf_slice(&rows));
    json_field_string(&j, "timestamp", slice_str(time));
    json_object_end(&j);
    buf_free(&rows);
    return ready;
}
