/* proxy/own: endpoints of our own, the steps collect and answer. Called by route. Refuses bodies over 64 KiB, other
   methods, on the admin address whoever lacks its token, and on the main port large answers when too many are unread. */
#include "proxy/own.h"

#include <openssl/crypto.h>
#include "base/json.h"
#include "base/log.h"
#include "base/metric.h"
#include "http/writer.h"
#include "proxy/authorize.h"
#include "proxy/flush.h"
#include "proxy/gauges.h"
#include "proxy/ready.h"
#include "proxy/reply.h"

#define BODY_MAX 65536
#define LARGE_BYTES 65536     /* an answer of ours that is not taken stands whole in memory, unlike one of the API */
#define LARGE_UNREAD_MAX 16

enum where { EVERYWHERE, ADMIN_OR_PUBLIC, ADMIN_ONLY };

struct own {
    struct slice path;
    struct slice method; /* GET takes HEAD too */
    enum where where;
    bool open;           /* needs no admin token */
    enum step_result (*answer)(struct request *r);
};

static enum step_result answer_health(struct request *r);
static enum step_result answer_ready(struct request *r);
static enum step_result answer_metrics(struct request *r);
static enum step_result answer_metrics_json(struct request *r);
static enum step_result answer_authorize(struct request *r);
static enum step_result answer_flush(struct request *r);
static enum step_result answer_jwks(struct request *r);

#define TEXT(lit) {lit, sizeof lit - 1}
static const struct own table[] = {
    {TEXT("/health"), TEXT("GET"), EVERYWHERE, true, answer_health},
    {TEXT("/ready"), TEXT("GET"), EVERYWHERE, true, answer_ready},
    {TEXT("/metrics"), TEXT("GET"), ADMIN_OR_PUBLIC, false, answer_metrics},
    {TEXT("/metrics/json"), TEXT("GET"), ADMIN_OR_PUBLIC, false, answer_metrics_json},
    {TEXT("/authorize"), TEXT("POST"), ADMIN_OR_PUBLIC, false, answer_authorize},
    {TEXT("/cache/flush"), TEXT("POST"), ADMIN_ONLY, false, answer_flush},
    {TEXT("/.well-known/jwks.json"), TEXT("GET"), EVERYWHERE, true, answer_jwks},
};

static const struct slice json_type = TEXT("application/json; charset=utf-8");
static const struct slice text_type = TEXT("text/plain; version=0.0.4; charset=utf-8");

const struct own *own_find(const struct request *r)
{
    const struct conf *conf = r->conf;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const struct own *o = &table[i];
        if (!slice_eq(o->path, r->target.path)) continue;
        if (o->answer == answer_jwks && conf->grant.format != CONF_GRANT_JWS) return NULL;
        bool here = o->where == EVERYWHERE || r->conn->admin ||
                    (o->where == ADMIN_OR_PUBLIC && conf->serve.public_endpoints);
        return here ? o : NULL;
    }
    return NULL;
}

bool own_is_health(const struct own *o)
{
    return o && (o->answer == answer_health || o->answer == answer_ready);
}

struct slice own_name(const struct own *o)
{
    return o->path;
}

/* On the admin address the token, where one is set; compared without telling by time. */
static bool is_admitted(const struct request *r)
{
    struct slice token = r->conf->admin.token;
    if (!r->conn->admin || token.n == 0 || r->own->open) return true;
    size_t n;
    const struct header *h = head_find(r->head, HEADER_AUTHORIZATION, &n);
    struct slice prefix = SLICE("Bearer ");
    if (n != 1 || h->value.n != prefix.n + token.n) return false;
    return slice_eq_nocase(slice_make(h->value.p, prefix.n), prefix) &&
           CRYPTO_memcmp(h->value.p + prefix.n, token.p, token.n) == 0;
}

enum step_result step_collect(struct request *r)
{
    bool head = slice_eq(r->head->method, SLICE("HEAD")) && slice_eq(r->own->method, SLICE("GET"));
    if (!head && !slice_eq(r->head->method, r->own->method)) {
        r->allow = slice_eq(r->own->method, SLICE("GET")) ? SLICE("GET, HEAD") : r->own->method;
        return request_fail(r, REASON_METHOD, NULL);
    }
    if (!is_admitted(r)) {
        bool sent = head_find(r->head, HEADER_AUTHORIZATION, NULL) != NULL;
        return request_fail(r, sent ? REASON_CREDENTIAL_REJECTED : REASON_CREDENTIAL_MISSING, "the admin token");
    }
    if (r->conn->parser.complete) {
        r->step = STEP_ANSWER;
        return STEP_NEXT;
    }
    if (r->body_held && r->head->expect_continue) {
        struct slice interim = SLICE("HTTP/1.1 100 Continue\r\n\r\n");
        stream_send(&r->conn->stream, &interim, 1);
    }
    r->body_held = false;
    budget_hold(&r->budget);
    return STEP_WAIT;
}

