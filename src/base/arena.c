/* base/arena: chunks, the free list of standard chunks. Called by whoever serves one request or does one
   short job. Refuses nothing: out of memory aborts; sizes are bounded by those who read input. */
#include "base/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"

#define CHUNK_BYTES 4096 /* header included */
#define FREE_CHUNKS_MAX 256

struct arena_chunk {
    struct arena_chunk *next;
    size_t bytes; /* as given to malloc */
    _Alignas(max_align_t) char data[];
};

static struct arena_chunk *free_chunks;
static size_t free_count;
static size_t chunks_out;

static struct arena_chunk *chunk_take(struct arena *a, size_t bytes)
{
    struct arena_chunk *chunk;
    if (bytes == CHUNK_BYTES && free_chunks != NULL) {
        chunk = free_chunks;
        free_chunks = chunk->next;
        free_count--;
    } else {
        chunk = xmalloc(bytes);
        chunk->bytes = bytes;
    }
    chunk->next = a->chunks;
    a->chunks = chunk;
    chunks_out++;
    return chunk;
}

static void chunk_give_back(struct arena_chunk *chunk)
{
    chunks_out--;
    if (chunk->bytes != CHUNK_BYTES || free_count == FREE_CHUNKS_MAX) {
        free(chunk);
        return;
    }
    chunk->next = free_chunks;
    free_chunks = chunk;
    free_count++;
}

void arena_init(struct arena *a)
{
    *a = (struct arena){0};
}

#ifdef ARENA_TWIN

void *arena_alloc(struct arena *a, size_t size)
{
    CHECK(size < SIZE_MAX / 2, "an allocation that no bounded input can ask for");
    /* Never the standard size: that would come back from the free list, where no sanitizer sees a late use. */
    size_t bytes = sizeof(struct arena_chunk) + size;
    return chunk_take(a, bytes == CHUNK_BYTES ? bytes + 1 : bytes)->data;
}

#else

void *arena_alloc(struct arena *a, size_t size)
{
    CHECK(size < SIZE_MAX / 2, "an allocation that no bounded input can ask for");
    size_t step = (size + _Alignof(max_align_t) - 1) & ~(_Alignof(max_align_t) - 1);
    if (step == 0) step = _Alignof(max_align_t);
    if (step > (size_t)(a->end - a->next)) {
        /* A big one gets a chunk of its own and leaves the current one in use. */
        if (step > CHUNK_BYTES - sizeof(struct arena_chunk)) {
            return chunk_take(a, sizeof(struct arena_chunk) + step)->data;
        }
        struct arena_chunk *chunk = chunk_take(a, CHUNK_BYTES);
        a->next = chunk->data;
        a->end = (char *)chunk + CHUNK_BYTES;
    }
    void *p = a->next;
    a->next += step;
    return p;
}

#endif

void *arena_zalloc(struct arena *a, size_t size)
{
    return memset(arena_alloc(a, size), 0, size);
}

struct slice arena_copy(struct arena *a, struct slice s)
{
    char *p = arena_alloc(a, s.n + 1);
    if (s.n) memcpy(p, s.p, s.n);
    p[s.n] = '\0';
    return slice_make(p, s.n);
}

struct slice arena_printf(struct arena *a, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    CHECK(n >= 0, "a format that cannot be printed");
    char *p = arena_alloc(a, (size_t)n + 1);
    va_start(args, format);
    vsnprintf(p, (size_t)n + 1, format, args);
    va_end(args);
    return slice_make(p, (size_t)n);
}

void arena_reset(struct arena *a)
{
    while (a->chunks != NULL) {
        struct arena_chunk *chunk = a->chunks;
        a->chunks = chunk->next;
        chunk_give_back(chunk);
    }
    arena_init(a);
}

size_t arena_chunks_out(void)
{
    return chunks_out;
}

void arena_trim(void)
{
    while (free_chunks != NULL) {
        struct arena_chunk *chunk = free_chunks;
        free_chunks = chunk->next;
        free(chunk);
    }
    free_count = 0;
}
