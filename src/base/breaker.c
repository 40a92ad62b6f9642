/* base/breaker: the state of one dependency's breaker. Called by the clients in remote/ and authz/ around each call.
   Refuses calls while open, and all but one while half open. */
#include "base/breaker.h"

#include "base/check.h"

void breaker_init(struct breaker *b, unsigned failures, int64_t rest_ms)
{
    CHECK(failures >= 1 && rest_ms >= 0, "a breaker needs a threshold and a rest");
    *b = (struct breaker){.failures = failures, .rest_ms = rest_ms};
}

bool breaker_allows(struct breaker *b, int64_t now_ms)
{
    if (b->state == BREAKER_CLOSED) return true;
    if (b->state == BREAKER_OPEN) {
        if (now_ms - b->opened_ms < b->rest_ms) return false;
        b->state = BREAKER_HALF_OPEN;
        b->trial_out = false;
    }
    if (b->trial_out) return false;
    b->trial_out = true;
    return true;
}

void breaker_success(struct breaker *b)
{
    /* While open only calls from before can end: late news in either direction changes nothing. */
    if (b->state == BREAKER_OPEN) return;
    b->state = BREAKER_CLOSED;
    b->in_a_row = 0;
    b->trial_out = false;
}

void breaker_failure(struct breaker *b, int64_t now_ms)
{
    if (b->state == BREAKER_OPEN) return;
    if (b->state == BREAKER_CLOSED && ++b->in_a_row < b->failures) return;
    b->state = BREAKER_OPEN;
    b->opened_ms = now_ms;
    b->in_a_row = 0;
    b->trial_out = false;
}

const char *breaker_name(enum breaker_state s)
{
    switch (s) {
    case BREAKER_CLOSED:
        return "closed";
    case BREAKER_HALF_OPEN:
        return "half_open";
    case BREAKER_OPEN:
        break;
    }
    return "open";
}
