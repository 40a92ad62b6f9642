/* See flow/flow.h. */
#include "flow/flow.h"

#include <jansson.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "base/metric.h"
#include "proxy/conn.h"
#include "proxy/peer.h"
#include "proxy/reload.h"
#include "unit/authz/token_maker.h"

struct flow flow;

static const char default_routes[] =
    "[{prefix: /public, access: public}, {prefix: /me, access: authenticated}, {prefix: /, access: authorized}]";
static const char default_issuers[] =
    "[{issuer: \"" FLOW_ISSUER "\", secret: \"" FLOW_SECRET "\", audiences: [api], algorithms: [HS256]}]";

static const char *given_or(const char *given, const char *otherwise)
{
    return given ? given : otherwise;
}

static void write_yaml(FILE *f, const struct flow_config *c)
{
    fprintf(f,
            "listen: {header_timeout_ms: %d, idle_timeout_ms: %d, body_idle_timeout_ms: %d, "
            "websocket_idle_timeout_ms: 90000%s%s}\n",
            c->header_ms ? c->header_ms : HEADER_MS, c->idle_ms ? c->idle_ms : IDLE_MS,
            c->body_ms ? c->body_ms : BODY_MS, c->listen ? ", " : "", given_or(c->listen, ""));
    fprintf(f,
            "upstream: {url: \"http://api.test:7001\", connect_timeout_ms: %d, response_timeout_ms: %d, "
            "idle_timeout_ms: %d%s%s}\n",
            CONNECT_MS, RESPONSE_MS, POOL_MS, c->upstream ? ", " : "", given_or(c->upstream, ""));
    fprintf(f, "tokens: {issuers: %s%s%s}\n", given_or(c->issuers, default_issuers), c->tokens ? ", " : "",
            given_or(c->tokens, ""));
    fprintf(f, "context: {%s}\n", given_or(c->context, "url: \"http://api.test:7001/profile\""));
    fprintf(f, "policy: {%s}\n", given_or(c->policy, "url: \"http://opa.test:8181/v1/data/policy\""));
    fprintf(f, "decisions: {jitter: 0}\ngrant: {%s}\n", given_or(c->grant, ""));
    fprintf(f, "serve: {probe_interval_ms: 3600000%s%s}\nroutes: %s\n%s\n", c->serve ? ", " : "",
            given_or(c->serve, ""), given_or(c->routes, default_routes), given_or(c->more, ""));
}

/* name: a template of mkstemp. */
static void write_config(char *name, const struct flow_config *c)
{
    FILE *f = fdopen(mkstemp(name), "w");
    CHECK(f, "a file for the configuration");
    write_yaml(f, c);
    fclose(f);
}

static struct conf *load(const struct flow_config *c)
{
    char name[] = "/tmp/doorward-flow-XXXXXX";
    write_config(name, c);
    struct buf errors, warnings;
    buf_init(&errors, NULL);
    buf_init(&warnings, NULL);
    struct conf_source source = {.file = name};
    struct conf *conf = conf_load(&source, &errors, &warnings);
    unlink(name);
    if (!conf) fail_msg("%.*s", (int)errors.n, errors.p);
    buf_free(&errors);
    buf_free(&warnings);
    return conf;
}

static void on_up_made(struct memory *m)
{
    CHECK(flow.ups_n < FLOW_UPS_MAX, "room for the upstream's connections");
    flow.ups[flow.ups_n++] = m;
}

static void on_drained(struct proxy *p)
{
    (void)p;
    flow.drained++;
}

void flow_start(const struct flow_config *c)
{
    static const struct flow_config none;
    char *error = NULL;
    if (flow.loop) _exit(1); /* the test before this one failed half-way: what follows would tell nothing */
    flow =
        (struct flow){.profile.body = "{\"id\":\"alice\",\"roles\":[\"reader\"]}", .policy.body = "{\"result\":true}"};
    arena_init(&flow.arena);
    struct conf *conf = load(c ? c : &none);
    flow.log_fd = memfd_create("log", MFD_CLOEXEC);
    log_open(flow.log_fd, conf->log.level);
    metric_init(conf->serve.metrics_prefix.p);
    fake_dial_reset();
    fake_dial_open = true;
    fake_dial_made = on_up_made;
    flow.loop = flow.proxy.loop = loop_create();
    flow.proxy.on_drained = on_drained;
    struct settings *settings = settings_create(conf, &error);
    if (!settings || !proxy_start(&flow.proxy, settings, &error)) fail_msg("%s", error);
    flow_turn();
}

