/* See load/schedule.h: users. */
#include "load/schedule.h"

#include "common/net.h"
#include "load/line.h"

#define TICK_NS INT64_C(5000000)
#define GRACE_NS INT64_C(10000000000)

static struct {
    struct plan *plan;
    struct line thinking; /* the one who is done first comes first: all think as long */
    size_t users;         /* who are there: the first clients */
    size_t stage;
    uint64_t sent;
    int64_t begun_ns; /* this stage */
    unsigned before;  /* users at its beginning */
    bool over;
} closed;

static int64_t length_ns(const struct stage *s)
{
    return (int64_t)(s->seconds * 1e9);
}

static size_t users_wanted(int64_t now)
{
    const struct stage *s = &closed.plan->stages[closed.stage];
    double part = s->seconds > 0 ? (double)(now - closed.begun_ns) / (double)length_ns(s) : 1;
    if (part > 1) part = 1;
    double users = closed.before + part * ((double)s->users - closed.before);
    return users < 1 ? 1 : (size_t)users;
}

static bool enough(void)
{
    return closed.over || (closed.plan->requests && closed.sent == closed.plan->requests);
}

static void ask(struct client *c, int64_t now)
{
    struct counts *counts = &closed.plan->stages[closed.stage].counts;
    counts->scheduled++;
    client_send(c, closed.plan->first + closed.sent++, now, counts);
}

static bool is_wanted(const struct client *c)
{
    return (size_t)(c - load.clients) < closed.users;
}

static void end_if_quiet(void)
{
    if (!enough()) return;
    for (size_t i = 0; i < load.clients_n; i++)
        if (load.clients[i].state == CLIENT_BUSY) return;
    load.done = true;
}

static void on_idle(struct client *c, int64_t now)
{
    if (enough()) {
        end_if_quiet();
        return;
    }
    if (!is_wanted(c)) {
        client_close(c);
        return;
    }
    bool asked_before = c->counts != NULL;
    if (asked_before && closed.plan->think_ms > 0) {
        c->due_ns = now + (int64_t)(closed.plan->think_ms * 1e6);
        line_add(&closed.thinking, c);
    } else {
        ask(c, now);
    }
}

static void wake(int64_t now)
{
    while (closed.thinking.first && closed.thinking.first->due_ns <= now && !enough()) {
        struct client *c = line_take(&closed.thinking);
        if (c->state != CLIENT_IDLE) continue;
        if (is_wanted(c))
            ask(c, now);
        else
            client_close(c);
    }
}

static void on_timer(int64_t now)
{
    struct plan *p = closed.plan;
    if (closed.over && now > closed.begun_ns + GRACE_NS) load.done = true;
    while (!closed.over && now >= closed.begun_ns + length_ns(&p->stages[closed.stage])) {
        closed.begun_ns += length_ns(&p->stages[closed.stage]);
        closed.before = p->stages[closed.stage].users;
        if (closed.stage + 1 < p->stages_n)
            closed.stage++;
        else
            closed.over = true;
    }
    if (enough()) {
        end_if_quiet();
    } else {
        closed.users = users_wanted(now);
        for (size_t i = 0; i < closed.users; i++)
            if (load.clients[i].state == CLIENT_OFF) {
                load.clients[i].counts = NULL;
                client_connect(&load.clients[i]);
            }
        wake(now);
    }
    int64_t next = now + TICK_NS;
    if (closed.thinking.first && closed.thinking.first->due_ns < next) next = closed.thinking.first->due_ns;
    timer_set(load.timer, next);
}

void schedule_closed(struct plan *p)
{
    closed.plan = p;
    closed.begun_ns = now_ns();
    closed.before = p->stages[0].users; /* who come first are there at once */
    load.on_idle = on_idle;
    load.on_timer = on_timer;
    timer_set(load.timer, closed.begun_ns);
    load_run();
}
