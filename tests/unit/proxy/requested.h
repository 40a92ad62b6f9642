/* A request without a connection: as much of one as peer.c and cors.c look at. */
#ifndef UNIT_PROXY_REQUESTED_H
#define UNIT_PROXY_REQUESTED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

#include "base/check.h"
#include "conf/net.h"
#include "proxy/request.h"

#define LINES(...) ((const char *const[]){__VA_ARGS__, NULL})

struct requested {
    struct request r;
    struct conn conn;
    struct proxy proxy;
    struct conf conf;
    struct head head;
    struct header v[16];
    struct conf_net nets[4];
    struct arena arena;
    struct buf out;
};

static inline void requested_init(struct requested *q, const char *method, const char *const *lines)
{
    *q = (struct requested){.r.conf = &q->conf, .head = {.method = slice_str(method), .v = q->v}};
    arena_init(&q->arena);
    buf_init(&q->out, &q->arena);
    q->r.proxy = &q->proxy;
    q->r.conn = &q->conn;
    q->r.head = &q->head;
    q->r.arena = &q->arena;
    q->r.host = SLICE("front.test");
    for (; *lines; lines++) {
        const char *colon = strchr(*lines, ':');
        struct header *h = &q->v[q->head.n++];
        h->name = slice_make(*lines, (size_t)(colon - *lines));
        h->value = slice_trim(slice_str(colon + 1));
        h->id = header_identify(h->name);
    }
}

static inline void requested_finish(struct requested *q)
{
    arena_reset(&q->arena);
    assert_int_equal(arena_chunks_out(), 0);
}

#define assert_text(slice, text) assert_text_at((slice), (text), __FILE__, __LINE__)
static inline void assert_text_at(struct slice s, const char *text, const char *file, int line)
{
    if (slice_eq(s, slice_str(text))) return;
    print_error("\"%.*s\" is not \"%s\"\n", (int)s.n, s.p ? s.p : "", text);
    _fail(file, line);
}

#endif
