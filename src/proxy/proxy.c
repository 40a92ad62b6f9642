/* proxy/proxy: what all of a running proxy shares: made, drained and ended. Called by main (and by the flow tests). */
#include "proxy/proxy.h"

#include "base/check.h"
#include "base/log.h"
#include "base/metric.h"
#include "proxy/conn.h"
#include "proxy/listener.h"
#include "proxy/ready.h"
#include "proxy/reload.h"
#include "proxy/request.h"
#include "proxy/team.h"
#include "proxy/wire.h"

#define LINGER_MS 2000
#define FRESH_MS 500

static void on_drain_delay(struct deadline *d);

bool proxy_start(struct proxy *p, struct settings *s, char **error)
{
    list_init(&p->conns);
    list_init(&p->all_settings);
    list_init(&p->gone_settings);
    list_init(&p->sweep.link);
    deadline_init(&p->drain_delay, on_drain_delay);
    metric_set(METRIC_DRAINING, NULL, 0);
    deadline_list_init(&p->linger_timeout, p->loop, LINGER_MS);
    deadline_list_init(&p->fresh_timeout, p->loop, FRESH_MS);
    p->settings = s;
    if (!wire_start(s->wire, p, error)) return false;
    settings_attach(s, p, NULL);
    if (!p->rehearsal) p->ready = ready_create(p);
    reload_tell_revision(p);
    return true;
}

static void close_listeners(struct proxy *p)
{
    team_close_listeners(p->team, false);
    for (size_t i = 0; i < 2; i++) {
        listener_close(p->listeners[i]);
        p->listeners[i] = NULL;
    }
}

static void close_down(struct proxy *p)
{
    p->closing = true;
    for (size_t i = 0; i < 2; i++) listener_rest(p->listeners[i]);
    team_close_listeners(p->team, true);
    close_listeners(p);
    struct list *next;
    for (struct list *at = p->conns.next; at != &p->conns; at = next) {
        struct conn *c = container_of(at, struct conn, link);
        next = at->next;
        conn_drain(c);
    }
    if (p->conns_n == 0 && p->on_drained) p->on_drained(p);
}

static void on_drain_delay(struct deadline *d)
{
    close_down(container_of(d, struct proxy, drain_delay));
}

void proxy_drain(struct proxy *p, int64_t delay_ms)
{
    if (p->closing) return;
    bool again = p->draining;
    p->draining = true;
    metric_set(METRIC_DRAINING, NULL, 1);
    if (delay_ms == 0) {
        deadline_stop(&p->drain_delay);
        close_down(p);
    } else if (!again || p->drain_delay.due_ms > loop_now_ms(p->loop) + delay_ms) {
        deadline_after(p->loop, &p->drain_delay, delay_ms);
    }
}

void proxy_abort(struct proxy *p)
{
    p->closing = p->draining;
    deadline_stop(&p->drain_delay);
    close_listeners(p);
    struct list *next;
    for (struct list *at = p->conns.next; at != &p->conns; at = next) {
        struct conn *c = container_of(at, struct conn, link);
        next = at->next;
        if (c->request) request_abort(c->request, REASON_SHUTTING_DOWN);
        conn_close(c);
    }
}

void proxy_finish(struct proxy *p)
{
    if (p->ready) ready_stop(p->ready);
    settings_release(p->settings);
    p->settings = NULL;
    settings_sweep(p);
    CHECK(list_empty(&p->all_settings), "requests end before the proxy does");
    wire_stop(p);
}

void proxy_free(struct proxy *p)
{
    if (p->ready) ready_free(p->ready);
    wire_release(p->first);
}
