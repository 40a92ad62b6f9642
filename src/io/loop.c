/* io/loop: owns the uv loop, the one tick timer behind every deadline, and the signal handles. Called by everything
   that waits. Refuses a second timer: whoever needs a time-out links a deadline into a list; only the earliest arms the
   tick. */
#include "io/loop.h"

#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "base/check.h"
#include "base/log.h"

/* Due times are rounded up to this, so that deadlines close to each other share one tick and none fires early. */
#define GRANULARITY_MS 10
#define NOT_ARMED INT64_MAX
#define THREADS_MS 100

struct loop {
    uv_loop_t uv;
    uv_prepare_t prepare;
    uv_timer_t tick;
    struct list lists;  /* of struct deadline_list */
    struct list uneven; /* of struct deadline, by due time */
    struct list timeouts; /* of struct timeouts: lists that are the loop's own */
    struct list signals;
    int64_t armed_ms;    /* uv time that the tick is set to, or NOT_ARMED */
    int64_t advanced_ms; /* what loop_advance added */
    int64_t lag_ms;
    int works; /* pieces of work on threads */
    int64_t wall_ms;
    uint64_t wall_turn; /* uv time at which wall_ms was read */
    bool wall_known;
    bool sweeping; /* the tick is armed once, after the sweep */
    bool closed;
};

struct timeouts {
    struct deadline_list deadlines;
    struct list link;
};

struct loop_signal {
    uv_signal_t handle;
    struct list link;
    void (*on_signal)(int signum, void *arg);
    void *arg;
};

static void on_prepare(uv_prepare_t *handle);
static void on_tick(uv_timer_t *handle);
static void on_uv_signal(uv_signal_t *handle, int signum);
static void on_signal_closed(uv_handle_t *handle);

static int64_t uv_time_ms(const struct loop *l)
{
    return (int64_t)uv_now(&l->uv);
}

/* Sets the tick to due_ms (our time) unless it comes earlier anyway. */
static void arm(struct loop *l, int64_t due_ms)
{
    if (l->closed || l->sweeping) return;
    int64_t now_ms = uv_time_ms(l);
    int64_t at_ms = due_ms - l->advanced_ms;
    if (at_ms > now_ms)
        at_ms = (at_ms + GRANULARITY_MS - 1) / GRANULARITY_MS * GRANULARITY_MS;
    else
        at_ms = now_ms;
    if (at_ms >= l->armed_ms) return;
    l->armed_ms = at_ms;
    CHECK(uv_timer_start(&l->tick, on_tick, (uint64_t)(at_ms - now_ms), 0) == 0, "the tick timer must start");
}

static struct deadline *first(const struct list *deadlines)
{
    return list_empty(deadlines) ? NULL : container_of(deadlines->next, struct deadline, link);
}

static void arm_earliest(struct loop *l)
{
    int64_t due_ms = NOT_ARMED;
    struct deadline *d = first(&l->uneven);
    if (d) due_ms = d->due_ms;
    for (struct list *n = l->lists.next; n != &l->lists; n = n->next) {
        d = first(&container_of(n, struct deadline_list, link)->deadlines);
        if (d && d->due_ms < due_ms) due_ms = d->due_ms;
    }
    if (due_ms != NOT_ARMED) arm(l, due_ms);
}

static void sweep(struct list *deadlines, int64_t now_ms)
{
    struct deadline *d;
    while ((d = first(deadlines)) && d->due_ms <= now_ms) {
        list_remove(&d->link);
        d->on_due(d);
    }
}

static void on_prepare(uv_prepare_t *handle)
{
    (void)handle;
    log_flush();
}

static void on_tick(uv_timer_t *handle)
{
    struct loop *l = container_of(handle, struct loop, tick);
    l->lag_ms = uv_time_ms(l) - l->armed_ms;
    l->armed_ms = NOT_ARMED;
    /* One reading of the clock for the whole sweep: a deadline that its callback starts again is not due in it. */
    int64_t now_ms = loop_now_ms(l);
    l->sweeping = true;
    for (struct list *n = l->lists.next; n != &l->lists; n = n->next)
        sweep(&container_of(n, struct deadline_list, link)->deadlines, now_ms);
    sweep(&l->uneven, now_ms);
    l->sweeping = false;
    arm_earliest(l);
}

