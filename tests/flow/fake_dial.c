/* See flow/fake_dial.h. Defines the whole of io/dial.h, so that the real one is not linked. */
#include "flow/fake_dial.h"

#include <stdlib.h>

#include "base/check.h"

struct dial {
    struct list link;
    struct deadline deadline;
    struct loop *loop;
    struct stream *stream;
    const struct stream_events *events;
    dial_done done;
    void *arg;
    void (*on_closed)(struct stream *s); /* cancelled: told at the next turn */
};

bool fake_dial_open;
void (*fake_dial_made)(struct memory *m);

static struct list dials = {&dials, &dials};
static size_t started;

static void finish(struct dial *d, int status)
{
    list_remove(&d->link);
    deadline_stop(&d->deadline);
    struct memory *m = status ? NULL : memory_open(d->stream, d->loop, d->events);
    if (m) fake_dial_made(m);
    d->done(d->stream, status, status ? uv_strerror(status) : "", d->arg);
    free(d);
}

static void on_due(struct deadline *deadline)
{
    struct dial *d = container_of(deadline, struct dial, deadline);
    if (!d->on_closed) {
        finish(d, UV_ETIMEDOUT);
        return;
    }
    d->on_closed(d->stream);
    free(d);
}

struct dial *dial_start(struct loop *l, const struct dial_target *target, int64_t timeout_ms, struct stream *s,
                        const struct stream_events *events, dial_done done, void *arg)
{
    struct dial *d = xzalloc(sizeof *d);
    CHECK(target->address || (target->host && *target->host && target->port > 0), "somewhere to go");
    d->loop = l;
    d->stream = s;
    d->events = events;
    d->done = done;
    d->arg = arg;
    deadline_init(&d->deadline, on_due);
    deadline_after(l, &d->deadline, timeout_ms);
    list_add_last(&dials, &d->link);
    started++;
    return d;
}

void dial_cancel(struct dial *d, void (*on_closed)(struct stream *s))
{
    CHECK(!d->on_closed, "cancelled once");
    list_remove(&d->link);
    d->on_closed = on_closed;
    deadline_after(d->loop, &d->deadline, 0);
}

size_t fake_dial_waiting(void)
{
    size_t n = 0;
    for (struct list *at = dials.next; at != &dials; at = at->next)
        n++;
    return n;
}

size_t fake_dial_started(void)
{
    return started;
}

void fake_dial_reset(void)
{
    CHECK(list_empty(&dials), "no dial is left over");
    started = 0;
}

void fake_dial_finish(int status)
{
    CHECK(!list_empty(&dials), "a dial waits");
    finish(container_of(dials.next, struct dial, link), status);
}

bool fake_dial_pump(void)
{
    if (!fake_dial_open || list_empty(&dials)) return false;
    while (!list_empty(&dials))
        fake_dial_finish(0);
    return true;
}
