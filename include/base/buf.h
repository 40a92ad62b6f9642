/* base/buf: a growing byte buffer, in an arena (arena set) or on the heap (arena NULL). Appending never fails. */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/arena.h"
#include "base/slice.h"

struct buf {
    char *p;
    size_t n;
    size_t cap;
    struct arena *arena;
};

void buf_init(struct buf *b, struct arena *arena_or_null);
/* Heap buffers only; in an arena a no-op. Leaves the buffer as after buf_init. */
void buf_free(struct buf *b);

/* Room for at least extra more bytes, without changing n. */
void buf_reserve(struct buf *b, size_t extra);

static inline void buf_add(struct buf *b, const char *p, size_t n)
{
    if (b->cap - b->n < n) buf_reserve(b, n);
    if (n) memcpy(b->p + b->n, p, n);
    b->n += n;
}

static inline void buf_add_slice(struct buf *b, struct slice s)
{
    buf_add(b, s.p, s.n);
}

static inline void buf_add_char(struct buf *b, char c)
{
    buf_add(b, &c, 1);
}

#define buf_add_lit(b, lit) buf_add((b), "" lit, sizeof(lit) - 1)

void buf_add_int(struct buf *b, long long value);
/* The shortest digits that read back as the same finite number; whole numbers without fraction or exponent. */
void buf_add_double(struct buf *b, double value);
/* That many thousandths as a number with up to three decimals: 1500 is "1.5", 2000 is "2". */
void buf_add_thousandths(struct buf *b, uint64_t value);
void buf_printf(struct buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));

static inline struct slice buf_slice(const struct buf *b)
{
    return slice_make(b->p, b->n);
}

#endif
