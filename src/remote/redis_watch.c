/* remote/redis_watch: owns the subscribed connection and the state of tracking. Called by remote/redis_node. Refuses to
   say that changes are told unless both connections stand and the server has agreed; the moment that ends, and the
   moment it begins, everything is told to be in doubt. */
#include "remote/redis_watch.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/log.h"
#include "remote/redis_link.h"
#include "remote/redis_node.h"

#define PING_MS 1000
#define INVALIDATIONS "__redis__:invalidate"

struct redis_watch {
    struct redis_watch_config config;
    struct redis_link_config link_config;
    struct redis_link *link;
    struct redis_turn turn; /* of CLIENT TRACKING ON */
    struct deadline pinger;
    bool main_up;
    bool asked;         /* turn is out */
    bool tracked;       /* this main connection has been told to track once */
    long long asked_id; /* whom it was to be redirected to */
    bool tracking;
    bool warned;
    bool stopped;
    const char *why_not;
    void (*done)(void *arg); /* of its end */
    void *done_arg;
};

static void on_up(void *arg);
static void on_down(enum redis_failure f, const char *error, void *arg);
static void on_reply(const struct redis_reply *reply, void *arg);
static void on_message(struct slice channel, const struct redis_reply *payload, void *arg);
static void on_agreed(struct redis_turn *t, const struct redis_reply *reply);
static void on_ping(struct deadline *d);

static const struct redis_link_events link_events = {on_up, on_down, on_reply, on_message};

static void doubt_all(const struct redis_watch *w)
{
    if (w->config.on_invalidated) w->config.on_invalidated(slice_make(NULL, 0), w->config.arg);
}

static void set_tracking(struct redis_watch *w, bool tracking, const char *why_not)
{
    bool changed = w->tracking != tracking;
    w->tracking = tracking;
    w->why_not = why_not;
    if (!changed || w->stopped) return;
    w->config.on_tracking(w->config.node);
    doubt_all(w);
}

static void refused(struct redis_watch *w, const char *why_not)
{
    set_tracking(w, false, why_not);
    if (!w->warned && log_on(LOG_WARN)) log_event(LOG_WARN, "redis_not_tracking", slice_str(why_not));
    w->warned = true;
}

/* Once both connections stand. An earlier tracking of the same connection is taken back first: it would be in the way
   ("Prefix overlaps"), and it leads to a subscriber that is gone. */
static void begin(struct redis_watch *w)
{
    if (w->stopped || w->asked || !w->main_up || !redis_link_up(w->link)) return;
    const struct redis_greeting *g = redis_link_greeting(w->link);
    if (g->id == 0) {
        refused(w, "the server or its ACL refused CLIENT ID");
        return;
    }
    if (g->refused) {
        refused(w, "this user may not subscribe to " INVALIDATIONS " and the channel of flushes");
        return;
    }
    char id[24];
    struct slice off[] = {SLICE("CLIENT"), SLICE("TRACKING"), SLICE("OFF")};
    struct slice on[] = {SLICE("CLIENT"), SLICE("TRACKING"), SLICE("ON"), SLICE("REDIRECT"),
                         slice_make(id, (size_t)snprintf(id, sizeof id, "%lld", g->id)), SLICE("BCAST"),
                         SLICE("PREFIX"), w->config.prefix, SLICE("NOLOOP")};
    if (w->tracked) redis_node_tell(w->config.node, off, 3);
    w->asked = redis_node_ask(w->config.node, on, sizeof on / sizeof *on, &w->turn);
    w->asked_id = g->id;
    w->tracked = true;
}

static void on_agreed(struct redis_turn *t, const struct redis_reply *reply)
{
    struct redis_watch *w = container_of(t, struct redis_watch, turn);
    w->asked = false;
    if (w->stopped || !reply || !w->main_up || !redis_link_up(w->link)) return;
    if (redis_link_greeting(w->link)->id != w->asked_id) { /* the subscriber is another by now */
        begin(w);
        return;
    }
    if (reply->kind == REDIS_KIND_ERROR) {
        refused(w, slice_starts(reply->text, SLICE("NOPERM")) ? "this user may not CLIENT TRACKING"
                                                              : "the server refused CLIENT TRACKING (Redis 6 has it)");
        return;
    }
    w->warned = false;
    set_tracking(w, true, NULL);
}

