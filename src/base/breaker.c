/* base/breaker: the state of one dependency's breaker. Called by the clients in remote/, authz/ and proxy/ around each
   call. Refuses calls while open, and all but one at a time while half open. */
#include "base/breaker.h"

#include <stddef.h>

#include "base/check.h"

void breaker_init(struct breaker *b, const struct breaker_rules *rules)
{
    CHECK(rules->rest_ms >= 0 && rules->window_ms >= 0, "times do not run backwards");
    *b = (struct breaker){.rules = *rules};
    breaker_adjust(b, rules);
}

void breaker_adjust(struct breaker *b, const struct breaker_rules *rules)
{
    b->rules = *rules;
    if (b->rules.max_rest_ms < b->rules.rest_ms) b->rules.max_rest_ms = b->rules.rest_ms;
}

/* Each change makes what is still out late news. */
static void turn(struct breaker *b, enum breaker_state s, const char *why)
{
    b->state = s;
    b->why = why;
    b->trials_out = 0;
    b->changed = ++b->ticket;
    b->in_a_row = 0;
    b->now = b->before = (struct breaker_half){0, 0};
}

static int64_t next_rest(const struct breaker *b, double fraction)
{
    int64_t rest = b->rules.rest_ms, most = b->rules.max_rest_ms;
    for (unsigned i = 0; i < b->trials_failed && rest < most; i++)
        rest = rest > most / 2 ? most : rest * 2;
    rest = (int64_t)((double)rest * (0.8 + 0.4 * fraction));
    return rest < most ? rest : most;
}

static void open_up(struct breaker *b, int64_t now_ms, double fraction, const char *why)
{
    b->until_ms = now_ms + next_rest(b, fraction);
    turn(b, BREAKER_OPEN, why);
}

/* Whoever has a trial and says nothing does not keep it from all others for ever. */
static bool trial_is_free(const struct breaker *b, int64_t now_ms)
{
    return b->trials_out == 0 || now_ms >= b->until_ms;
}

bool breaker_allows(struct breaker *b, int64_t now_ms, uint32_t *ticket)
{
    if (b->state == BREAKER_OPEN) {
        if (now_ms < b->until_ms) return false;
        turn(b, BREAKER_HALF_OPEN, "the rest is over");
    }
    if (b->state == BREAKER_HALF_OPEN) {
        if (!trial_is_free(b, now_ms)) return false;
        b->until_ms = now_ms + (b->rules.rest_ms ? b->rules.rest_ms : 1);
        b->trials_out++;
    }
    *ticket = b->ticket;
    return true;
}

/* Two halves, so that what is remembered is bounded and what is old goes: the older one is forgotten whole. */
static void count(struct breaker *b, int64_t now_ms, unsigned failures)
{
    int64_t half = b->rules.window_ms / 2, age = now_ms - b->half_ms;
    if (age >= half || age < 0) {
        b->before = age >= 2 * half || age < 0 ? (struct breaker_half){0, 0} : b->now;
        b->now = (struct breaker_half){0, 0};
        b->half_ms = now_ms;
    }
    b->now.calls++;
    b->now.failures += failures;
}

static bool too_many_failed(const struct breaker *b)
{
    double calls = (double)b->now.calls + b->before.calls, failures = (double)b->now.failures + b->before.failures;
    return b->rules.ratio > 0 && b->rules.ratio < 1 && calls >= b->rules.volume && failures >= calls * b->rules.ratio;
}

/* While open and while half open without its trial no ticket is out that is not late. */
static bool is_late(const struct breaker *b, uint32_t ticket)
{
    bool old = (int32_t)(ticket - b->changed) < 0;
    return old || b->state == BREAKER_OPEN || (b->state == BREAKER_HALF_OPEN && b->trials_out == 0);
}

void breaker_success(struct breaker *b, uint32_t ticket, int64_t now_ms)
{
    if (is_late(b, ticket)) return;
    if (b->state == BREAKER_HALF_OPEN) {
        b->trials_failed = 0;
        turn(b, BREAKER_CLOSED, "the trial succeeded");
        return;
    }
    b->in_a_row = 0;
    b->ticket++;
    count(b, now_ms, 0);
}

void breaker_failure(struct breaker *b, uint32_t ticket, int64_t now_ms, double fraction)
{
    if (is_late(b, ticket)) return;
    if (b->state == BREAKER_HALF_OPEN) {
        b->trials_failed++;
        open_up(b, now_ms, fraction, "the trial failed");
        return;
    }
    count(b, now_ms, 1);
    if (ticket == b->ticket) b->in_a_row++; /* else others were answered since it began */
    if (b->rules.failures && b->in_a_row >= b->rules.failures)
        open_up(b, now_ms, fraction, "failures in a row");
    else if (too_many_failed(b))
        open_up(b, now_ms, fraction, "too many of the calls failed");
}

void breaker_abandon(struct breaker *b, uint32_t ticket)
{
    if (is_late(b, ticket) || b->state != BREAKER_HALF_OPEN) return;
    if (--b->trials_out == 0) b->changed = ++b->ticket;
}

bool breaker_would_allow(const struct breaker *b, int64_t now_ms)
{
    if (b->state == BREAKER_OPEN) return now_ms >= b->until_ms;
    return b->state == BREAKER_CLOSED || trial_is_free(b, now_ms);
}

void breaker_wake(struct breaker *b, int64_t now_ms)
{
    if (b->state == BREAKER_OPEN && b->until_ms > now_ms) b->until_ms = now_ms;
}

int64_t breaker_rest_ms(const struct breaker *b, int64_t now_ms)
{
    return b->state == BREAKER_OPEN && b->until_ms > now_ms ? b->until_ms - now_ms : 0;
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