void own_body(struct request *r, struct slice data)
{
    if (r->body.n + data.n > BODY_MAX)
        r->body_over = true;
    else
        buf_add_slice(&r->body, data);
}

/* Whoever asks again and again for what is large and reads nothing of it. */
static void count_unread(struct conn *c)
{
    if (c->large_unread || c->admin || stream_queued(&c->stream) <= LARGE_BYTES) return;
    c->large_unread = true;
    c->proxy->large_unread++;
}

/* How large metrics are nobody knows before they are written; of /authorize it is known. */
static bool may_be_large(const struct request *r)
{
    if (r->own->answer == answer_authorize) return r->decision && r->decision->rendered.n > LARGE_BYTES;
    return !r->own->open;
}

enum step_result step_answer(struct request *r)
{
    struct conn *c = r->conn;
    budget_go_on(&r->budget);
    if (may_be_large(r) && !c->admin && r->proxy->large_unread >= LARGE_UNREAD_MAX)
        return request_fail(r, REASON_CONNECTIONS, "large answers that nobody reads");
    enum step_result result = r->own->answer(r);
    count_unread(c);
    return result;
}

static struct slice now_text(const struct request *r)
{
    char *text = arena_alloc(r->arena, LOG_TIME_BYTES);
    log_time(loop_wall_ms(r->proxy->loop), text);
    return slice_str(text);
}

static enum step_result answer_health(struct request *r)
{
    struct buf out;
    struct json j;
    buf_init(&out, r->arena);
    json_init(&j, &out);
    json_object_start(&j);
    json_field_string(&j, "status", SLICE("healthy"));
    json_field_string(&j, "timestamp", now_text(r));
    json_field_string(&j, "service", r->conf->serve.service);
    json_object_end(&j);
    return reply_body(r, 200, json_type, buf_slice(&out));
}

static enum step_result answer_ready(struct request *r)
{
    struct buf out;
    buf_init(&out, r->arena);
    bool ready = ready_write(r->proxy->ready, &out);
    return reply_body(r, ready ? 200 : 503, json_type, buf_slice(&out));
}

static enum step_result answer_metrics(struct request *r)
{
    struct buf out;
    buf_init(&out, r->arena);
    gauges_update(r->proxy);
    metric_text(&out);
    return reply_body(r, 200, text_type, buf_slice(&out));
}

static enum step_result answer_metrics_json(struct request *r)
{
    struct buf out;
    buf_init(&out, r->arena);
    gauges_update(r->proxy);
    metric_json(&out, now_text(r));
    return reply_body(r, 200, json_type, buf_slice(&out));
}

static enum step_result answer_authorize(struct request *r)
{
    return r->ask ? authorize_answer(r) : authorize_begin(r);
}

static void on_announced(struct announce_call *c)
{
    request_run(container_of(c, struct request, announce_call));
}

/* Once more when the others have been told, or could not be. */
static enum step_result answer_flush(struct request *r)
{
    struct flush_scope scope;
    if (!r->flushed) {
        struct slice wrong = flush_read(buf_slice(&r->body), &scope);
        if (wrong.n) {
            r->message = wrong;
            return request_fail(r, REASON_BODY_INVALID, NULL);
        }
        flush_apply(r->proxy, &scope, false);
        r->flushed = true;
        r->announce_call.on_done = on_announced;
        if (announce_flush(r->proxy->announce, &scope, &r->announce_call) == OP_PENDING) return STEP_WAIT;
    }
    return reply_body(r, 200, json_type,
                      r->announce_call.published ? SLICE("{\"flushed\":true,\"published\":true}")
                                                 : SLICE("{\"flushed\":true,\"published\":false}"));
}

static enum step_result answer_jwks(struct request *r)
{
    return reply_body(r, 200, json_type, grant_jwks(r->settings->grant));
}
