/* proxy/conn: a client connection. Called by listener and the stream's events; hands whole heads to request. Refuses
   what cannot begin a request, and waits for no one longer than the configured times. */
#include "proxy/conn.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/log.h"
#include "base/metric.h"
#include "io/tls.h"
#include "proxy/admission.h"
#include "proxy/keypair.h"
#include "proxy/request.h"
#include "proxy/websocket.h"

#define LINGER_BYTES_MAX (1 << 20)
#define REQUEST_LINE_REST 24 /* method, version and spaces around a target */
#define UNSENT_MAX 65536 /* with more than that unread by the client its next request waits */

static void on_conn_read(struct stream *s, struct slice data);
static void on_conn_end(struct stream *s, int error);
static void on_conn_drain(struct stream *s);
static void on_conn_due(struct deadline *d);
static void on_conn_secured(struct stream *s, int error, const char *why);
static void on_conn_closed(struct stream *s);
static void on_body_bytes(struct parser *parser, struct slice data);

const struct stream_events conn_events = {on_conn_read, on_conn_end, on_conn_drain};

static struct conn *of_stream(struct stream *s)
{
    return container_of(s, struct conn, stream);
}

static bool is_saved(const struct conn *c)
{
    return c->saved && c->pending.p >= c->saved && c->pending.p <= c->saved + c->saved_cap;
}

/* What is pending must outlive the reader's buffer; an idle connection keeps no memory for it. */
static void save_pending(struct conn *c, struct slice more)
{
    size_t n = c->pending.n + more.n;
    if (n == 0) {
        free(c->saved);
        c->saved = NULL;
        c->saved_cap = 0;
        c->pending = slice_make(NULL, 0);
        return;
    }
    if (is_saved(c) && more.n == 0) return;
    if (c->saved_cap < n || !is_saved(c)) {
        size_t cap = c->saved_cap ? c->saved_cap : 1024;
        while (cap < n) cap *= 2;
        char *bigger = xmalloc(cap);
        if (c->pending.n) memcpy(bigger, c->pending.p, c->pending.n);
        free(c->saved);
        c->saved = bigger;
        c->saved_cap = cap;
    } else if (c->pending.p != c->saved) {
        memmove(c->saved, c->pending.p, c->pending.n);
    }
    if (more.n) memcpy(c->saved + c->pending.n, more.p, more.n);
    c->pending = slice_make(c->saved, n);
}

void conn_consume(struct conn *c, size_t n)
{
    c->pending.p += n;
    c->pending.n -= n;
}

void conn_update_reading(struct conn *c)
{
    bool on = false;
    switch (c->state) {
    case CONN_READY:
        on = stream_queued(&c->stream) <= UNSENT_MAX;
        break;
    case CONN_LINGER:
        on = true;
        break;
    case CONN_REQUEST:
        /* With no body left the reading stays on, so that the client's going is noticed; what comes early waits. */
        on = c->parser.complete && !c->request->tunnel ? c->pending.n == 0 : !c->request->body_held && !c->request->body_paused;
        break;
    case CONN_SECURES:
    case CONN_CLOSED:
        return;
    }
    stream_read(&c->stream, on);
}

static void start_linger(struct conn *c)
{
    c->state = CONN_LINGER;
    c->pending = slice_make(NULL, 0);
    stream_shutdown(&c->stream);
    bool written = stream_queued(&c->stream) == 0;
    if (written)
        deadline_start(&c->proxy->linger_timeout, &c->deadline);
    else
        conn_await_reader(c);
    if (c->half_closed && written) conn_close(c);
}

/* One whole head off the front of pending starts a request; false: more bytes are needed (or it was refused). */
static bool next_request(struct conn *c)
{
    const struct conf *conf = c->proxy->settings->conf;
    if (stream_queued(&c->stream) > UNSENT_MAX) return false;
    if (c->scanned == 0)
        while (c->pending.n && (c->pending.p[0] == '\r' || c->pending.p[0] == '\n')) {
            /* RFC 9112 2.2: an empty line before a request is passed over, in its strict form only */
            if (c->pending.p[0] == '\n' || (c->pending.n > 1 && c->pending.p[1] != '\n')) {
                request_refuse(c, REASON_MALFORMED);
                return false;
            }
            if (c->pending.n < 2) return false;
            conn_consume(c, 2);
        }
    if (c->pending.n == 0) return false;
    size_t end = 0, limit = (size_t)(conf->listen.max_header_bytes + conf->listen.max_target_bytes);
    enum head_scan found = head_scan(c->pending, &c->scanned, &end);
    if (found == HEAD_BAD) {
        request_refuse(c, REASON_MALFORMED);
        return false;
    }
    if (found == HEAD_PARTIAL ? c->pending.n > limit : end > limit) {
        const char *line_end = memchr(c->pending.p, '\n', c->pending.n);
        size_t line = line_end ? (size_t)(line_end - c->pending.p) : c->pending.n;
        bool target = line > (size_t)conf->listen.max_target_bytes + REQUEST_LINE_REST;
        request_refuse(c, target ? REASON_TARGET_TOO_LONG : REASON_HEADERS_TOO_LARGE);
        return false;
    }
    if (found == HEAD_PARTIAL) {
        if (!c->head_begun) deadline_start(c->proxy->settings->header_timeout, &c->deadline);
        c->head_begun = true;
        return false;
    }
    struct slice head = arena_copy(&c->arena, slice_make(c->pending.p, end));
    conn_consume(c, end);
    c->scanned = 0;
    c->head_begun = false;
    c->state = CONN_REQUEST;
    c->served++;
    deadline_stop(&c->deadline);
    request_begin(c, head);
    return true;
}

