/* proxy/forward: the steps connect and forward: a connection to the upstream, then the request out and the answer back
   (relay). A request goes out once; a second time only where nothing can have come of the first (RFC 9110 9.2.2). */
#include "proxy/request.h"

#include "base/metric.h"
#include "http/writer.h"
#include "proxy/peer.h"
#include "proxy/relay.h"
#include "proxy/websocket.h"

static void on_upstream(struct upstream_call *c);

static bool is_idempotent(struct slice method)
{
    return slice_eq(method, SLICE("GET")) || slice_eq(method, SLICE("HEAD")) || slice_eq(method, SLICE("PUT")) ||
           slice_eq(method, SLICE("DELETE")) || slice_eq(method, SLICE("OPTIONS")) || slice_eq(method, SLICE("TRACE"));
}

struct slice request_authority_out(const struct request *r)
{
    return r->upstream_call.member ? upstream_authority(&r->upstream_call) : r->route->upstream->endpoints[0].authority;
}

/* What only we may say was dropped before anything was read (admit). */
struct slice request_head_out(struct request *r)
{
    const struct conf *conf = r->conf;
    const struct conf_upstream *up = r->route->upstream;
    struct buf out;
    buf_init(&out, r->arena);
    size_t grant = r->decision ? r->decision->rendered.n : 0;
    buf_reserve(&out, r->head_bytes + up->base_path.n + grant + 512);
    buf_add_slice(&out, r->head->method);
    buf_add_char(&out, ' ');
    buf_add_slice(&out, r->sent_path);
    if (r->target.has_query) {
        buf_add_char(&out, '?');
        buf_add_slice(&out, r->target.query);
    }
    buf_add_lit(&out, " HTTP/1.1\r\n");
    writer_header(&out, SLICE("Host"), up->preserve_host && r->host.n ? r->host : request_authority_out(r));
    struct header *host = head_find(r->head, HEADER_HOST, NULL);
    if (host) host->drop = true;
    writer_headers(&out, r->head);
    if (r->head->body == BODY_CHUNKED) buf_add_lit(&out, "Transfer-Encoding: chunked\r\n");
    if (r->websocket) websocket_headers(&out);
    peer_headers(r, &out);
    if (r->decision && r->decision->allow && conf->grant.header.n)
        writer_header(&out, conf->grant.header, r->decision->rendered);
    buf_add_lit(&out, "\r\n");
    return buf_slice(&out);
}

/* No connection: a fault of certificates is told apart, since somebody must do something about it. */
static enum step_result fail_dial(struct request *r)
{
    int error = r->upstream_call.error;
    const char *why = r->upstream_call.why;
    bool certificate = error == TLS_CERTIFICATE || error == TLS_CERTIFICATE_REFUSED;
    bool tls = certificate || error == TLS_NOT_SPOKEN || error == TLS_REFUSED || error == TLS_PROTOCOL;
    const char *detail = (tls || error == UV_ETIMEDOUT) && why ? arena_copy(r->arena, slice_str(why)).p : upstream_dial_fault(error);
    return request_fail(r, certificate ? REASON_UPSTREAM_CERTIFICATE : REASON_UPSTREAM_UNREACHABLE, detail);
}

/* A call that was not made. */
static void count_refusal(struct slice kind)
{
    metric_add(METRIC_DEPENDENCY_FAILURES, (struct slice[]){SLICE("upstream"), kind}, 1);
}

static enum step_result refuse(struct request *r)
{
    switch (r->upstream_call.fault) {
    case BORROW_FULL:
        count_refusal(SLICE("overloaded"));
        return request_fail(r, REASON_UPSTREAM_OVERLOADED, "max_inflight");
    case BORROW_RESTS:
        count_refusal(SLICE("resting"));
        return request_fail(r, REASON_UPSTREAM_UNREACHABLE, "resting after failures");
    case BORROW_UNHEALTHY:
        return request_fail(r, REASON_UPSTREAM_UNREACHABLE, "no address passes its health check");
    case BORROW_NAMELESS:
        if (r->upstream_call.error == UV_ETIMEDOUT)
            return request_fail(r, REASON_UPSTREAM_UNREACHABLE, "the name was not resolved in time");
        return request_fail(r, REASON_UPSTREAM_UNREACHABLE, "the name cannot be resolved");
    case BORROW_FAILED:
    case BORROW_OK:
        break;
    }
    return fail_dial(r);
}

static enum step_result took_upstream(struct request *r)
{
    r->up = r->upstream_call.conn;
    if (!r->up) return refuse(r);
    r->up_reused = r->up->reused;
    r->step = STEP_FORWARD;
    return STEP_NEXT;
}

static void on_upstream(struct upstream_call *c)
{
    struct request *r = container_of(c, struct request, upstream_call);
    took_upstream(r);
    request_run(r);
}

enum step_result step_connect(struct request *r)
{
    enum borrow how = is_idempotent(r->head->method) ? BORROW_ANY : BORROW_RECENT;
    if (r->retried) how = BORROW_FRESH;
    struct upstream *u = settings_upstream(r->settings, r->route->upstream);
    r->upstream_call.on_done = on_upstream;
    if (upstream_borrow(u, how, &relay_events, r, &r->upstream_call) == OP_PENDING) return STEP_WAIT;
    return took_upstream(r);
}

/* Nothing can have come of a request that went out on a connection that was about to end, or that an address never
   answered and another one can; at least nothing that doing it twice makes worse. */
static bool can_go_again(const struct request *r)
{
    return !r->retried && !r->up_answered && r->bytes_in == 0 && is_idempotent(r->head->method) &&
           r->reason == REASON_UPSTREAM_CLOSED && (r->up_reused || upstream_has_other(&r->upstream_call));
}

/* Runs once with a connection, and again when the relay has come to an end one way or the other. */
enum step_result step_forward(struct request *r)
{
    if (!r->head_sent) {
        r->head_sent = true;
        relay_start(r, request_head_out(r));
        return STEP_WAIT;
    }
    if (r->up_done) {
        r->reason = r->tunnel ? r->ended_by : REASON_FORWARDED;
        r->ended = r->step;
        r->step = STEP_FINISH;
        return STEP_NEXT;
    }
    bool again = can_go_again(r);
    relay_release(r);
    if (!again) return request_fail(r, r->reason, r->detail);
    metric_add(METRIC_UPSTREAM_RETRIES, &r->route->upstream->name, 1);
    r->retried = true;
    r->head_sent = false;
    r->body_held = !r->conn->parser.complete;
    r->body_paused = false; /* that was the other connection */
    r->reason = REASON_UNSET;
    r->step = STEP_CONNECT;
    budget_go_on(&r->budget);
    return STEP_NEXT;
}