static void on_up(void *arg)
{
    begin(arg);
}

static void on_down(enum redis_failure f, const char *error, void *arg)
{
    struct redis_watch *w = arg;
    (void)f;
    (void)error;
    set_tracking(w, false, "the connection that is to be told of changes is down");
}

static void on_reply(const struct redis_reply *reply, void *arg)
{
    (void)reply; /* to PING */
    (void)arg;
}

static void on_message(struct slice channel, const struct redis_reply *payload, void *arg)
{
    struct redis_watch *w = arg;
    const struct redis_watch_config *c = &w->config;
    if (slice_eq(channel, c->channel)) {
        if (payload->kind == REDIS_KIND_STRING && c->on_message) c->on_message(payload->text, c->arg);
        return;
    }
    /* Before the tracking is agreed on nothing is trusted yet, and after that it was all in doubt once. */
    if (!slice_eq(channel, SLICE(INVALIDATIONS)) || !w->tracking || !c->on_invalidated) return;
    if (payload->kind != REDIS_KIND_ARRAY || payload->n == 0) {
        doubt_all(w);
        return;
    }
    for (size_t i = 0; i < payload->n && !w->stopped; i++)
        if (payload->items[i].kind == REDIS_KIND_STRING) c->on_invalidated(payload->items[i].text, c->arg);
}

static void on_ping(struct deadline *d)
{
    struct redis_watch *w = container_of(d, struct redis_watch, pinger);
    struct slice ping = SLICE("PING");
    deadline_after(w->config.loop, d, PING_MS);
    redis_link_send(w->link, &ping, 1);
    redis_node_tell(w->config.node, &ping, 1);
}

struct redis_watch *redis_watch_create(const struct redis_watch_config *c)
{
    struct redis_watch *w = xzalloc(sizeof *w);
    w->config = *c;
    w->link_config = (struct redis_link_config){.login = *c->login,
                                                .timeout_ms = c->timeout_ms,
                                                .channels = {SLICE(INVALIDATIONS), c->channel},
                                                .channels_n = 2,
                                                .events = &link_events,
                                                .arg = w};
    w->why_not = "not yet connected";
    w->turn.on_answer = on_agreed;
    w->link = redis_link_create(c->loop, &w->link_config);
    deadline_init(&w->pinger, on_ping);
    deadline_after(c->loop, &w->pinger, PING_MS);
    return w;
}

void redis_watch_stop(struct redis_watch *w)
{
    w->stopped = true;
    deadline_stop(&w->pinger);
}

static void on_link_gone(void *arg)
{
    struct redis_watch *w = arg;
    void (*done)(void *arg) = w->done;
    void *done_arg = w->done_arg;
    free(w);
    done(done_arg);
}

void redis_watch_destroy(struct redis_watch *w, void (*done)(void *arg), void *arg)
{
    CHECK(w->stopped && !w->asked, "stopped, and its node's row is empty");
    w->done = done;
    w->done_arg = arg;
    redis_link_destroy(w->link, on_link_gone, w);
}

void redis_watch_aim(struct redis_watch *w, const char *path, const char *host, int port)
{
    w->main_up = w->tracked = false;
    redis_link_aim(w->link, path, host, port);
    set_tracking(w, false, "not yet connected");
}

void redis_watch_main(struct redis_watch *w, bool up)
{
    w->main_up = up;
    w->tracked = false;
    if (up)
        begin(w);
    else
        set_tracking(w, false, "the connection whose keys are tracked is down");
}

bool redis_watch_tracking(const struct redis_watch *w, const char **why_not)
{
    *why_not = w->why_not;
    return w->tracking;
}
