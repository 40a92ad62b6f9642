/* io/stream: the queue of one byte stream over a transport that the test plays: what is taken at once, what is copied,
   what is told and when. And the built-in TCP, over a pair of sockets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "io/stream.h"

/* --- the transport --------------------------------------------------------------------------------------------------
 */

static struct {
    struct loop *loop;
    struct stream stream;
    size_t room;      /* what try_write takes in all */
    long error;       /* what it fails with */
    struct buf taken; /* by try_write and write */
    size_t tries, writes, shutdowns, closes;
    uv_buf_t writing;
    bool reading;
    int write_start, read_start; /* what write and read_start return */
    /* what the owner was told */
    struct buf read;
    size_t ends, drains, closed;
    int end_error;
} t;

static int on_read_start(struct stream *s)
{
    (void)s;
    t.reading = t.read_start == 0;
    return t.read_start;
}

static void on_read_stop(struct stream *s)
{
    (void)s;
    t.reading = false;
}

static long on_try_write(struct stream *s, const uv_buf_t *bufs, unsigned n)
{
    (void)s;
    long total = 0;
    t.tries++;
    if (t.error) return t.error;
    for (unsigned i = 0; i < n && t.room; i++) {
        size_t took = bufs[i].len < t.room ? bufs[i].len : t.room;
        buf_add(&t.taken, bufs[i].base, took);
        t.room -= took;
        total += (long)took;
    }
    return total;
}

static int on_write(struct stream *s, uv_buf_t buf)
{
    (void)s;
    t.writes++;
    if (t.write_start == 0) t.writing = buf;
    return t.write_start;
}

static int on_shutdown(struct stream *s)
{
    (void)s;
    t.shutdowns++;
    return 0;
}

static void on_close(struct stream *s)
{
    (void)s;
    t.closes++;
}

static const struct stream_ops ops = {on_read_start, on_read_stop, on_try_write, on_write, on_shutdown, on_close, NULL, NULL};

static void on_read(struct stream *s, struct slice data)
{
    (void)s;
    buf_add_slice(&t.read, data);
}

static void on_end(struct stream *s, int error)
{
    (void)s;
    t.ends++;
    t.end_error = error;
}

static void on_drain(struct stream *s)
{
    (void)s;
    t.drains++;
}

static void on_closed(struct stream *s)
{
    (void)s;
    t.closed++;
}

static const struct stream_events events = {on_read, on_end, on_drain};

/* The queue that was handed over is written. */
static void written(int status)
{
    if (status == 0) buf_add(&t.taken, t.writing.base, t.writing.len);
    t.writing = uv_buf_init(NULL, 0);
    stream_written(&t.stream, status);
}

static void later(void)
{
    loop_advance(t.loop, 20);
    loop_turn(t.loop);
}

static void open_stream(void)
{
    memset(&t, 0, sizeof t);
    buf_init(&t.taken, NULL);
    buf_init(&t.read, NULL);
    t.loop = loop_create();
    stream_init(&t.stream, t.loop, &ops, &events);
}

static void close_stream(void)
{
    if (!t.stream.closing) stream_close(&t.stream, on_closed);
    if (t.writing.base) written(UV_ECANCELED);
    stream_closed(&t.stream);
    assert_int_equal(t.closes, 1);
    assert_int_equal(t.closed, 1);
    loop_close(t.loop);
    loop_run(t.loop);
    loop_destroy(t.loop);
    buf_free(&t.taken);
    buf_free(&t.read);
}

static void send_text(const char *text)
{
    size_t n = strlen(text);
    char *copy = malloc(n ? n : 1); /* gone right after: the sanitizer sees a kept pointer */
    memcpy(copy, text, n);
    struct slice part = slice_make(copy, n);
    stream_send(&t.stream, &part, 1);
    memset(copy, '#', n);
    free(copy);
}

static void assert_taken(const char *text)
{
    assert_int_equal(t.taken.n, strlen(text));
    if (t.taken.n) assert_memory_equal(t.taken.p, text, t.taken.n);
}

/* --- tests ----------------------------------------------------------------------------------------------------------
 */

/* Where the transport takes it, one try is all: no copy, no callback. */
static void taken_at_once(void **state)
{
    (void)state;
    open_stream();
    t.room = 1000;
    struct slice parts[] = {SLICE("a"), SLICE(""), SLICE("bc"), slice_make(NULL, 0), SLICE("d")};
    stream_send(&t.stream, parts, 5);
    assert_taken("abcd");
    assert_int_equal(t.tries, 1);
    stream_send(&t.stream, parts, 0);
    stream_send(&t.stream, &parts[1], 1);
    assert_int_equal(t.tries, 1);
    assert_int_equal(t.writes, 0);
    assert_int_equal(stream_queued(&t.stream), 0);
    assert_null(t.stream.queue);
    close_stream();
    assert_int_equal(t.drains, 0);
}

