/* proxy/budget: how long one request may wait for others in all, until its answer begins (listen.budget_ms). It stands
   still while the client takes its time. Each is O(1) and allocates nothing; only one that stood still and is used up
   to its end afterwards costs a walk over the likes of it. */
#ifndef PROXY_BUDGET_H
#define PROXY_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#include "io/loop.h"

struct budget { /* zeroed: off */
    struct deadline deadline;
    struct loop *loop;
    void (*on_spent)(struct budget *b);
    int64_t end_ms;  /* monotonic, while it runs */
    int64_t left_ms; /* while it stands still */
    bool on, still;
};

/* Once; later it is stopped, unless it was spent: on_spent comes once, then it is off. */
void budget_start(struct budget *b, struct deadline_list *all, void (*on_spent)(struct budget *b));
void budget_hold(struct budget *b); /* stands still; harmless when it does, or is off */
void budget_go_on(struct budget *b);
void budget_stop(struct budget *b); /* harmless when off */

#endif
