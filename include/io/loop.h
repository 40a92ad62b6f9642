/* io/loop: the one event loop, its clock, its deadlines and its signals. Deadlines are lists of equal timeouts (start
   and stop are O(1), no timer each) swept by one tick that is armed for the earliest of them; precision is 10 ms. */
#ifndef IO_LOOP_H
#define IO_LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/list.h"

struct loop;

struct deadline {
    struct list link;   /* list_init before first use (deadline_init does it) */
    int64_t due_ms;     /* monotonic */
    void (*on_due)(struct deadline *d); /* unlinked before the call; it may start it again or free its owner */
};

/* Deadlines of one length, e.g. all header timeouts. Lives as long as its loop, or until deadline_list_finish. */
struct deadline_list {
    struct list deadlines; /* oldest first */
    struct list link;
    struct loop *loop;
    int64_t timeout_ms;
};

struct loop *loop_create(void);
/* CHECKs that no handle is open, then frees. */
void loop_destroy(struct loop *l);
uv_loop_t *loop_uv(struct loop *l);

/* Runs until loop_stop or no handle is left that keeps it alive; flushes the log before each sleep. The tick itself
   keeps nothing alive. */
void loop_run(struct loop *l);
/* Runs until loop_stop, also while all that is left waits for a deadline. */
void loop_serve(struct loop *l);
void loop_stop(struct loop *l);
/* One turn without sleeping, also when nothing keeps the loop alive: for tests. */
void loop_turn(struct loop *l);
/* Closes the loop's own handles (tick, signals); run the loop once more to let them go. */
void loop_close(struct loop *l);
/* After loop_close: runs until no handle is left, and a moment longer for what is on threads. False: the system's resolver,
   or work, still has a thread of ours, which nothing can end and exit would wait for; the loop is not to be destroyed then,
   and _exit is the way out. */
bool loop_end(struct loop *l);

int64_t loop_now_ms(struct loop *l);   /* monotonic, as of this turn of the loop */
int64_t loop_wall_ms(struct loop *l);  /* Unix time, as of this turn of the loop */
/* Tests turn the clock by hand: offset added to both from then on; due deadlines fire in the next turn. */
void loop_advance(struct loop *l, int64_t ms);
uint64_t loop_clock_ns(void);          /* monotonic, read now: for durations in the log */
/* How late the last tick was, ms: a measure of how long the loop was kept from turning. */
int64_t loop_lag_ms(struct loop *l);
/* Handles that are not closed with the work that is on threads (io/work), and deadlines that run: counted one by one. What
   grows for ever is a leak. */
size_t loop_handles(struct loop *l);
size_t loop_deadlines(const struct loop *l);
void loop_count_work(struct loop *l, int by); /* for io/work */

/* The list of all deadlines of that length that asked for it so; lives as long as the loop. For lengths that a
   configuration gives and another one may change: whoever uses the old one goes on with it. */
struct deadline_list *loop_timeouts(struct loop *l, int64_t timeout_ms);
void deadline_list_init(struct deadline_list *list, struct loop *l, int64_t timeout_ms);
/* None of its deadlines is running any more; not to be called inside on_due. */
void deadline_list_finish(struct deadline_list *list);
void deadline_init(struct deadline *d, void (*on_due)(struct deadline *));
/* (Re)starts d with the list's timeout from now. */
void deadline_start(struct deadline_list *list, struct deadline *d);
/* For few and uneven times (probes, refreshes): due in after_ms from now; O(n) in how many such are running. */
void deadline_after(struct loop *l, struct deadline *d, int64_t after_ms);
/* Due at once: in this sweep where one is under way, else in the next turn, without sleeping before it. */
void deadline_now(struct loop *l, struct deadline *d);
void deadline_stop(struct deadline *d); /* harmless when not running */
bool deadline_running(const struct deadline *d);

/* on_signal runs on the loop. */
void loop_on_signal(struct loop *l, int signum, void (*on_signal)(int signum, void *arg), void *arg);

#endif
