/* See load/schedule.h: fixed arrivals. */
#include "load/schedule.h"

#include "common/net.h"
#include "load/line.h"

#define CONNECTING_MAX 128
#define GRACE_NS INT64_C(10000000000)

static struct {
    const struct plan *plan;
    struct open_result *result;
    struct line idle;
    size_t connecting; /* clients that were started, from the first */
    size_t connected;
    uint64_t warm, total; /* arrivals */
    uint64_t come, sent;  /* arrivals so far; those that found a connection */
    int64_t t0_ns;        /* 0: not all connections stand yet */
} open;

static int64_t due_ns(uint64_t i)
{
    return open.t0_ns + (int64_t)((double)i * 1e9 / open.plan->rate);
}

static struct counts *counts_of(uint64_t i)
{
    return i < open.warm ? &open.result->warm : &open.result->counts;
}

static uint64_t over(void)
{
    const struct open_result *r = open.result;
    return r->warm.completed + r->warm.errors + r->counts.completed + r->counts.errors;
}

static void send_what_waits(void)
{
    struct client *c;
    while (open.sent < open.come && (c = line_take(&open.idle))) {
        if (c->state != CLIENT_IDLE) continue; /* it was closed meanwhile; it comes again */
        uint64_t i = open.sent++;
        client_send(c, open.plan->first + i, due_ns(i), counts_of(i));
    }
}

static void on_turn(int64_t now)
{
    if (open.t0_ns == 0) return;
    bool any = false;
    while (open.come < open.total && due_ns(open.come) <= now) {
        uint64_t i = open.come++;
        counts_of(i)->scheduled++;
        if (i >= open.warm) histogram_add(&open.result->lateness, now - due_ns(i));
        send_what_waits();
        now = now_ns();
        any = true;
    }
    if (any) timer_set(load.timer, open.come < open.total ? due_ns(open.come) : due_ns(open.total) + GRACE_NS);
    if (open.come == open.total && over() == open.total) load.done = true;
}

static void on_timer(int64_t now)
{
    if (open.come == open.total && now >= due_ns(open.total) + GRACE_NS) load.done = true;
}

static void connect_more(void)
{
    while (open.connecting < load.clients_n && open.connecting - open.connected < CONNECTING_MAX)
        client_connect(&load.clients[open.connecting++]);
}

static void on_idle(struct client *c, int64_t now)
{
    line_add(&open.idle, c);
    if (open.t0_ns) {
        send_what_waits();
        return;
    }
    open.connected++;
    connect_more();
    if (open.connected < load.clients_n) return;
    open.t0_ns = now + INT64_C(10000000);
    timer_set(load.timer, open.t0_ns);
}

void schedule_open(const struct plan *p, struct open_result *r)
{
    open.plan = p;
    open.result = r;
    open.warm = (uint64_t)(p->rate * p->warmup_s + 0.5);
    open.total = open.warm + (uint64_t)(p->rate * p->seconds + 0.5);
    load.on_idle = on_idle;
    load.on_timer = on_timer;
    load.on_turn = on_turn;
    connect_more();
    load_run();
    r->unfinished = open.total - over();
    r->elapsed_s = (double)(now_ns() - due_ns(open.warm)) / 1e9;
}
