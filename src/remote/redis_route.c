/* remote/redis_route: owns the nodes and what is known of where keys are. Called by remote/redis. Refuses to follow
   servers to more than MAX_NODES others. */
#include "remote/redis_route.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/log.h"
#include "base/metric.h"
#include "remote/redis_scout.h"
#include "remote/redis_settings.h"

#define MAX_NODES (REDIS_MASTERS_MOST + 64)
#define SENTINEL_MS 1000    /* how often the master's name is asked for while nothing is in doubt */
#define CLUSTER_MS 5000     /* the same of the map */
#define DOUBT_MS 15000      /* how long it is asked for in haste after a loss */
#define UNUSED_MS 60000     /* a node that is not in the map is kept this long after its last use */
#define STALE_ANSWERS 5     /* of one sentinel that names a master who cannot be reached; then the next is asked */
#define SCOUT_TIMEOUT_MS 500

struct member {
    struct list link;
    struct redis_node *node;
    struct redis_place place;
    bool master; /* it has slots by the map, or is the only one */
    bool up;
    int64_t used_ms;
};

struct redis_route {
    struct loop *loop;
    struct redis_settings settings;
    struct redis_node_config node_config;
    void (*on_invalidated)(struct slice key, void *arg);
    void (*on_message)(struct slice payload, void *arg);
    void *watch_arg;
    const struct redis_route_events *events;
    void *arg;
    struct list members;
    size_t members_n;
    struct member **owner; /* by slot; a cluster whose map is known, else NULL */
    struct redis_scout *scout; /* or NULL */
    bool scout_complained;
    unsigned stale;          /* answers in a row that named a master who is down */
    int64_t lost_ms;         /* when a connection was lost, or never yet made */
    char master[300];        /* sentinels: as shown */
    bool destroyed;
    unsigned open; /* nodes and the scout */
    void (*done)(void *arg);
    void *done_arg;
};

static void on_up(struct redis_node *n, void *arg);
static void on_down(struct redis_node *n, enum redis_failure f, void *arg);
static void on_tracking(struct redis_node *n, void *arg);
static void on_invalidated(struct slice key, void *arg);
static void on_message(struct slice payload, void *arg);
static bool on_sentinel(const struct redis_reply *reply, const struct redis_place *from, void *arg);
static bool on_map(const struct redis_reply *reply, const struct redis_place *from, void *arg);
static void on_scout_failed(const char *error, void *arg);
static void on_part_gone(void *arg);

static const struct redis_node_events node_events = {on_up, on_down, on_tracking, on_invalidated, on_message};

/* --- members ---------------------------------------------------------------------------------------------------- */

static struct member *first(const struct redis_route *r)
{
    return list_empty(&r->members) ? NULL : container_of(r->members.next, struct member, link);
}

static struct member *next(const struct redis_route *r, const struct member *m)
{
    return m->link.next == &r->members ? NULL : container_of(m->link.next, struct member, link);
}

static struct member *member_of(const struct redis_route *r, const struct redis_node *n)
{
    struct member *m = first(r);
    while (m && m->node != n)
        m = next(r, m);
    return m;
}

static struct member *add_member(struct redis_route *r)
{
    if (r->members_n == MAX_NODES) return NULL;
    struct member *m = xzalloc(sizeof *m);
    m->node = redis_node_create(&r->node_config);
    m->used_ms = loop_now_ms(r->loop);
    list_add_last(&r->members, &m->link);
    r->members_n++;
    r->open++;
    return m;
}

static struct member *at_place(struct redis_route *r, const struct redis_place *place)
{
    struct member *m = first(r);
    while (m && !redis_place_same(&m->place, place))
        m = next(r, m);
    if (m || !(m = add_member(r))) return m;
    m->place = *place;
    redis_node_aim(m->node, NULL, place->host, place->port);
    return m;
}

static void remove_member(struct redis_route *r, struct member *m)
{
    list_remove(&m->link);
    r->members_n--;
    for (size_t slot = 0; r->owner && slot < REDIS_SLOTS; slot++)
        if (r->owner[slot] == m) r->owner[slot] = NULL;
    if (!r->destroyed) r->events->on_gone(m->node, r->arg);
    redis_node_destroy(m->node, on_part_gone, r);
    free(m);
}