/* Requests one after the other, without recursion: a request that ends inside goes round again. */
static void pump(struct conn *c)
{
    if (c->pumping) return;
    c->pumping = true;
    while (c->state == CONN_READY && next_request(c)) continue;
    c->pumping = false;
    if (c->state == CONN_CLOSED) return;
    save_pending(c, slice_make(NULL, 0));
    conn_update_reading(c);
}

static void on_conn_read(struct stream *s, struct slice data)
{
    struct conn *c = of_stream(s);
    metric_add(METRIC_BYTES_IN, NULL, (double)data.n);
    if (c->state == CONN_LINGER) {
        c->lingered += data.n;
        if (c->lingered > LINGER_BYTES_MAX) conn_close(c);
        return;
    }
    if (c->pending.n)
        save_pending(c, data);
    else
        c->pending = data;
    if (c->state == CONN_REQUEST) {
        if (!c->pumping) {
            c->pumping = true;
            request_on_input(c->request);
            c->pumping = false;
        }
    }
    if (c->state != CONN_CLOSED) pump(c);
}

static void on_conn_end(struct stream *s, int error)
{
    struct conn *c = of_stream(s);
    c->half_closed = true;
    if (c->state == CONN_REQUEST)
        request_on_client_end(c->request, error);
    else if (error || stream_queued(s) == 0)
        conn_close(c);
    else if (c->state == CONN_READY)
        start_linger(c); /* what is queued still goes out; on_conn_drain closes */
}

static void took_large(struct conn *c)
{
    if (c->large_unread) c->proxy->large_unread--;
    c->large_unread = false;
}

static void on_conn_drain(struct stream *s)
{
    struct conn *c = of_stream(s);
    took_large(c);
    if (c->state == CONN_REQUEST)
        request_on_client_drain(c->request);
    else if (c->state == CONN_LINGER && c->half_closed)
        conn_close(c);
    else if (c->state == CONN_LINGER)
        deadline_start(&c->proxy->linger_timeout, &c->deadline);
    else if (c->state == CONN_READY)
        pump(c);
}

/* A handshake that came to nothing: counted; the line is for whoever looks for it, anybody can cause it. */
static void note_handshake(const struct conn *c, int error, const char *why)
{
    struct slice labels[] = {SLICE("client"), slice_str(tls_error_label(error))};
    metric_add(METRIC_TLS_FAILED, labels, 1);
    if (!log_on(LOG_INFO)) return;
    struct log_line line;
    log_begin(&line, LOG_INFO, SLICE("tls_handshake_failed"));
    json_field_string(&line.json, "client", slice_str(c->peer.text));
    json_field_string(&line.json, "reason", labels[1]);
    json_field_string(&line.json, "detail", slice_str(why));
    log_end(&line);
}

/* Between two requests, as far as we have read; but when the loop was late the next one may be here already, and closing
   would break it off: whoever sent it could not know, and may not send it again. Once; then the time for its head runs,
   since below TLS there can be bytes without end that are no request. */
static bool is_asked_meanwhile(const struct conn *c)
{
    return c->state == CONN_READY && !c->head_begun && c->pending.n == 0 && stream_has_arrived(&c->stream);
}

static void on_conn_due(struct deadline *d)
{
    struct conn *c = container_of(d, struct conn, deadline);
    size_t unsent = stream_queued(&c->stream);
    if (unsent && unsent < c->unsent) { /* slow, but it reads */
        conn_await_reader(c);
        return;
    }
    if (is_asked_meanwhile(c)) {
        c->head_begun = true;
        deadline_start(c->proxy->settings->header_timeout, &c->deadline);
        return;
    }
    if (c->state == CONN_REQUEST && c->request->tunnel)
        websocket_end(c->request, REASON_FORWARDED);
    else if (c->state == CONN_REQUEST)
        request_abort(c->request, c->request->answer_started ? REASON_CLIENT_GONE : REASON_BODY_TIMEOUT);
    else if (c->state == CONN_READY && c->pending.n)
        request_refuse(c, REASON_HEADER_TIMEOUT);
    else {
        if (c->state == CONN_SECURES) note_handshake(c, UV_ETIMEDOUT, "no TLS handshake in time");
        conn_close(c);
    }
}

