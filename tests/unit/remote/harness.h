/* For the tests of remote/: a loop that turns until something is so, and a scripted peer in that loop: it collects what
   it is sent, and its script answers, byte by byte if it likes, closes or resets. */
#ifndef TESTS_REMOTE_HARNESS_H
#define TESTS_REMOTE_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/check.h"
#include "io/loop.h"

struct harness {
    struct loop *loop;
    uv_timer_t keep; /* turns the loop at least every 2 ms */
    bool gone;       /* set by harness_on_gone */
};

static inline void harness_on_keep(uv_timer_t *t)
{
    (void)t;
}

static inline void harness_open(struct harness *h)
{
    memset(h, 0, sizeof *h);
    h->loop = loop_create();
    uv_timer_init(loop_uv(h->loop), &h->keep);
    uv_timer_start(&h->keep, harness_on_keep, 1, 2);
}

/* The loop must be empty then: loop_destroy checks it. */
static inline void harness_close(struct harness *h)
{
    uv_close((uv_handle_t *)&h->keep, NULL);
    loop_close(h->loop);
    loop_run(h->loop);
    loop_destroy(h->loop);
}

static inline void harness_on_gone(void *arg)
{
    *(bool *)arg = true;
}

/* One turn; may sleep 2 ms. */
static inline void harness_turn(struct harness *h)
{
    uv_run(loop_uv(h->loop), UV_RUN_ONCE);
}

static inline int64_t harness_clock_ms(void)
{
    return (int64_t)(uv_hrtime() / 1000000);
}

static inline void harness_rest(struct harness *h, int64_t ms)
{
    for (int64_t end_ms = harness_clock_ms() + ms; harness_clock_ms() < end_ms;)
        harness_turn(h);
}

/* Turns until cond holds, 8 s at most, and asserts that it then does. */
#define harness_until(h, cond)                                                                                         \
    do {                                                                                                               \
        for (int64_t end_ms = harness_clock_ms() + 8000; !(cond) && harness_clock_ms() < end_ms;)                      \
            harness_turn(h);                                                                                           \
        assert_true(cond);                                                                                             \
    } while (0)

struct peer;

struct script {
    struct harness *harness;
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } listener;
    int port;
    int accepted;
    int open; /* peers not yet closed */
    bool closed;
    struct list peers;
    /* Called with all that came so far and was not taken by peer_take. */
    void (*on_data)(struct peer *p);
    void (*on_accept)(struct peer *p); /* may be NULL */
    void *arg;
};

struct peer {
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } u;
    struct list link;
    struct script *script;
    struct buf in;
    int answered; /* for the script's use */
    char *drip;   /* what is sent one byte a turn */
    size_t drip_n, drip_at;
    bool close_after;
    bool closing;
    uv_idle_t idle;
    int handles;
};

static inline void peer_on_closed(uv_handle_t *handle)
{
    struct peer *p = handle->data;
    if (--p->handles) return;
    list_remove(&p->link);
    p->script->open--;
    buf_free(&p->in);
    free(p->drip);
    free(p);
}

static inline void peer_close(struct peer *p)
{
    if (p->closing) return;
    p->closing = true;
    uv_close(&p->u.handle, peer_on_closed);
    uv_close((uv_handle_t *)&p->idle, peer_on_closed);
}

/* TCP only: the other side sees a reset. */
static inline void peer_reset(struct peer *p)
{
    if (p->closing) return;
    p->closing = true;
    uv_tcp_close_reset(&p->u.tcp, peer_on_closed);
    uv_close((uv_handle_t *)&p->idle, peer_on_closed);
}

static inline void peer_on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    static char bytes[65536];
    (void)handle;
    (void)suggested;
    *buf = uv_buf_init(bytes, sizeof bytes);
}

static inline void peer_on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct peer *p = stream->data;
    if (n < 0) {
        peer_close(p);
        return;
    }
    buf_add(&p->in, buf->base, (size_t)n);
    if (!p->closing && n > 0) p->script->on_data(p);
}

static inline void peer_take(struct peer *p, size_t n)
{
    memmove(p->in.p, p->in.p + n, p->in.n - n);
    p->in.n -= n;
}

