/* proxy/balance: which of several addresses of an upstream is next. Pure: time is passed in, nothing is called.

   Each candidate stands in one tier:
     limited  its breaker is not closed: nothing but one trial when its rest is over. The first request that may be tried
              (`trial`: its method is idempotent) goes there, so that what is back is seen. When there is nobody else, a
              trial is made once `rest_ms` have passed since it was last ejected, however long its rest has grown, and
              one more each `rest_ms` for which a trial has had no outcome.
     probing  new, or back: it has not given BALANCE_PROVEN good answers yet. Only `fastest` minds: such a one gets at most
              one request at a time and one in BALANCE_SHARE, as long as there is a healthy one.
     healthy  all others.
   What is `out` (its health check failed) gets nothing at all, whatever its breaker says.

   Policies, among those that are not limited:
     round_robin     each in turn.
     least_inflight  the fewest requests out; the same number: in turn.
     fastest         the least latency * (requests out + 1). The latency is a moving average of the times to the first
                     byte (a new one counts for BALANCE_WEIGHT); t ms after the last one it counts for
                     1 / (1 + t / BALANCE_FADE_MS) of itself, so that one that was slow is tried again. */
#ifndef PROXY_BALANCE_H
#define PROXY_BALANCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/breaker.h"
#include "conf/options.h"

#define BALANCE_PROVEN 5
#define BALANCE_SHARE 10
#define BALANCE_WEIGHT 0.3
#define BALANCE_FADE_MS 5000
#define BALANCE_SLOTS 128

enum balance_tier { TIER_LIMITED, TIER_PROBING, TIER_HEALTHY };

struct candidate {
    struct breaker breaker;
    unsigned slot; /* below BALANCE_SLOTS, unlike any other's beside it */
    unsigned inflight;
    unsigned proven;     /* good answers since it was new or came back, up to BALANCE_PROVEN */
    bool out;            /* its health check failed */
    double latency_ms;   /* 0: never measured */
    int64_t measured_ms; /* when it was last */
    int64_t opened_ms;   /* when its breaker last opened */
};

struct balance {
    enum conf_balance policy;
    size_t next;            /* where the turn is */
    unsigned since_probing; /* picks since a probing one had one */
};

struct tried { /* the slots that one request has been to; zeroed: none. One may be another address by then: passed over */
    uint64_t slots[BALANCE_SLOTS / 64];
};

void tried_add(struct tried *t, unsigned slot);
void tried_remove(struct tried *t, unsigned slot);
bool tried_has(const struct tried *t, unsigned slot);

enum balance_tier balance_tier(const struct candidate *c);
void balance_measured(struct candidate *c, double ms, int64_t now_ms);
/* The next one that was not tried; NULL: none may be used now. Whoever takes it asks its breaker (breaker_allows, which
   agrees) and counts inflight. */
struct candidate *balance_pick(struct balance *b, struct candidate *const *v, size_t n, const struct tried *tried,
                               bool trial, int64_t now_ms);

#endif
