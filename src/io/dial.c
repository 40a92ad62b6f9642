/* io/dial: a name and port, or a path, to a connected stream within a deadline. Called by upstream and redis. One address
   after the other; an address literal needs no resolver; TLS counts against the same deadline. Refuses to leave a half-open stream behind: on failure it is closed first. */
#include "io/dial.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/un.h>

#include "base/check.h"
#include "io/resolve.h"

#define WHY_BYTES 200

struct dial {
    uv_connect_t connect_req;
    struct deadline deadline;
    struct loop *loop;
    struct dial_target target;
    struct stream *stream;
    const struct stream_events *events;
    dial_done done;
    void *arg;
    void (*on_cancelled)(struct stream *s);
    struct resolve *question;   /* the name is being resolved */
    struct sockaddr_storage *addresses; /* of the resolver; NULL for a literal */
    size_t addresses_n, next;   /* those from next on are not tried yet */
    struct sockaddr_storage literal;
    int status;                 /* of the last attempt */
    char why[WHY_BYTES];        /* in words; "": what the status says */
    bool finished;              /* the caller was told, or cancelled */
};

static void on_due(struct deadline *d);
static void on_resolved(int status, const struct sockaddr_storage *v, size_t n, void *arg);
static void on_connected(uv_connect_t *req, int status);
static void on_secured(struct stream *s, int error, const char *why);
static void on_attempt_closed(struct stream *s);
static void on_cancel_closed(struct stream *s);

static void release(struct dial *d)
{
    free(d->addresses);
    tls_context_release(d->target.tls);
    free(d);
}

static void tell(struct dial *d, int status)
{
    deadline_stop(&d->deadline);
    if (d->finished) return;
    d->finished = true;
    if (status && !d->why[0]) snprintf(d->why, sizeof d->why, "%s", uv_strerror(status));
    d->done(d->stream, status, d->why, d->arg);
}

static void say(struct dial *d, const char *why)
{
    snprintf(d->why, sizeof d->why, "%s", why);
}

static void begin(struct dial *d)
{
    d->connect_req.data = d;
    d->stream->uv.data = d;
    d->why[0] = 0;
}

/* Opens the stream to one address; a failure to start is the attempt's outcome. */
static void attempt(struct dial *d, const struct sockaddr *address)
{
    d->status = stream_init_tcp(d->stream, d->loop, d->events);
    CHECK(d->status == 0, "a TCP handle can be made");
    begin(d);
    d->status = uv_tcp_connect(&d->connect_req, &d->stream->tcp, address, on_connected);
    if (d->status) stream_close(d->stream, on_attempt_closed);
}

/* A path longer than the kernel has room for would be cut by libuv: another socket than the one that was meant. */
static void attempt_path(struct dial *d, const char *path)
{
    d->status = stream_init_pipe(d->stream, d->loop, d->events);
    CHECK(d->status == 0, "a pipe handle can be made");
    begin(d);
    if (strlen(path) >= sizeof ((struct sockaddr_un *)0)->sun_path) {
        d->status = UV_ENAMETOOLONG;
        stream_close(d->stream, on_attempt_closed);
        return;
    }
    uv_pipe_connect(&d->connect_req, &d->stream->pipe, path, on_connected);
}

static void attempt_next(struct dial *d)
{
    attempt(d, (const struct sockaddr *)&d->addresses[d->next++]);
}

static void on_due(struct deadline *deadline)
{
    struct dial *d = container_of(deadline, struct dial, deadline);
    d->status = UV_ETIMEDOUT;
    if (d->question) {
        resolve_cancel(d->question);
        say(d, "the name was not resolved in time");
        tell(d, UV_ETIMEDOUT);
        release(d);
        return;
    }
    d->next = d->addresses_n;
    say(d, d->stream->tls ? "no TLS handshake in time" : "connect timed out");
    if (!d->stream->closing) stream_close(d->stream, on_attempt_closed);
}

static void on_resolved(int status, const struct sockaddr_storage *v, size_t n, void *arg)
{
    struct dial *d = arg;
    d->question = NULL;
    if (status) {
        tell(d, status);
        release(d);
        return;
    }
    d->addresses = xmalloc(n * sizeof *v);
    memcpy(d->addresses, v, n * sizeof *v);
    d->addresses_n = n;
    attempt_next(d);
}

static void on_connected(uv_connect_t *req, int status)
{
    struct dial *d = req->data;
    if (d->stream->closing) return; /* timed out or cancelled: the close callback goes on */
    d->status = status;
    if (status) {
        stream_close(d->stream, on_attempt_closed);
        return;
    }
    if (d->stream->uv.type == UV_TCP) uv_tcp_nodelay(&d->stream->tcp, 1);
    if (d->target.tls) {
        const char *name = d->target.tls_name ? d->target.tls_name : d->target.host ? d->target.host : "";
        stream_secure_client(d->stream, d->target.tls, name, on_secured);
        return;
    }
    tell(d, 0);
    release(d);
}

static void on_secured(struct stream *s, int error, const char *why)
{
    struct dial *d = s->uv.data;
    d->status = error;
    if (error) {
        say(d, why);
        stream_close(s, on_attempt_closed);
        return;
    }
    tell(d, 0);
    release(d);
}

static void on_attempt_closed(struct stream *s)
{
    struct dial *d = s->uv.data;
    if (!d->finished && d->next < d->addresses_n && d->status != UV_ETIMEDOUT) {
        attempt_next(d);
        return;
    }
    tell(d, d->status);
    release(d);
}

static void on_cancel_closed(struct stream *s)
{
    struct dial *d = s->uv.data;
    void (*on_cancelled)(struct stream *) = d->on_cancelled;
    release(d);
    on_cancelled(s);
}

static bool parse_literal(const char *host, int port, struct sockaddr_storage *out)
{
    return uv_ip4_addr(host, port, (struct sockaddr_in *)out) == 0 ||
           uv_ip6_addr(host, port, (struct sockaddr_in6 *)out) == 0;
}

struct dial *dial_start(struct loop *l, const struct dial_target *target, int64_t timeout_ms, struct stream *s,
                        const struct stream_events *events, dial_done done, void *arg)
{
    struct dial *d = xzalloc(sizeof *d);
    d->loop = l;
    d->target = *target;
    if (target->tls) tls_context_hold(target->tls);
    d->stream = s;
    d->events = events;
    d->done = done;
    d->arg = arg;
    deadline_init(&d->deadline, on_due);
    deadline_after(l, &d->deadline, timeout_ms);
    if (target->path || target->address || parse_literal(target->host, target->port, &d->literal)) {
        if (target->path)
            attempt_path(d, target->path);
        else
            attempt(d, target->address ? target->address : (const struct sockaddr *)&d->literal);
        return d;
    }
    d->question = resolve_start(l, target->host, target->port, on_resolved, d);
    return d;
}

void dial_cancel(struct dial *d, void (*on_closed)(struct stream *s))
{
    CHECK(!d->finished, "a finished dial is not cancelled");
    d->finished = true;
    d->on_cancelled = on_closed;
    deadline_stop(&d->deadline);
    if (d->question) { /* no stream was opened yet: one is, for its close callback */
        resolve_cancel(d->question);
        CHECK(stream_init_tcp(d->stream, d->loop, d->events) == 0, "a TCP handle can be made");
        begin(d);
    }
    if (d->stream->closing) {
        d->stream->on_closed = on_cancel_closed;
        return;
    }
    stream_close(d->stream, on_cancel_closed);
}
