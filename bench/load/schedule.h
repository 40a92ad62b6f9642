/* bench/load/schedule: when requests are sent. Both kinds run to the end and leave what they counted. */
#ifndef BENCH_LOAD_SCHEDULE_H
#define BENCH_LOAD_SCHEDULE_H

#include <stdio.h>

#include "load/client.h"

struct plan {
    double rate;           /* open: arrivals a second; 0: closed */
    double warmup_s, seconds;
    uint64_t first;        /* the number of the first request */
    uint64_t requests;     /* closed: that many and no more; 0: as long as it lasts */
    double think_ms;       /* closed: between an answer and the user's next request */
    struct stage *stages;  /* closed */
    size_t stages_n;
};

struct stage {
    unsigned users; /* at its end; they come and go evenly */
    double seconds;
    struct counts counts;
};

/* Fixed arrivals: request i is due at t0 + i / rate whatever came of the others, and its latency counts from there. Where
   every connection is busy it waits for one. Lateness: from the due time to the generator's getting to it, its own fault
   only. warm: the arrivals before the measured ones. unfinished: those that had no answer 10 s after the last was due. */
struct open_result {
    struct counts warm, counts;
    struct histogram lateness;
    uint64_t unfinished;
    double elapsed_s;
};
void schedule_open(const struct plan *p, struct open_result *r);

/* Users who wait for their answer, then think. A request belongs to the stage it was sent in. */
void schedule_closed(struct plan *p);

#endif
