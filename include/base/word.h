/* base/word: text as numbers of eight bytes, for loops over texts that would else be most of what a request costs. */
#ifndef BASE_WORD_H
#define BASE_WORD_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t word_at(const char *p)
{
    uint64_t w;
    memcpy(&w, p, sizeof w);
    return w;
}

/* Fewer than eight bytes as a number in which each of them is and nothing else, so that two texts of the same length give
   the same number when they are the same, and only then; none give 0. */
static inline uint64_t word_short(const char *p, size_t n)
{
    if (n >= 4) {
        uint32_t first, last;
        memcpy(&first, p, sizeof first);
        memcpy(&last, p + n - sizeof last, sizeof last);
        return (uint64_t)first << 32 | last;
    }
    if (n == 0) return 0;
    uint64_t w = (uint64_t)(unsigned char)p[0] << 16 | (uint64_t)(unsigned char)p[n / 2] << 8 | (unsigned char)p[n - 1];
    return (w << 40) | (w << 16) | w >> 8; /* 8 bytes of text: three, three and two */
}

/* The last of a text from byte `from` on, which is not its end: all that a loop in steps of eight left over, and where the
   text is long enough some bytes before it too. */
static inline uint64_t word_last(const char *p, size_t from, size_t n)
{
    return n >= sizeof(uint64_t) ? word_at(p + n - sizeof(uint64_t)) : word_short(p + from, n - from);
}

#endif
