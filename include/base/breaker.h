/* base/breaker: closed, open, half-open as pure state; time is passed in. After `failures` in a row it opens for
   `rest_ms`; then one trial is let through: success closes it, failure opens it again. */
#ifndef BASE_BREAKER_H
#define BASE_BREAKER_H

#include <stdbool.h>
#include <stdint.h>

enum breaker_state { BREAKER_CLOSED, BREAKER_OPEN, BREAKER_HALF_OPEN };

struct breaker {
    unsigned failures; /* threshold, at least 1 */
    int64_t rest_ms;
    enum breaker_state state;
    unsigned in_a_row;
    int64_t opened_ms;
    bool trial_out;
};

void breaker_init(struct breaker *b, unsigned failures, int64_t rest_ms);
/* May a call be made now? In half-open only one until its outcome is told: whoever was let through must tell it (a
   call given up on its deadline is a failure). Outcomes told while open are late news and change nothing. */
bool breaker_allows(struct breaker *b, int64_t now_ms);
void breaker_success(struct breaker *b);
void breaker_failure(struct breaker *b, int64_t now_ms);
const char *breaker_name(enum breaker_state s); /* "closed", "open", "half_open" */

#endif
