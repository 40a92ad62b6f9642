/* io/accept: a real listening socket on loopback: streams handed out, the peer's address, what cannot be bound. */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "io/accept.h"

struct taken {
    struct stream stream;
    struct address peer;
    size_t read;
};

static struct {
    struct loop *loop;
    struct acceptor *acceptor;
    struct taken *taken[8];
    size_t n, closed;
} t;

static void on_read(struct stream *s, struct slice data)
{
    container_of(s, struct taken, stream)->read += data.n;
}

static void on_end(struct stream *s, int error)
{
    (void)s;
    (void)error;
}

static const struct stream_events events = {on_read, on_end, NULL};

static void on_waiting(void *arg)
{
    assert_ptr_equal(arg, &t);
    struct taken *k = t.taken[t.n++] = xzalloc(sizeof *k);
    assert_int_equal(accept_take(t.acceptor, &k->stream, &events, &k->peer), 0);
    stream_read(&k->stream, true);
}

static void on_error(const char *text, void *arg)
{
    (void)arg;
    fail_msg("%s", text);
}

static void on_closed(struct stream *s)
{
    free(container_of(s, struct taken, stream));
    t.closed++;
}

static void finish(void)
{
    for (size_t i = 0; i < t.n; i++)
        stream_close(&t.taken[i]->stream, on_closed);
    if (t.acceptor) accept_close(t.acceptor);
    loop_close(t.loop);
    loop_run(t.loop);
    loop_destroy(t.loop);
    assert_int_equal(t.closed, t.n);
}

/* A blocking client of that family. */
static int client(int family, const char *address, int port, int *own_port)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    int fd = socket(family, SOCK_STREAM, 0);
    inet_pton(family, address, family == AF_INET ? (void *)&in.sin_addr : (void *)&in6.sin6_addr);
    int error = family == AF_INET ? connect(fd, (struct sockaddr *)&in, sizeof in)
                                  : connect(fd, (struct sockaddr *)&in6, sizeof in6);
    if (error) {
        close(fd);
        return -1;
    }
    struct sockaddr_storage own;
    socklen_t n = sizeof own;
    getsockname(fd, (struct sockaddr *)&own, &n);
    *own_port = ntohs(own.ss_family == AF_INET ? ((struct sockaddr_in *)&own)->sin_port
                                               : ((struct sockaddr_in6 *)&own)->sin6_port);
    return fd;
}

static void hands_out(void **state)
{
    (void)state;
    const char *error = NULL;
    memset(&t, 0, sizeof t);
    t.loop = loop_create();
    t.acceptor = accept_open(t.loop, "127.0.0.1", 0, on_waiting, on_error, &t, &error);
    assert_non_null(t.acceptor);
    int port = accept_port(t.acceptor), own[3], fds[3];
    assert_true(port > 0);
    for (int i = 0; i < 3; i++) {
        fds[i] = client(AF_INET, "127.0.0.1", port, &own[i]);
        assert_true(fds[i] >= 0);
        assert_int_equal(write(fds[i], "hello", 5), 5);
    }
    while (t.n < 3 || t.taken[2]->read < 5)
        loop_turn(t.loop);
    for (int i = 0; i < 3; i++) {
        assert_string_equal(t.taken[i]->peer.text, "127.0.0.1");
        assert_int_equal(t.taken[i]->peer.family, 4);
        assert_memory_equal(t.taken[i]->peer.bytes, "\x7f\0\0\x01\0\0\0\0", 8);
        assert_int_equal(t.taken[i]->peer.port, own[i]);
        close(fds[i]);
    }
    finish();
}

