/* remote/redis_conn: owns the stream to Redis and is the door to hiredis. Called by remote/redis_link only.
   Of hiredis only the reply parser is used: its asynchronous half aborts the process on a reply that nobody asked for
   (an assert, in 0.14 as in 1.2) and frees contexts differently from version to version; io/stream has the socket
   instead. Refuses an answer of more than MAX_ANSWER_BYTES and what is not the Redis protocol. */
#include "remote/redis_conn.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/check.h"
#include "io/stream.h"

#define KEEPALIVE_S 15
#define MAX_ANSWER_BYTES (8u << 20)
#define MAX_ITEMS 100000u /* of an answer, at all depths */

#if HIREDIS_MAJOR >= 1
typedef size_t array_size;
#else
typedef int array_size;
#endif

/* Heap; freed when its stream is gone, so that every callback may close it. */
struct redis_conn {
    struct stream stream;
    struct dial *dial; /* until it is connected */
    const struct redis_conn_events *events;
    void *arg;
    redisReader *reader;
    redisReplyObjectFunctions functions; /* hiredis' own, but for arrays */
    size_t items;                        /* said to be in the arrays of the answer that is being read */
    struct buf out;  /* not yet given to the stream */
    size_t unparsed; /* bytes read since the last whole answer */
    bool connected;
    bool dead; /* lost or closed: its callbacks do nothing more */
    bool closing;
};

static void on_dialled(struct stream *s, int status, const char *why, void *arg);
static void on_read(struct stream *s, struct slice data);
static void on_end(struct stream *s, int error);
static void on_closed(struct stream *s);

static const struct stream_events stream_events = {on_read, on_end, NULL};

static struct redis_conn *of(struct stream *s)
{
    return container_of(s, struct redis_conn, stream);
}

static void lose(struct redis_conn *c, enum redis_failure f, const char *error)
{
    if (c->dead) return;
    c->dead = true;
    c->events->on_lost(f, error, c->arg);
}

static void *(*make_array)(const redisReadTask *task, array_size n); /* of hiredis */

/* hiredis allocates as many items as an array is said to have before one of them has come. NULL: the reader gives up. */
static void *make_bounded_array(const redisReadTask *task, array_size n)
{
    struct redis_conn *c = task->privdata;
    c->items += (size_t)n;
    return (size_t)n > MAX_ITEMS || c->items > MAX_ITEMS ? NULL : make_array(task, n);
}

static redisReader *make_reader(struct redis_conn *c)
{
    redisReader *reader = redisReaderCreate();
    CHECK(reader, "out of memory");
    make_array = reader->fn->createArray;
    c->functions = *reader->fn;
    c->functions.createArray = make_bounded_array;
    reader->fn = &c->functions;
    reader->privdata = c;
    return reader;
}

/* The items of an array stand together at *free, which moves on; hiredis allows a depth of a few only. */
static struct redis_reply translate(const redisReply *r, struct redis_reply **free_items)
{
    static const enum redis_kind kinds[] = {
        [REDIS_REPLY_STRING] = REDIS_KIND_STRING, [REDIS_REPLY_ERROR] = REDIS_KIND_ERROR,
        [REDIS_REPLY_INTEGER] = REDIS_KIND_INTEGER, [REDIS_REPLY_NIL] = REDIS_KIND_NIL,
        [REDIS_REPLY_ARRAY] = REDIS_KIND_ARRAY, [REDIS_REPLY_STATUS] = REDIS_KIND_OTHER};
    struct redis_reply reply = {.kind = REDIS_KIND_OTHER};
    if (r->type >= 0 && (size_t)r->type < sizeof kinds / sizeof *kinds) reply.kind = kinds[r->type];
    if (r->type == REDIS_REPLY_STRING || r->type == REDIS_REPLY_ERROR || r->type == REDIS_REPLY_STATUS)
        reply.text = slice_make(r->str, (size_t)r->len);
    reply.integer = reply.kind == REDIS_KIND_INTEGER ? r->integer : 0;
    if (reply.kind == REDIS_KIND_ARRAY) {
        struct redis_reply *items = *free_items;
        *free_items += r->elements;
        reply.items = items;
        reply.n = r->elements;
        for (size_t i = 0; i < r->elements; i++)
            items[i] = translate(r->element[i], free_items);
    }
    return reply;
}

static void tell(struct redis_conn *c, const redisReply *answer)
{
    struct redis_reply *items = c->items ? xzalloc(c->items * sizeof *items) : NULL, *free_items = items;
    struct redis_reply reply = translate(answer, &free_items);
    c->events->on_reply(&reply, c->arg);
    free(items);
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
        tell(c, answer);
        c->items = 0;
        freeReplyObject(answer);
    }
    if (c->unparsed > MAX_ANSWER_BYTES) lose(c, REDIS_FAILURE_GARBAGE, "the server sent an answer that is too large");
}

static void on_dialled(struct stream *s, int status, const char *why, void *arg)
{
    struct redis_conn *c = arg;
    c->dial = NULL;
    if (status) {
        lose(c, status == UV_ETIMEDOUT ? REDIS_FAILURE_TIMEOUT : REDIS_FAILURE_UNREACHABLE, why);
        CHECK(c->closing, "a connection that is lost is closed at once");
        on_closed(s);
        return;
    }
    c->connected = true;
    if (s->uv.type == UV_TCP) uv_tcp_keepalive(&s->tcp, 1, KEEPALIVE_S);
    stream_read(s, true);
    c->events->on_connected(c->arg);
}

static void on_read(struct stream *s, struct slice data)
{
    struct redis_conn *c = of(s);
    if (c->dead) return;
    c->unparsed += data.n;
    /* Its result is not needed: a parser that is out of order says so at the next answer. */
    redisReaderFeed(c->reader, data.p, data.n);
    parse(c);
}

static void on_end(struct stream *s, int error)
{
    const char *fault = error ? stream_tls_fault(s) : "the server closed the connection";
    lose(of(s), REDIS_FAILURE_UNREACHABLE, fault ? fault : "the connection was lost");
}

static void on_closed(struct stream *s)
{
    struct redis_conn *c = of(s);
    const struct redis_conn_events *events = c->events;
    void *arg = c->arg;
    redisReaderFree(c->reader);
    if (c->out.p) explicit_bzero(c->out.p, c->out.cap); /* a password went through it */
    buf_free(&c->out);
    free(c);
    events->on_closed(arg);
}

struct redis_conn *redis_conn_open(struct loop *l, const struct dial_target *target, int64_t timeout_ms,
                                   const struct redis_conn_events *events, void *arg)
{
    struct redis_conn *c = xzalloc(sizeof *c);
    c->events = events;
    c->arg = arg;
    c->reader = make_reader(c);
    buf_init(&c->out, NULL);
    c->dial = dial_start(l, target, timeout_ms, &c->stream, &stream_events, on_dialled, c);
    return c;
}

void redis_conn_close(struct redis_conn *c)
{
    c->dead = c->closing = true;
    if (c->dial)
        dial_cancel(c->dial, on_closed);
    else if (c->connected)
        stream_close(&c->stream, on_closed);
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

void redis_conn_flush(struct redis_conn *c)
{
    struct slice all = buf_slice(&c->out);
    if (c->dead || all.n == 0) return;
    stream_send(&c->stream, &all, 1);
    c->out.n = 0;
}

size_t redis_conn_queued(const struct redis_conn *c)
{
    return c->out.n + stream_queued(&c->stream);
}
