/* remote/fetch_multi: owns curl's multi handle, the poll handles of its sockets and its timer. Called by remote/fetch
   only. Refuses nothing itself; a socket that cannot be watched is told to the owner. */
#include "remote/fetch_multi.h"

#include <stdlib.h>

#include "base/check.h"

#define MAX_KEPT_CONNECTIONS 256L

struct fetch_multi {
    struct loop *loop;
    CURLM *multi;
    uv_timer_t timer;
    struct list watches;
    unsigned open; /* handles not yet closed */
    bool destroyed;
    const struct fetch_multi_events *events;
    void *arg;
    void (*done)(void *arg);
    void *done_arg;
};

/* A socket of curl's that is watched. Heap; freed by its close callback. */
struct watch {
    uv_poll_t poll;
    struct list link;
    struct fetch_multi *multi;
    curl_socket_t fd;
};

static int on_socket_wanted(CURL *easy, curl_socket_t fd, int what, void *arg, void *socket_arg);
static int on_timer_wanted(CURLM *multi, long timeout_ms, void *arg);
static void on_poll(uv_poll_t *poll, int status, int events);
static void on_timer(uv_timer_t *timer);
static void on_watch_closed(uv_handle_t *handle);
static void on_timer_closed(uv_handle_t *handle);

static unsigned users; /* of curl's global state; one thread */

static void tell_done(struct fetch_multi *m)
{
    int left;
    CURLMsg *message;
    while (!m->destroyed && (message = curl_multi_info_read(m->multi, &left)))
        m->events->on_done(message->easy_handle, message->data.result, m->arg);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct watch *w = container_of(poll, struct watch, poll);
    struct fetch_multi *m = w->multi;
    int running, flags = 0;
    if (status < 0) flags = CURL_CSELECT_ERR;
    if (events & UV_READABLE) flags |= CURL_CSELECT_IN;
    if (events & UV_WRITABLE) flags |= CURL_CSELECT_OUT;
    curl_multi_socket_action(m->multi, w->fd, flags, &running);
    tell_done(m);
}

static void on_timer(uv_timer_t *timer)
{
    struct fetch_multi *m = container_of(timer, struct fetch_multi, timer);
    int running;
    long left_ms = -1;
    curl_multi_socket_action(m->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    /* The loop's clock may be a little behind curl's: then nothing was due, and curl does not ask a second time. */
    if (!uv_is_active((uv_handle_t *)timer) && curl_multi_timeout(m->multi, &left_ms) == CURLM_OK && left_ms >= 0)
        uv_timer_start(timer, on_timer, (uint64_t)(left_ms ? left_ms : 1), 0);
    tell_done(m);
}

static int on_timer_wanted(CURLM *multi, long timeout_ms, void *arg)
{
    struct fetch_multi *m = arg;
    (void)multi;
    if (m->destroyed) return 0;
    if (timeout_ms < 0)
        uv_timer_stop(&m->timer);
    else
        uv_timer_start(&m->timer, on_timer, (uint64_t)timeout_ms, 0);
    return 0;
}

static struct watch *watch_fd(struct fetch_multi *m, curl_socket_t fd)
{
    struct watch *w = xzalloc(sizeof *w);
    w->multi = m;
    w->fd = fd;
    if (uv_poll_init_socket(loop_uv(m->loop), &w->poll, fd) != 0) {
        free(w);
        return NULL;
    }
    m->open++;
    list_add_last(&m->watches, &w->link);
    curl_multi_assign(m->multi, fd, w);
    return w;
}

static void unwatch(struct watch *w)
{
    list_remove(&w->link);
    uv_close((uv_handle_t *)&w->poll, on_watch_closed);
}

static int on_socket_wanted(CURL *easy, curl_socket_t fd, int what, void *arg, void *socket_arg)
{
    struct fetch_multi *m = arg;
    struct watch *w = socket_arg;
    if (what == CURL_POLL_REMOVE) {
        if (!w) return 0;
        curl_multi_assign(m->multi, fd, NULL);
        unwatch(w);
        return 0;
    }
    if (m->destroyed) return 0;
    int events = (what & CURL_POLL_IN ? UV_READABLE : 0) | (what & CURL_POLL_OUT ? UV_WRITABLE : 0);
    if (!w) w = watch_fd(m, fd);
    if (!w || uv_poll_start(&w->poll, events, on_poll) != 0) m->events->on_unwatchable(easy, m->arg);
    return 0;
}

static void closed(struct fetch_multi *m)
{
    if (--m->open) return;
    void (*done)(void *arg) = m->done;
    void *arg = m->done_arg;
    free(m);
    done(arg);
}

static void on_watch_closed(uv_handle_t *handle)
{
    struct watch *w = container_of((uv_poll_t *)handle, struct watch, poll);
    struct fetch_multi *m = w->multi;
    free(w);
    closed(m);
}

static void on_timer_closed(uv_handle_t *handle)
{
    closed(container_of((uv_timer_t *)handle, struct fetch_multi, timer));
}

struct fetch_multi *fetch_multi_create(struct loop *l, const struct fetch_multi_events *events, void *arg)
{
    struct fetch_multi *m = xzalloc(sizeof *m);
    if (users++ == 0) CHECK(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK, "curl must start");
    m->loop = l;
    m->events = events;
    m->arg = arg;
    m->multi = curl_multi_init();
    CHECK(m->multi, "curl must start");
    list_init(&m->watches);
    CHECK(uv_timer_init(loop_uv(l), &m->timer) == 0, "timer handle");
    m->open = 1;
    curl_multi_setopt(m->multi, CURLMOPT_SOCKETFUNCTION, on_socket_wanted);
    curl_multi_setopt(m->multi, CURLMOPT_SOCKETDATA, m);
    curl_multi_setopt(m->multi, CURLMOPT_TIMERFUNCTION, on_timer_wanted);
    curl_multi_setopt(m->multi, CURLMOPT_TIMERDATA, m);
    curl_multi_setopt(m->multi, CURLMOPT_PIPELINING, (long)CURLPIPE_NOTHING);
    curl_multi_setopt(m->multi, CURLMOPT_MAXCONNECTS, MAX_KEPT_CONNECTIONS);
    return m;
}

void fetch_multi_destroy(struct fetch_multi *m, void (*done)(void *arg), void *arg)
{
    m->destroyed = true;
    m->done = done;
    m->done_arg = arg;
    curl_multi_cleanup(m->multi);
    if (--users == 0) curl_global_cleanup();
    while (!list_empty(&m->watches))
        unwatch(container_of(m->watches.next, struct watch, link));
    uv_close((uv_handle_t *)&m->timer, on_timer_closed);
}

CURLM *fetch_multi_handle(struct fetch_multi *m)
{
    return m->multi;
}