/* More parts than one call takes, stopped at every byte: the order stays. */
static void stopped_anywhere(void **state)
{
    (void)state;
    char all[101];
    struct slice parts[100];
    for (size_t i = 0; i < 100; i++) {
        all[i] = (char)('0' + i % 70);
        parts[i] = slice_make(&all[i], 1);
    }
    all[100] = '\0';
    for (size_t room = 0; room <= 100; room++) {
        open_stream();
        t.room = room;
        stream_send(&t.stream, parts, 100);
        assert_int_equal(stream_queued(&t.stream), 100 - room);
        if (t.writing.base) written(0);
        assert_taken(all);
        assert_int_equal(t.drains, room < 100);
        close_stream();
    }
}

/* Behind a write that waits nothing is tried; what gathers goes in one write; drain is told once, at the end. */
static void queue_in_order(void **state)
{
    (void)state;
    open_stream();
    t.room = 2;
    send_text("abcd");
    send_text("efg");
    send_text("h");
    assert_int_equal(t.tries, 1);
    assert_int_equal(t.writes, 1);
    assert_int_equal(stream_queued(&t.stream), 6);
    t.room = 100;
    written(0);
    assert_int_equal(t.writes, 2);
    assert_int_equal(t.drains, 0);
    assert_int_equal(stream_queued(&t.stream), 4);
    written(0);
    assert_int_equal(t.drains, 1);
    assert_taken("abcdefgh");
    send_text("i");
    assert_taken("abcdefghi");
    close_stream();
}

/* A failed write is told later, once, and what is sent behind it goes nowhere. */
static void failed_writes(void **state)
{
    (void)state;
    for (int how = 0; how < 3; how++) {
        open_stream();
        if (how == 0) t.error = UV_EPIPE;
        if (how == 1) t.write_start = UV_EPIPE;
        send_text("abc");
        send_text("def");
        if (how == 2) written(UV_EPIPE);
        assert_int_equal(t.ends, 0);
        assert_int_equal(stream_queued(&t.stream), 0);
        send_text("ghi");
        stream_shutdown(&t.stream);
        assert_int_equal(t.shutdowns, 0);
        later();
        assert_int_equal(t.ends, 1);
        assert_int_equal(t.end_error, UV_EPIPE);
        stream_got_end(&t.stream, UV_ECONNRESET);
        later();
        assert_int_equal(t.ends, 1);
        assert_int_equal(t.drains, 0);
        close_stream();
    }
}

/* Closed before it is told: then it is not told. */
static void failed_and_closed(void **state)
{
    (void)state;
    open_stream();
    t.error = UV_EPIPE;
    send_text("abc");
    stream_close(&t.stream, on_closed);
    later();
    assert_int_equal(t.ends, 0);
    close_stream();
}

/* An end in order is told; a write that fails after it is told too: now the peer is gone. A reset is the last word. */
static void ends(void **state)
{
    (void)state;
    open_stream();
    stream_read(&t.stream, true);
    stream_got(&t.stream, SLICE("ab"));
    stream_got_end(&t.stream, 0);
    assert_false(t.reading);
    stream_got(&t.stream, SLICE("cd"));
    stream_got_end(&t.stream, 0);
    assert_int_equal(t.read.n, 2);
    assert_int_equal(t.ends, 1);
    stream_read(&t.stream, true);
    assert_false(t.reading);
    t.room = 3;
    send_text("abc");
    assert_taken("abc");
    t.error = UV_ECONNRESET;
    send_text("d");
    later();
    assert_int_equal(t.ends, 2);
    assert_int_equal(t.end_error, UV_ECONNRESET);
    close_stream();
    open_stream();
    stream_got_end(&t.stream, UV_ECONNRESET);
    t.error = UV_EPIPE;
    send_text("d");
    later();
    assert_int_equal(t.ends, 1);
    assert_int_equal(t.tries, 0);
    close_stream();
}

static void reading(void **state)
{
    (void)state;
    open_stream();
    stream_read(&t.stream, true);
    assert_true(t.reading);
    stream_read(&t.stream, false);
    assert_false(t.reading);
    t.read_start = UV_ENOTCONN;
    stream_read(&t.stream, true);
    later();
    assert_int_equal(t.ends, 1);
    assert_int_equal(t.end_error, UV_ENOTCONN);
    close_stream();
}

/* Our side ends behind what is queued, once; nothing is sent after it. */
static void shutdowns(void **state)
{
    (void)state;
    open_stream();
    stream_shutdown(&t.stream);
    stream_shutdown(&t.stream);
    send_text("late");
    assert_int_equal(t.shutdowns, 1);
    assert_int_equal(t.tries, 0);
    close_stream();
    open_stream();
    send_text("abc");
    stream_shutdown(&t.stream);
    assert_int_equal(t.shutdowns, 0);
    written(0);
    assert_int_equal(t.shutdowns, 1);
    assert_int_equal(t.drains, 1);
    close_stream();
}