static void on_uv_signal(uv_signal_t *handle, int signum)
{
    struct loop_signal *s = container_of(handle, struct loop_signal, handle);
    s->on_signal(signum, s->arg);
}

static void on_signal_closed(uv_handle_t *handle)
{
    free(container_of((uv_signal_t *)handle, struct loop_signal, handle));
}

struct loop *loop_create(void)
{
    struct loop *l = xzalloc(sizeof *l);
    CHECK(uv_loop_init(&l->uv) == 0, "the event loop must start");
    CHECK(uv_prepare_init(&l->uv, &l->prepare) == 0, "prepare handle");
    CHECK(uv_timer_init(&l->uv, &l->tick) == 0, "tick handle");
    CHECK(uv_prepare_start(&l->prepare, on_prepare) == 0, "prepare handle must start");
    uv_unref((uv_handle_t *)&l->prepare);
    uv_unref((uv_handle_t *)&l->tick);
    list_init(&l->lists);
    list_init(&l->uneven);
    list_init(&l->timeouts);
    list_init(&l->signals);
    l->armed_ms = NOT_ARMED;
    /* A peer that closes while we write to it must be an error of that write, not the end of the process. */
    signal(SIGPIPE, SIG_IGN);
    return l;
}

void loop_destroy(struct loop *l)
{
    CHECK(l->closed, "loop_close comes before loop_destroy");
    CHECK(uv_loop_close(&l->uv) == 0, "a handle or request is still open");
    while (!list_empty(&l->timeouts)) {
        struct timeouts *t = container_of(l->timeouts.next, struct timeouts, link);
        list_remove(&t->link);
        deadline_list_finish(&t->deadlines);
        free(t);
    }
    free(l);
}

uv_loop_t *loop_uv(struct loop *l)
{
    return &l->uv;
}

void loop_run(struct loop *l)
{
    uv_run(&l->uv, UV_RUN_DEFAULT);
    log_flush();
}

void loop_serve(struct loop *l)
{
    uv_ref((uv_handle_t *)&l->prepare);
    loop_run(l);
    uv_unref((uv_handle_t *)&l->prepare);
}

void loop_stop(struct loop *l)
{
    uv_stop(&l->uv);
}

void loop_turn(struct loop *l)
{
    if (l->closed) {
        uv_run(&l->uv, UV_RUN_NOWAIT);
        return;
    }
    uv_ref((uv_handle_t *)&l->prepare);
    uv_run(&l->uv, UV_RUN_NOWAIT);
    if (!l->closed) uv_unref((uv_handle_t *)&l->prepare);
}

void loop_close(struct loop *l)
{
    CHECK(!l->closed, "a loop is closed once");
    l->closed = true;
    uv_close((uv_handle_t *)&l->prepare, NULL);
    uv_close((uv_handle_t *)&l->tick, NULL);
    while (!list_empty(&l->signals)) {
        struct loop_signal *s = container_of(l->signals.next, struct loop_signal, link);
        list_remove(&s->link);
        uv_close((uv_handle_t *)&s->handle, on_signal_closed);
    }
}

static void count_any(uv_handle_t *handle, void *arg)
{
    (void)handle;
    (*(size_t *)arg)++;
}

static bool has_handles(struct loop *l)
{
    size_t n = 0;
    uv_walk(&l->uv, count_any, &n);
    return n > 0;
}

bool loop_end(struct loop *l)
{
    CHECK(l->closed, "loop_close comes before loop_end");
    while (uv_loop_alive(&l->uv) && has_handles(l)) uv_run(&l->uv, UV_RUN_ONCE);
    for (int ms = 0; ms < THREADS_MS && uv_loop_alive(&l->uv); ms++) {
        uv_run(&l->uv, UV_RUN_NOWAIT);
        uv_sleep(1);
    }
    log_flush();
    return !uv_loop_alive(&l->uv);
}

int64_t loop_now_ms(struct loop *l)
{
    return uv_time_ms(l) + l->advanced_ms;
}

