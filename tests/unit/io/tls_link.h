/* Two ends of a connection in memory, for the tests of TLS: what one writes waits in a buffer until the test carries it over,
   in pieces of the size it asks for, each a heap copy that is freed right after. */
#ifndef UNIT_IO_TLS_LINK_H
#define UNIT_IO_TLS_LINK_H

#include <stdlib.h>

#include "base/buf.h"
#include "base/check.h"
#include "io/stream.h"
#include "io/tls.h"

struct end {
    struct stream stream;
    struct buf sent;        /* and not carried over yet, from `carried` on */
    size_t carried;
    size_t room;            /* what may stand there; more waits in the stream's queue */
    uv_buf_t writing;
    size_t written;
    bool pulls, shut, closed;
    /* what its owner was told */
    struct buf read;
    size_t secured, ends, drains, reads;
    int error, end_error;
    char why[200];
    bool closes_when_secured, pauses; /* what its owner does: closes; stops reading after each helping */
};

static struct {
    struct loop *loop;
    struct end client, server;
} link_;

static inline struct end *end_of(const struct stream *s)
{
    return container_of((struct stream *)(uintptr_t)s, struct end, stream);
}

static inline int end_read_start(struct stream *s)
{
    if (end_of(s)->pulls) return UV_EALREADY; /* as libuv does */
    end_of(s)->pulls = true;
    return 0;
}

static inline void end_read_stop(struct stream *s)
{
    end_of(s)->pulls = false;
}

static inline size_t end_take(struct end *e, const char *p, size_t n)
{
    size_t waits = e->sent.n - e->carried, room = e->room > waits ? e->room - waits : 0;
    if (n > room) n = room;
    if (n) buf_add(&e->sent, p, n);
    return n;
}

static inline long end_try_write(struct stream *s, const uv_buf_t *bufs, unsigned n)
{
    long total = 0;
    CHECK(!end_of(s)->shut, "nothing is written behind the end");
    for (unsigned i = 0; i < n; i++) {
        size_t took = end_take(end_of(s), bufs[i].base, bufs[i].len);
        total += (long)took;
        if (took < bufs[i].len) break;
    }
    return total;
}

static inline int end_write(struct stream *s, uv_buf_t buf)
{
    end_of(s)->writing = buf;
    end_of(s)->written = 0;
    return 0;
}

static inline int end_shutdown(struct stream *s)
{
    end_of(s)->shut = true;
    return 0;
}

static inline void end_close(struct stream *s)
{
    end_of(s)->pulls = false;
}

static const struct stream_ops end_ops = {end_read_start, end_read_stop, end_try_write, end_write,
                                          end_shutdown,   end_close,     NULL,          NULL};

static inline void end_on_read(struct stream *s, struct slice data)
{
    struct end *e = end_of(s);
    CHECK(e->secured && s->reading, "read when it may be");
    buf_add_slice(&e->read, data);
    e->reads++;
    if (e->pauses) stream_read(s, false);
}

static inline void end_on_end(struct stream *s, int error)
{
    end_of(s)->ends++;
    end_of(s)->end_error = error;
}

static inline void end_on_drain(struct stream *s)
{
    CHECK(end_of(s)->secured, "a handshake tells nothing");
    end_of(s)->drains++;
}

static const struct stream_events end_events = {end_on_read, end_on_end, end_on_drain};

static inline void end_on_closed(struct stream *s)
{
    end_of(s)->closed = true;
}

static inline void end_on_secured(struct stream *s, int error, const char *why)
{
    struct end *e = end_of(s);
    e->secured++;
    e->error = error;
    snprintf(e->why, sizeof e->why, "%s", why);
    if (e->closes_when_secured) stream_close(s, end_on_closed);
}

static inline void end_open(struct end *e)
{
    memset(e, 0, sizeof *e);
    stream_init(&e->stream, link_.loop, &end_ops, &end_events);
    e->room = SIZE_MAX;
    buf_init(&e->sent, NULL);
    buf_init(&e->read, NULL);
}

static inline void link_open(void)
{
    link_.loop = loop_create();
    end_open(&link_.client);
    end_open(&link_.server);
}

static inline void end_finish(struct end *e)
{
    if (!e->stream.closing) stream_close(&e->stream, end_on_closed);
    if (e->writing.base) stream_written(&e->stream, UV_ECANCELED);
    stream_closed(&e->stream);
    CHECK(e->closed, "told of its close");
    buf_free(&e->sent);
    buf_free(&e->read);
}

static inline void link_close(void)
{
    end_finish(&link_.client);
    end_finish(&link_.server);
    loop_close(link_.loop);
    loop_run(link_.loop);
    loop_destroy(link_.loop);
}

/* One piece of at most n bytes from one end to the other, where that one reads. */
static inline bool carry_one(struct end *from, struct end *to, size_t n)
{
    size_t waits = from->sent.n - from->carried;
    if (from->writing.base) {
        from->written += end_take(from, from->writing.base + from->written, from->writing.len - from->written);
        if (from->written == from->writing.len) {
            from->writing = uv_buf_init(NULL, 0);
            stream_written(&from->stream, 0);
        }
    }
    if (waits == 0 || !to->pulls) return false;
    if (n > waits) n = waits;
    char *piece = xmalloc(n);
    memcpy(piece, from->sent.p + from->carried, n);
    from->carried += n;
    stream_got(&to->stream, slice_make(piece, n));
    free(piece);
    return true;
}

/* A piece each way. */
static inline bool carry_both(size_t n)
{
    bool there = carry_one(&link_.client, &link_.server, n);
    return carry_one(&link_.server, &link_.client, n) || there;
}

/* Carries both ways, in pieces of n, until nothing moves. */
static inline void carry(size_t n)
{
    for (int still = 0; still < 3; still++) {
        while (carry_both(n)) still = 0;
        loop_turn(link_.loop);
    }
}

static inline void end_send(struct end *e, const char *text)
{
    struct slice part = slice_str(text);
    stream_send(&e->stream, &part, 1);
}

#endif
