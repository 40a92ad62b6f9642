/* io/stream: one byte stream with its outgoing queue, over TCP or another transport. Called by dial, listener, conn and
   upstream. Refuses to keep the caller's memory: what the kernel does not take at once is copied. */
#include "io/stream.h"

#include <stdlib.h>
#include <sys/socket.h>

#include "base/check.h"
#include "io/tls_stream.h"

#define STREAM_PARTS 32
#define STREAM_READ_BYTES 65536

/* libuv asks for memory right before it reads and hands it over right after: one buffer serves all streams. */
static char read_buffer[STREAM_READ_BYTES];

static void on_failed_due(struct deadline *d);
static void on_socket_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf);
static void on_socket_read(uv_stream_t *uv, ssize_t n, const uv_buf_t *buf);
static void on_socket_written(uv_write_t *req, int status);
static void on_socket_shutdown(uv_shutdown_t *req, int status);
static void on_socket_closed(uv_handle_t *handle);

static struct stream *of_uv(void *handle)
{
    return container_of((uv_stream_t *)handle, struct stream, uv);
}

static int socket_read_start(struct stream *s)
{
    return uv_read_start(&s->uv, on_socket_alloc, on_socket_read);
}

static void socket_read_stop(struct stream *s)
{
    uv_read_stop(&s->uv);
}

static long socket_try_write(struct stream *s, const uv_buf_t *bufs, unsigned n)
{
    int written = uv_try_write(&s->uv, bufs, n);
    return written == UV_EAGAIN ? 0 : written;
}

static int socket_write(struct stream *s, uv_buf_t buf)
{
    return uv_write(&s->write_req, &s->uv, &buf, 1, on_socket_written);
}

static int socket_shutdown(struct stream *s)
{
    return uv_shutdown(&s->shutdown_req, &s->uv, on_socket_shutdown);
}

static void socket_close(struct stream *s)
{
    if (s->reset && s->uv.type == UV_TCP && uv_tcp_close_reset(&s->tcp, on_socket_closed) == 0) return;
    uv_close((uv_handle_t *)&s->uv, on_socket_closed);
}

static size_t socket_unwritten(const struct stream *s)
{
    return uv_stream_get_write_queue_size(&s->uv);
}

