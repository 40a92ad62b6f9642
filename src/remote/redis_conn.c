/* remote/redis_conn: owns the socket to Redis and is the door to hiredis. Called by remote/redis_link only.
   Of hiredis only the reply parser is used: its asynchronous half aborts the process on a reply that nobody asked for
   (an assert, in 0.14 as in 1.2) and frees contexts differently from version to version; libuv has the socket instead.
   Refuses an answer of more than MAX_ANSWER_BYTES and what is not the Redis protocol. */
#include "remote/redis_conn.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/check.h"

#define KEEPALIVE_S 15
#define MAX_ANSWER_BYTES (8u << 20)
#define READ_BYTES 65536

/* Heap; freed by its close callback only, so that every callback may close it. */
struct redis_conn {
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } u;
    uv_connect_t connect;
    uv_write_t write;
    const struct redis_conn_events *events;
    void *arg;
    redisReader *reader;
    struct buf out;     /* not yet given to the kernel or to uv */
    struct buf writing; /* with uv until on_written */
    size_t unparsed;    /* bytes read since the last whole answer */
    bool is_tcp;
    bool is_writing;
    bool dead; /* lost or closed: its callbacks do nothing more */
};

static void on_connected(uv_connect_t *req, int status);
static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf);
static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf);
static void on_written(uv_write_t *req, int status);
static void on_closed(uv_handle_t *handle);

static char read_buffer[READ_BYTES]; /* one thread, and the parser copies what it keeps */

static void lose(struct redis_conn *c, enum redis_failure f, const char *error)
{
    if (c->dead) return;
    c->dead = true;
    c->events->on_lost(f, error, c->arg);
}

static struct redis_reply translate(const redisReply *r)
{
    struct redis_reply reply = {.kind = REDIS_KIND_OTHER};
    if (r->type == REDIS_REPLY_STRING || r->type == REDIS_REPLY_ERROR) {
        reply.kind = r->type == REDIS_REPLY_STRING ? REDIS_KIND_STRING : REDIS_KIND_ERROR;
        reply.text = slice_make(r->str, (size_t)r->len);
    } else if (r->type == REDIS_REPLY_INTEGER) {
        reply.kind = REDIS_KIND_INTEGER;
        reply.integer = r->integer;
    } else if (r->type == REDIS_REPLY_NIL) {
        reply.kind = REDIS_KIND_NIL;
    }
    return reply;
}

static void parse(struct redis_conn *c)
{
    while (!c->dead) {
        void *answer = NULL;
        if (redisReaderGetReply(c->reader, &answer) != REDIS_OK) {
            lose(c, REDIS_FAILURE_GARBAGE, "the server does not speak the Redis protocol");
            return;
        }
        if (!answer) break;
        c->unparsed = 0;
        struct redis_reply reply = translate(answer);
        c->events->on_reply(&reply, c->arg);
        freeReplyObject(answer);
    }
    if (c->unparsed > MAX_ANSWER_BYTES) lose(c, REDIS_FAILURE_GARBAGE, "the server sent an answer that is too large");
}

static void on_connected(uv_connect_t *req, int status)
{
    struct redis_conn *c = container_of(req, struct redis_conn, connect);
    if (c->dead) return;
    if (status == 0 && c->is_tcp) {
        uv_tcp_nodelay(&c->u.tcp, 1);
        uv_tcp_keepalive(&c->u.tcp, 1, KEEPALIVE_S);
    }
    if (status == 0) status = uv_read_start(&c->u.stream, on_alloc, on_read);
    if (status == 0) {
        c->events->on_connected(c->arg);
        return;
    }
    lose(c, REDIS_FAILURE_UNREACHABLE,
         status == UV_ECONNREFUSED ? "connection refused"
         : status == UV_ENOENT     ? "there is no such unix socket"
                                   : "connecting failed");
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    (void)handle;
    (void)suggested;
    *buf = uv_buf_init(read_buffer, sizeof read_buffer);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct redis_conn *c = stream->data;
    if (c->dead || n == 0) return;
    if (n < 0) {
        const char *error = n == UV_EOF ? "the server closed the connection" : "the connection was lost";
        lose(c, REDIS_FAILURE_UNREACHABLE, error);
        return;
    }
    c->unparsed += (size_t)n;
    /* Its result is not needed: a parser that is out of order says so at the next answer. */
    redisReaderFeed(c->reader, buf->base, (size_t)n);
    parse(c);
}

