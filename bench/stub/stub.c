/* bench_stub: an API or a policy engine that answers every request alike and counts exactly.

     bench_stub --listen 127.0.0.1:PORT [--answer TEXT | --answer-bytes N] [--delay-us N] [--count TEXT]

   Every request is answered 200 with that body, N us after its last byte came (a timer for all, no sleep). GET
   /stub/counters answers {"requests","heads","connections","open","counted","bytes_in"} at once and is not counted:
   requests without HEADs (which ask whether it is there), connections taken, those open, reads in which --count's text
   stood, body bytes. Answers are in order; a peer that pipelines is served. Ends by SIGTERM. */
#include "common/net.h"

#include <errno.h>
#include <getopt.h>
#include <llhttp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define READ_BYTES 65536
#define BODY_BYTES 65536 /* one piece of a body that is made as it goes out */
#define EVENTS 256

struct peer {
    struct peer *next_dead;
    int fd;
    llhttp_t parser;
    uint64_t owed;      /* answers that are due and not begun */
    uint64_t waiting;   /* entries of the delay line that point here */
    uint64_t head_left; /* of the answer under way */
    uint64_t body_left;
    bool control;       /* the request under way asks for the counters */
    bool blocked;       /* waits until it can be written to */
    bool gone;          /* closed; freed behind the events at hand, once nothing points here any more */
};

struct due {
    struct peer *peer;
    int64_t at_ns;
};

static struct {
    int epoll, listener, timer;
    int64_t delay_ns;
    char head[256];
    size_t head_n;
    const char *text; /* the body; NULL: x, body_n times */
    uint64_t body_n;
    const char *count;
    size_t count_n;
    struct due *line; /* a ring, oldest first: all delays are equal */
    size_t line_cap, line_from, line_n;
    struct peer *dead;
    uint64_t requests, heads, connections, open, counted, bytes_in;
} stub;

static char body[BODY_BYTES];
static char input[READ_BYTES];

static void watch(struct peer *p, bool blocked)
{
    if (p->blocked == blocked) return;
    p->blocked = blocked;
    struct epoll_event e = {.events = blocked ? EPOLLIN | EPOLLOUT : EPOLLIN, .data.ptr = p};
    epoll_ctl(stub.epoll, EPOLL_CTL_MOD, p->fd, &e);
}

static void drop(struct peer *p)
{
    if (!p->gone) {
        p->gone = true;
        close(p->fd);
        stub.open--;
    }
    if (p->waiting) return;
    p->next_dead = stub.dead;
    stub.dead = p;
}

/* Writes what is owed as far as it is taken; false: the peer is gone. */
static bool put(struct peer *p)
{
    while (p->owed || p->head_left || p->body_left) {
        if (!p->head_left && !p->body_left) {
            p->owed--;
            p->head_left = stub.head_n;
            p->body_left = stub.body_n;
        }
        size_t n = p->body_left < BODY_BYTES ? (size_t)p->body_left : BODY_BYTES;
        const char *from = stub.text ? stub.text + (stub.body_n - p->body_left) : body;
        struct iovec parts[2] = {{stub.head + stub.head_n - p->head_left, p->head_left}, {(void *)(uintptr_t)from, n}};
        struct msghdr m = {.msg_iov = parts, .msg_iovlen = 2};
        ssize_t sent = sendmsg(p->fd, &m, MSG_NOSIGNAL);
        if (sent < 0 && (errno == EAGAIN || errno == EINTR)) {
            watch(p, true);
            return true;
        }
        if (sent < 0) {
            drop(p);
            return false;
        }
        uint64_t of_head = (uint64_t)sent < p->head_left ? (uint64_t)sent : p->head_left;
        p->head_left -= of_head;
        p->body_left -= (uint64_t)sent - of_head;
    }
    watch(p, false);
    return true;
}

static void delay(struct peer *p)
{
    if (stub.line_n == stub.line_cap) {
        size_t cap = stub.line_cap ? stub.line_cap * 2 : 1024;
        struct due *line = malloc(cap * sizeof *line);
        if (!line) die("out of memory");
        for (size_t i = 0; i < stub.line_n; i++) line[i] = stub.line[(stub.line_from + i) % stub.line_cap];
        free(stub.line);
        stub.line = line;
        stub.line_cap = cap;
        stub.line_from = 0;
    }
    int64_t at = now_ns() + stub.delay_ns;
    stub.line[(stub.line_from + stub.line_n++) % stub.line_cap] = (struct due){p, at};
    p->waiting++;
    if (stub.line_n == 1) timer_set(stub.timer, at);
}

static void on_timer(void)
{
    while (stub.line_n) {
        struct due first = stub.line[stub.line_from];
        if (first.at_ns > now_ns()) {
            timer_set(stub.timer, first.at_ns);
            return;
        }
        stub.line_from = (stub.line_from + 1) % stub.line_cap;
        stub.line_n--;
        first.peer->waiting--;
        first.peer->owed++;
        if (first.peer->gone)
            drop(first.peer);
        else
            put(first.peer);
    }
}

/* Small, at once: the counters, and the answer to a HEAD. Only in between other answers, which is all that is asked. */
static void put_text(struct peer *p, const char *text, size_t n, size_t length)
{
    char out[512];
    int head = snprintf(out, sizeof out, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
                        length);
    memcpy(out + head, text, n);
    if (send(p->fd, out, (size_t)head + n, MSG_NOSIGNAL) < 0) shutdown(p->fd, SHUT_RDWR);
}

