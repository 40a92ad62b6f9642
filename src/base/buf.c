/* base/buf: growth of byte buffers and the few things appended by format. Called from everywhere that writes text.
   Bounds are the caller's: a buffer grows as long as it is fed. */
#include "base/buf.h"

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"

#define FIRST_BYTES 256
#define EXACT_LIMIT 9007199254740992.0 /* 2^53: whole numbers below it are exact in a double */

void buf_init(struct buf *b, struct arena *arena_or_null)
{
    *b = (struct buf){.arena = arena_or_null};
}

void buf_free(struct buf *b)
{
    if (b->arena == NULL) free(b->p);
    buf_init(b, b->arena);
}

void buf_reserve(struct buf *b, size_t extra)
{
    if (b->cap - b->n >= extra) return;
    CHECK(extra < SIZE_MAX / 4 && b->n < SIZE_MAX / 4, "a buffer that no bounded input can ask for");
    size_t cap = b->cap ? b->cap * 2 : FIRST_BYTES;
    while (cap < b->n + extra) cap *= 2;
    if (b->arena == NULL) {
        b->p = xrealloc(b->p, cap);
    } else {
        char *p = arena_alloc(b->arena, cap);
        if (b->n) memcpy(p, b->p, b->n);
        b->p = p;
    }
    b->cap = cap;
}

/* 00 to 99: half as many divisions. */
static const char pairs[] = "00010203040506070809101112131415161718192021222324252627282930313233343536373839404142434445464748"
                            "4950515253545556575859606162636465666768697071727374757677787980818283848586878889909192939495969798"
                            "99";

void buf_add_int(struct buf *b, long long value)
{
    char digits[24];
    size_t at = sizeof(digits);
    unsigned long long rest = value < 0 ? 0ULL - (unsigned long long)value : (unsigned long long)value;
    for (; rest >= 10; rest /= 100) {
        at -= 2;
        memcpy(digits + at, pairs + rest % 100 * 2, 2);
    }
    if (rest || at == sizeof(digits)) digits[--at] = (char)('0' + rest);
    if (value < 0) digits[--at] = '-';
    buf_add(b, digits + at, sizeof(digits) - at);
}

void buf_add_double(struct buf *b, double value)
{
    CHECK(isfinite(value), "only finite numbers have digits");
    if (value > -EXACT_LIMIT && value < EXACT_LIMIT && (double)(long long)value == value) {
        buf_add_int(b, (long long)value);
        return;
    }
    char text[40];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, value);
        if (strtod(text, NULL) == value) break;
    }
    buf_add_slice(b, slice_str(text));
}

void buf_add_thousandths(struct buf *b, uint64_t value)
{
    unsigned rest = (unsigned)(value % 1000);
    char text[4] = {'.', (char)('0' + rest / 100), (char)('0' + rest / 10 % 10), (char)('0' + rest % 10)};
    buf_add_int(b, (long long)(value / 1000));
    if (rest) buf_add(b, text, rest % 10 ? 4 : rest % 100 ? 3 : 2);
}

void buf_printf(struct buf *b, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    CHECK(n >= 0, "a format that cannot be printed");
    buf_reserve(b, (size_t)n + 1); /* vsnprintf wants room for its NUL */
    va_start(args, format);
    vsnprintf(b->p + b->n, (size_t)n + 1, format, args);
    va_end(args);
    b->n += (size_t)n;
}
