/* remote/redis_link: owns the way to a connection and back to the next: attempts and their time-out, greeting, back-off.
   Called by remote/redis_node, _watch and _scout. Refuses an answer that nobody asked for and a server that is silent
   while commands wait: both end the connection, which is then made anew. */
#include "remote/redis_link.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/chance.h"
#include "base/check.h"

#define BACKOFF_FIRST_MS 100
#define BACKOFF_LAST_MS 5000
#define STEADY_MS 1000  /* a link that was up for this long is made anew at once, without back-off */
#define SILENCE_MS 1000 /* on top of the time-out: how long commands may wait without any answer */
#define MAX_QUEUED_BYTES (16u << 20)
#define MAX_AWAITED 10000
#define ERROR_BYTES 200

enum link_state { LINK_NOWHERE, LINK_WAITING, LINK_CONNECTING, LINK_GREETING, LINK_UP, LINK_DESTROYED };

struct redis_link {
    struct loop *loop;
    const struct redis_link_config *config;
    enum link_state state;
    char *host; /* where it leads */
    char *path;
    int port;
    struct redis_conn *conn; /* the live one, or NULL */
    unsigned open;           /* what must go before this struct may: connections and the flusher */
    uv_idle_t flusher;       /* runs while a command waits to be written */
    struct redis_greeting greeting;
    unsigned awaited; /* answers to the owner's commands still to come */
    struct deadline attempt; /* greeted by then */
    struct deadline silence;
    struct deadline retry;
    struct deadline leave;
    const char *leave_error;
    struct deadline_list attempts;
    struct deadline_list silences;
    int64_t backoff_ms;
    int64_t up_since_ms;
    char error[ERROR_BYTES];
    void (*done)(void *arg);
    void *done_arg;
};

static void on_retry(struct deadline *d);
static void on_connected(void *arg);
static void on_reply(const struct redis_reply *reply, void *arg);
static void on_flush(uv_idle_t *handle);
static void on_lost(enum redis_failure f, const char *error, void *arg);
static void on_attempt_due(struct deadline *d);
static void on_silence(struct deadline *d);
static void on_leave(struct deadline *d);
static void on_conn_closed(void *arg);
static void on_flusher_closed(uv_handle_t *handle);

static const struct redis_conn_events conn_events = {on_connected, on_reply, on_lost, on_conn_closed};

static void drop(struct redis_link *k)
{
    deadline_stop(&k->attempt);
    deadline_stop(&k->silence);
    deadline_stop(&k->leave);
    uv_idle_stop(&k->flusher);
    if (k->conn) redis_conn_close(k->conn);
    k->conn = NULL;
    k->awaited = 0;
}

/* The next pause: none the first time, then 100 ms doubling to 5 s, each up to a quarter shorter so that many proxies
   do not come back in step. */
static int64_t next_pause_ms(struct redis_link *k)
{
    int64_t pause_ms = k->backoff_ms;
    k->backoff_ms = pause_ms ? pause_ms * 2 : BACKOFF_FIRST_MS;
    if (k->backoff_ms > BACKOFF_LAST_MS) k->backoff_ms = BACKOFF_LAST_MS;
    return pause_ms - (int64_t)((double)pause_ms / 4 * chance_fraction());
}

/* Nothing may be done with the link after this: on_down may destroy it. */
static void give_up(struct redis_link *k, enum redis_failure f, const char *error)
{
    if (k->state == LINK_UP && loop_now_ms(k->loop) - k->up_since_ms >= STEADY_MS) k->backoff_ms = 0;
    snprintf(k->error, sizeof k->error, "%s", error);
    drop(k);
    k->state = LINK_WAITING;
    deadline_after(k->loop, &k->retry, next_pause_ms(k));
    k->config->events->on_down(f, k->error, k->config->arg);
}

static void on_retry(struct deadline *d)
{
    struct redis_link *k = container_of(d, struct redis_link, retry);
    const struct redis_login *login = &k->config->login;
    struct dial_target target = {
        .host = k->host, .port = k->port, .path = k->path, .tls = login->tls, .tls_name = login->tls_name};
    k->state = LINK_CONNECTING;
    k->open++;
    k->conn = redis_conn_open(k->loop, &target, k->config->timeout_ms, &conn_events, k);
}

static void on_connected(void *arg)
{
    struct redis_link *k = arg;
    const struct redis_link_config *c = k->config;
    k->state = LINK_GREETING;
    deadline_start(&k->attempts, &k->attempt);
    redis_greeting_send(&k->greeting, k->conn, &c->login, c->master, c->channels, c->channels_n);
}

static void greeted(struct redis_link *k, const struct redis_reply *reply)
{
    const char *error;
    switch (redis_greeting_take(&k->greeting, reply, &error)) {
    case REDIS_GREETED_NOT_YET:
        return;
    case REDIS_GREETED_BADLY:
        give_up(k, REDIS_FAILURE_STATUS, error);
        return;
    case REDIS_GREETED:
        break;
    }
    deadline_stop(&k->attempt);
    k->state = LINK_UP;
    k->up_since_ms = loop_now_ms(k->loop);
    k->config->events->on_up(k->config->arg);
}

