/* io/dial: a real connect on loopback: told once, in time, with the stream closed on every failure; cancelled at every
   stage. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "io/dial.h"

#define FILL 8

static struct {
    struct loop *loop;
    struct stream *stream; /* heap, and freed when it may be: the sanitizer sees a later use */
    size_t told, closed;
    int status;
    int listener, port;
    int fill[FILL];
} t;

static void on_read(struct stream *s, struct slice data)
{
    (void)s;
    (void)data;
}

static void on_end(struct stream *s, int error)
{
    (void)s;
    (void)error;
}

static const struct stream_events events = {on_read, on_end, NULL};

static void on_closed(struct stream *s)
{
    assert_ptr_equal(s, t.stream);
    free(s);
    t.stream = NULL;
    t.closed++;
}

static void on_dialled(struct stream *s, int status, const char *why, void *arg)
{
    assert_ptr_equal(arg, &t);
    assert_ptr_equal(s, t.stream);
    t.told++;
    t.status = status;
    assert_true(status == 0 || *why);
    if (status == 0) return;
    free(s);
    t.stream = NULL;
}

/* backlog 0 and full: the next connect gets no answer. */
static void start(bool full)
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    socklen_t n = sizeof in;
    memset(&t, 0, sizeof t);
    t.loop = loop_create();
    t.stream = xzalloc(sizeof *t.stream);
    t.listener = socket(AF_INET, SOCK_STREAM, 0);
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(t.listener, (struct sockaddr *)&in, sizeof in), 0);
    assert_int_equal(listen(t.listener, full ? 0 : 10), 0);
    assert_int_equal(getsockname(t.listener, (struct sockaddr *)&in, &n), 0);
    t.port = ntohs(in.sin_port);
    for (int i = 0; i < FILL; i++) {
        t.fill[i] = -1;
        if (!full) continue;
        t.fill[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        (void)!connect(t.fill[i], (struct sockaddr *)&in, sizeof in);
    }
}

static struct dial *dial(const char *host, int64_t timeout_ms)
{
    struct dial_target target = {.host = host, .port = t.port};
    return dial_start(t.loop, &target, timeout_ms, t.stream, &events, on_dialled, &t);
}

static void wait_told(void)
{
    while (!t.told) {
        loop_turn(t.loop);
        usleep(100);
    }
}

static void finish(void)
{
    if (t.stream) stream_close(t.stream, on_closed);
    loop_close(t.loop);
    loop_run(t.loop);
    loop_destroy(t.loop);
    assert_null(t.stream);
    if (t.listener >= 0) close(t.listener);
    for (int i = 0; i < FILL; i++)
        if (t.fill[i] >= 0) close(t.fill[i]);
}

static void connects(void **state)
{
    (void)state;
    static const char *const hosts[] = {"127.0.0.1",
                                        "localhost"}; /* ::1 of the latter is refused, the next one tried */
    for (size_t i = 0; i < 2; i++) {
        start(false);
        dial(hosts[i], 10000);
        assert_int_equal(t.told, 0);
        wait_told();
        assert_int_equal(t.status, 0);
        assert_false(t.stream->reading);
        int fd = accept(t.listener, NULL, NULL);
        struct slice part = SLICE("hi");
        char got[2];
        stream_send(t.stream, &part, 1);
        assert_int_equal(recv(fd, got, 2, 0), 2);
        close(fd);
        loop_advance(t.loop, 20000); /* its time is over for good */
        for (int k = 0; k < 3; k++)
            loop_turn(t.loop);
        assert_int_equal(t.told, 1);
        finish();
    }
}

static void refused(void **state)
{
    (void)state;
    for (int named = 0; named < 2; named++) {
        start(false);
        close(t.listener);
        t.listener = -1;
        dial(named ? "localhost" : "127.0.0.1", 10000);
        assert_int_equal(t.told, 0);
        wait_told();
        assert_int_equal(t.status, UV_ECONNREFUSED);
        finish();
        assert_int_equal(t.told, 1);
    }
}

static void times_out(void **state)
{
    (void)state;
    start(true);
    dial("127.0.0.1", 500);
    for (int i = 0; i < 3; i++)
        loop_turn(t.loop);
    loop_advance(t.loop, 450);
    loop_turn(t.loop);
    assert_int_equal(t.told, 0);
    loop_advance(t.loop, 60);
    for (int i = 0; i < 3; i++)
        loop_turn(t.loop);
    assert_int_equal(t.told, 1);
    assert_int_equal(t.status, UV_ETIMEDOUT);
    finish();
}

/* The time covers the resolver too; its late answer changes nothing. */
static void times_out_while_resolving(void **state)
{
    (void)state;
    start(false);
    dial("localhost", 10);
    loop_advance(t.loop, 1000);
    wait_told();
    if (t.status) assert_int_equal(t.status, UV_ETIMEDOUT);
    finish();
    assert_int_equal(t.told, 1);
}

/* A name that the resolver does not even take. */
static char too_long[400];

static void not_a_name(void **state)
{
    (void)state;
    memset(too_long, 'a', sizeof too_long - 1);
    start(false);
    dial(too_long, 10000);
    assert_int_equal(t.told, 0);
    loop_advance(t.loop, 20);
    wait_told();
    assert_true(t.status < 0);
    finish();
}

static void cancelled(void **state)
{
    (void)state;
    enum { CONNECTING, STALLED, RESOLVING, NOT_RESOLVABLE, REFUSED, RESOLVED, STAGES };
    memset(too_long, 'a', sizeof too_long - 1);
    for (int stage = 0; stage < STAGES; stage++) {
        start(stage == STALLED);
        if (stage == REFUSED) {
            close(t.listener);
            t.listener = -1;
        }
        struct dial *d = dial(stage == RESOLVING || stage == RESOLVED ? "localhost"
                              : stage == NOT_RESOLVABLE               ? too_long
                                                                      : "127.0.0.1",
                              10000);
        if (stage == STALLED) loop_turn(t.loop);
        if (stage == RESOLVED) usleep(50000); /* its answer waits to be told */
        dial_cancel(d, on_closed);
        assert_int_equal(t.closed, 0);
        for (int i = 0; i < 200 && !t.closed; i++) {
            loop_advance(t.loop, 1);
            loop_turn(t.loop);
            usleep(500);
        }
        if (t.closed != 1) fail_msg("stage %d", stage);
        loop_advance(t.loop, 20000);
        for (int i = 0; i < 3; i++)
            loop_turn(t.loop);
        assert_int_equal(t.told, 0);
        finish();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connects),   cmocka_unit_test(refused),   cmocka_unit_test(times_out),
        cmocka_unit_test(not_a_name), cmocka_unit_test(cancelled), cmocka_unit_test(times_out_while_resolving),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
