/* proxy/relay: a request out, its answer back, bodies both ways with back-pressure. Called by the forward step, by conn
   with the client's bytes and by upstream with the answer's. Refuses an answer that two readers could frame differently. */
#include "proxy/relay.h"

#include "base/check.h"
#include "base/metric.h"
#include "http/writer.h"
#include "proxy/cors.h"
#include "proxy/peer.h"
#include "proxy/websocket.h"

#define ANSWER_HEAD_MAX 65536
#define ANSWER_HEADERS_MAX 200
#define INTERIMS_MAX 100
#define BATCH_PARTS 32

static void on_up_data(void *owner, struct slice data);
static void on_up_end(void *owner, int error);
static void on_up_drain(void *owner);
static void on_up_silent(struct deadline *d);
static void on_answer_body(struct parser *p, struct slice data);

const struct uconn_events relay_events = {on_up_data, on_up_end, on_up_drain};

/* What one read turned into, for one write: used by one direction at a time and empty in between. */
static struct {
    struct slice parts[BATCH_PARTS];
    char lines[BATCH_PARTS][WRITER_CHUNK_BYTES];
    size_t n;
} batch;

static void batch_send(struct stream *s)
{
    if (batch.n) stream_send(s, batch.parts, batch.n);
    batch.n = 0;
}

static void batch_add(struct stream *s, struct slice part)
{
    if (batch.n == BATCH_PARTS) batch_send(s);
    batch.parts[batch.n++] = part;
}

static void batch_body(struct stream *s, struct slice data, bool chunked)
{
    if (!chunked) {
        batch_add(s, data);
        return;
    }
    if (batch.n + 3 > BATCH_PARTS) batch_send(s);
    char *line = batch.lines[batch.n];
    batch.parts[batch.n++] = slice_make(line, writer_chunk(line, data.n));
    batch.parts[batch.n++] = data;
    batch.parts[batch.n++] = SLICE("\r\n");
}

/* The end of a chunked body: trailers pass, less what frames, authenticates or only we may say (RFC 9110 6.5.1). */
static void batch_last_chunk(struct request *r, struct stream *s, struct head *trailers)
{
    struct buf out;
    buf_init(&out, r->arena);
    buf_add_lit(&out, "0\r\n");
    for (size_t i = 0; i < trailers->n; i++) {
        const struct header *h = &trailers->v[i];
        bool ours = name_set_has(r->settings->stripped, h->name) || peer_speaks_for_us(h->name, false);
        if (h->id != HEADER_OTHER || ours) continue;
        writer_header(&out, h->name, h->value);
    }
    buf_add_lit(&out, "\r\n");
    batch_add(s, buf_slice(&out));
}

void relay_discard(void)
{
    batch.n = 0;
}

/* The upstream's time runs while it owes something: not while the client takes its time, over the body or the answer. */
static void watch_silence(struct request *r)
{
    if (r->tunnel) return; /* idle times of its own */
    bool owes = r->conn->parser.complete || r->answer_started || stream_queued(&r->up->stream);
    if (owes && !r->up_paused)
        deadline_start(upstream_silence(r->up), &r->up_deadline);
    else
        deadline_stop(&r->up_deadline);
    if (owes)
        budget_go_on(&r->budget);
    else
        budget_hold(&r->budget);
}

/* --- out ----------------------------------------------------------------------------------------------------------- */

void relay_start(struct request *r, struct slice head)
{
    CHECK(batch.n == 0, "nothing waits to be sent");
    deadline_init(&r->up_deadline, on_up_silent);
    parser_init(&r->up_parser, PARSER_RESPONSE, on_answer_body);
    r->up_answered = r->up_dirty = r->up_done = false;
    r->up_partial.n = 0;
    r->up_sent_ns = loop_clock_ns();
    batch_add(&r->up->stream, head);
    if (r->conn->parser.complete) {
        /* sent again: of an empty chunked body the end is all there is */
        if (r->head->body == BODY_CHUNKED) batch_last_chunk(r, &r->up->stream, &r->conn->parser.trailers);
        batch_send(&r->up->stream);
    } else {
        r->body_held = false; /* the first of the body follows at once, in the same write */
    }
    watch_silence(r);
}

void relay_body(struct request *r, struct slice data)
{
    batch_body(&r->up->stream, data, r->head->body == BODY_CHUNKED);
}

void relay_flush(struct request *r)
{
    struct stream *s = &r->up->stream;
    if (r->conn->parser.complete && r->head->body == BODY_CHUNKED) batch_last_chunk(r, s, &r->conn->parser.trailers);
    batch_send(s);
    watch_silence(r);
    if (stream_queued(s) > RELAY_HIGH_BYTES && !r->conn->parser.complete) {
        r->body_paused = true;
        if (!r->up_paused) deadline_stop(&r->conn->deadline);
    }
}

void relay_tunnel(struct request *r)
{
    struct stream *s = &r->up->stream;
    struct slice data = r->conn->pending;
    if (r->body_paused || data.n == 0) return;
    r->bytes_in += data.n;
    websocket_touched(r);
    stream_send(s, &data, 1);
    conn_consume(r->conn, data.n);
    r->body_paused = stream_queued(s) > RELAY_HIGH_BYTES;
}

