/* io/work: what takes time, on another thread: one of libuv's pool, where names are resolved too. How much is there at a
   time is the caller's to limit. */
#ifndef IO_WORK_H
#define IO_WORK_H

#include <stdbool.h>

#include "io/loop.h"

struct work { /* one piece; stands where its caller puts it */
    uv_work_t req;
    struct loop *loop;
    void (*run)(void *arg);
    void (*on_done)(bool ran, void *arg);
    void *arg;
};

/* run is called on a thread, later, and may touch only what nobody else does until on_done; that comes on the loop, in a
   later turn, once, whatever happens. w and what run touches are there until then; on_done may free them, or start w
   again. */
void work_start(struct loop *l, struct work *w, void (*run)(void *arg), void (*on_done)(bool ran, void *arg), void *arg);
/* What no thread has begun will not be run; on_done comes in any case, ran says which. */
void work_cancel(struct work *w);

#endif