/* What is queued is dropped; what the transport holds it gives back itself. */
static void closing(void **state)
{
    (void)state;
    open_stream();
    send_text("abc");
    send_text("def");
    stream_close(&t.stream, on_closed);
    stream_got(&t.stream, SLICE("x"));
    stream_got_end(&t.stream, 0);
    send_text("ghi");
    stream_read(&t.stream, true);
    stream_shutdown(&t.stream);
    assert_int_equal(t.read.n + t.ends + t.shutdowns, 0);
    assert_false(t.reading);
    close_stream();
    assert_int_equal(t.drains, 0);
}

/* --- TCP ------------------------------------------------------------------------------------------------------------
 */

static int open_pair(void)
{
    int fds[2];
    memset(&t, 0, sizeof t);
    buf_init(&t.read, NULL);
    t.loop = loop_create();
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    assert_int_equal(stream_init_tcp(&t.stream, t.loop, &events), 0);
    assert_int_equal(uv_tcp_open(&t.stream.tcp, fds[0]), 0);
    return fds[1];
}

static void close_pair(int fd)
{
    stream_close(&t.stream, on_closed);
    while (!t.closed)
        loop_turn(t.loop);
    close(fd);
    loop_close(t.loop);
    loop_run(t.loop);
    loop_destroy(t.loop);
    buf_free(&t.read);
}

static void tcp_both_ways(void **state)
{
    (void)state;
    int fd = open_pair();
    static char big[1 << 20], back[1 << 20];
    for (size_t i = 0; i < sizeof big; i++)
        big[i] = (char)(i * 31 >> 3);
    struct slice parts[] = {slice_make(big, 1000), slice_make(big + 1000, sizeof big - 1000)};
    stream_send(&t.stream, parts, 2);
    size_t queued = stream_queued(&t.stream);
    assert_true(queued > 0 && queued < sizeof big);
    size_t got = 0;
    while (got < sizeof back) {
        ssize_t n = recv(fd, back + got, 10000, MSG_DONTWAIT);
        if (n > 0) got += (size_t)n;
        loop_turn(t.loop);
        assert_true(stream_queued(&t.stream) <= queued); /* what is with the kernel does not count */
    }
    assert_memory_equal(back, big, sizeof big);
    while (!t.drains)
        loop_turn(t.loop);
    assert_int_equal(stream_queued(&t.stream), 0);

    assert_int_equal(write(fd, "hello", 5), 5);
    for (int i = 0; i < 5; i++)
        loop_turn(t.loop);
    assert_int_equal(t.read.n, 0); /* not before it is asked for */
    stream_read(&t.stream, true);
    while (t.read.n < 5)
        loop_turn(t.loop);
    stream_shutdown(&t.stream);
    for (int i = 0; i < 5; i++)
        loop_turn(t.loop);
    assert_int_equal(recv(fd, back, 1, MSG_DONTWAIT), 0);
    shutdown(fd, SHUT_WR);
    while (!t.ends)
        loop_turn(t.loop);
    assert_int_equal(t.end_error, 0);
    close_pair(fd);
}

static void tcp_peer_gone(void **state)
{
    (void)state;
    int fd = open_pair();
    stream_read(&t.stream, true);
    shutdown(fd, SHUT_WR);
    while (!t.ends)
        loop_turn(t.loop);
    close(fd);
    struct slice part = SLICE("anyone?");
    stream_send(&t.stream, &part, 1);
    stream_send(&t.stream, &part, 1);
    later();
    assert_int_equal(t.ends, 2);
    assert_int_equal(t.end_error, UV_EPIPE);
    close_pair(dup(0));
}

static void tcp_closed_with_a_queue(void **state)
{
    (void)state;
    int fd = open_pair();
    static char big[1 << 20];
    struct slice part = slice_make(big, sizeof big);
    stream_send(&t.stream, &part, 1);
    stream_send(&t.stream, &part, 1);
    assert_true(stream_queued(&t.stream) > sizeof big);
    close_pair(fd);
    assert_int_equal(t.ends + t.drains, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(taken_at_once), cmocka_unit_test(stopped_anywhere),  cmocka_unit_test(queue_in_order),
        cmocka_unit_test(failed_writes), cmocka_unit_test(failed_and_closed), cmocka_unit_test(ends),
        cmocka_unit_test(reading),       cmocka_unit_test(shutdowns),         cmocka_unit_test(closing),
        cmocka_unit_test(tcp_both_ways), cmocka_unit_test(tcp_peer_gone),     cmocka_unit_test(tcp_closed_with_a_queue),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