static bool socket_has_arrived(const struct stream *s)
{
    uv_os_fd_t fd;
    char first;
    return uv_fileno((const uv_handle_t *)&s->uv, &fd) == 0 && recv(fd, &first, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

static const struct stream_ops socket_ops = {socket_read_start, socket_read_stop, socket_try_write, socket_write,
                                          socket_shutdown,   socket_close,     socket_unwritten, socket_has_arrived};

/* A write failed: told by on_end in a later turn, so that no caller of stream_send is called back inside it. Also when
   the peer had ended its side in order before: only now it is known to be gone. */
static void fail_later(struct stream *s, int error)
{
    if (s->failed_error) return;
    s->failed_error = error;
    deadline_after(s->loop, &s->failed, 0);
}

static void drop_queue(struct stream *s)
{
    free(s->queue);
    s->queue = NULL;
    s->queue_n = s->queue_cap = 0;
}

static void enqueue(struct stream *s, const char *p, size_t n)
{
    if (s->queue_cap - s->queue_n < n) {
        size_t cap = s->queue_cap ? s->queue_cap * 2 : 4096;
        while (cap - s->queue_n < n) cap *= 2;
        s->queue = xrealloc(s->queue, cap);
        s->queue_cap = cap;
    }
    memcpy(s->queue + s->queue_n, p, n);
    s->queue_n += n;
}

static void shutdown_now(struct stream *s)
{
    s->want_shutdown = false;
    if (s->shutting) return;
    s->shutting = true;
    if (s->ops->shutdown(s) != 0) fail_later(s, UV_ECONNRESET);
}

/* Hands the queue to the transport. */
static void write_queue(struct stream *s)
{
    s->writing = s->queue;
    s->writing_n = s->queue_n;
    s->queue = NULL;
    s->queue_n = s->queue_cap = 0;
    int error = s->ops->write(s, uv_buf_init(s->writing, (unsigned)s->writing_n));
    if (error) {
        free(s->writing);
        s->writing = NULL;
        s->writing_n = 0;
        fail_later(s, error);
    }
}

static void on_failed_due(struct deadline *d)
{
    struct stream *s = container_of(d, struct stream, failed);
    if (s->closing) return;
    if (s->ended)
        s->events->on_end(s, s->failed_error);
    else if (s->tls)
        tls_ended(s, s->failed_error);
    else
        stream_tell_end(s, s->failed_error);
}

static void on_socket_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    (void)handle;
    (void)suggested;
    *buf = uv_buf_init(read_buffer, sizeof read_buffer);
}

static void on_socket_read(uv_stream_t *uv, ssize_t n, const uv_buf_t *buf)
{
    struct stream *s = of_uv(uv);
    if (n > 0)
        stream_got(s, slice_make(buf->base, (size_t)n));
    else if (n < 0)
        stream_got_end(s, n == UV_EOF ? 0 : (int)n);
}

static void on_socket_written(uv_write_t *req, int status)
{
    stream_written(container_of(req, struct stream, write_req), status);
}

static void on_socket_shutdown(uv_shutdown_t *req, int status)
{
    (void)req;
    (void)status; /* a peer that is gone already shows on the reading side */
}

static void on_socket_closed(uv_handle_t *handle)
{
    stream_closed(of_uv(handle));
}

int stream_init_tcp(struct stream *s, struct loop *l, const struct stream_events *events)
{
    stream_init(s, l, &socket_ops, events);
    return uv_tcp_init(loop_uv(l), &s->tcp);
}

int stream_init_pipe(struct stream *s, struct loop *l, const struct stream_events *events)
{
    stream_init(s, l, &socket_ops, events);
    return uv_pipe_init(loop_uv(l), &s->pipe, 0);
}

void stream_init(struct stream *s, struct loop *l, const struct stream_ops *ops, const struct stream_events *events)
{
    memset(s, 0, sizeof *s);
    s->ops = ops;
    s->events = events;
    s->loop = l;
    deadline_init(&s->failed, on_failed_due);
}

void stream_read(struct stream *s, bool on)
{
    if (s->closing || s->ended || s->reading == on) return;
    s->reading = on;
    if (s->tls)
        tls_read(s);
    else
        stream_pull(s, on);
}

void stream_pull(struct stream *s, bool on)
{
    if (!on) {
        s->ops->read_stop(s);
        return;
    }
    int error = s->ops->read_start(s);
    if (error) fail_later(s, error);
}

/* All parts in order: to the transport as far as it takes them at once, else to the queue. */
static void send_now(struct stream *s, const struct slice *parts, size_t n)
{
    size_t i = 0, done = 0; /* parts[i] from done on is not written yet */
    while (!s->writing && s->queue_n == 0 && i < n) {
        uv_buf_t bufs[STREAM_PARTS];
        unsigned count = 0;
        size_t total = 0;
        for (size_t k = i; k < n && count < STREAM_PARTS; k++) {
            size_t from = k == i ? done : 0;
            if (parts[k].n == from) continue;
            bufs[count++] = uv_buf_init((char *)(uintptr_t)(parts[k].p + from), (unsigned)(parts[k].n - from));
            total += parts[k].n - from;
        }
        if (count == 0) return;
        long written = s->ops->try_write(s, bufs, count);
        if (written < 0) {
            fail_later(s, (int)written);
            return;
        }
        size_t left = (size_t)written;
        while (i < n && left >= parts[i].n - done) {
            left -= parts[i].n - done;
            i++;
            done = 0;
        }
        done += left;
        if ((size_t)written < total) break;
    }
    for (; i < n; i++, done = 0) enqueue(s, parts[i].p + done, parts[i].n - done);
    if (!s->writing && s->queue_n) write_queue(s);
}

void stream_send(struct stream *s, const struct slice *parts, size_t n)
{
    if (s->closing || s->failed_error || s->shutting) return;
    if (s->tls)
        tls_send(s, parts, n);
    else
        send_now(s, parts, n);
}

void stream_pass(struct stream *s, struct slice bytes)
{
    if (!s->closing && !s->failed_error && !s->shutting) send_now(s, &bytes, 1);
}

void stream_fail(struct stream *s, int error)
{
    fail_later(s, error);
}

size_t stream_queued(const struct stream *s)
{
    size_t writing = s->writing && s->ops->unwritten ? s->ops->unwritten(s) : s->writing_n;
    return writing + s->queue_n;
}

bool stream_has_arrived(const struct stream *s)
{
    return s->ops->has_arrived && s->ops->has_arrived(s);
}

void stream_shutdown(struct stream *s)
{
    if (s->closing || s->shutting || s->failed_error) return;
    if (s->tls) tls_bye(s);
    if (s->writing)
        s->want_shutdown = true;
    else
        shutdown_now(s);
}

void stream_close(struct stream *s, void (*on_closed)(struct stream *s))
{
    CHECK(!s->closing, "a stream is closed once");
    if (s->tls) tls_stop(s);
    s->closing = true;
    s->on_closed = on_closed;
    deadline_stop(&s->failed);
    drop_queue(s);
    s->ops->close(s);
}

void stream_got(struct stream *s, struct slice data)
{
    if (s->closing || s->ended) return;
    if (s->tls)
        tls_got(s, data);
    else
        s->events->on_read(s, data);
}

void stream_got_end(struct stream *s, int error)
{
    if (s->tls && !s->closing && !s->ended)
        tls_ended(s, error);
    else
        stream_tell_end(s, error);
}

void stream_tell_end(struct stream *s, int error)
{
    if (s->closing || s->ended) return;
    s->ended = true;
    if (error) { /* told once: nothing is written any more that could fail */
        s->failed_error = error;
        deadline_stop(&s->failed);
    }
    if (s->reading || s->tls) s->ops->read_stop(s);
    s->reading = false;
    s->events->on_end(s, error);
}

void stream_written(struct stream *s, int status)
{
    free(s->writing);
    s->writing = NULL;
    s->writing_n = 0;
    if (s->closing) return;
    if (status) {
        drop_queue(s);
        fail_later(s, status);
        return;
    }
    if (s->queue_n) {
        write_queue(s);
        return;
    }
    if (s->want_shutdown) shutdown_now(s);
    if (s->events->on_drain && !(s->tls && tls_shakes_hands(s))) s->events->on_drain(s);
}

void stream_closed(struct stream *s)
{
    void (*on_closed)(struct stream *) = s->on_closed;
    if (s->tls) tls_free(s);
    if (on_closed) on_closed(s);
}
