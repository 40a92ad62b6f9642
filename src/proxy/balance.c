/* proxy/balance: see its header for the policies and tiers. Called by upstream for each request that has a choice. */
#include "proxy/balance.h"

#include "base/check.h"

void tried_add(struct tried *t, unsigned slot)
{
    CHECK(slot < BALANCE_SLOTS, "a slot there is");
    t->slots[slot / 64] |= (uint64_t)1 << slot % 64;
}

void tried_remove(struct tried *t, unsigned slot)
{
    t->slots[slot / 64] &= ~((uint64_t)1 << slot % 64);
}

bool tried_has(const struct tried *t, unsigned slot)
{
    return t->slots[slot / 64] >> slot % 64 & 1;
}

enum balance_tier balance_tier(const struct candidate *c)
{
    if (c->breaker.state != BREAKER_CLOSED) return TIER_LIMITED;
    return c->proven < BALANCE_PROVEN ? TIER_PROBING : TIER_HEALTHY;
}

void balance_measured(struct candidate *c, double ms, int64_t now_ms)
{
    if (ms <= 0) ms = 0.001;
    c->latency_ms = c->latency_ms > 0 ? c->latency_ms + BALANCE_WEIGHT * (ms - c->latency_ms) : ms;
    c->measured_ms = now_ms;
}

static bool is_free(const struct candidate *c, const struct tried *tried)
{
    return !c->out && !tried_has(tried, c->slot);
}

static double cost(const struct candidate *c, int64_t now_ms)
{
    int64_t unused = now_ms > c->measured_ms ? now_ms - c->measured_ms : 0;
    double latency = c->latency_ms / (1 + (double)unused / BALANCE_FADE_MS);
    return latency * ((double)c->inflight + 1);
}

/* Whether a is to be had rather than b, which stands earlier in the turn. */
static bool beats(enum conf_balance policy, bool proven, const struct candidate *a, const struct candidate *b,
                  int64_t now_ms)
{
    if (policy == BALANCE_ROUND_ROBIN) return false;
    if (policy == BALANCE_FASTEST && proven) return cost(a, now_ms) < cost(b, now_ms);
    return a->inflight < b->inflight;
}

/* Of the tiers from..to; those behind the turn first, so that the same number of requests out is no reason to stay. */
static size_t best(const struct balance *b, struct candidate *const *v, size_t n, const struct tried *tried,
                   enum balance_tier from, enum balance_tier to, int64_t now_ms)
{
    size_t found = n;
    for (size_t i = 0; i < n; i++) {
        size_t at = (b->next + i) % n;
        enum balance_tier tier = balance_tier(v[at]);
        if (tier < from || tier > to || !is_free(v[at], tried)) continue;
        if (found == n || beats(b->policy, from == TIER_HEALTHY, v[at], v[found], now_ms)) found = at;
    }
    return found;
}

static struct candidate *take(struct balance *b, struct candidate *const *v, size_t at, size_t n)
{
    b->next = (at + 1) % n;
    return v[at];
}

static struct candidate *pick_tiered(struct balance *b, struct candidate *const *v, size_t n, const struct tried *tried,
                                     int64_t now_ms)
{
    size_t healthy = best(b, v, n, tried, TIER_HEALTHY, TIER_HEALTHY, now_ms);
    size_t probing = best(b, v, n, tried, TIER_PROBING, TIER_PROBING, now_ms);
    if (probing < n && (healthy == n || (v[probing]->inflight == 0 && b->since_probing + 1 >= BALANCE_SHARE))) {
        b->since_probing = 0;
        return take(b, v, probing, n);
    }
    if (healthy == n) return NULL;
    if (b->since_probing < BALANCE_SHARE) b->since_probing++;
    return take(b, v, healthy, n);
}

/* more: also beside a trial that is long in coming; only where nobody else is left, since the next may take as long. */
static struct candidate *pick_trial(struct candidate *const *v, size_t n, const struct tried *tried, bool more,
                                    int64_t now_ms)
{
    for (size_t i = 0; i < n; i++) {
        bool limited = balance_tier(v[i]) == TIER_LIMITED && (more || v[i]->breaker.trials_out == 0);
        if (limited && is_free(v[i], tried) && breaker_would_allow(&v[i]->breaker, now_ms)) return v[i];
    }
    return NULL;
}

/* Nobody else is left: the one that has rested the longest, of those that have rested once. */
static struct candidate *pick_rested(struct candidate *const *v, size_t n, const struct tried *tried, int64_t now_ms)
{
    struct candidate *found = NULL;
    for (size_t i = 0; i < n; i++) {
        struct candidate *c = v[i];
        bool rested = c->breaker.state == BREAKER_OPEN && now_ms - c->opened_ms >= c->breaker.rules.rest_ms;
        if (rested && is_free(c, tried) && (!found || c->opened_ms < found->opened_ms)) found = c;
    }
    if (found) breaker_wake(&found->breaker, now_ms);
    return found;
}

struct candidate *balance_pick(struct balance *b, struct candidate *const *v, size_t n, const struct tried *tried,
                               bool trial, int64_t now_ms)
{
    struct candidate *found = trial ? pick_trial(v, n, tried, false, now_ms) : NULL;
    if (found || n == 0) return found;
    if (b->policy == BALANCE_FASTEST) {
        found = pick_tiered(b, v, n, tried, now_ms);
    } else {
        size_t at = best(b, v, n, tried, TIER_PROBING, TIER_HEALTHY, now_ms);
        if (at < n) found = take(b, v, at, n);
    }
    if (!found) found = pick_trial(v, n, tried, true, now_ms);
    return found ? found : pick_rested(v, n, tried, now_ms);
}