static void on_written(uv_write_t *req, int status)
{
    struct redis_conn *c = container_of(req, struct redis_conn, write);
    c->is_writing = false;
    c->writing.n = 0;
    if (c->dead) return;
    if (status < 0)
        lose(c, REDIS_FAILURE_UNREACHABLE, "the connection was lost");
    else
        redis_conn_flush(c);
}

static void on_closed(uv_handle_t *handle)
{
    struct redis_conn *c = handle->data;
    const struct redis_conn_events *events = c->events;
    void *arg = c->arg;
    redisReaderFree(c->reader);
    buf_free(&c->out);
    buf_free(&c->writing);
    free(c);
    events->on_closed(arg);
}

struct redis_conn *redis_conn_open(struct loop *l, const struct sockaddr *address, const char *path,
                                   const struct redis_conn_events *events, void *arg)
{
    uv_loop_t *uv = loop_uv(l);
    struct redis_conn *c = xzalloc(sizeof *c);
    c->events = events;
    c->arg = arg;
    c->is_tcp = address != NULL;
    c->reader = redisReaderCreate();
    CHECK(c->reader, "out of memory");
    buf_init(&c->out, NULL);
    buf_init(&c->writing, NULL);
    int error = address ? uv_tcp_init(uv, &c->u.tcp) : uv_pipe_init(uv, &c->u.pipe, 0);
    CHECK(error == 0, "a handle without a socket can always be made");
    c->u.handle.data = c;
    if (!address) {
        uv_pipe_connect(&c->connect, &c->u.pipe, path, on_connected);
    } else if (uv_tcp_connect(&c->connect, &c->u.tcp, address, on_connected) != 0) {
        redis_conn_close(c);
        return NULL;
    }
    return c;
}

void redis_conn_close(struct redis_conn *c)
{
    c->dead = true;
    uv_close(&c->u.handle, on_closed);
}

void redis_conn_add(struct redis_conn *c, const struct slice *args, size_t n)
{
    struct buf *out = &c->out;
    buf_add_char(out, '*');
    buf_add_int(out, (long long)n);
    for (size_t i = 0; i < n; i++) {
        buf_add_lit(out, "\r\n$");
        buf_add_int(out, (long long)args[i].n);
        buf_add_lit(out, "\r\n");
        buf_add_slice(out, args[i]);
    }
    buf_add_lit(out, "\r\n");
}

/* Writes what the kernel takes now and leaves the rest with uv. */
void redis_conn_flush(struct redis_conn *c)
{
    if (c->dead || c->is_writing || c->out.n == 0) return;
    uv_buf_t all = uv_buf_init(c->out.p, (unsigned)c->out.n);
    int n = uv_try_write(&c->u.stream, &all, 1);
    if (n == UV_EAGAIN) n = 0;
    if (n >= 0 && (size_t)n == c->out.n) {
        c->out.n = 0;
        return;
    }
    if (n >= 0) {
        struct buf spare = c->writing;
        c->writing = c->out;
        c->out = spare;
        all = uv_buf_init(c->writing.p + n, (unsigned)(c->writing.n - (size_t)n));
        n = uv_write(&c->write, &c->u.stream, &all, 1, on_written);
        c->is_writing = n == 0;
    }
    if (n < 0) lose(c, REDIS_FAILURE_UNREACHABLE, "the connection was lost");
}

size_t redis_conn_queued(const struct redis_conn *c)
{
    return c->out.n + c->writing.n;
}
