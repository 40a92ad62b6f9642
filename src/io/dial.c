/* io/dial: a name and port, or a path, to a connected stream within a deadline. Called by upstream and redis. One address
   after the other; an address literal needs no resolver; TLS counts against the same deadline. Refuses to leave a half-open stream behind: on failure it is closed first. */
#include "io/dial.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/un.h>

#include "base/check.h"

#define WHY_BYTES 200

struct dial {
    uv_getaddrinfo_t resolve_req;
    uv_connect_t connect_req;
    struct deadline deadline;
    struct loop *loop;
    struct dial_target target;
    struct stream *stream;
    const struct stream_events *events;
    dial_done done;
    void *arg;
    void (*on_cancelled)(struct stream *s);
    struct addrinfo *addresses; /* of the resolver; NULL for a literal */
    struct addrinfo *next;      /* not tried yet */
    struct sockaddr_storage literal;
    int status;                 /* of the last attempt */
    char why[WHY_BYTES];        /* in words; "": what the status says */
    bool resolving;
    bool connecting;            /* the stream is open */
    bool finished;              /* the caller was told, or cancelled */
};

static void on_due(struct deadline *d);
static void on_resolved(uv_getaddrinfo_t *req, int status, struct addrinfo *addresses);
static void on_connected(uv_connect_t *req, int status);
static void on_secured(struct stream *s, int error, const char *why);
static void on_attempt_closed(struct stream *s);
static void on_cancel_closed(struct stream *s);

static void release(struct dial *d)
{
    if (d->resolving) return; /* its callback frees */
    if (d->addresses) uv_freeaddrinfo(d->addresses);
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
    d->connecting = true;
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
    struct addrinfo *a = d->next;
    d->next = a->ai_next;
    attempt(d, a->ai_addr);
}

static void on_due(struct deadline *deadline)
{
    struct dial *d = container_of(deadline, struct dial, deadline);
    if (!d->resolving && !d->connecting) { /* the resolver would not start */
        tell(d, d->status);
        if (d->on_cancelled) d->on_cancelled(d->stream);
        release(d);
        return;
    }
    d->status = UV_ETIMEDOUT;
    if (d->resolving) {
        say(d, "the name was not resolved in time");
        uv_cancel((uv_req_t *)&d->resolve_req); /* where it runs already its callback comes late and only frees */
        tell(d, UV_ETIMEDOUT);
        return;
    }
    d->next = NULL;
    say(d, d->stream->tls ? "no TLS handshake in time" : "connect timed out");
    if (!d->stream->closing) stream_close(d->stream, on_attempt_closed);
}

static void on_resolved(uv_getaddrinfo_t *req, int status, struct addrinfo *addresses)
{
    struct dial *d = container_of(req, struct dial, resolve_req);
    d->resolving = false;
    d->addresses = addresses;
    d->next = addresses;
    if (d->finished) {
        if (d->on_cancelled) d->on_cancelled(d->stream);
        release(d);
        return;
    }
    if (status || !addresses) {
        tell(d, status ? status : UV_EAI_NONAME);
        release(d);
        return;
    }
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
    d->connecting = false;
    if (!d->finished && d->next && d->status != UV_ETIMEDOUT) {
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
    char service[16];
    snprintf(service, sizeof service, "%d", target->port);
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
    d->resolving = true;
    int error = uv_getaddrinfo(loop_uv(l), &d->resolve_req, on_resolved, target->host, service, &hints);
    if (error) {
        d->resolving = false;
        d->status = error;
        deadline_after(l, &d->deadline, 0);
    }
    return d;
}

void dial_cancel(struct dial *d, void (*on_closed)(struct stream *s))
{
    CHECK(!d->finished, "a finished dial is not cancelled");
    d->finished = true;
    d->on_cancelled = on_closed;
    if (!d->resolving && !d->connecting) return; /* no stream was opened: the deadline tells */
    deadline_stop(&d->deadline);
    if (d->resolving) {
        uv_cancel((uv_req_t *)&d->resolve_req);
        return;
    }
    if (d->stream->closing) {
        d->stream->on_closed = on_cancel_closed;
        return;
    }
    stream_close(d->stream, on_cancel_closed);
}
