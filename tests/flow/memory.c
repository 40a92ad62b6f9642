/* See flow/memory.h. Bytes are handed over in heap copies of exactly their length that are freed after the callback, so
   that a sanitizer sees every use beyond them or after it. */
#include "flow/memory.h"

#include <stdlib.h>

#include "base/check.h"

#define READ_MAX 65536 /* as io/stream */

struct piece {
    struct piece *next;
    size_t n;
    char *bytes;
};

static struct list ends = {&ends, &ends};

static struct memory *of(const struct stream *s)
{
    return s->tcp.data;
}

static void see(struct memory *m)
{
    size_t queued = stream_queued(m->stream);
    if (queued > m->most_queued) m->most_queued = queued;
}

static int on_read_start(struct stream *s)
{
    of(s)->reading = true;
    return 0;
}

static void on_read_stop(struct stream *s)
{
    of(s)->reading = false;
}

static size_t take(struct memory *m, const char *p, size_t n)
{
    if (n > m->room) n = m->room;
    buf_add(&m->got, p, n);
    if (m->room != MEMORY_ALL) m->room -= n;
    return n;
}

static long on_try_write(struct stream *s, const uv_buf_t *bufs, unsigned n)
{
    struct memory *m = of(s);
    long total = 0;
    CHECK(!m->has_writing && !m->shut, "nothing is tried behind a write that waits, or after the end");
    if (m->write_error) return m->write_error;
    for (unsigned i = 0; i < n; i++) {
        size_t took = take(m, bufs[i].base, bufs[i].len);
        total += (long)took;
        if (took < bufs[i].len) break;
    }
    return total;
}

static int on_write(struct stream *s, uv_buf_t buf)
{
    struct memory *m = of(s);
    CHECK(!m->has_writing && !m->shut, "one write at a time, none after the end");
    m->writing = buf;
    m->written = 0;
    m->has_writing = true;
    return 0;
}

static int on_shutdown(struct stream *s)
{
    struct memory *m = of(s);
    CHECK(!m->shut && !m->has_writing, "ended once, behind all that is written");
    m->shut = true;
    return 0;
}

static void on_close(struct stream *s)
{
    of(s)->closing = true;
    of(s)->reset = s->reset;
    of(s)->reading = false;
}

static size_t on_unwritten(const struct stream *s)
{
    const struct memory *m = of(s);
    return m->has_writing ? m->writing.len - m->written : 0;
}

static const struct stream_ops ops = {on_read_start, on_read_stop, on_try_write, on_write,
                                      on_shutdown,   on_close,     on_unwritten, NULL};

struct memory *memory_open(struct stream *s, struct loop *l, const struct stream_events *events)
{
    struct memory *m = xzalloc(sizeof *m);
    stream_init(s, l, &ops, events);
    s->tcp.data = m;
    m->stream = s;
    m->room = MEMORY_ALL;
    m->last = &m->first;
    buf_init(&m->got, NULL);
    buf_reserve(&m->got, 16384);
    list_add_last(&ends, &m->link);
    return m;
}

static void drop_first(struct memory *m)
{
    struct piece *p = m->first;
    m->first = p->next;
    if (!m->first) m->last = &m->first;
    free(p->bytes);
    free(p);
}

void memory_free_all(void)
{
    while (!list_empty(&ends)) {
        struct memory *m = container_of(ends.next, struct memory, link);
        CHECK(m->closed, "the proxy closes its side first");
        while (m->first)
            drop_first(m);
        buf_free(&m->got);
        list_remove(&m->link);
        free(m);
    }
}

void memory_send(struct memory *m, const char *bytes, size_t n)
{
    CHECK(!m->ends, "nothing is sent behind the end");
    while (n) {
        struct piece *p = xzalloc(sizeof *p);
        p->n = n < READ_MAX ? n : READ_MAX;
        p->bytes = xmalloc(p->n);
        memcpy(p->bytes, bytes, p->n);
        *m->last = p;
        m->last = &p->next;
        bytes += p->n;
        n -= p->n;
    }
}

void memory_end(struct memory *m, int error)
{
    m->ends = true;
    m->end_error = error;
}

static bool pump_write(struct memory *m)
{
    if (m->write_error) {
        m->has_writing = false;
        stream_written(m->stream, m->write_error);
        return true;
    }
    size_t took = take(m, m->writing.base + m->written, m->writing.len - m->written);
    m->written += took;
    if (m->written < m->writing.len) return took > 0;
    m->has_writing = false;
    stream_written(m->stream, 0);
    return true;
}

static bool pump_read(struct memory *m)
{
    if (m->first) {
        struct piece *p = m->first;
        m->first = p->next;
        if (!m->first) m->last = &m->first;
        if (p->n > m->most_read) m->most_read = p->n;
        stream_got(m->stream, slice_make(p->bytes, p->n));
        free(p->bytes);
        free(p);
        return true;
    }
    if (!m->ends || m->told) return false;
    m->told = true;
    stream_got_end(m->stream, m->end_error);
    return true;
}

static void pump_close(struct memory *m)
{
    struct stream *s = m->stream;
    if (m->has_writing) {
        m->has_writing = false;
        stream_written(s, UV_ECANCELED);
    }
    m->closed = true;
    m->stream = NULL;
    stream_closed(s); /* its owner may free it */
}

bool memory_pump(void)
{
    bool moved = false;
    struct list *next;
    for (struct list *at = ends.next; at != &ends; at = next) {
        struct memory *m = container_of(at, struct memory, link);
        next = at->next;
        if (m->closed) continue;
        see(m);
        if (m->closing) {
            pump_close(m);
            moved = true;
            continue;
        }
        if (m->has_writing && (m->room || m->write_error)) moved |= pump_write(m);
        if (!m->closing && m->reading) moved |= pump_read(m);
        if (!m->closing) see(m);
    }
    return moved;
}

size_t memory_alive(void)
{
    size_t n = 0;
    for (struct list *at = ends.next; at != &ends; at = at->next)
        n += !container_of(at, struct memory, link)->closed;
    return n;
}
