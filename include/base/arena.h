/* base/arena: the memory of one request (or one short job): bump allocation, freed all at once.
   Allocation never fails (out of memory aborts). In a build with ARENA_TWIN each allocation is its own
   malloc so that the sanitizer sees overruns and use after reset. Not for values that outlive the request. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stddef.h>

#include "base/slice.h"

struct arena_chunk;

struct arena {
    struct arena_chunk *chunks; /* newest first */
    char *next;
    char *end;
};

void arena_init(struct arena *a);

/* size bytes, aligned for any type, uninitialised. size 0 gives a valid unique-enough pointer. */
void *arena_alloc(struct arena *a, size_t size);
void *arena_zalloc(struct arena *a, size_t size);

/* A copy with a NUL behind it (not counted in n). */
struct slice arena_copy(struct arena *a, struct slice s);
struct slice arena_printf(struct arena *a, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Gives every chunk back to a bounded process-wide free list (chunks of the standard
   size) or to the heap. The arena is as after arena_init. An arena that allocated nothing costs nothing. */
void arena_reset(struct arena *a);

/* Chunks that are out in arenas now (for tests: must be 0 at the end), and freeing of the free list. */
size_t arena_chunks_out(void);
void arena_trim(void);

#endif
