/* remote/redis_link: owns the way to a connection and back to the next: name resolution, attempts and their time-out,
   handshake, back-off. Called by remote/redis only. Refuses an answer that nobody asked for and a server that is silent
   while commands wait: both end the connection, which is then made anew. */
#include "remote/redis_link.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"

#define BACKOFF_FIRST_MS 100
#define BACKOFF_LAST_MS 5000
#define STEADY_MS 1000  /* a link that was up for this long is made anew at once, without back-off */
#define SILENCE_MS 1000 /* on top of the time-out: how long commands may wait without any answer */
#define MAX_QUEUED_BYTES (16u << 20)
#define MAX_AWAITED 10000

enum link_state { LINK_WAITING, LINK_RESOLVING, LINK_CONNECTING, LINK_GREETING, LINK_UP, LINK_DESTROYED };

struct redis_link {
    struct loop *loop;
    const struct redis_url *url;
    const struct redis_link_events *events;
    void *arg;
    enum link_state state;
    struct redis_conn *conn; /* the live one, or NULL */
    unsigned open;           /* what must go before this struct may: connections and the flusher */
    uv_idle_t flusher;       /* runs while a command waits to be written */
    uv_getaddrinfo_t resolve;
    bool resolving; /* may outlive its attempt: a resolver cannot be interrupted */
    struct addrinfo *addresses;
    struct addrinfo *next_address;
    unsigned greetings; /* answers of the handshake still to come */
    unsigned awaited;   /* answers to the owner's commands still to come */
    struct deadline attempt;
    struct deadline silence;
    struct deadline retry;
    struct deadline_list attempts;
    struct deadline_list silences;
    int64_t backoff_ms;
    int64_t up_since_ms;
    uint32_t dice;
    void (*done)(void *arg);
    void *done_arg;
};

static void on_retry(struct deadline *d);
static void on_resolved(uv_getaddrinfo_t *req, int status, struct addrinfo *addresses);
static void on_connected(void *arg);
static void on_reply(const struct redis_reply *reply, void *arg);
static void on_flush(uv_idle_t *handle);
static void on_lost(enum redis_failure f, const char *error, void *arg);
static void on_attempt_due(struct deadline *d);
static void on_silence(struct deadline *d);
static void on_conn_closed(void *arg);
static void on_flusher_closed(uv_handle_t *handle);

static const struct redis_conn_events conn_events = {on_connected, on_reply, on_lost, on_conn_closed};

static void finish_if_last(struct redis_link *k)
{
    if (k->state != LINK_DESTROYED || k->open || k->resolving) return;
    deadline_list_finish(&k->attempts);
    deadline_list_finish(&k->silences);
    void (*done)(void *arg) = k->done;
    void *arg = k->done_arg;
    free(k);
    done(arg);
}

static void drop(struct redis_link *k)
{
    deadline_stop(&k->attempt);
    deadline_stop(&k->silence);
    uv_idle_stop(&k->flusher);
    if (k->conn) redis_conn_close(k->conn);
    k->conn = NULL;
    uv_freeaddrinfo(k->addresses);
    k->addresses = k->next_address = NULL;
    k->awaited = 0;
}

/* The next pause: none the first time, then 100 ms doubling to 5 s, each up to a quarter shorter so that many proxies
   do not come back in step. */
static int64_t next_pause_ms(struct redis_link *k)
{
    int64_t pause_ms = k->backoff_ms;
    k->backoff_ms = pause_ms ? pause_ms * 2 : BACKOFF_FIRST_MS;
    if (k->backoff_ms > BACKOFF_LAST_MS) k->backoff_ms = BACKOFF_LAST_MS;
    k->dice = k->dice * 1664525u + 1013904223u;
    return pause_ms - pause_ms / 4 * (k->dice >> 16) / 65536;
}

/* Nothing may be done with the link after this: on_down may destroy it. */
static void give_up(struct redis_link *k, enum redis_failure f, const char *error)
{
    if (k->state == LINK_UP && loop_now_ms(k->loop) - k->up_since_ms >= STEADY_MS) k->backoff_ms = 0;
    drop(k);
    k->state = LINK_WAITING;
    deadline_after(k->loop, &k->retry, next_pause_ms(k));
    k->events->on_down(f, error, k->arg);
}

/* Tries the addresses in turn; the unix socket is the one address of its url. */
static void connect_next(struct redis_link *k, enum redis_failure f, const char *error)
{
    k->state = LINK_CONNECTING;
    while (k->next_address) {
        const struct sockaddr *address = k->next_address->ai_addr;
        k->next_address = k->next_address->ai_next;
        k->open++;
        k->conn = redis_conn_open(k->loop, address, NULL, &conn_events, k);
        if (k->conn) return;
        f = REDIS_FAILURE_UNREACHABLE;
        error = "the connection could not be started";
    }
    give_up(k, f, error);
}

static void on_retry(struct deadline *d)
{
    struct redis_link *k = container_of(d, struct redis_link, retry);
    deadline_start(&k->attempts, &k->attempt);
    if (k->url->path) {
        k->state = LINK_CONNECTING;
        k->open++;
        k->conn = redis_conn_open(k->loop, NULL, k->url->path, &conn_events, k);
        return;
    }
    k->state = LINK_RESOLVING;
    if (k->resolving) return;
    char port[8];
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    snprintf(port, sizeof port, "%hu", (unsigned short)k->url->port);
    int error = uv_getaddrinfo(loop_uv(k->loop), &k->resolve, on_resolved, k->url->host, port, &hints);
    if (error == 0)
        k->resolving = true;
    else
        give_up(k, REDIS_FAILURE_UNREACHABLE, "the name cannot be resolved");
}