/* Small answers: the socket's buffer takes them whole, or the other side is gone already. */
static inline void peer_send(struct peer *p, const char *bytes, size_t n)
{
    uv_buf_t b = uv_buf_init((char *)(uintptr_t)bytes, (unsigned)n);
    int sent = n ? uv_try_write(&p->u.stream, &b, 1) : 0;
    assert_true(sent == (int)n || sent == UV_EPIPE || sent == UV_ECONNRESET);
}

static inline void peer_on_drip(uv_idle_t *idle)
{
    struct peer *p = idle->data;
    if (p->drip_at < p->drip_n) {
        uv_buf_t b = uv_buf_init(p->drip + p->drip_at, 1);
        if (uv_try_write(&p->u.stream, &b, 1) == 1)
            p->drip_at++;
        else
            peer_close(p);
        return;
    }
    uv_idle_stop(idle);
    if (p->close_after) peer_close(p);
}

/* One byte a turn of the loop, then the connection is closed or left open. */
static inline void peer_drip(struct peer *p, const char *bytes, size_t n, bool close_after)
{
    p->drip = xrealloc(p->drip, p->drip_n + n + 1);
    memcpy(p->drip + p->drip_n, bytes, n);
    p->drip_n += n;
    p->close_after = close_after;
    uv_idle_start(&p->idle, peer_on_drip);
}

static inline void script_on_connection(uv_stream_t *listener, int status)
{
    struct script *s = listener->data;
    struct peer *p = xzalloc(sizeof *p);
    uv_loop_t *uv = loop_uv(s->harness->loop);
    assert_int_equal(status, 0);
    if (s->port)
        uv_tcp_init(uv, &p->u.tcp);
    else
        uv_pipe_init(uv, &p->u.pipe, 0);
    uv_idle_init(uv, &p->idle);
    p->u.handle.data = p->idle.data = p;
    p->handles = 2;
    p->script = s;
    buf_init(&p->in, NULL);
    list_add_last(&s->peers, &p->link);
    s->open++;
    s->accepted++;
    assert_int_equal(uv_accept(listener, &p->u.stream), 0);
    if (s->port) uv_tcp_nodelay(&p->u.tcp, 1);
    uv_read_start(&p->u.stream, peer_on_alloc, peer_on_read);
    if (s->on_accept) s->on_accept(p);
}

static inline void script_listen(struct script *s, struct harness *h, const char *unix_path,
                                 void (*on_data)(struct peer *))
{
    struct sockaddr_in a;
    int n = sizeof a;
    s->harness = h;
    s->on_data = on_data;
    list_init(&s->peers);
    if (unix_path) {
        unlink(unix_path);
        uv_pipe_init(loop_uv(h->loop), &s->listener.pipe, 0);
        assert_int_equal(uv_pipe_bind(&s->listener.pipe, unix_path), 0);
    } else {
        uv_ip4_addr("127.0.0.1", s->port, &a);
        uv_tcp_init(loop_uv(h->loop), &s->listener.tcp);
        assert_int_equal(uv_tcp_bind(&s->listener.tcp, (struct sockaddr *)&a, 0), 0);
    }
    assert_int_equal(uv_listen(&s->listener.stream, 64, script_on_connection), 0);
    if (!unix_path) {
        uv_tcp_getsockname(&s->listener.tcp, (struct sockaddr *)&a, &n);
        s->port = ntohs(a.sin_port);
    }
    s->listener.handle.data = s;
}

static inline void script_on_closed(uv_handle_t *handle)
{
    ((struct script *)handle->data)->closed = true;
}

static inline void script_drop_peers(struct script *s)
{
    for (struct list *i = s->peers.next; i != &s->peers; i = i->next)
        peer_close(container_of(i, struct peer, link));
}

static inline void script_close(struct script *s)
{
    uv_close(&s->listener.handle, script_on_closed);
    script_drop_peers(s);
    harness_until(s->harness, s->closed && s->open == 0);
}

/* A port on which nobody listens (just now). */
static inline int free_port(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    getsockname(fd, (struct sockaddr *)&a, &n);
    close(fd);
    return ntohs(a.sin_port);
}

#endif