int64_t loop_wall_ms(struct loop *l)
{
    uint64_t turn = uv_now(&l->uv);
    if (!l->wall_known || turn != l->wall_turn) {
        struct timespec t;
        CHECK(clock_gettime(CLOCK_REALTIME, &t) == 0, "the wall clock must be readable");
        l->wall_ms = (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
        l->wall_turn = turn;
        l->wall_known = true;
    }
    return l->wall_ms + l->advanced_ms;
}

void loop_advance(struct loop *l, int64_t ms)
{
    CHECK(ms >= 0, "time does not run backwards");
    l->advanced_ms += ms;
    arm_earliest(l);
}

int64_t loop_lag_ms(struct loop *l)
{
    return l->lag_ms;
}

static void count_handle(uv_handle_t *handle, void *arg)
{
    size_t *n = arg;
    if (!uv_is_closing(handle)) (*n)++;
}

size_t loop_handles(struct loop *l)
{
    size_t n = (size_t)l->works;
    uv_walk(&l->uv, count_handle, &n);
    return n;
}

void loop_count_work(struct loop *l, int by)
{
    l->works += by;
}

static size_t length(const struct list *head)
{
    size_t n = 0;
    for (const struct list *at = head->next; at != head; at = at->next) n++;
    return n;
}

size_t loop_deadlines(const struct loop *l)
{
    size_t n = length(&l->uneven);
    for (struct list *at = l->lists.next; at != &l->lists; at = at->next)
        n += length(&container_of(at, struct deadline_list, link)->deadlines);
    return n;
}

void deadline_list_init(struct deadline_list *list, struct loop *l, int64_t timeout_ms)
{
    CHECK(timeout_ms > 0, "a time-out of nothing would fire for ever");
    list_init(&list->deadlines);
    list->loop = l;
    list->timeout_ms = timeout_ms;
    list_add_last(&l->lists, &list->link);
}

struct deadline_list *loop_timeouts(struct loop *l, int64_t timeout_ms)
{
    for (struct list *n = l->timeouts.next; n != &l->timeouts; n = n->next) {
        struct timeouts *known = container_of(n, struct timeouts, link);
        if (known->deadlines.timeout_ms == timeout_ms) return &known->deadlines;
    }
    struct timeouts *t = xzalloc(sizeof *t);
    deadline_list_init(&t->deadlines, l, timeout_ms);
    list_add_last(&l->timeouts, &t->link);
    return &t->deadlines;
}

void deadline_list_finish(struct deadline_list *list)
{
    CHECK(list_empty(&list->deadlines), "no deadline runs when its list goes");
    CHECK(!list->loop->sweeping, "a list does not go while deadlines fire");
    list_remove(&list->link);
}

void deadline_init(struct deadline *d, void (*on_due)(struct deadline *))
{
    list_init(&d->link);
    d->due_ms = 0;
    d->on_due = on_due;
}

void deadline_start(struct deadline_list *list, struct deadline *d)
{
    list_remove(&d->link);
    d->due_ms = loop_now_ms(list->loop) + list->timeout_ms;
    list_add_last(&list->deadlines, &d->link);
    arm(list->loop, d->due_ms);
}

void deadline_after(struct loop *l, struct deadline *d, int64_t after_ms)
{
    list_remove(&d->link);
    /* At least the next millisecond: what starts itself again from its own callback must not keep the sweep going. */
    d->due_ms = loop_now_ms(l) + (after_ms > 0 ? after_ms : 1);
    struct list *before = &l->uneven;
    while (before->prev != &l->uneven && container_of(before->prev, struct deadline, link)->due_ms > d->due_ms)
        before = before->prev;
    list_add_last(before, &d->link);
    arm(l, d->due_ms);
}

void deadline_now(struct loop *l, struct deadline *d)
{
    list_remove(&d->link);
    d->due_ms = loop_now_ms(l);
    list_add_first(&l->uneven, &d->link);
    arm(l, d->due_ms);
}

void deadline_stop(struct deadline *d)
{
    list_remove(&d->link);
}

bool deadline_running(const struct deadline *d)
{
    return !list_empty(&d->link);
}

void loop_on_signal(struct loop *l, int signum, void (*on_signal)(int signum, void *arg), void *arg)
{
    struct loop_signal *s = xzalloc(sizeof *s);
    s->on_signal = on_signal;
    s->arg = arg;
    CHECK(uv_signal_init(&l->uv, &s->handle) == 0, "signal handle");
    CHECK(uv_signal_start(&s->handle, on_uv_signal, signum) == 0, "the signal must be one that can be caught");
    uv_unref((uv_handle_t *)&s->handle);
    list_add_last(&l->signals, &s->link);
}

uint64_t loop_clock_ns(void)
{
    return uv_hrtime();
}
