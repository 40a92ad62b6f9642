/* base/breaker: closed, open, half-open as pure state; time and chance are passed in. It opens after `failures` in a
   row, or when of `volume` calls and more within `window_ms` the part `ratio` failed. It rests for `rest_ms`, twice as
   long with each trial that fails, at most `max_rest_ms`, give or take a fifth by chance; then one trial is let
   through: success closes it, failure opens it again. A trial that has no outcome yet (a client that takes its time over
   what it sends, an answer that is slow) is not waited for longer than `rest_ms`: then one more is let through.
   In a row are failures of calls that began behind the last success: many that failed at the same time while others were
   answered say something of what they asked, not of the party. */
#ifndef BASE_BREAKER_H
#define BASE_BREAKER_H

#include <stdbool.h>
#include <stdint.h>

enum breaker_state { BREAKER_CLOSED, BREAKER_OPEN, BREAKER_HALF_OPEN };

struct breaker_rules {
    unsigned failures; /* 0: failures in a row do not open it */
    double ratio;      /* 0, and 1 and more: a part of the calls does not open it */
    unsigned volume;
    int64_t window_ms; /* the calls that ratio is of: those that ended within the last half of it to all of it */
    int64_t rest_ms, max_rest_ms;
};

/* Rules that are all zero never open it. */
struct breaker {
    struct breaker_rules rules;
    enum breaker_state state; /* OPEN also when the rest is over and nobody has asked since */
    const char *why;          /* fixed text: what made it so; NULL in the beginning */
    uint32_t ticket;          /* of calls that are let through now; one more with each success and each change */
    uint32_t changed;         /* what it was when the state last changed; news of an older one is late */
    unsigned trials_out;
    unsigned in_a_row;
    unsigned trials_failed; /* since it was last closed */
    int64_t until_ms;       /* open: the end of the rest; half open: when one more trial may go */
    int64_t half_ms;        /* when the half of the window that is counted now began */
    struct breaker_half {
        uint32_t calls, failures;
    } now, before; /* the two halves of the window */
};

void breaker_init(struct breaker *b, const struct breaker_rules *rules);
/* Other rules from now on; its state stays. */
void breaker_adjust(struct breaker *b, const struct breaker_rules *rules);
/* May a call be made now? Half open only one may until its outcome is told, or is long in coming. Whoever is let through tells what became of
   it, with the ticket: success, failure (a call given up on its deadline is one), or that it was given up without an
   outcome. News of calls from before the breaker last changed is late and changes nothing. */
bool breaker_allows(struct breaker *b, int64_t now_ms, uint32_t *ticket);
void breaker_success(struct breaker *b, uint32_t ticket, int64_t now_ms);
/* fraction: by chance, from 0 to 1. */
void breaker_failure(struct breaker *b, uint32_t ticket, int64_t now_ms, double fraction);
/* The caller went away, or refused for a reason of its own: that says nothing. A trial is given back; the next may try. */
void breaker_abandon(struct breaker *b, uint32_t ticket);

/* Somebody knows better than to wait: its rest ends now. Nothing when it does not rest. */
void breaker_wake(struct breaker *b, int64_t now_ms);

/* Would breaker_allows say yes? Changes nothing. */
bool breaker_would_allow(const struct breaker *b, int64_t now_ms);
int64_t breaker_rest_ms(const struct breaker *b, int64_t now_ms); /* what is left of the rest; 0 when not open */
const char *breaker_name(enum breaker_state s);                   /* "closed", "open", "half_open" */

#endif
