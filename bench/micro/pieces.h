/* bench/micro/pieces: what a warm authorized request is made of, each alone, and whole. */
#ifndef BENCH_MICRO_PIECES_H
#define BENCH_MICRO_PIECES_H

#include <stddef.h>

struct piece {
    const char *name;
    const char *what;
    void (*prepare)(void); /* once, before all; may be NULL */
    void (*ready)(void);   /* before each time, not measured; may be NULL */
    void (*run)(void);     /* measured */
    void (*done)(void);    /* after each time, not measured; may be NULL */
};

extern const struct piece pieces[];
extern const size_t pieces_n;

#endif
