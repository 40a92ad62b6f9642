/* flow/memory: a stream without a kernel. The proxy holds the struct stream; the test holds this end of it. What the
   proxy writes gathers in `got`, as far as there is room; what the test sends is handed over in the same pieces, and
   only while the proxy reads. Nothing happens before memory_pump, so no callback runs inside a call of the proxy. */
#ifndef FLOW_MEMORY_H
#define FLOW_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/list.h"
#include "io/stream.h"

#define MEMORY_ALL ((size_t)-1)

struct piece;

struct memory {
    struct stream *stream; /* NULL once its close callback ran */
    struct list link;
    struct buf got;     /* heap: what the proxy wrote and the test has not taken */
    size_t room;        /* bytes that are taken from now on; MEMORY_ALL: any */
    size_t most_queued; /* greatest stream_queued that was seen */
    size_t most_read;   /* greatest number of bytes handed over at once */
    int write_error;    /* every further write fails with it */
    char to[80];        /* the address that was dialled */
    bool reading;
    bool shut;   /* the proxy ended its side */
    bool closed; /* the proxy closed it */
    bool reset;  /* so that its peer sees a break */
    /* private */
    struct piece *first, **last;
    int end_error;
    bool ends, told, closing;
    uv_buf_t writing;
    size_t written;
    bool has_writing;
};

/* Makes s a memory stream, open. This end lives until memory_free_all, which CHECKs that the proxy closed every one. */
struct memory *memory_open(struct stream *s, struct loop *l, const struct stream_events *events);
void memory_free_all(void);

void memory_send(struct memory *m, const char *bytes, size_t n); /* one piece: one read of the proxy */
void memory_end(struct memory *m, int error); /* behind what was sent; 0: in order, else a negative uv error */

/* Lets every end make what progress it can, once; true when there was some. */
bool memory_pump(void);
size_t memory_alive(void); /* streams whose close callback has not run */

#endif
