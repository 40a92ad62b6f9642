/* See load/client.h. */
#include "load/client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/net.h"

#define READ_BYTES 262144
#define EVENTS 64
#define CONNECT_ERRORS_MAX 1000

struct load load;

static char input[READ_BYTES];

static int on_headers_complete(llhttp_t *parser)
{
    const struct client *c = parser->data;
    return c->is_head;
}

static int on_complete(llhttp_t *parser)
{
    struct client *c = parser->data;
    if (parser->status_code < 200) return 0; /* an interim one */
    c->answered = true;
    c->keep_alive = llhttp_should_keep_alive(parser);
    return 0;
}

static const llhttp_settings_t settings = {.on_headers_complete = on_headers_complete,
                                           .on_message_complete = on_complete};

void client_close(struct client *c)
{
    if (c->state == CLIENT_OFF) return;
    close(c->fd);
    free(c->unsent);
    c->unsent = NULL;
    c->state = CLIENT_OFF;
}

void client_connect(struct client *c)
{
    while ((c->fd = net_connect(&load.address)) < 0)
        if (++load.connect_errors > CONNECT_ERRORS_MAX) die("bench_load: cannot connect: %s", strerror(errno));
    load.connects++;
    c->state = CLIENT_CONNECTING;
    c->answered = false;
    llhttp_init(&c->parser, HTTP_RESPONSE, &settings);
    c->parser.data = c;
    struct epoll_event e = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = c};
    if (epoll_ctl(load.epoll, EPOLL_CTL_ADD, c->fd, &e)) die("epoll_ctl: %s", strerror(errno));
}

/* Its request, if it has one, has failed. */
static void fail(struct client *c)
{
    if (c->state == CLIENT_BUSY) c->counts->errors++;
    client_close(c);
    client_connect(c);
}

static void keep_rest(struct client *c, const struct iovec *parts, int n, size_t sent)
{
    size_t total = 0, at = 0;
    for (int i = 0; i < n; i++) total += parts[i].iov_len;
    if (sent == total) return;
    char *all = malloc(total);
    if (!all) die("out of memory");
    for (int i = 0; i < n; at += parts[i++].iov_len) memcpy(all + at, parts[i].iov_base, parts[i].iov_len);
    c->unsent = all;
    c->unsent_from = sent;
    c->unsent_n = total;
}

void client_send(struct client *c, uint64_t n, int64_t due_ns, struct counts *counts)
{
    if (load.cycle) n %= load.cycle;
    const struct request_text *t = &load.requests.v[n % load.requests.n];
    char number[24], *end = number + sizeof number, *digit = end;
    uint64_t rest = n;
    do *--digit = (char)('0' + rest % 10);
    while (rest /= 10);
    struct iovec parts[3] = {{t->bytes, t->number_at},
                             {digit, (size_t)(end - digit)},
                             {t->bytes + t->number_at, t->n - t->number_at}};
    struct msghdr m = {.msg_iov = parts, .msg_iovlen = t->number_at < t->n ? 3 : 1};
    c->state = CLIENT_BUSY;
    c->is_head = t->is_head;
    c->due_ns = due_ns;
    c->counts = counts;
    c->answered = false;
    ssize_t sent = sendmsg(c->fd, &m, MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN) {
        shutdown(c->fd, SHUT_RDWR); /* its event tells, outside of the caller's loop */
        return;
    }
    keep_rest(c, parts, (int)m.msg_iovlen, sent < 0 ? 0 : (size_t)sent);
}

static void flush(struct client *c)
{
    while (c->unsent) {
        ssize_t sent = send(c->fd, c->unsent + c->unsent_from, c->unsent_n - c->unsent_from, MSG_NOSIGNAL);
        if (sent < 0) return; /* more room, or the break, is told by an event */
        c->unsent_from += (size_t)sent;
        if (c->unsent_from < c->unsent_n) continue;
        free(c->unsent);
        c->unsent = NULL;
    }
}

static void on_answer(struct client *c, int64_t now)
{
    unsigned class = c->parser.status_code / 100;
    c->counts->completed++;
    c->counts->classes[class < 6 ? class : 0]++;
    histogram_add(&c->counts->latency, now - c->due_ns);
    c->answered = false;
    c->state = CLIENT_IDLE;
    if (c->keep_alive) {
        load.on_idle(c, now);
        return;
    }
    client_close(c);
    client_connect(c);
}

/* Edge-triggered: reads until a read comes back short, which says as much as EAGAIN unless an end stands behind it. */
static void on_readable(struct client *c, bool ended)
{
    for (;;) {
        ssize_t n = recv(c->fd, input, sizeof input, 0);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
        int64_t now = now_ns();
        bool busy = c->state == CLIENT_BUSY;
        if (n <= 0) {
            if (busy && n == 0) llhttp_finish(&c->parser); /* a body may last until the end */
            if (busy && c->answered)
                on_answer(c, now);
            else
                fail(c);
            return;
        }
        if (busy) c->counts->bytes += (uint64_t)n;
        if (!busy || llhttp_execute(&c->parser, input, (size_t)n) != HPE_OK) {
            fail(c);
            return;
        }
        if (c->answered) on_answer(c, now);
        if (c->state != CLIENT_IDLE && c->state != CLIENT_BUSY) return;
        if ((size_t)n < sizeof input && !ended) return;
    }
}

static void on_client(struct client *c, uint32_t events)
{
    if (c->state == CLIENT_OFF) return;
    if (c->state == CLIENT_CONNECTING) {
        if (events & (EPOLLERR | EPOLLHUP)) {
            if (++load.connect_errors > CONNECT_ERRORS_MAX) die("bench_load: cannot connect");
            fail(c);
        } else if (events & EPOLLOUT) {
            c->state = CLIENT_IDLE;
            load.on_idle(c, now_ns());
        }
        return;
    }
    if (c->unsent && events & EPOLLOUT) flush(c);
    uint32_t ends = EPOLLRDHUP | EPOLLERR | EPOLLHUP;
    if (events & (EPOLLIN | ends)) on_readable(c, events & ends);
}

void load_run(void)
{
    struct epoll_event events[EVENTS];
    while (!load.done) {
        int n = epoll_wait(load.epoll, events, EVENTS, -1);
        for (int i = 0; i < n && !load.done; i++) {
            if (events[i].data.ptr == &load)
                load.on_timer(now_ns());
            else
                on_client(events[i].data.ptr, events[i].events);
            if (load.on_turn) load.on_turn(now_ns());
        }
    }
}
