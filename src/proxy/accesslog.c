/* proxy/accesslog: one JSON line and the metrics of a finished request. Called once by its end. Never writes a header, a
   credential or a body; the query only when asked to. */
#include "proxy/accesslog.h"

#include "base/json.h"
#include "base/log.h"
#include "base/metric.h"
#include "proxy/own.h"

#define NAME_BYTES_MAX 512

static struct slice route_label(const struct request *r)
{
    if (r->own) return own_name(r->own);
    return r->route ? r->route->name : SLICE("none");
}

static void count(const struct request *r, double seconds)
{
    char status[3] = {(char)('0' + r->status / 100 % 10), (char)('0' + r->status / 10 % 10),
                      (char)('0' + r->status % 10)};
    struct slice method = r->head->method.n ? r->head->method : SLICE("none");
    struct slice labels[] = {method, route_label(r), {status, 3}};
    metric_add(METRIC_HTTP_REQUESTS, labels, 1);
    metric_observe(METRIC_HTTP_DURATION, labels, seconds);
    struct slice reason = slice_str(reason_code(r->reason));
    metric_add(METRIC_REASONS, &reason, 1);
    metric_add(METRIC_BYTES_OUT, NULL, (double)r->bytes_out);
    if (!r->route || r->up_sent_ns == 0) return;
    struct slice call[] = {r->route->upstream->name, r->up_first_ns ? labels[2] : SLICE("error")};
    metric_add(METRIC_API_CALLS, call, 1);
    if (r->up_first_ns > r->up_sent_ns)
        metric_observe(METRIC_API_DURATION, call, (double)(r->up_first_ns - r->up_sent_ns) / 1e9);
}

/* A text that a client, its profile or the policy gave may be long enough to push its own line out of the log. */
static struct slice shortened(struct slice name)
{
    return slice_make(name.p, name.n < NAME_BYTES_MAX ? name.n : NAME_BYTES_MAX);
}

static void write_decision(const struct request *r, struct json *j)
{
    if (r->token && r->token->verified) {
        json_field_string(j, "issuer", r->token->issuer);
        json_field_string(j, "subject", r->token->subject);
    } else if (r->user) {
        json_field_string(j, "subject", shortened(r->user->id));
    }
    if (r->user) json_field_plain(j, "context_from", slice_str(found_in_name(r->context_source)));
    int64_t now = loop_now_ms(r->proxy->loop);
    if (r->user && r->user->read_ms) json_field_int(j, "context_age_ms", now - r->user->read_ms);
    if (r->resource.n) json_field_string(j, "resource", shortened(r->resource));
    if (r->action.n) json_field_string(j, "action", r->action);
    if (r->stale) json_field_bool(j, "stale", true);
    if (!r->decision) return;
    json_field_plain(j, "decision", r->decision->allow ? SLICE("allow") : SLICE("deny"));
    json_field_plain(j, "decision_id", r->decision->id);
    if (!r->decision->allow && r->decision->message.n)
        json_field_string(j, "policy_reason", shortened(r->decision->message));
    json_field_plain(j, "decision_from",
                     r->decision_source == FOUND_REMOTE ? SLICE("policy") : slice_str(found_in_name(r->decision_source)));
    json_field_int(j, "decision_age_ms", now - r->decision->decided_ms);
    if (r->decision->bypassed) json_field_bool(j, "bypassed", true);
}

static void write_tls(const struct stream *s, struct json *j)
{
    json_field_string(j, "tls", slice_str(stream_tls_version(s)));
    struct slice subject = stream_peer_subject(s);
    if (subject.n) json_field_string(j, "client_certificate", shortened(subject));
}

static void write_times(const struct request *r, struct json *j, uint64_t took_us)
{
    json_field(j, "ms");
    json_thousandths(j, took_us);
    bool any = false;
    for (int i = 0; i < STEP_COUNT; i++) {
        if (r->waited_us[i] == 0) continue;
        if (!any) {
            json_field(j, "waited_ms");
            json_object_start(j);
        }
        any = true;
        json_key(j, slice_str(step_name((enum step)i)));
        json_thousandths(j, r->waited_us[i]);
    }
    if (any) json_object_end(j);
}

static void write_line(const struct request *r, uint64_t took_us)
{
    static struct buf line;
    struct json j;
    char time[LOG_TIME_BYTES];
    line.n = 0;
    json_init(&j, &line);
    json_object_start(&j);
    log_time(loop_wall_ms(r->proxy->loop), time);
    json_field_string(&j, "time", slice_str(time));
    json_field_plain(&j, "level", reason_alarm(r->reason) ? SLICE("warn") : SLICE("info"));
    json_field_plain(&j, "event", SLICE("request"));
    log_field_worker(&j);
    json_field_string(&j, "request_id", r->id);
    json_field_string(&j, "client", r->client_ip);
    json_field_string(&j, "method", r->head->method);
    json_field_string(&j, "path", r->target.path);
    if (r->conf->log.query && r->target.has_query) json_field_string(&j, "query", r->target.query);
    if (r->conn->stream.tls) write_tls(&r->conn->stream, &j);
    json_field_int(&j, "status", r->status);
    json_field_plain(&j, "reason", slice_str(reason_code(r->reason)));
    if (r->detail) json_field_string(&j, "detail", slice_str(r->detail));
    json_field_plain(&j, "step", slice_str(step_name(r->ended)));
    json_field_string(&j, "route", route_label(r));
    write_decision(r, &j);
    json_field_int(&j, "bytes_in", (long long)r->bytes_in);
    json_field_int(&j, "bytes_out", (long long)r->bytes_out);
    write_times(r, &j, took_us);
    if (r->up_sent_ns || (r->ended == STEP_CONNECT && r->route)) {
        json_field_string(&j, "upstream", request_authority_out(r));
        if (r->upstream_call.member) json_field_string(&j, "upstream_address", upstream_address(&r->upstream_call));
        json_field_bool(&j, "upstream_reused", r->up_reused);
        if (r->retried) json_field_bool(&j, "retried", true);
    }
    json_object_end(&j);
    log_raw(buf_slice(&line));
}

void accesslog_write(const struct request *r)
{
    uint64_t took_us = (loop_clock_ns() - r->begun_ns) / 1000;
    count(r, (double)took_us / 1e6);
    const struct conf *conf = r->conf;
    if (conf->log.access && log_on(reason_alarm(r->reason) ? LOG_WARN : LOG_INFO)) write_line(r, took_us);
}
