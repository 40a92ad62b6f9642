/* remote/redis_node: owns the link to one server and the row of those who await its answers. Called by remote/redis and
   _route. Refuses commands while the link is down or the breaker rests it. */
#include "remote/redis_node.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/chance.h"
#include "base/check.h"
#include "base/dependency.h"
#include "base/log.h"
#include "base/metric.h"
#include "remote/redis_watch.h"

struct redis_node {
    const struct redis_node_config *config;
    struct redis_link_config link_config;
    struct redis_link *link;
    struct redis_watch *watch; /* or NULL */
    struct list row;           /* turns, oldest first */
    struct breaker breaker;
    char *host; /* where it is aimed */
    char *path;
    int port;
    bool fresh;
    bool complained; /* the loss is logged: once, not once per attempt */
    bool destroyed;
    const char *error;
    unsigned open; /* the link and the watch */
    void (*done)(void *arg);
    void *done_arg;
};

static void on_up(void *arg);
static void on_down(enum redis_failure f, const char *error, void *arg);
static void on_reply(const struct redis_reply *reply, void *arg);
static void on_nobody(struct redis_turn *t, const struct redis_reply *reply);
static void on_tracking(void *arg);
static void on_part_gone(void *arg);

static const struct redis_link_events link_events = {on_up, on_down, on_reply, NULL};

static int64_t now_ms(const struct redis_node *n)
{
    return loop_now_ms(n->config->loop);
}

static void reset_breaker(struct redis_node *n)
{
    enum breaker_state before = n->breaker.state;
    breaker_init(&n->breaker, &n->config->breaker);
    dependency_show(SLICE("redis"), &n->breaker, before);
}

static void count_out(int change)
{
    static const struct slice name = {"redis", 5};
    metric_add(METRIC_INFLIGHT, &name, change);
}

/* Everybody in the row now: who comes while they are told waits for a connection of its own. */
static void empty_row(struct redis_node *n)
{
    struct list gone;
    list_init(&gone);
    while (!list_empty(&n->row)) {
        struct list *first = n->row.next;
        list_remove(first);
        list_add_last(&gone, first);
    }
    while (!list_empty(&gone)) {
        struct redis_turn *t = container_of(gone.next, struct redis_turn, link);
        list_remove(&t->link);
        count_out(-1);
        t->on_answer(t, NULL);
    }
}

static struct slice where(const struct redis_node *n, char *out, size_t size)
{
    int db = n->config->login.db;
    int bytes = n->path ? snprintf(out, size, "unix:%s, database %d", n->path, db)
                        : snprintf(out, size, "%s port %d, database %d", n->host, n->port, db);
    return slice_make(out, bytes < (int)size ? (size_t)bytes : size - 1);
}

static void log_line(const struct redis_node *n, enum log_level level, const char *event, const char *error)
{
    char text[400];
    struct log_line line;
    if (!log_on(level)) return;
    log_begin(&line, level, slice_str(event));
    json_field_string(&line.json, "detail", error ? slice_str(error) : where(n, text, sizeof text));
    if (error) json_field_string(&line.json, "server", where(n, text, sizeof text));
    log_end(&line);
}

static void on_up(void *arg)
{
    struct redis_node *n = arg;
    n->complained = n->fresh = false;
    n->error = NULL;
    reset_breaker(n); /* the greeting was the trial */
    log_line(n, LOG_INFO, "redis_connected", NULL);
    if (n->watch) redis_watch_main(n->watch, true);
    n->config->events->on_up(n, n->config->arg);
}

static void on_down(enum redis_failure f, const char *error, void *arg)
{
    struct redis_node *n = arg;
    enum breaker_state before = n->breaker.state;
    n->fresh = false;
    n->error = error;
    breaker_failure(&n->breaker, n->breaker.ticket, now_ms(n), chance_fraction());
    dependency_show(SLICE("redis"), &n->breaker, before);
    if (!n->complained) log_line(n, LOG_WARN, "redis_unavailable", error);
    n->complained = true;
    empty_row(n);
    if (n->watch) redis_watch_main(n->watch, false);
    n->config->events->on_down(n, f, n->config->arg);
}

static void on_reply(const struct redis_reply *reply, void *arg)
{
    struct redis_node *n = arg;
    CHECK(!list_empty(&n->row), "the link knows how many answers are awaited");
    struct redis_turn *t = container_of(n->row.next, struct redis_turn, link);
    list_remove(&t->link);
    count_out(-1);
    t->on_answer(t, reply);
}

static void on_nobody(struct redis_turn *t, const struct redis_reply *reply)
{
    (void)reply;
    free(t);
}

static void on_tracking(void *arg)
{
    struct redis_node *n = arg;
    if (!n->destroyed) n->config->events->on_tracking(n, n->config->arg);
}

