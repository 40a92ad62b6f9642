/* See flow/fake_dial.h. Defines the whole of io/dial.h, so that the real one is not linked. */
#include "flow/fake_dial.h"

#include <stdlib.h>

#include <stdio.h>

#include "base/check.h"
#include "flow/fake_resolve.h"
#include "io/address.h"
#include "proxy/health.h"

struct dial {
    struct list link;
    struct deadline deadline;
    struct loop *loop;
    struct stream *stream;
    const struct stream_events *events;
    dial_done done;
    void *arg;
    int64_t timeout_ms;
    char to[ADDRESS_TEXT_BYTES];
    void (*on_closed)(struct stream *s); /* cancelled: told at the next turn */
};

bool fake_dial_open;
void (*fake_dial_made)(struct memory *m);

int (*fake_check)(const char *address);
const char *fake_check_request;
size_t fake_checks;

static struct list dials = {&dials, &dials};
static struct list checks = {&checks, &checks};
static struct memory *asked[256]; /* connections of checks that are not answered yet */
static int answers[256];
static size_t asked_n;
static char request[4096];
static size_t started;

static void finish(struct dial *d, int status)
{
    list_remove(&d->link);
    deadline_stop(&d->deadline);
    struct memory *m = status ? NULL : memory_open(d->stream, d->loop, d->events);
    if (m) memcpy(m->to, d->to, sizeof m->to);
    if (m) fake_dial_made(m);
    d->done(d->stream, status, status == UV_ETIMEDOUT ? "connect timed out" : status ? uv_strerror(status) : "", d->arg);
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
    CHECK(target->address, "a resolved address to go to");
    address_text((const struct sockaddr_storage *)(const void *)target->address, d->to);
    d->timeout_ms = timeout_ms;
    d->loop = l;
    d->stream = s;
    d->events = events;
    d->done = done;
    d->arg = arg;
    deadline_init(&d->deadline, on_due);
    deadline_after(l, &d->deadline, timeout_ms);
    bool check = events == &health_stream_events;
    list_add_last(check ? &checks : &dials, &d->link);
    started += !check;
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
    CHECK(list_empty(&dials) && list_empty(&checks), "no dial is left over");
    started = fake_checks = asked_n = 0;
}

static struct dial *nth(size_t n)
{
    struct list *at = dials.next;
    while (n-- && at != &dials)
        at = at->next;
    CHECK(at != &dials, "that many dials wait");
    return container_of(at, struct dial, link);
}

const char *fake_dial_to(size_t n)
{
    return nth(n)->to;
}

int64_t fake_dial_timeout(size_t n)
{
    return nth(n)->timeout_ms;
}

static void finish_check(struct dial *d)
{
    int status = fake_check ? fake_check(d->to) : 200;
    list_remove(&d->link);
    deadline_stop(&d->deadline);
    if (status != FAKE_CHECK_REFUSED) {
        CHECK(asked_n < 256, "room for checks");
        answers[asked_n] = status;
        asked[asked_n] = memory_open(d->stream, d->loop, d->events);
        memcpy(asked[asked_n++]->to, d->to, sizeof d->to);
    }
    d->done(d->stream, status == FAKE_CHECK_REFUSED ? UV_ECONNREFUSED : 0, "connection refused", d->arg);
    fake_checks += status == FAKE_CHECK_REFUSED;
    free(d);
}

/* Connects what waits; answers what asks. */
static bool pump_checks(void)
{
    bool moved = !list_empty(&checks);
    while (!list_empty(&checks))
        finish_check(container_of(checks.next, struct dial, link));
    size_t left = 0;
    for (size_t i = 0; i < asked_n; i++) {
        struct memory *m = asked[i];
        if (m->closed) continue;
        if (!m->got.n) {
            answers[left] = answers[i];
            asked[left++] = m;
            continue;
        }
        if (!strstr(m->to, FAKE_ADDRESS)) snprintf(request, sizeof request, "%.*s", (int)m->got.n, m->got.p);
        fake_check_request = request;
        char head[64];
        int n = snprintf(head, sizeof head, "HTTP/1.1 %d X\r\nContent-Length: 0\r\n\r\n", answers[i]);
        memory_send(m, head, (size_t)n);
        fake_checks++;
        moved = true;
    }
    asked_n = left;
    return moved;
}

void fake_dial_finish(int status)
{
    CHECK(!list_empty(&dials), "a dial waits");
    finish(container_of(dials.next, struct dial, link), status);
}

bool fake_dial_pump(void)
{
    bool checked = pump_checks();
    if (!fake_dial_open || list_empty(&dials)) return checked;
    while (!list_empty(&dials))
        fake_dial_finish(0);
    return true;
}
