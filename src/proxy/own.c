/* proxy/own: endpoints of our own, the steps collect and answer. Called by route. Refuses bodies over 64 KiB, other
   methods, on the admin address whoever lacks its token, and on the main port large answers when too many are unread. */
#include "proxy/own.h"

#include <openssl/crypto.h>
#include <stdio.h>

#include "base/json.h"
#include "base/log.h"
#include "base/metric.h"
#include "base/metric_sum.h"
#include "http/writer.h"
#include "proxy/authorize.h"
#include "proxy/flush.h"
#include "proxy/gauges.h"
#include "proxy/policies.h"
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
static enum step_result answer_authorize(struct request *r);
static enum step_result answer_flush(struct request *r);
static enum step_result answer_jwks(struct request *r);

#define TEXT(lit) {lit, sizeof lit - 1}
static const struct own table[] = {
    {TEXT("/health"), TEXT("GET"), EVERYWHERE, true, answer_health},
    {TEXT("/ready"), TEXT("GET"), EVERYWHERE, true, answer_ready},
    {TEXT("/metrics"), TEXT("GET"), ADMIN_OR_PUBLIC, false, answer_metrics},
    {TEXT("/metrics/json"), TEXT("GET"), ADMIN_OR_PUBLIC, false, answer_metrics},
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
    if (r->conf->policy.path.n) {
        json_field(&j, "policy");
        json_object_start(&j);
        policies_write(r->settings, &j);
        json_object_end(&j);
    }
    json_object_end(&j);
    return reply_body(r, 200, json_type, buf_slice(&out));
}

static void on_all_answered(struct team_call *c)
{
    request_run(c->arg);
}

/* In a team: true when all have to be asked first; then it comes again, with their answers in r->team_call. */
static bool asks_all(struct request *r, enum team_question q, const struct flush_scope *scope)
{
    if (!r->proxy->team || r->team_call) return false;
    r->team_call = arena_zalloc(r->arena, sizeof *r->team_call);
    r->team_call->on_done = on_all_answered;
    r->team_call->arg = r;
    return team_ask(r->proxy->team, q, scope, r->team_call) == OP_PENDING;
}

static enum step_result answer_ready(struct request *r)
{
    struct buf out;
    if (asks_all(r, TEAM_READY, NULL)) return STEP_WAIT;
    buf_init(&out, r->arena);
    bool ready = ready_write(r->proxy->ready, r->team_call, &out);
    return reply_body(r, ready ? 200 : 503, json_type, buf_slice(&out));
}

/* Until metric_sum_end it is the sum of all that is shown. */
static void sum_up(const struct team_call *all)
{
    metric_sum_begin();
    for (size_t i = 0; i < all->parts_n; i++) {
        char number[16];
        snprintf(number, sizeof number, "%u", all->parts[i].worker);
        metric_sum_add(all->parts[i].body, all->parts[i].worker ? slice_str(number) : SLICE("supervisor"));
    }
}

static enum step_result answer_metrics(struct request *r)
{
    struct buf out;
    bool json = slice_eq(r->own->path, SLICE("/metrics/json"));
    if (asks_all(r, TEAM_METRICS, NULL)) return STEP_WAIT;
    buf_init(&out, r->arena);
    if (r->team_call)
        sum_up(r->team_call);
    else
        gauges_update(r->proxy);
    if (json)
        metric_json(&out, now_text(r));
    else
        metric_text(&out);
    if (r->team_call) metric_sum_end();
    return reply_body(r, 200, json ? json_type : text_type, buf_slice(&out));
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
    struct slice wrong = flush_read(buf_slice(&r->body), &scope);
    if (wrong.n) {
        r->message = wrong;
        return request_fail(r, REASON_BODY_INVALID, NULL);
    }
    if (!r->flushed) {
        flush_apply(r->proxy, &scope, false);
        r->flushed = true;
        r->announce_call.on_done = on_announced;
        if (announce_flush(r->proxy->announce, &scope, &r->announce_call) == OP_PENDING) return STEP_WAIT;
    }
    if (asks_all(r, TEAM_FLUSH, &scope)) return STEP_WAIT;
    if (r->team_call && !r->team_call->whole)
        return request_fail(r, REASON_WORKER_SILENT, "a worker has not said that it flushed");
    return reply_body(r, 200, json_type,
                      r->announce_call.published ? SLICE("{\"flushed\":true,\"published\":true}")
                                                 : SLICE("{\"flushed\":true,\"published\":false}"));
}

static enum step_result answer_jwks(struct request *r)
{
    return reply_body(r, 200, json_type, grant_jwks(r->settings->grant));
}
