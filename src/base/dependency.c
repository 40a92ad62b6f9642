/* base/dependency: called around each call by its owner in remote/, authz/ and proxy/. Refuses calls that the breaker
   rests or that are over the cap, each counted by its kind. */
#include "base/dependency.h"

#include "base/chance.h"
#include "base/check.h"
#include "base/log.h"
#include "base/metric.h"

static void show_state(struct slice name, enum breaker_state s)
{
    static const double values[] = {[BREAKER_CLOSED] = 0, [BREAKER_HALF_OPEN] = 1, [BREAKER_OPEN] = 2};
    metric_set(METRIC_BREAKER, &name, values[s]);
}

static void show_waiting(const struct dependency *d, const struct dependency_cap *cap)
{
    metric_set(METRIC_DEPENDENCY_WAITING, &d->name, cap->waiting);
}

static void show_out(const struct dependency *d)
{
    metric_set(METRIC_INFLIGHT, &d->name, d->out);
}

void dependency_init(struct dependency *d, struct slice name, const struct breaker_rules *rules)
{
    *d = (struct dependency){.name = name};
    breaker_init(&d->breaker, rules);
    show_state(name, d->breaker.state);
    show_out(d);
    metric_add(METRIC_BREAKER_OPENED, &name, 0);
}

void dependency_show(struct slice name, const struct breaker *b, enum breaker_state before)
{
    enum log_level level = b->state == BREAKER_OPEN ? LOG_WARN : LOG_INFO;
    if (b->state == before) return;
    show_state(name, b->state);
    if (b->state == BREAKER_OPEN) metric_add(METRIC_BREAKER_OPENED, &name, 1);
    if (!log_on(level)) return;
    struct log_line l;
    log_begin(&l, level, SLICE("breaker"));
    json_field_string(&l.json, "dependency", name);
    json_field_string(&l.json, "state", slice_str(breaker_name(b->state)));
    if (b->why && *b->why) json_field_string(&l.json, "why", slice_str(b->why));
    log_end(&l);
}

static enum dependency_word refuse(const struct dependency *d, enum dependency_word word)
{
    struct slice labels[] = {d->name, word == DEPENDENCY_RESTS ? SLICE("resting") : SLICE("overloaded")};
    metric_add(METRIC_DEPENDENCY_FAILURES, labels, 1);
    return word;
}

/* The breaker allows it, and there is room. */
static void go(struct dependency *d, struct dependency_cap *cap, struct dependency_call *c, int64_t now_ms)
{
    enum breaker_state before = d->breaker.state;
    c->cap = cap;
    if (c->counts) CHECK(breaker_allows(&d->breaker, now_ms, &c->ticket), "what it would allow it allows");
    dependency_show(d->name, &d->breaker, before);
    cap->out++;
    d->out++;
    show_out(d);
}

enum dependency_word dependency_begin_or_wait(struct dependency *d, struct dependency_cap *cap, bool counts,
                                              int64_t now_ms, struct dependency_call *c)
{
    *c = (struct dependency_call){.counts = counts};
    /* The cap comes between: a trial that is let through is a call that is made. */
    if (!breaker_would_allow(&d->breaker, now_ms)) return refuse(d, DEPENDENCY_RESTS);
    if (cap->out >= cap->most || cap->waiting > 0)
        return cap->waiting < cap->most_waiting ? DEPENDENCY_WAITS : refuse(d, DEPENDENCY_FULL);
    go(d, cap, c, now_ms);
    return DEPENDENCY_GO;
}

enum dependency_word dependency_begin(struct dependency *d, struct dependency_cap *cap, bool counts, int64_t now_ms,
                                      struct dependency_call *c)
{
    enum dependency_word word = dependency_begin_or_wait(d, cap, counts, now_ms, c);
    return word == DEPENDENCY_WAITS ? refuse(d, DEPENDENCY_FULL) : word;
}

void dependency_wait(struct dependency *d, struct dependency_cap *cap, struct dependency_call *c)
{
    CHECK(cap->waiting < cap->most_waiting && !c->cap, "there was room in the queue");
    if (cap->waiting == 0) list_init(&cap->queue);
    c->waits_for = cap;
    list_add_last(&cap->queue, &c->place);
    cap->waiting++;
    show_waiting(d, cap);
}

void dependency_leave(struct dependency *d, struct dependency_call *c, bool in_vain)
{
    struct dependency_cap *cap = c->waits_for;
    if (!cap) return;
    c->waits_for = NULL;
    list_remove(&c->place);
    cap->waiting--;
    show_waiting(d, cap);
    if (in_vain) refuse(d, DEPENDENCY_FULL);
}

struct dependency_call *dependency_turn(struct dependency *d, struct dependency_cap *cap, int64_t now_ms,
                                        enum dependency_word *word)
{
    if (cap->waiting == 0) return NULL;
    struct dependency_call *c = container_of(cap->queue.next, struct dependency_call, place);
    bool allowed = breaker_would_allow(&d->breaker, now_ms);
    if (allowed && cap->out >= cap->most) return NULL;
    dependency_leave(d, c, false);
    if (allowed)
        go(d, cap, c, now_ms);
    else
        refuse(d, DEPENDENCY_RESTS);
    *word = allowed ? DEPENDENCY_GO : DEPENDENCY_RESTS;
    return c;
}

void dependency_end(struct dependency *d, struct dependency_call *c, enum dependency_outcome o, int64_t now_ms)
{
    enum breaker_state before = d->breaker.state;
    CHECK(c->cap && c->cap->out > 0 && d->out > 0, "a call that is out ends once");
    c->cap->out--;
    c->cap = NULL;
    d->out--;
    show_out(d);
    if (!c->counts) return;
    if (o == DEPENDENCY_ANSWERED)
        breaker_success(&d->breaker, c->ticket, now_ms);
    else if (o == DEPENDENCY_FAILED)
        breaker_failure(&d->breaker, c->ticket, now_ms, chance_fraction());
    else
        breaker_abandon(&d->breaker, c->ticket);
    dependency_show(d->name, &d->breaker, before);
}

int64_t dependency_rest_ms(const struct dependency *d, int64_t now_ms)
{
    return breaker_rest_ms(&d->breaker, now_ms);
}