static void on_up_drain(void *owner)
{
    struct request *r = owner;
    struct conn *c = r->conn;
    watch_silence(r); /* it took all there was: from here on the client may be who owes */
    if (!r->body_paused) return;
    r->body_paused = false;
    request_on_input(r);
    if (c->state == CONN_REQUEST) conn_update_reading(c);
}

/* --- back ---------------------------------------------------------------------------------------------------------- */

/* The answer cannot be had: another try or a refusal by the forward step, or a broken answer where one has begun. */
static void fail(struct request *r, enum reason reason, const char *detail)
{
    batch.n = 0;
    r->reason = reason;
    r->detail = detail;
    /* One that was kept and ends unheard says nothing of its address: both sides may let go of an idle connection. */
    bool stale = r->up_reused && !r->up_answered && reason == REASON_UPSTREAM_CLOSED;
    if (!stale) upstream_failed(&r->upstream_call, reason == REASON_UPSTREAM_TIMEOUT, detail);
    if (r->answer_started)
        request_abort(r, reason);
    else
        request_run(r);
}

static void on_up_silent(struct deadline *d)
{
    struct request *r = container_of(d, struct request, up_deadline);
    fail(r, REASON_UPSTREAM_TIMEOUT, r->up_answered ? "the answer stopped" : "no answer");
}

static void on_answer_body(struct parser *p, struct slice data)
{
    struct request *r = container_of(p, struct request, up_parser);
    r->bytes_out += data.n;
    batch_body(&r->conn->stream, data, r->up_chunk);
}

/* RFC 9110 8.6: no server sends a length with these; some clients would wait for that many bytes. */
static void drop_length(struct head *answer)
{
    struct header *length = head_find(answer, HEADER_CONTENT_LENGTH, NULL);
    if (length && (answer->status < 200 || answer->status == 204)) length->drop = true;
}

/* 100 and the like go on to who can read them. */
static void send_interim(struct request *r, struct head *answer)
{
    if (r->head->version_minor == 0) return;
    struct buf out;
    buf_init(&out, r->arena);
    writer_status(&out, answer->status, answer->phrase);
    head_drop_hop(answer);
    head_drop_named(answer, r->settings->stripped);
    drop_length(answer);
    writer_headers(&out, answer);
    buf_add_lit(&out, "\r\n");
    batch_add(&r->conn->stream, buf_slice(&out));
}

static void send_head(struct request *r, struct head *answer)
{
    struct buf out;
    buf_init(&out, r->arena);
    buf_reserve(&out, answer->n * 48 + 512);
    head_drop_hop(answer); /* a Connection that names more than it may does no harm here: those names stay */
    cors_drop(r, answer);
    drop_length(answer);
    for (size_t i = 0; i < answer->n; i++) answer->v[i].drop |= answer->v[i].id == HEADER_REQUEST_ID;
    bool has_body = answer->body == BODY_CHUNKED || answer->body == BODY_UNTIL_CLOSE;
    r->up_chunk = has_body && r->head->version_minor == 1;
    if (has_body && !r->up_chunk) r->keep_alive = false;
    if (!r->conn->parser.complete || r->proxy->draining || r->conn->half_closed) r->keep_alive = false;
    bool switching = answer->status == 101;
    writer_status(&out, answer->status, answer->phrase);
    writer_headers(&out, answer);
    if (r->up_chunk) buf_add_lit(&out, "Transfer-Encoding: chunked\r\n");
    writer_header(&out, SLICE("X-Request-Id"), r->id);
    cors_headers(r, &out, false);
    if (switching)
        websocket_headers(&out);
    else if (!r->keep_alive)
        buf_add_lit(&out, "Connection: close\r\n");
    else if (r->head->version_minor == 0)
        buf_add_lit(&out, "Connection: keep-alive\r\n");
    buf_add_lit(&out, "\r\n");
    r->status = answer->status;
    r->answer_started = true;
    budget_stop(&r->budget);
    upstream_answered(&r->upstream_call, answer->status, (double)(r->up_first_ns - r->up_sent_ns) / 1e6);
    batch_add(&r->conn->stream, buf_slice(&out));
}