static void on_resolved(uv_getaddrinfo_t *req, int status, struct addrinfo *addresses)
{
    struct redis_link *k = container_of(req, struct redis_link, resolve);
    k->resolving = false;
    if (k->state != LINK_RESOLVING) { /* too late for its attempt */
        uv_freeaddrinfo(addresses);
        finish_if_last(k);
        return;
    }
    k->addresses = k->next_address = addresses;
    if (status < 0)
        give_up(k, REDIS_FAILURE_UNREACHABLE, "the name cannot be resolved");
    else
        connect_next(k, REDIS_FAILURE_UNREACHABLE, "the name has no address");
}

static void on_connected(void *arg)
{
    struct redis_link *k = arg;
    const struct redis_url *u = k->url;
    k->state = LINK_GREETING;
    k->greetings = 1;
    if (u->password) {
        struct slice args[3] = {SLICE("AUTH"), slice_str(u->user), slice_str(u->password)};
        if (!u->user) args[1] = args[2];
        redis_conn_add(k->conn, args, u->user ? 3 : 2);
        k->greetings++;
    }
    if (u->db) {
        char db[16];
        int n = snprintf(db, sizeof db, "%d", u->db);
        redis_conn_add(k->conn, (struct slice[]){SLICE("SELECT"), slice_make(db, (size_t)n)}, 2);
        k->greetings++;
    }
    redis_conn_add(k->conn, (struct slice[]){SLICE("PING")}, 1);
    redis_conn_flush(k->conn);
}

/* The last answer of the handshake is the one to PING: an error there stands for a server that is not ready or wants a
   password, except when PING itself is all that is forbidden to this user. */
static void greeted(struct redis_link *k, const struct redis_reply *reply)
{
    bool last = --k->greetings == 0;
    if (reply->kind == REDIS_KIND_ERROR && !(last && slice_starts(reply->text, SLICE("NOPERM")))) {
        const char *error = !last                                         ? "AUTH or SELECT was refused"
                            : slice_starts(reply->text, SLICE("NOAUTH"))  ? "the server wants a password"
                            : slice_starts(reply->text, SLICE("LOADING")) ? "the server is still loading"
                                                                          : "the server refused PING";
        give_up(k, REDIS_FAILURE_STATUS, error);
        return;
    }
    if (!last) return;
    deadline_stop(&k->attempt);
    k->state = LINK_UP;
    k->up_since_ms = loop_now_ms(k->loop);
    k->events->on_up(k->arg);
}

static void on_reply(const struct redis_reply *reply, void *arg)
{
    struct redis_link *k = arg;
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
    k->events->on_reply(reply, k->arg);
}

static void on_flush(uv_idle_t *handle)
{
    struct redis_link *k = container_of(handle, struct redis_link, flusher);
    uv_idle_stop(handle);
    redis_conn_flush(k->conn);
}

static void on_lost(enum redis_failure f, const char *error, void *arg)
{
    struct redis_link *k = arg;
    if (k->state != LINK_CONNECTING || !k->next_address) {
        give_up(k, f, error);
        return;
    }
    redis_conn_close(k->conn);
    k->conn = NULL;
    connect_next(k, f, error);
}

static void on_attempt_due(struct deadline *d)
{
    struct redis_link *k = container_of(d, struct redis_link, attempt);
    const char *error = k->state == LINK_RESOLVING    ? "resolving the name took too long"
                        : k->state == LINK_CONNECTING ? "connecting took too long"
                                                      : "the server took too long to greet";
    give_up(k, REDIS_FAILURE_TIMEOUT, error);
}

static void on_silence(struct deadline *d)
{
    give_up(container_of(d, struct redis_link, silence), REDIS_FAILURE_TIMEOUT, "the server answers nothing");
}

static void on_conn_closed(void *arg)
{
    struct redis_link *k = arg;
    k->open--;
    finish_if_last(k);
}

static void on_flusher_closed(uv_handle_t *handle)
{
    on_conn_closed(container_of((uv_idle_t *)handle, struct redis_link, flusher));
}

struct redis_link *redis_link_create(struct loop *l, const struct redis_url *url, int64_t timeout_ms,
                                     const struct redis_link_events *events, void *arg)
{
    struct redis_link *k = xzalloc(sizeof *k);
    k->loop = l;
    k->url = url;
    k->events = events;
    k->arg = arg;
    k->dice = (uint32_t)uv_hrtime() ^ (uint32_t)uv_os_getpid();
    CHECK(uv_idle_init(loop_uv(l), &k->flusher) == 0, "idle handle");
    k->open = 1;
    deadline_list_init(&k->attempts, l, timeout_ms);
    deadline_list_init(&k->silences, l, timeout_ms + SILENCE_MS);
    deadline_init(&k->attempt, on_attempt_due);
    deadline_init(&k->silence, on_silence);
    deadline_init(&k->retry, on_retry);
    deadline_after(l, &k->retry, 0);
    return k;
}

void redis_link_destroy(struct redis_link *k, void (*done)(void *arg), void *arg)
{
    k->state = LINK_DESTROYED;
    k->done = done;
    k->done_arg = arg;
    deadline_stop(&k->retry);
    drop(k);
    if (k->resolving) uv_cancel((uv_req_t *)&k->resolve);
    uv_close((uv_handle_t *)&k->flusher, on_flusher_closed);
}

bool redis_link_up(const struct redis_link *k)
{
    return k->state == LINK_UP;
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