static void on_part_gone(void *arg)
{
    struct redis_node *n = arg;
    if (--n->open) return;
    void (*done)(void *arg) = n->done;
    void *done_arg = n->done_arg;
    free(n->host);
    free(n->path);
    free(n);
    done(done_arg);
}

struct redis_node *redis_node_create(const struct redis_node_config *c)
{
    struct redis_node *n = xzalloc(sizeof *n);
    n->config = c;
    n->link_config = (struct redis_link_config){
        .login = c->login, .timeout_ms = c->timeout_ms, .master = c->master, .events = &link_events, .arg = n};
    n->error = "not yet connected";
    n->fresh = true;
    n->open = 1;
    list_init(&n->row);
    breaker_init(&n->breaker, &c->breaker);
    n->link = redis_link_create(c->loop, &n->link_config);
    if (c->prefix.n == 0) return n;
    struct redis_watch_config watch = {.loop = c->loop,
                                       .login = &n->link_config.login,
                                       .timeout_ms = c->timeout_ms,
                                       .prefix = c->prefix,
                                       .channel = c->channel,
                                       .node = n,
                                       .on_invalidated = c->events->on_invalidated,
                                       .on_message = c->events->on_message,
                                       .arg = c->arg,
                                       .on_tracking = on_tracking};
    n->watch = redis_watch_create(&watch);
    n->open++;
    return n;
}

void redis_node_destroy(struct redis_node *n, void (*done)(void *arg), void *arg)
{
    CHECK(!n->destroyed, "destroyed once");
    n->destroyed = true;
    n->done = done;
    n->done_arg = arg;
    if (n->watch) redis_watch_stop(n->watch);
    empty_row(n);
    redis_link_destroy(n->link, on_part_gone, n);
    if (n->watch) redis_watch_destroy(n->watch, on_part_gone, n);
}

void redis_node_aim(struct redis_node *n, const char *path, const char *host, int port)
{
    char *new_path = path ? xstrdup(path) : NULL, *new_host = host ? xstrdup(host) : NULL;
    free(n->path);
    free(n->host);
    n->path = new_path;
    n->host = new_host;
    n->port = port;
    n->fresh = true;
    n->complained = false;
    redis_link_aim(n->link, path, host, port);
    empty_row(n);
    if (n->watch) redis_watch_aim(n->watch, path, host, port);
}

void redis_node_leave(struct redis_node *n, const char *error)
{
    redis_link_leave(n->link, error);
}

bool redis_node_ask(struct redis_node *n, const struct slice *args, size_t args_n, struct redis_turn *t)
{
    if (n->destroyed || !redis_link_send(n->link, args, args_n)) return false;
    list_add_last(&n->row, &t->link);
    count_out(1);
    return true;
}

void redis_node_tell(struct redis_node *n, const struct slice *args, size_t args_n)
{
    struct redis_turn *t = xzalloc(sizeof *t);
    t->on_answer = on_nobody;
    if (!redis_node_ask(n, args, args_n, t)) free(t);
}

bool redis_node_send(struct redis_node *n, const struct slice *args, size_t args_n, bool asking, struct redis_turn *t)
{
    enum breaker_state before = n->breaker.state;
    /* The link is asked first: a trial that the breaker lets through must have an outcome. */
    if (n->destroyed || !redis_link_up(n->link)) return false;
    if (!breaker_allows(&n->breaker, now_ms(n), &t->ticket)) return false;
    dependency_show(SLICE("redis"), &n->breaker, before);
    if (asking) redis_node_tell(n, (struct slice[]){SLICE("ASKING")}, 1);
    if (redis_node_ask(n, args, args_n, t)) return true;
    redis_node_judge(n, t, false);
    return false;
}

void redis_node_judge(struct redis_node *n, const struct redis_turn *t, bool good)
{
    enum breaker_state before = n->breaker.state;
    if (good)
        breaker_success(&n->breaker, t->ticket, now_ms(n));
    else
        breaker_failure(&n->breaker, t->ticket, now_ms(n), chance_fraction());
    dependency_show(SLICE("redis"), &n->breaker, before);
}

bool redis_node_up(const struct redis_node *n)
{
    return redis_link_up(n->link);
}

bool redis_node_fresh(const struct redis_node *n)
{
    return n->fresh;
}

const char *redis_node_host(const struct redis_node *n)
{
    return n->host;
}

enum breaker_state redis_node_breaker(const struct redis_node *n)
{
    return n->breaker.state;
}

const char *redis_node_error(const struct redis_node *n)
{
    return n->error;
}

bool redis_node_tracking(const struct redis_node *n, const char **why_not)
{
    if (n->watch) return redis_watch_tracking(n->watch, why_not);
    *why_not = "not watched";
    return false;
}
