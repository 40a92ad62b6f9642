/* fuzz/fuzz: what every fuzz target has: its one function, and a reader of inputs that are more than one text. An
   invariant that does not hold fails a CHECK, which aborts with its text in every build. */
#ifndef FUZZ_FUZZ_H
#define FUZZ_FUZZ_H

#include <stdint.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/slice.h"

/* Called by libFuzzer, or by fuzz/main.c with each seed. Always 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

struct input {
    const char *p;
    size_t n;
};

static inline struct input input_make(const uint8_t *data, size_t n)
{
    return (struct input){(const char *)data, n};
}

/* The next byte; 0 when there is none. */
static inline uint8_t input_byte(struct input *in)
{
    if (!in->n) return 0;
    in->n--;
    return (uint8_t)*in->p++;
}

static inline struct slice input_rest(struct input *in)
{
    struct slice s = slice_make(in->p, in->n);
    *in = (struct input){in->p + in->n, 0};
    return s;
}

/* Up to the next line feed, without it; the rest when there is none. */
static inline struct slice input_line(struct input *in)
{
    const char *lf = in->n ? memchr(in->p, '\n', in->n) : NULL;
    if (!lf) return input_rest(in);
    struct slice s = slice_make(in->p, (size_t)(lf - in->p));
    in->n -= s.n + 1;
    in->p = lf + 1;
    return s;
}

/* A heap copy of exactly its length, so that the sanitizer sees a read beyond it; free its p. */
static inline struct slice input_exact(struct slice s)
{
    char *p = xmalloc(s.n ? s.n : 1);
    if (s.n) memcpy(p, s.p, s.n);
    return slice_make(p, s.n);
}

#endif