static bool is_message(const struct redis_link *k, const struct redis_reply *reply)
{
    return k->config->channels_n && reply->n == 3 && slice_eq(reply->items[0].text, SLICE("message"));
}

static void on_reply(const struct redis_reply *reply, void *arg)
{
    struct redis_link *k = arg;
    if (is_message(k, reply)) { /* may come between the answers of the greeting too: then nobody listens yet */
        if (k->state == LINK_UP)
            k->config->events->on_message(reply->items[1].text, &reply->items[2], k->config->arg);
        return;
    }
    if (k->state == LINK_GREETING) {
        greeted(k, reply);
        return;
    }
    if (k->state != LINK_UP || k->awaited == 0) {
        give_up(k, REDIS_FAILURE_GARBAGE, "the server sent an answer that nobody asked for");
        return;
    }
    if (--k->awaited)
        deadline_start(&k->silences, &k->silence);
    else
        deadline_stop(&k->silence);
    k->config->events->on_reply(reply, k->config->arg);
}

static void on_flush(uv_idle_t *handle)
{
    struct redis_link *k = container_of(handle, struct redis_link, flusher);
    uv_idle_stop(handle);
    redis_conn_flush(k->conn);
}

static void on_lost(enum redis_failure f, const char *error, void *arg)
{
    give_up(arg, f, error);
}

static void on_attempt_due(struct deadline *d)
{
    give_up(container_of(d, struct redis_link, attempt), REDIS_FAILURE_TIMEOUT, "the server took too long to greet");
}

static void on_silence(struct deadline *d)
{
    give_up(container_of(d, struct redis_link, silence), REDIS_FAILURE_TIMEOUT, "the server answers nothing");
}

static void on_leave(struct deadline *d)
{
    struct redis_link *k = container_of(d, struct redis_link, leave);
    give_up(k, REDIS_FAILURE_STATUS, k->leave_error);
}

static void on_conn_closed(void *arg)
{
    struct redis_link *k = arg;
    if (--k->open || k->state != LINK_DESTROYED) return;
    deadline_list_finish(&k->attempts);
    deadline_list_finish(&k->silences);
    void (*done)(void *arg) = k->done;
    void *done_arg = k->done_arg;
    free(k->host);
    free(k->path);
    free(k);
    done(done_arg);
}

static void on_flusher_closed(uv_handle_t *handle)
{
    on_conn_closed(container_of((uv_idle_t *)handle, struct redis_link, flusher));
}

struct redis_link *redis_link_create(struct loop *l, const struct redis_link_config *c)
{
    CHECK(c->channels_n <= REDIS_CHANNELS, "a subscriber has a few channels");
    struct redis_link *k = xzalloc(sizeof *k);
    k->loop = l;
    k->config = c;
    CHECK(uv_idle_init(loop_uv(l), &k->flusher) == 0, "idle handle");
    k->open = 1;
    deadline_list_init(&k->attempts, l, c->timeout_ms);
    deadline_list_init(&k->silences, l, c->timeout_ms + SILENCE_MS);
    deadline_init(&k->attempt, on_attempt_due);
    deadline_init(&k->silence, on_silence);
    deadline_init(&k->leave, on_leave);
    deadline_init(&k->retry, on_retry);
    return k;
}

void redis_link_destroy(struct redis_link *k, void (*done)(void *arg), void *arg)
{
    k->state = LINK_DESTROYED;
    k->done = done;
    k->done_arg = arg;
    deadline_stop(&k->retry);
    drop(k);
    uv_close((uv_handle_t *)&k->flusher, on_flusher_closed);
}

void redis_link_aim(struct redis_link *k, const char *path, const char *host, int port)
{
    char *new_path = path ? xstrdup(path) : NULL, *new_host = host ? xstrdup(host) : NULL;
    CHECK(k->state != LINK_DESTROYED, "not after the end");
    drop(k);
    deadline_stop(&k->retry);
    free(k->path);
    free(k->host);
    k->path = new_path;
    k->host = new_host;
    k->port = port;
    k->backoff_ms = 0;
    k->state = path || host ? LINK_WAITING : LINK_NOWHERE;
    if (k->state == LINK_WAITING) deadline_after(k->loop, &k->retry, next_pause_ms(k));
}

void redis_link_leave(struct redis_link *k, const char *error)
{
    if (k->state != LINK_UP || deadline_running(&k->leave)) return;
    k->leave_error = error;
    deadline_after(k->loop, &k->leave, 0);
}

bool redis_link_up(const struct redis_link *k)
{
    return k->state == LINK_UP;
}

const struct redis_greeting *redis_link_greeting(const struct redis_link *k)
{
    return &k->greeting;
}

bool redis_link_send(struct redis_link *k, const struct slice *args, size_t n)
{
    if (k->state != LINK_UP || k->awaited >= MAX_AWAITED) return false;
    if (redis_conn_queued(k->conn) > MAX_QUEUED_BYTES) return false;
    redis_conn_add(k->conn, args, n);
    uv_idle_start(&k->flusher, on_flush);
    if (k->awaited++ == 0) deadline_start(&k->silences, &k->silence);
    return true;
}
