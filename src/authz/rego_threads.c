/* authz/rego_threads: called by question where policy.threads is given. Owns its engines: an evaluation that nobody waits
   for any more, also of settings that are gone, touches nothing else. How many may stand in line is question's to limit. */
#include "authz/rego_threads.h"

#include <stdlib.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/list.h"
#include "io/work.h"

struct rego_threads {
    struct loop *loop;
    struct list line; /* of tasks that wait */
    struct list idle; /* of seats */
    unsigned seats;   /* that are, idle or not */
    bool gone;        /* nobody asks any more; goes with the last seat */
};

struct seat { /* an engine, and who has it */
    struct list link; /* of idle */
    struct rego_threads *threads;
    struct rego_engine *engine;
    struct rego_task *task;
    struct work work;
};

struct rego_task {
    struct list link; /* of the line */
    struct seat *seat;
    struct buf input;
    int64_t limit_ms;
    size_t answer_bytes;
    struct rego_said said;
    void (*on_done)(const struct rego_said *said, void *arg); /* NULL: cancelled */
    void *arg;
};

static void on_done(bool ran, void *arg);

struct rego_threads *rego_threads_create(struct loop *l, const struct rego_engine *e, unsigned n)
{
    struct rego_threads *t = xzalloc(sizeof *t);
    t->loop = l;
    list_init(&t->line);
    list_init(&t->idle);
    for (; t->seats < n; t->seats++) {
        struct seat *s = xzalloc(sizeof *s);
        s->threads = t;
        s->engine = rego_engine_again(e);
        list_add_last(&t->idle, &s->link);
    }
    return t;
}

static void free_task(struct rego_task *k)
{
    rego_said_free(&k->said);
    buf_free(&k->input);
    free(k);
}

static void free_seat(struct seat *s)
{
    struct rego_threads *t = s->threads;
    list_remove(&s->link);
    rego_engine_destroy(s->engine);
    free(s);
    if (--t->seats == 0) free(t);
}

void rego_threads_destroy(struct rego_threads *t)
{
    if (!t) return;
    CHECK(list_empty(&t->line), "who waits knows whom it waits for");
    t->gone = true;
    bool last = false;
    while (!last && !list_empty(&t->idle)) {
        last = t->seats == 1;
        free_seat(container_of(t->idle.next, struct seat, link));
    }
}

/* On a thread. */
static void run(void *arg)
{
    struct seat *s = arg;
    struct rego_task *k = s->task;
    rego_engine_evaluate(s->engine, buf_slice(&k->input), k->limit_ms, k->answer_bytes, &k->said);
}

static void begin(struct rego_threads *t)
{
    while (!list_empty(&t->line) && !list_empty(&t->idle)) {
        struct rego_task *k = container_of(t->line.next, struct rego_task, link);
        struct seat *s = container_of(t->idle.next, struct seat, link);
        list_remove(&k->link);
        list_remove(&s->link);
        k->seat = s;
        s->task = k;
        work_start(t->loop, &s->work, run, on_done, s);
    }
}

/* Whoever is told may ask for more, or end all. */
static void on_done(bool ran, void *arg)
{
    struct seat *s = arg;
    struct rego_threads *t = s->threads;
    struct rego_task *k = s->task;
    (void)ran; /* what was cancelled is told to nobody */
    s->task = NULL;
    list_add_last(&t->idle, &s->link);
    if (t->gone)
        free_seat(s);
    else
        begin(t);
    if (k->on_done) k->on_done(&k->said, k->arg);
    free_task(k);
}

struct rego_task *rego_threads_evaluate(struct rego_threads *t, struct slice input, int64_t limit_ms, size_t answer_bytes,
                                        void (*done)(const struct rego_said *said, void *arg), void *arg)
{
    struct rego_task *k = xzalloc(sizeof *k);
    buf_init(&k->input, NULL);
    buf_add_slice(&k->input, input);
    k->limit_ms = limit_ms;
    k->answer_bytes = answer_bytes;
    k->on_done = done;
    k->arg = arg;
    list_add_last(&t->line, &k->link);
    begin(t);
    return k;
}

bool rego_task_waits(const struct rego_task *k)
{
    return k->seat == NULL;
}

void rego_task_cancel(struct rego_task *k)
{
    k->on_done = NULL;
    if (k->seat) {
        work_cancel(&k->seat->work);
        return;
    }
    list_remove(&k->link);
    free_task(k);
}