static void on_conn_secured(struct stream *s, int error, const char *why)
{
    struct conn *c = of_stream(s);
    if (error) {
        note_handshake(c, error, why);
        bool gone = error > TLS_NOT_SPOKEN; /* a uv error: nobody is there to read our alert */
        if (gone)
            conn_close(c);
        else
            start_linger(c);
        return;
    }
    c->state = CONN_READY;
    if (c->refused != REASON_FORWARDED) {
        conn_refuse(c, c->refused);
        return;
    }
    c->head_begun = true; /* the time for it runs already */
    conn_update_reading(c);
}

static void on_conn_closed(struct stream *s)
{
    struct conn *c = of_stream(s);
    struct proxy *p = c->proxy;
    list_remove(&c->link);
    took_large(c);
    p->conns_n--;
    metric_set(METRIC_ACTIVE_CONNECTIONS, NULL, (double)p->conns_n);
    admission_give_back(p, c);
    arena_reset(&c->arena);
    free(c->saved);
    free(c);
    if (p->closing && p->conns_n == 0 && p->on_drained) p->on_drained(p);
}

static void on_body_bytes(struct parser *parser, struct slice data)
{
    struct conn *c = container_of(parser, struct conn, parser);
    request_on_body(c->request, data);
}

struct conn *conn_create(struct proxy *p, bool admin)
{
    struct conn *c = xzalloc(sizeof *c);
    c->proxy = p;
    c->admin = admin;
    arena_init(&c->arena);
    deadline_init(&c->deadline, on_conn_due);
    parser_init(&c->parser, PARSER_REQUEST, on_body_bytes);
    list_add_last(&p->conns, &c->link);
    p->conns_n++;
    metric_set(METRIC_ACTIVE_CONNECTIONS, NULL, (double)p->conns_n);
    return c;
}

void conn_begin(struct conn *c)
{
    c->head_begun = true;
    deadline_start(c->proxy->settings->header_timeout, &c->deadline);
    conn_update_reading(c);
}

void conn_secure(struct conn *c, struct tls_context *tls, enum reason refused)
{
    c->state = CONN_SECURES;
    c->refused = refused;
    c->tls = tls;
    deadline_start(c->proxy->settings->header_timeout, &c->deadline);
    stream_secure_server(&c->stream, tls, on_conn_secured);
}

bool conn_is_outdated(const struct conn *c)
{
    const struct keypair *keypair = c->admin ? NULL : c->proxy->settings->keypair;
    if (!keypair) return false;
    const struct tls_context *now = keypair_context(keypair);
    return c->tls != now && (!c->tls || !tls_context_asks_same(c->tls, now));
}

void conn_refuse(struct conn *c, enum reason reason)
{
    request_refuse(c, reason);
}

void conn_drain(struct conn *c)
{
    if ((c->state != CONN_READY && c->state != CONN_SECURES) || c->pending.n) return;
    if (c->served && !is_asked_meanwhile(c))
        conn_close(c);
    else
        deadline_start(&c->proxy->fresh_timeout, &c->deadline);
}

void conn_adjust(struct conn *c)
{
    bool idle = c->state == CONN_READY && c->served && !c->head_begun && c->pending.n == 0;
    if (idle) deadline_start(c->proxy->settings->idle_timeout, &c->deadline);
}

void conn_request_done(struct conn *c, bool keep_alive)
{
    bool clean = c->parser.complete;
    c->request = NULL;
    arena_reset(&c->arena);
    parser_init(&c->parser, PARSER_REQUEST, on_body_bytes);
    if (keep_alive && clean) {
        c->state = CONN_READY;
        deadline_start(c->proxy->settings->idle_timeout, &c->deadline);
        pump(c);
        return;
    }
    start_linger(c);
    if (c->state == CONN_LINGER) conn_update_reading(c);
}

void conn_await_reader(struct conn *c)
{
    c->unsent = stream_queued(&c->stream);
    deadline_start(c->proxy->settings->body_timeout, &c->deadline);
}

void conn_close(struct conn *c)
{
    if (c->state == CONN_CLOSED) return;
    CHECK(c->request == NULL, "a request ends before its connection");
    c->state = CONN_CLOSED;
    c->pending = slice_make(NULL, 0);
    deadline_stop(&c->deadline);
    stream_close(&c->stream, on_conn_closed);
}