/* An IPv4 peer on an IPv6 socket is an IPv4 peer: it must match the same address blocks. */
static void mapped(void **state)
{
    (void)state;
    const char *error = NULL;
    memset(&t, 0, sizeof t);
    t.loop = loop_create();
    t.acceptor = accept_open(t.loop, "::", 0, on_waiting, on_error, &t, &error);
    if (!t.acceptor) { /* no IPv6 here */
        finish();
        skip();
    }
    int port = accept_port(t.acceptor), own;
    int v4 = client(AF_INET, "127.0.0.1", port, &own);
    assert_true(v4 >= 0);
    while (t.n < 1)
        loop_turn(t.loop);
    assert_string_equal(t.taken[0]->peer.text, "127.0.0.1");
    assert_int_equal(t.taken[0]->peer.family, 4);
    assert_memory_equal(t.taken[0]->peer.bytes, "\x7f\0\0\x01\0\0\0\0", 8);
    int v6 = client(AF_INET6, "::1", port, &own);
    if (v6 >= 0) {
        while (t.n < 2)
            loop_turn(t.loop);
        assert_string_equal(t.taken[1]->peer.text, "::1");
        assert_int_equal(t.taken[1]->peer.family, 6);
        assert_int_equal(t.taken[1]->peer.bytes[15], 1);
        close(v6);
    }
    close(v4);
    finish();
}

static void cannot_be_bound(void **state)
{
    (void)state;
    const char *error = NULL;
    memset(&t, 0, sizeof t);
    t.loop = loop_create();
    t.acceptor = accept_open(t.loop, "127.0.0.1", 0, on_waiting, on_error, &t, &error);
    int port = accept_port(t.acceptor);
    assert_null(accept_open(t.loop, "127.0.0.1", port, on_waiting, on_error, &t, &error));
    assert_string_equal(error, "address already in use");
    error = NULL;
    assert_null(accept_open(t.loop, "192.0.2.1", 0, on_waiting, on_error, &t, &error));
    assert_non_null(error);
    error = NULL;
    assert_null(accept_open(t.loop, "localhost", 0, on_waiting, on_error, &t, &error));
    assert_non_null(error);
    finish();
}

/* At the end: what the kernel has taken is handed out at once, and served. */
static void rest(void **state)
{
    (void)state;
    const char *error = NULL;
    int own[3], fds[3];
    memset(&t, 0, sizeof t);
    t.loop = loop_create();
    t.acceptor = accept_open(t.loop, "127.0.0.1", 0, on_waiting, on_error, &t, &error);
    for (int i = 0; i < 3; i++) {
        fds[i] = client(AF_INET, "127.0.0.1", accept_port(t.acceptor), &own[i]);
        assert_int_equal(write(fds[i], "hello", 5), 5);
    }
    accept_rest(t.acceptor, true);
    assert_int_equal(t.n, 3);
    accept_rest(t.acceptor, true);
    assert_int_equal(t.n, 3);
    /* nobody gets in between that and the close */
    struct sockaddr_in late = {.sin_family = AF_INET, .sin_port = htons((uint16_t)accept_port(t.acceptor)),
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int knocking = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    assert_int_equal(connect(knocking, (struct sockaddr *)&late, sizeof late), -1);
    struct pollfd connected = {.fd = knocking, .events = POLLOUT};
    assert_int_equal(poll(&connected, 1, 50), 0);
    close(knocking);
    accept_close(t.acceptor);
    t.acceptor = NULL;
    while (t.taken[0]->read < 5 || t.taken[1]->read < 5 || t.taken[2]->read < 5)
        loop_turn(t.loop);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(t.taken[i]->peer.port, own[i]);
        close(fds[i]);
    }
    finish();
}

/* Closed with connections waiting: nobody is called back. */
static void closed(void **state)
{
    (void)state;
    const char *error = NULL;
    int own;
    memset(&t, 0, sizeof t);
    t.loop = loop_create();
    t.acceptor = accept_open(t.loop, "127.0.0.1", 0, on_waiting, on_error, &t, &error);
    int fd = client(AF_INET, "127.0.0.1", accept_port(t.acceptor), &own);
    accept_close(t.acceptor);
    t.acceptor = NULL;
    for (int i = 0; i < 3; i++)
        loop_turn(t.loop);
    assert_int_equal(t.n, 0);
    close(fd);
    finish();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hands_out),
        cmocka_unit_test(mapped),
        cmocka_unit_test(cannot_be_bound),
        cmocka_unit_test(rest),
        cmocka_unit_test(closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