static bool all_up(const struct redis_route *r)
{
    size_t masters = 0;
    for (const struct member *m = first(r); m; m = next(r, m)) {
        if (!m->master) continue;
        if (!m->up) return false;
        masters++;
    }
    return masters > 0;
}

/* --- what nodes tell -------------------------------------------------------------------------------------------- */

static void on_up(struct redis_node *n, void *arg)
{
    struct redis_route *r = arg;
    struct member *m = member_of(r, n);
    m->up = true;
    r->stale = 0;
    r->events->on_change(r->arg);
    r->events->on_up(n, r->arg);
}

static void on_down(struct redis_node *n, enum redis_failure f, void *arg)
{
    struct redis_route *r = arg;
    struct member *m = member_of(r, n);
    if (m->up) r->lost_ms = loop_now_ms(r->loop);
    if (m->up) r->events->on_change(r->arg);
    m->up = false;
    if (r->scout) redis_scout_hurry(r->scout);
    r->events->on_down(n, f, r->arg);
}

static void on_tracking(struct redis_node *n, void *arg)
{
    (void)n;
    (void)arg; /* the hook is told that everything is in doubt */
}

static void on_invalidated(struct slice key, void *arg)
{
    struct redis_route *r = arg;
    if (!r->destroyed && r->on_invalidated) r->on_invalidated(key, r->watch_arg);
}

static void on_message(struct slice payload, void *arg)
{
    struct redis_route *r = arg;
    if (!r->destroyed && r->on_message) r->on_message(payload, r->watch_arg);
}

/* --- what sentinels and nodes of a cluster tell ----------------------------------------------------------------- */

/* Asks again soon, if somebody who should be up is not, and has not been for long. */
static void press(struct redis_route *r)
{
    if (!all_up(r) && loop_now_ms(r->loop) - r->lost_ms < DOUBT_MS) redis_scout_hurry(r->scout);
}

static bool on_sentinel(const struct redis_reply *reply, const struct redis_place *from, void *arg)
{
    struct redis_route *r = arg;
    struct member *m = first(r);
    struct redis_place place;
    (void)from;
    if (!redis_master_read(reply, &place)) return false;
    r->scout_complained = false;
    if (redis_place_same(&place, &m->place)) {
        press(r);
        return m->up || ++r->stale % STALE_ANSWERS != 0;
    }
    if (m->place.port) metric_add(METRIC_REDIS_FAILOVERS, NULL, 1);
    m->place = place;
    snprintf(r->master, sizeof r->master, "%s:%d", place.host, place.port);
    if (log_on(LOG_INFO)) log_event(LOG_INFO, "redis_master", slice_str(r->master));
    r->stale = 0;
    r->lost_ms = loop_now_ms(r->loop);
    m->up = false;
    redis_node_aim(m->node, NULL, place.host, place.port);
    r->events->on_change(r->arg);
    return true;
}

/* Those who are not in the map any more. An importing master without a slot yet is not in it either: it is kept while it
   is used. */
static bool retire(struct redis_route *r)
{
    bool retired = false;
    for (struct member *m = first(r), *after; m; m = after) {
        after = next(r, m);
        if (m->master || (m->up && loop_now_ms(r->loop) - m->used_ms < UNUSED_MS)) continue;
        remove_member(r, m);
        retired = true;
    }
    return retired;
}

/* True: it differs from what was known. */
static bool apply(struct redis_route *r, const struct redis_slots *s)
{
    bool known = r->owner != NULL, changed = false;
    struct member **by_index = xzalloc(s->masters_n * sizeof(struct member *));
    if (!known) r->owner = xzalloc(REDIS_SLOTS * sizeof(struct member *));
    for (size_t i = 0; i < s->masters_n; i++)
        by_index[i] = at_place(r, &s->masters[i]);
    for (struct member *m = first(r); m; m = next(r, m)) {
        size_t i = 0;
        while (i < s->masters_n && by_index[i] != m)
            i++;
        bool master = i < s->masters_n;
        if (m->master && !master) metric_add(METRIC_REDIS_FAILOVERS, NULL, 1);
        if (m->master != master) changed = true;
        m->master = master;
    }
    for (size_t slot = 0; slot < REDIS_SLOTS; slot++) {
        struct member *owner = s->owner[slot] == REDIS_NOBODY ? NULL : by_index[s->owner[slot]];
        if (r->owner[slot] != owner) changed = true;
        r->owner[slot] = owner;
    }
    free(by_index);
    return retire(r) || changed;
}