bool flow_reload(const struct flow_config *c)
{
    char name[] = "/tmp/doorward-flow-XXXXXX";
    write_config(name, c);
    struct conf_source source = {.file = name};
    bool done = reload(&flow.proxy, &source);
    unlink(name);
    flow_turn();
    return done;
}

void flow_end(void)
{
    struct proxy *p = &flow.proxy;
    proxy_abort(p);
    flow_turn();
    assert_int_equal(p->conns_n, 0);
    proxy_finish(p);
    flow_turn();
    assert_int_equal(memory_alive(), 0);
    assert_int_equal(fake_dial_waiting(), 0);
    loop_close(flow.loop);
    loop_run(flow.loop);
    proxy_free(p);
    loop_destroy(flow.loop);
    flow.loop = NULL;
    metric_finish();
    log_close();
    close(flow.log_fd);
    memory_free_all();
    fake_resolve_reset();
    fake_check = NULL;
    arena_reset(&flow.arena);
    assert_int_equal(arena_chunks_out(), 0);
    arena_trim();
}

static void answer_one(struct fetch_call *c, const struct flow_answer *a)
{
    if (a->outcome == FETCH_ANSWERED)
        fake_fetch_answer(c, a->status ? a->status : 200, a->body);
    else
        fake_fetch_fail(c, a->outcome);
}

/* Probes always, the rest unless manual. */
static bool answer_fetch(void)
{
    bool any = false;
    struct fetch_call *next;
    if (!flow.proxy.fetch) return false; /* it has ended */
    for (struct fetch_call *c = flow.proxy.fetch->first; c; c = next) {
        next = c->next;
        if (c->state != FAKE_CALL_OPEN) continue;
        bool probe = strcmp(c->method, "HEAD") == 0 || strstr(c->body, "\"id\":\"probe\"");
        if (flow.manual && !probe) continue;
        bool policy = strstr(c->url, "/policy") != NULL;
        flow.probe_calls += probe;
        flow.policy_calls += policy && !probe;
        flow.profile_calls += !policy && !probe;
        any = true;
        if (probe)
            fake_fetch_answer(c, 200, "{\"result\":true}");
        else
            answer_one(c, policy ? &flow.policy : &flow.profile);
    }
    return any;
}

void flow_turn(void)
{
    bool moved = true;
    for (int i = 0; moved || i < 3; i++) {
        CHECK(i < 100000, "it comes to rest");
        loop_advance(flow.loop, 1);
        loop_turn(flow.loop);
        moved = memory_pump();
        moved |= fake_dial_pump();
        moved |= answer_fetch();
        if (!flow.manual && flow.proxy.redis) moved |= fake_redis_deliver(flow.proxy.redis) > 0;
    }
}

void flow_pass(int64_t ms)
{
    loop_advance(flow.loop, ms);
    flow_turn();
}

/* --- clients -------------------------------------------------------------------------------------------------------
 */

struct memory *flow_client(void)
{
    return flow_client_from("192.0.2.1", false);
}

struct memory *flow_client_from(const char *address, bool admin)
{
    struct conn *c = conn_create(&flow.proxy, admin);
    struct memory *m = memory_open(&c->stream, flow.loop, &conn_events);
    int a[4];
    CHECK(sscanf(address, "%d.%d.%d.%d", &a[0], &a[1], &a[2], &a[3]) == 4, "an IPv4 address");
    for (int i = 0; i < 4; i++)
        c->peer.bytes[i] = (uint8_t)a[i];
    c->peer.family = 4;
    snprintf(c->peer.text, sizeof c->peer.text, "%s", address);
    c->trusted = peer_is_trusted(flow.proxy.settings->conf, &c->peer);
    conn_begin(c);
    return m;
}

void flow_send_bytes(struct memory *m, const char *p, size_t n)
{
    memory_send(m, p, n);
    flow_turn();
}

void flow_send(struct memory *m, const char *format, ...)
{
    char *text;
    va_list args;
    va_start(args, format);
    int n = vasprintf(&text, format, args);
    va_end(args);
    CHECK(n >= 0, "a format");
    flow_send_bytes(m, text, (size_t)n);
    free(text);
}

void flow_stop(struct memory *m, int error)
{
    memory_end(m, error);
    flow_turn();
}

const char *flow_printf(const char *format, ...)
{
    char *text;
    va_list args;
    va_start(args, format);
    int n = vasprintf(&text, format, args);
    va_end(args);
    CHECK(n >= 0, "a format");
    const char *copy = arena_copy(&flow.arena, slice_make(text, (size_t)n)).p;
    free(text);
    return copy;
}

