/* proxy/reply: answers of our own. The only place that turns a reason into a status. Called by the steps. Tells the
   client nothing of the credential or of the inside; the log has the rest. */
#include "proxy/reply.h"

#include "base/json.h"
#include "http/writer.h"
#include "proxy/cors.h"

/* What is left of the request's body and here already is passed over, so that the connection can live on. */
static void pass_over_body(struct request *r)
{
    struct conn *c = r->conn;
    if (!c->parser.head_done || c->parser.reason != REASON_FORWARDED || c->parser.complete) return;
    long used = parser_body(&c->parser, c->pending);
    if (used > 0) conn_consume(c, (size_t)used);
}

static void write_answer(struct request *r, struct slice content_type, struct slice body, struct buf *extra)
{
    struct buf out;
    buf_init(&out, r->arena);
    buf_reserve(&out, 512 + body.n);
    pass_over_body(r);
    if (!r->conn->parser.complete || r->conn->half_closed || r->proxy->draining) r->keep_alive = false;
    writer_status(&out, r->status, SLICE(""));
    writer_header(&out, SLICE("Date"), writer_date(loop_wall_ms(r->proxy->loop)));
    if (r->status != 204) {
        if (content_type.n) writer_header(&out, SLICE("Content-Type"), content_type);
        buf_add_lit(&out, "Content-Length: ");
        buf_add_int(&out, (long long)body.n);
        buf_add_lit(&out, "\r\nCache-Control: no-store\r\n");
    }
    writer_header(&out, SLICE("X-Request-Id"), r->id);
    if (r->allow.p) writer_header(&out, SLICE("Allow"), r->allow);
    if (extra) buf_add_slice(&out, buf_slice(extra));
    cors_headers(r, &out, cors_is_preflight(r));
    if (!r->keep_alive)
        buf_add_lit(&out, "Connection: close\r\n");
    else if (r->head->version_minor == 0)
        buf_add_lit(&out, "Connection: keep-alive\r\n");
    buf_add_lit(&out, "\r\n");
    bool bodiless = r->status == 204 || slice_eq(r->head->method, SLICE("HEAD"));
    struct slice parts[] = {buf_slice(&out), bodiless ? SLICE("") : body};
    r->answer_started = true;
    budget_stop(&r->budget);
    r->bytes_out = parts[1].n;
    stream_send(&r->conn->stream, parts, 2);
    r->step = STEP_FINISH;
}

enum step_result reply_body(struct request *r, int status, struct slice content_type, struct slice body)
{
    r->reason = REASON_ANSWERED;
    r->ended = r->step;
    r->status = status;
    write_answer(r, content_type, body, NULL);
    return STEP_NEXT;
}

/* Whole seconds, not less than it takes and at least one. */
static void add_retry_after(const struct request *r, struct buf *out)
{
    int64_t seconds = (r->retry_ms + 999) / 1000;
    buf_add_lit(out, "Retry-After: ");
    buf_add_int(out, seconds > 1 ? seconds : 1);
    buf_add_lit(out, "\r\n");
}

enum step_result step_reply(struct request *r)
{
    r->status = reason_status(r->reason);
    if (r->status == 0) r->status = 500; /* a refusal without a status is a fault of ours */
    struct buf body, extra;
    struct json j;
    buf_init(&body, r->arena);
    buf_init(&extra, r->arena);
    json_init(&j, &body);
    json_object_start(&j);
    json_field_string(&j, "error", writer_phrase(r->status));
    json_field_string(&j, "message", r->message.n ? r->message : slice_str(reason_text(r->reason)));
    json_field_string(&j, "code", slice_str(reason_code(r->reason)));
    json_field_string(&j, "request_id", r->id);
    json_object_end(&j);
    if (r->status == 401)
        /* RFC 6750 3: no error code where no credential was sent */
        buf_add_slice(&extra, r->reason == REASON_CREDENTIAL_MISSING
                                  ? SLICE("WWW-Authenticate: Bearer\r\n")
                                  : SLICE("WWW-Authenticate: Bearer error=\"invalid_token\", "
                                          "error_description=\"The access token is not valid\"\r\n"));
    if (r->status == 503) add_retry_after(r, &extra);
    bool framing = r->status == 400 || r->status == 408 || r->status == 413 || r->status == 414 || r->status == 431 ||
                   r->status == 501 || r->status == 505 || r->reason == REASON_CONNECTIONS ||
                   r->reason == REASON_OVERLOADED;
    if (framing) r->keep_alive = false; /* whoever sends such may mean another framing than we do */
    write_answer(r, SLICE("application/json; charset=utf-8"), buf_slice(&body), &extra);
    return STEP_NEXT;
}
