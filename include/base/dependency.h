/* base/dependency: one party that we call and that may fail: its breaker, caps on the calls that are out, the queue of
   those that wait for their turn, and what log and metrics say of them (breaker_state, breaker_opened_total,
   dependency_inflight, dependency_waiting, and of dependency_failures_total the kinds of our own refusals, overloaded and
   resting). Knows nothing of how it is called. */
#ifndef BASE_DEPENDENCY_H
#define BASE_DEPENDENCY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/breaker.h"
#include "base/list.h"
#include "base/slice.h"

struct dependency {
    struct slice name; /* label of the metrics, in the log; kept by pointer */
    struct breaker breaker;
    unsigned out;
};

struct dependency_cap { /* of one kind of calls; one dependency may have several */
    unsigned most;      /* 0: none at all */
    unsigned out;
    unsigned most_waiting, waiting;
    struct list queue; /* of dependency_call.place, in the order they came; in use while somebody waits */
};

struct dependency_call { /* one call that is out; belongs to its owner, who ends it once */
    struct dependency_cap *cap;
    uint32_t ticket;
    bool counts; /* its outcome is told to the breaker */
    struct dependency_cap *waits_for; /* while it waits; else NULL */
    struct list place;
};

enum dependency_word { DEPENDENCY_GO, DEPENDENCY_RESTS, DEPENDENCY_FULL, DEPENDENCY_WAITS };

enum dependency_outcome {
    DEPENDENCY_ANSWERED, /* whatever it said: it is there */
    DEPENDENCY_FAILED,
    DEPENDENCY_UNKNOWN,  /* we ended it for a reason of our own: says nothing */
};

void dependency_init(struct dependency *d, struct slice name, const struct breaker_rules *rules);

/* GO: call it now, and end c. Else nothing is out: the breaker rests it, or cap->most calls are out already. counts
   false: for calls that are to be refused with the others but must have no say in whether others are refused; they are
   no trial either. */
enum dependency_word dependency_begin(struct dependency *d, struct dependency_cap *cap, bool counts, int64_t now_ms,
                                      struct dependency_call *c);
void dependency_end(struct dependency *d, struct dependency_call *c, enum dependency_outcome o, int64_t now_ms);

/* The same for a call that can wait while cap->most are out: WAITS says that there is room, and must be followed by
   dependency_wait, when c stands where it will stay. Whoever comes while others wait waits behind them. */
enum dependency_word dependency_begin_or_wait(struct dependency *d, struct dependency_cap *cap, bool counts,
                                              int64_t now_ms, struct dependency_call *c);
void dependency_wait(struct dependency *d, struct dependency_cap *cap, struct dependency_call *c);
/* To be asked after each end until it says NULL: the next that waits no longer. word GO: its call is to be made now;
   RESTS: it is refused. */
struct dependency_call *dependency_turn(struct dependency *d, struct dependency_cap *cap, int64_t now_ms,
                                        enum dependency_word *word);
/* It waits no longer, its turn has not come; harmless for one that does not wait. in_vain: it waited as long as it may,
   which counts as overloaded. */
void dependency_leave(struct dependency *d, struct dependency_call *c, bool in_vain);

/* What is left of its rest; 0 when it does not rest. */
int64_t dependency_rest_ms(const struct dependency *d, int64_t now_ms);

/* For a party whose calls are counted elsewhere, and for a breaker that follows what happens instead of ruling it: log
   and metrics of a breaker that was `before`. Does nothing when the state is the same. */
void dependency_show(struct slice name, const struct breaker *b, enum breaker_state before);

#endif
