/* base/dependency: one party that we call and that may fail: its breaker, caps on the calls that are out, and what log
   and metrics say of both (breaker_state, breaker_opened_total, dependency_inflight, and of dependency_failures_total
   the kinds of our own refusals, overloaded and resting). Knows nothing of how it is called. */
#ifndef BASE_DEPENDENCY_H
#define BASE_DEPENDENCY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/breaker.h"
#include "base/slice.h"

struct dependency {
    struct slice name; /* label of the metrics, in the log; kept by pointer */
    struct breaker breaker;
    unsigned out;
};

struct dependency_cap { /* of one kind of calls; one dependency may have several */
    unsigned most;      /* 0: none at all */
    unsigned out;
};

struct dependency_call { /* one call that is out; belongs to its owner, who ends it once */
    struct dependency_cap *cap;
    uint32_t ticket;
    bool counts; /* its outcome is told to the breaker */
};

enum dependency_word { DEPENDENCY_GO, DEPENDENCY_RESTS, DEPENDENCY_FULL };

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

/* What is left of its rest; 0 when it does not rest. */
int64_t dependency_rest_ms(const struct dependency *d, int64_t now_ms);

/* For a party whose calls are counted elsewhere, and for a breaker that follows what happens instead of ruling it: log
   and metrics of a breaker that was `before`. Does nothing when the state is the same. */
void dependency_show(struct slice name, const struct breaker *b, enum breaker_state before);

#endif