/* One head off the front of rest. False: there is no whole one yet, or it is refused (*reason says so). */
static bool take_head(struct request *r, struct slice *rest, enum reason *reason)
{
    struct slice bytes = *rest;
    if (r->up_partial.n) {
        buf_add_slice(&r->up_partial, *rest);
        bytes = buf_slice(&r->up_partial);
    }
    size_t from = 0, end = 0, before = bytes.n - rest->n;
    enum head_scan found = head_scan(bytes, &from, &end);
    if (found == HEAD_BAD || (found == HEAD_WHOLE ? end : bytes.n) > ANSWER_HEAD_MAX) {
        *reason = REASON_UPSTREAM_MALFORMED;
        return false;
    }
    if (found == HEAD_PARTIAL) {
        if (!r->up_partial.n) buf_add_slice(&r->up_partial, *rest);
        return false;
    }
    struct slice head = arena_copy(r->arena, slice_make(bytes.p, end));
    rest->p += end - before;
    rest->n -= end - before;
    r->up_partial.n = 0;
    bool to_head = slice_eq(r->head->method, SLICE("HEAD"));
    enum reason parsed = parser_head(&r->up_parser, head, r->arena, ANSWER_HEADERS_MAX, to_head);
    if (parsed != REASON_FORWARDED) {
        *reason = REASON_UPSTREAM_MALFORMED;
        return false;
    }
    int status = r->up_parser.head.status;
    if (status == 101) {
        if (!r->websocket || !websocket_is_accepted(&r->up_parser.head)) {
            *reason = REASON_UPSTREAM_MALFORMED;
            return false;
        }
        send_head(r, &r->up_parser.head);
        websocket_begin(r);
    } else if (status < 200) {
        if (++r->up_interims > INTERIMS_MAX) {
            *reason = REASON_UPSTREAM_MALFORMED;
            return false;
        }
        send_interim(r, &r->up_parser.head);
        parser_init(&r->up_parser, PARSER_RESPONSE, on_answer_body);
    } else {
        send_head(r, &r->up_parser.head);
    }
    return true;
}

static void end_answer(struct request *r)
{
    r->up_done = true;
    if (r->up_chunk) batch_last_chunk(r, &r->conn->stream, &r->up_parser.trailers);
}

/* Writes what this read gave, then goes on: to the end of the request, or to wait for either side. */
static void deliver(struct request *r, bool switched)
{
    struct stream *client = &r->conn->stream;
    batch_send(client);
    if (r->up_done) {
        request_run(r);
        return;
    }
    if (switched) { /* the client may have sent more before it was told, or be gone */
        relay_tunnel(r);
        if (r->conn->half_closed) {
            websocket_end(r, REASON_FORWARDED);
            return;
        }
        conn_update_reading(r->conn);
    }
    if (stream_queued(client) > RELAY_HIGH_BYTES && !r->up_paused) {
        r->up_paused = true;
        stream_read(&r->up->stream, false);
        if (!r->tunnel) deadline_stop(&r->up_deadline);
        conn_await_reader(r->conn);
    }
}

/* What came behind the 101, and all that follows. */
static void batch_tunnel(struct request *r, struct slice *data)
{
    batch_add(&r->conn->stream, *data);
    r->bytes_out += data->n;
    *data = slice_make(NULL, 0);
    websocket_touched(r);
}

static void on_up_data(void *owner, struct slice data)
{
    struct request *r = owner;
    if (!r->up_answered) r->up_first_ns = loop_clock_ns();
    r->up_answered = true;
    if (r->up_parser.head_done) watch_silence(r);
    enum reason reason = REASON_FORWARDED;
    bool tunnel = r->tunnel;
    while (data.n && !r->up_done) {
        if (r->tunnel) {
            batch_tunnel(r, &data);
            break;
        }
        if (!r->up_parser.head_done) {
            if (!take_head(r, &data, &reason)) break;
            watch_silence(r); /* only a whole head is progress: one that comes byte by byte is as late as none */
        } else {
            long used = parser_body(&r->up_parser, data);
            if (used < 0) {
                reason = REASON_UPSTREAM_MALFORMED;
                break;
            }
            data.p += used;
            data.n -= (size_t)used;
        }
        if (r->up_parser.complete && !r->tunnel) end_answer(r);
    }
    if (reason != REASON_FORWARDED) {
        fail(r, reason, "the answer is not valid HTTP/1.1");
        return;
    }
    r->up_dirty = r->up_done && data.n > 0;
    deliver(r, r->tunnel && !tunnel);
}

static void on_up_end(void *owner, int error)
{
    struct request *r = owner;
    r->up_dirty = true;
    if (r->tunnel) {
        websocket_end(r, REASON_FORWARDED);
        return;
    }
    if (error == 0 && parser_end(&r->up_parser)) {
        end_answer(r);
        deliver(r, false);
        return;
    }
    const char *fault = stream_tls_fault(&r->up->stream);
    const char *detail = r->up_answered ? "the answer broke off" : "closed without an answer";
    if (fault) detail = arena_copy(r->arena, slice_str(fault)).p;
    /* TLS 1.3: whoever wants a certificate of us says so only now */
    fail(r, error == TLS_CERTIFICATE_REFUSED ? REASON_UPSTREAM_CERTIFICATE : REASON_UPSTREAM_CLOSED, detail);
}

void relay_client_drained(struct request *r)
{
    if (!r->up_paused) return;
    r->up_paused = false;
    if (r->tunnel)
        websocket_touched(r);
    else if (r->conn->parser.complete || r->body_paused)
        deadline_stop(&r->conn->deadline);
    watch_silence(r);
    stream_read(&r->up->stream, true);
}

void relay_release(struct request *r)
{
    struct uconn *up = r->up;
    if (!up) return;
    r->up = NULL;
    deadline_stop(&r->up_deadline);
    bool clean = r->up_done && !r->up_dirty && r->up_parser.head.keep_alive && r->conn->parser.complete;
    if (clean)
        uconn_give_back(up);
    else
        uconn_drop(up);
}