static void put_counters(struct peer *p)
{
    char text[256];
    int n = snprintf(text, sizeof text,
                     "{\"requests\":%llu,\"heads\":%llu,\"connections\":%llu,\"open\":%llu,\"counted\":%llu,"
                     "\"bytes_in\":%llu}\n",
                     (unsigned long long)stub.requests, (unsigned long long)stub.heads,
                     (unsigned long long)stub.connections, (unsigned long long)stub.open,
                     (unsigned long long)stub.counted, (unsigned long long)stub.bytes_in);
    put_text(p, text, (size_t)n, (size_t)n);
}

static int on_url(llhttp_t *parser, const char *at, size_t n)
{
    struct peer *p = parser->data;
    p->control = n >= 6 && memcmp(at, "/stub/", 6) == 0;
    return 0;
}

static int on_body(llhttp_t *parser, const char *at, size_t n)
{
    (void)parser;
    (void)at;
    stub.bytes_in += n;
    return 0;
}

static int on_complete(llhttp_t *parser)
{
    struct peer *p = parser->data;
    if (p->control) {
        put_counters(p);
    } else if (parser->method == HTTP_HEAD) {
        stub.heads++;
        put_text(p, "", 0, (size_t)stub.body_n);
    } else {
        stub.requests++;
        if (stub.delay_ns)
            delay(p);
        else
            p->owed++;
    }
    return 0;
}

static const llhttp_settings_t settings = {.on_url = on_url, .on_body = on_body, .on_message_complete = on_complete};

static void count(size_t n)
{
    const char *at = input, *end = input + n;
    while (stub.count && (at = memmem(at, (size_t)(end - at), stub.count, stub.count_n))) {
        stub.counted++;
        at += stub.count_n;
    }
}

static void on_peer(struct peer *p, uint32_t events)
{
    if (p->gone) return;
    if (events & EPOLLOUT && !put(p)) return;
    ssize_t n = recv(p->fd, input, sizeof input, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) {
        drop(p);
        return;
    }
    count((size_t)n);
    if (llhttp_execute(&p->parser, input, (size_t)n) != HPE_OK)
        drop(p);
    else
        put(p);
}

static void on_connections(void)
{
    int fd;
    while ((fd = accept4(stub.listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        struct peer *p = calloc(1, sizeof *p);
        if (!p) die("out of memory");
        p->fd = fd;
        net_no_delay(fd);
        llhttp_init(&p->parser, HTTP_REQUEST, &settings);
        p->parser.data = p;
        struct epoll_event e = {.events = EPOLLIN, .data.ptr = p};
        if (epoll_ctl(stub.epoll, EPOLL_CTL_ADD, fd, &e)) die("epoll_ctl: %s", strerror(errno));
        stub.connections++;
        stub.open++;
    }
}

static void run(void)
{
    struct epoll_event events[EVENTS];
    for (;;) {
        int n = epoll_wait(stub.epoll, events, EVENTS, -1);
        for (int i = 0; i < n; i++) {
            if (events[i].data.ptr == &stub.listener)
                on_connections();
            else if (events[i].data.ptr == &stub.timer)
                on_timer();
            else
                on_peer(events[i].data.ptr, events[i].events);
        }
        while (stub.dead) {
            struct peer *next = stub.dead->next_dead;
            free(stub.dead);
            stub.dead = next;
        }
    }
}

static void read_arguments(int argc, char **argv, struct sockaddr_in *address)
{
    static const struct option options[] = {{"listen", required_argument, NULL, 'l'},
                                            {"answer", required_argument, NULL, 'a'},
                                            {"answer-bytes", required_argument, NULL, 'n'},
                                            {"delay-us", required_argument, NULL, 'd'},
                                            {"count", required_argument, NULL, 'c'},
                                            {NULL, 0, NULL, 0}};
    int option;
    stub.body_n = 1024;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'l') *address = net_address(optarg);
        if (option == 'a') stub.text = optarg;
        if (option == 'n') stub.body_n = strtoull(optarg, NULL, 10);
        if (option == 'd') stub.delay_ns = strtoll(optarg, NULL, 10) * 1000;
        if (option == 'c') stub.count = optarg;
        if (option == '?') exit(2);
    }
    if (!address->sin_port) die("bench_stub: --listen is missing");
    if (stub.text) stub.body_n = strlen(stub.text);
    if (stub.count) stub.count_n = strlen(stub.count);
}

int main(int argc, char **argv)
{
    struct sockaddr_in address = {.sin_port = 0};
    read_arguments(argc, argv, &address);
    memset(body, 'x', sizeof body);
    stub.head_n = (size_t)snprintf(stub.head, sizeof stub.head,
                                   "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %llu\r\n\r\n",
                                   (unsigned long long)stub.body_n);
    net_raise_files();
    stub.epoll = epoll_create1(EPOLL_CLOEXEC);
    stub.listener = net_listen(&address);
    stub.timer = timer_create_fd();
    struct epoll_event listener = {.events = EPOLLIN, .data.ptr = &stub.listener};
    struct epoll_event timer = {.events = EPOLLIN | EPOLLET, .data.ptr = &stub.timer};
    if (stub.epoll < 0 || epoll_ctl(stub.epoll, EPOLL_CTL_ADD, stub.listener, &listener) ||
        epoll_ctl(stub.epoll, EPOLL_CTL_ADD, stub.timer, &timer))
        die("epoll: %s", strerror(errno));
    run();
}