static bool on_map(const struct redis_reply *reply, const struct redis_place *from, void *arg)
{
    struct redis_route *r = arg;
    struct redis_slots *s = redis_slots_read(reply, from->host);
    if (!s) return false;
    r->scout_complained = false;
    bool changed = apply(r, s);
    redis_scout_learn(r->scout, s->masters, s->masters_n, s->replicas, s->replicas_n);
    redis_slots_free(s);
    if (changed) r->events->on_change(r->arg);
    press(r);
    return true;
}

static void on_scout_failed(const char *error, void *arg)
{
    struct redis_route *r = arg;
    const char *event = r->settings.mode == REDIS_SENTINEL ? "redis_sentinels_unavailable" : "redis_cluster_unavailable";
    if (!r->scout_complained && log_on(LOG_WARN)) log_event(LOG_WARN, event, slice_str(error));
    r->scout_complained = true;
    metric_add(METRIC_DEPENDENCY_FAILURES, (struct slice[]){SLICE("redis"), SLICE("unreachable")}, 1);
}

/* --- life ------------------------------------------------------------------------------------------------------- */

static void on_part_gone(void *arg)
{
    struct redis_route *r = arg;
    if (--r->open || !r->destroyed) return;
    void (*done)(void *arg) = r->done;
    void *done_arg = r->done_arg;
    redis_settings_finish(&r->settings);
    free(r->owner);
    free(r);
    done(done_arg);
}

static void prepare_nodes(struct redis_route *r, const struct redis_config *c)
{
    static const struct breaker_rules usual = {.failures = 5, .rest_ms = 1000, .max_rest_ms = 30000};
    r->on_invalidated = c->on_invalidated;
    r->on_message = c->on_message;
    r->watch_arg = c->watch_arg;
    r->node_config = (struct redis_node_config){
        .loop = r->loop,
        .login = r->settings.login,
        .timeout_ms = c->timeout_ms,
        .master = r->settings.mode == REDIS_SENTINEL,
        .breaker = c->breaker.failures || c->breaker.ratio > 0 ? c->breaker : usual,
        .prefix = buf_slice(&r->settings.prefix),
        .channel = buf_slice(&r->settings.channel),
        .events = &node_events,
        .arg = r,
    };
}

static void start_scout(struct redis_route *r, int64_t timeout_ms)
{
    const struct redis_settings *s = &r->settings;
    bool sentinels = s->mode == REDIS_SENTINEL;
    struct redis_scout_config scout = {
        .loop = r->loop,
        .login = s->scout,
        .timeout_ms = timeout_ms > SCOUT_TIMEOUT_MS ? timeout_ms : SCOUT_TIMEOUT_MS,
        .question = {SLICE("CLUSTER"), SLICE("SLOTS")},
        .question_n = 2,
        .every_ms = sentinels ? SENTINEL_MS : CLUSTER_MS,
        .on_answer = sentinels ? on_sentinel : on_map,
        .on_failed = on_scout_failed,
        .arg = r,
    };
    if (sentinels) {
        scout.question[0] = SLICE("SENTINEL");
        scout.question[1] = SLICE("get-master-addr-by-name");
        scout.question[2] = slice_str(s->url.host);
        scout.question_n = 3;
    }
    r->scout = redis_scout_create(&scout);
    r->open++;
    for (size_t i = 0; i < s->seeds_n; i++)
        redis_scout_seed(r->scout, s->seeds[i].host, s->seeds[i].port);
}