const char *flow_bearer_of(const char *header, const char *payload)
{
    return flow_printf("Authorization: %s\r\n",
                       maker_bearer_mac(&flow.arena, header, payload, "HS256", SLICE(FLOW_SECRET)));
}

const char *flow_bearer(const char *subject)
{
    long long exp = loop_wall_ms(flow.loop) / 1000 + 3600;
    return flow_bearer_of(
        "{\"alg\":\"HS256\",\"typ\":\"JWT\"}",
        flow_printf("{\"iss\":\"" FLOW_ISSUER "\",\"aud\":\"api\",\"sub\":\"%s\",\"exp\":%lld}", subject, exp));
}

const char *flow_get(const char *path, const char *subject)
{
    return flow_printf("GET %s HTTP/1.1\r\nHost: front.test\r\n%s\r\n", path, subject ? flow_bearer(subject) : "");
}

/* --- the upstream --------------------------------------------------------------------------------------------------
 */

struct memory *flow_up(size_t n)
{
    if (n >= flow.ups_n)
        fail_msg("upstream connection %zu was not made, %zu were; last reason: %s (%s)", n, flow.ups_n,
                 given_or(flow_logged("reason"), "none"), given_or(flow_logged("detail"), ""));
    return flow.ups[n];
}

struct memory *flow_asked(void)
{
    for (size_t i = flow.ups_n; i > 0; i--)
        if (flow.ups[i - 1]->got.n && !flow.ups[i - 1]->closed) return flow.ups[i - 1];
    return NULL;
}

void flow_serve(struct memory *up, const char *first_line, const char *body)
{
    struct message m = flow_take(up);
    assert_string_equal(m.first, first_line);
    flow_send(up, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n%s", strlen(body), body);
}

/* --- the log -------------------------------------------------------------------------------------------------------
 */

static const char *log_text(void)
{
    log_flush();
    off_t n = lseek(flow.log_fd, 0, SEEK_END);
    char *text = arena_alloc(&flow.arena, (size_t)n + 1);
    CHECK(pread(flow.log_fd, text, (size_t)n, 0) == n, "the log can be read");
    text[n] = '\0';
    return text;
}

/* Every line of the log is one JSON object; access lines are counted, the last one kept. */
static size_t read_lines(json_t **last)
{
    size_t n = 0;
    struct slice rest = slice_str(log_text()), line;
    *last = NULL;
    while (slice_next(&rest, '\n', &line)) {
        if (line.n == 0) continue;
        json_error_t error;
        json_t *doc = json_loadb(line.p, line.n, JSON_REJECT_DUPLICATES, &error);
        if (!json_is_object(doc)) fail_msg("not a JSON object: %.*s: %s", (int)line.n, line.p, error.text);
        const char *event = json_string_value(json_object_get(doc, "event"));
        if (event && strcmp(event, "request") == 0) {
            n++;
            json_decref(*last);
            *last = json_incref(doc);
        }
        json_decref(doc);
    }
    return n;
}

size_t flow_lines(void)
{
    json_t *last;
    size_t n = read_lines(&last);
    json_decref(last);
    return n;
}

const char *flow_logged(const char *key)
{
    json_t *last;
    const char *text = NULL;
    read_lines(&last);
    json_t *value = json_object_get(last, key);
    if (json_is_string(value)) {
        text = flow_printf("%s", json_string_value(value));
    } else if (value) {
        char *dump = json_dumps(value, JSON_ENCODE_ANY);
        text = flow_printf("%s", dump);
        free(dump);
    }
    json_decref(last);
    return text;
}

bool flow_log_holds(const char *text)
{
    return strstr(log_text(), text) != NULL;
}

void flow_expect_line(enum reason reason, const char *step)
{
    assert_string_equal(flow_logged("reason"), reason_code(reason));
    if (reason_status(reason)) assert_string_equal(flow_logged("status"), flow_printf("%d", reason_status(reason)));
    assert_string_equal(flow_logged("step"), step);
}

char *flow_bytes(size_t n)
{
    char *p = arena_alloc(&flow.arena, n + 1);
    uint32_t x = 2463534242u;
    for (size_t i = 0; i < n; i++) {
        x ^= x << 13, x ^= x >> 17, x ^= x << 5;
        p[i] = (char)('!' + x % 90);
    }
    p[n] = '\0';
    return p;
}