struct redis_route *redis_route_create(struct loop *l, const struct redis_config *c,
                                       const struct redis_route_events *events, void *arg, char **error)
{
    struct redis_route *r = xzalloc(sizeof *r);
    const struct redis_url *url = &r->settings.url;
    const char *wrong = redis_settings_read(&r->settings, c);
    if (wrong) {
        *error = xstrdup(wrong);
        free(r);
        return NULL;
    }
    r->loop = l;
    r->events = events;
    r->arg = arg;
    r->lost_ms = loop_now_ms(l);
    list_init(&r->members);
    prepare_nodes(r, c);
    if (r->settings.mode != REDIS_SINGLE) start_scout(r, c->timeout_ms);
    if (r->settings.mode == REDIS_CLUSTER) return r;
    struct member *m = add_member(r);
    m->master = true;
    if (r->settings.mode == REDIS_SINGLE) redis_node_aim(m->node, url->path, url->host, url->port);
    return r;
}

void redis_route_destroy(struct redis_route *r, void (*done)(void *arg), void *arg)
{
    r->destroyed = true;
    r->done = done;
    r->done_arg = arg;
    while (first(r))
        remove_member(r, first(r));
    if (r->scout) redis_scout_destroy(r->scout, on_part_gone, r);
}

/* --- for calls -------------------------------------------------------------------------------------------------- */

bool redis_route_redirects(const struct redis_route *r)
{
    return r->settings.mode == REDIS_CLUSTER;
}

struct redis_node *redis_route_of(struct redis_route *r, struct slice key)
{
    struct member *m = first(r);
    if (r->settings.mode == REDIS_CLUSTER) m = r->owner ? r->owner[redis_slot(key)] : NULL;
    if (m) m->used_ms = loop_now_ms(r->loop);
    return m ? m->node : NULL;
}

struct redis_node *redis_route_any(struct redis_route *r, struct slice key)
{
    struct redis_node *n = redis_route_of(r, key);
    if (n && redis_node_up(n)) return n;
    for (struct member *m = first(r); m; m = next(r, m))
        if (m->up) return m->node;
    return n;
}

struct redis_node *redis_route_to(struct redis_route *r, const struct redis_place *place, bool moved, unsigned slot)
{
    struct member *m = at_place(r, place);
    if (moved && r->owner) r->owner[slot] = m;
    if (moved && r->scout) redis_scout_hurry(r->scout);
    if (m) m->used_ms = loop_now_ms(r->loop);
    return m ? m->node : NULL;
}

void redis_route_doubt(struct redis_route *r, struct redis_node *n, bool replica)
{
    if (r->scout) redis_scout_hurry(r->scout);
    if (r->scout && replica) redis_node_leave(n, "the server became a replica");
}

struct slice redis_route_channel(const struct redis_route *r)
{
    return buf_slice(&r->settings.channel);
}

void redis_route_state(const struct redis_route *r, struct redis_state *out)
{
    static const int badness[] = {[BREAKER_CLOSED] = 0, [BREAKER_HALF_OPEN] = 1, [BREAKER_OPEN] = 2};
    enum breaker_state worst = BREAKER_CLOSED;
    *out = (struct redis_state){.connected = all_up(r), .tracking = true};
    for (const struct member *m = first(r); m; m = next(r, m)) {
        enum breaker_state state = redis_node_breaker(m->node);
        const char *why_not;
        if (!m->master) continue;
        if (m->place.port || r->settings.mode == REDIS_SINGLE) out->masters++;
        if (badness[state] > badness[worst]) worst = state;
        if (!m->up && !out->error) out->error = redis_node_error(m->node);
        if (redis_node_tracking(m->node, &why_not)) continue;
        out->tracking = false;
        out->tracking_error = why_not;
    }
    out->breaker = breaker_name(worst);
    out->master = r->master[0] ? r->master : NULL;
    if (out->masters == 0) {
        out->tracking = false;
        out->tracking_error = "no master is known";
        out->error = !r->scout_complained         ? "not yet connected"
                     : r->settings.mode == REDIS_SENTINEL ? "no sentinel names a master"
                                                : "no node of the cluster gives its map";
    }
}
