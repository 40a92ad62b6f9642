/* Unit tests of base/log over real pipes, files and sockets: whole lines only, and never a wait. */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static char text[4 << 20];

/* All that can be read now, NUL behind it. */
static size_t drain(int fd, size_t from)
{
    ssize_t n;
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    while (from < sizeof(text) - 1 && (n = read(fd, text + from, sizeof(text) - 1 - from)) > 0) from += (size_t)n;
    text[from] = '\0';
    return from;
}

/* A regular file without a name. */
static int scratch_file(void)
{
    FILE *f = tmpfile();
    assert_non_null(f);
    int fd = dup(fileno(f));
    fclose(f);
    return fd;
}

static size_t read_file(int fd)
{
    ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
    assert_true(n >= 0);
    text[n] = '\0';
    return (size_t)n;
}

static void send_numbered(int number, size_t padding)
{
    struct log_line l;
    static char pad[60000];
    memset(pad, 'p', sizeof(pad));
    log_begin(&l, LOG_INFO, SLICE("numbered"));
    json_field_int(&l.json, "number", number);
    json_field_string(&l.json, "pad", slice_make(pad, padding));
    log_end(&l);
}

/* Each line is one whole numbered line, the numbers rise; returns how many there are. */
static uint64_t check_numbered(void)
{
    uint64_t count = 0;
    long last = -1;
    for (char *line = text, *end; *line; line = end + 1) {
        end = strchr(line, '\n');
        assert_non_null(end);
        *end = '\0';
        assert_true(strncmp(line, "{\"time\":\"", 9) == 0 && end - line > 60);
        assert_int_equal(strcmp(end - 3, "p\"}"), 0);
        assert_null(strchr(line + 1, '{'));
        char *number = strstr(line, "\"number\":");
        assert_non_null(number);
        long value = strtol(number + 9, NULL, 10);
        assert_true(value > last);
        last = value;
        count++;
    }
    return count;
}

static void test_levels(void **state)
{
    (void)state;
    assert_false(log_on(LOG_ERROR)); /* not open yet: everything goes nowhere */
    log_event(LOG_ERROR, "early", SLICE("x"));
    log_raw(SLICE("early"));
    log_flush();
    for (int cut = LOG_DEBUG; cut <= LOG_OFF; cut++) {
        int fds[2];
        assert_int_equal(pipe(fds), 0);
        log_open(fds[1], LOG_DEBUG);
        log_set_level((enum log_level)cut);
        for (int level = LOG_DEBUG; level <= LOG_OFF; level++) {
            struct log_line l;
            assert_int_equal(log_on((enum log_level)level), level >= cut && level != LOG_OFF);
            log_event((enum log_level)level, "said", SLICE(""));
            log_begin(&l, (enum log_level)level, SLICE("unasked")); /* without log_on: still nothing comes out */
            log_end(&l);
        }
        log_close();
        drain(fds[0], 0);
        static const char *const names[] = {"\"debug\"", "\"info\"", "\"warn\"", "\"error\""};
        for (int level = LOG_DEBUG; level < LOG_OFF; level++) {
            assert_int_equal(strstr(text, names[level]) != NULL, level >= cut);
        }
        assert_null(strstr(text, "\"off\""));
        close(fds[0]);
        close(fds[1]);
    }
}

static void test_any_bytes_are_one_line(void **state)
{
    char all[256];
    int fds[2];
    (void)state;
    for (int i = 0; i < 256; i++) all[i] = (char)i;
    assert_int_equal(pipe(fds), 0);
    log_open(fds[1], LOG_DEBUG);
    log_event(LOG_INFO, "foreign", slice_make(all, sizeof(all)));
    log_event(LOG_INFO, "forged", SLICE("x\"}\n{\"level\":\"error\",\"event\":\"forged"));
    log_flush();
    size_t n = drain(fds[0], 0);
    size_t newlines = 0;
    for (size_t i = 0; i < n; i++) {
        newlines += text[i] == '\n';
        assert_true(text[i] == '\n' || (text[i] >= 0x20 && text[i] < 0x7f));
    }
    assert_int_equal(newlines, 2);
    assert_int_equal(text[n - 1], '\n');
    assert_non_null(strstr(text, "\"event\":\"forged\",\"detail\":\"x\\\"}\\n{\\\"level\\\""));
    log_close();
    close(fds[0]);
    close(fds[1]);
}

static void test_a_line_inside_another(void **state)
{
    struct log_line outer;
    int fds[2];
    (void)state;
    assert_int_equal(pipe(fds), 0);
    log_open(fds[1], LOG_DEBUG);
    log_begin(&outer, LOG_WARN, SLICE("outer"));
    log_event(LOG_INFO, "inner", SLICE("x"));
    json_field_bool(&outer.json, "whole", true);
    log_end(&outer);
    log_raw(SLICE("{\"raw\":1}"));
    assert_int_equal(drain(fds[0], 0), 0); /* nothing is written before the flush */
    log_flush();
    drain(fds[0], 0);
    char *inner = strstr(text, "\"level\":\"info\",\"event\":\"inner\",\"detail\":\"x\"}\n");
    char *out = strstr(text, "\"level\":\"warn\",\"event\":\"outer\",\"whole\":true}\n");
    assert_true(inner != NULL && out != NULL && inner < out);
    assert_non_null(strstr(out, "\n{\"raw\":1}\n"));
    log_close();
    close(fds[0]);
    close(fds[1]);
}

/* Nobody reads: all calls return, what fits arrives whole, the rest is counted. */
static void test_full_pipe(void **state)
{
    enum { COUNT = 20000 };
    int fds[2];
    (void)state;
    assert_int_equal(pipe(fds), 0);
    uint64_t before = log_dropped();
    log_open(fds[1], LOG_INFO);
    for (int i = 0; i < COUNT; i++) {
        send_numbered(i, 50);
        if (i % 100 == 99) log_flush();
    }
    assert_int_equal(fcntl(fds[1], F_GETFL) & O_NONBLOCK, 0); /* who shares the descriptor notices nothing */
    size_t n = 0;
    for (int turn = 0; turn < 100; turn++) {
        n = drain(fds[0], n);
        log_flush();
    }
    n = drain(fds[0], n);
    assert_true(n > 64 * 1024 && n < (64 + 256 + 8) * 1024); /* what the pipe and our buffer hold */
    uint64_t arrived = check_numbered();
    assert_true(arrived > 1000 && arrived < COUNT);
    assert_int_equal(arrived + log_dropped() - before, COUNT);
    log_close();
    close(fds[0]);
    close(fds[1]);
}

/* A reader that takes odd bites: lines are written in parts, and each is finished before the next. */
static void slow_reader(int write_end, int read_end)
{
    enum { COUNT = 4000 };
    size_t n = 0;
    int sent = 0;
    uint64_t before = log_dropped();
    log_open(write_end, LOG_INFO);
    assert_int_equal(fcntl(read_end, F_SETFL, O_NONBLOCK), 0);
    for (; sent < COUNT && n < sizeof(text) / 2; sent++) {
        send_numbered(sent, 1 + (size_t)sent * 131 % 3000);
        if (sent % 7 == 0) log_flush();
        if (sent % 3) continue;
        ssize_t got = read(read_end, text + n, 1 + (size_t)sent * 17 % 4001);
        if (got > 0) n += (size_t)got;
    }
    for (int turn = 0; turn < 200; turn++) {
        log_flush();
        n = drain(read_end, n);
    }
    uint64_t arrived = check_numbered();
    assert_true(log_dropped() > before);
    assert_int_equal(arrived + log_dropped() - before, sent);
    log_close();
    close(read_end);
    close(write_end);
}

/* A reader that is behind when all ends has every line that was not counted as dropped, the last one too. */
static void test_close_waits(void **state)
{
    enum { COUNT = 5000 };
    int fds[2], kept = scratch_file();
    (void)state;
    assert_int_equal(pipe(fds), 0);
    pid_t reader = fork(); /* before the log is open: it must not hold the writing end */
    if (reader == 0) {
        char piece[1000];
        ssize_t n;
        close(fds[1]);
        usleep(200000);
        while ((n = read(fds[0], piece, sizeof(piece))) > 0)
            if (write(kept, piece, (size_t)n) != n) _exit(1);
        _exit(0);
    }
    uint64_t before = log_dropped();
    log_open(fds[1], LOG_INFO);
    for (int i = 0; i < COUNT; i++) send_numbered(i, 50);
    close(fds[0]);
    log_close();
    close(fds[1]);
    int status = -1;
    assert_int_equal(waitpid(reader, &status, 0), reader);
    assert_int_equal(status, 0);
    size_t n = read_file(kept);
    close(kept);
    assert_int_equal(text[n - 1], '\n');
    assert_int_equal(check_numbered() + log_dropped() - before, COUNT);
}

/* Who reads nothing is not waited for long. */
static void test_close_of_a_full_pipe(void **state)
{
    int fds[2];
    (void)state;
    assert_int_equal(pipe(fds), 0);
    uint64_t before = log_dropped();
    log_open(fds[1], LOG_INFO);
    for (int i = 0; i < 5000; i++) send_numbered(i, 50);
    log_close();
    assert_true(log_dropped() > before);
    close(fds[0]);
    close(fds[1]);
}

static void test_slow_pipe(void **state)
{
    int fds[2];
    (void)state;
    assert_int_equal(pipe(fds), 0);
    slow_reader(fds[1], fds[0]);
}

static void test_slow_socket(void **state)
{
    int fds[2], small = 4096;
    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
    slow_reader(fds[0], fds[1]);
}

static void test_socket_flags_stay(void **state)
{
    int fds[2];
    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    log_open(fds[0], LOG_INFO);
    for (int i = 0; i < 20000; i++) send_numbered(i, 50);
    log_flush();
    assert_int_equal(fcntl(fds[0], F_GETFL) & O_NONBLOCK, 0);
    close(fds[1]);
    log_flush(); /* gone: no signal, no abort */
    log_close();
    close(fds[0]);
}

static void test_long_lines(void **state)
{
    int fd = scratch_file();
    static char line[300000];
    (void)state;
    memset(line, 'x', sizeof(line));
    uint64_t before = log_dropped();
    log_open(fd, LOG_INFO);
    log_raw(slice_make(line, 256 * 1024)); /* its newline finds no room */
    log_raw(slice_make(line, sizeof(line)));
    assert_int_equal(log_dropped() - before, 2);
    log_raw(slice_make(line, 256 * 1024 - 1));
    log_raw(SLICE("next")); /* makes room by writing at once: the file is not slow */
    log_raw(slice_make(NULL, 0));
    log_close();
    assert_int_equal(log_dropped() - before, 2);
    assert_int_equal(read_file(fd), 256 * 1024 + 6);
    assert_string_equal(text + 256 * 1024 - 1, "\nnext\n\n");
    close(fd);
}

/* More than the buffer holds in one turn, and a reader that is quick: nothing is lost. */
static void test_file_takes_everything(void **state)
{
    int fd = scratch_file();
    (void)state;
    assert_int_equal(write(fd, "before\n", 7), 7);
    uint64_t before = log_dropped();
    log_open(fd, LOG_INFO);
    for (int i = 0; i < 20000; i++) send_numbered(i, 5);
    log_close();
    assert_int_equal(log_dropped(), before);
    read_file(fd);
    assert_int_equal(strncmp(text, "before\n", 7), 0); /* appended, not written over */
    memmove(text, text + 7, strlen(text + 7) + 1);
    assert_int_equal(check_numbered(), 20000);
    close(fd);
}

/* `(doorward; echo after) >file`: who shares the file's offset does not write over what stands there. */
static void test_file_is_shared(void **state)
{
    int fd = scratch_file();
    (void)state;
    log_open(fd, LOG_INFO);
    log_raw(SLICE("one"));
    log_flush();
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    assert_int_equal(write(fd, "after\n", 6), 6);
    log_raw(SLICE("two"));
    log_close();
    read_file(fd);
    assert_string_equal(text, "one\nafter\ntwo\n");
    close(fd);
}

static void test_reader_gone(void **state)
{
    int fds[2];
    (void)state;
    assert_int_equal(pipe(fds), 0);
    uint64_t before = log_dropped();
    log_open(fds[1], LOG_INFO);
    close(fds[0]);
    for (int i = 0; i < 100; i++) {
        send_numbered(i, 5);
        if (i % 10 == 9) log_flush();
    }
    assert_int_equal(log_dropped() - before, 100);
    log_close();
    close(fds[1]);
}

/* A disk that is full for a while, in the middle of a line. */
static void test_full_disk_heals(void **state)
{
    struct rlimit limit, small;
    int fd = scratch_file();
    (void)state;
    uint64_t before = log_dropped();
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    small = limit;
    small.rlim_cur = 1000;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    log_open(fd, LOG_INFO);
    for (int i = 0; i < 100; i++) send_numbered(i, 30);
    log_flush();
    log_flush();
    assert_int_equal(read_file(fd), 1000);
    assert_int_not_equal(text[999], '\n');
    for (int i = 100; i < 110; i++) send_numbered(i, 30);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    log_close();
    read_file(fd);
    uint64_t arrived = check_numbered();
    assert_in_range(arrived, 11, 25);
    assert_int_equal(arrived + log_dropped() - before, 110);
    close(fd);
}

static void test_dev_full(void **state)
{
    int fd = open("/dev/full", O_WRONLY);
    (void)state;
    if (fd < 0) skip();
    uint64_t before = log_dropped();
    log_open(fd, LOG_INFO);
    for (int i = 0; i < 5; i++) send_numbered(i, 5);
    log_flush();
    assert_int_equal(log_dropped() - before, 0); /* a full disk may have room again */
    log_close();
    assert_int_equal(log_dropped() - before, 5);
    close(fd);
}

/* What cannot be reopened is set non-blocking itself, and back at the end. */
static void test_flags_are_put_back(void **state)
{
    int fd = eventfd(0, 0);
    (void)state;
    assert_true(fd >= 0);
    log_open(fd, LOG_INFO);
    assert_int_equal(fcntl(fd, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
    log_close();
    assert_int_equal(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
    close(fd);
}

static void test_opened_anew(void **state)
{
    int a = scratch_file(), b = scratch_file();
    (void)state;
    log_open(a, LOG_INFO);
    log_raw(SLICE("to a"));
    log_open(b, LOG_INFO);
    log_raw(SLICE("to b"));
    log_close();
    log_close();
    read_file(a);
    assert_string_equal(text, "to a\n");
    read_file(b);
    assert_string_equal(text, "to b\n");
    assert_true(close(a) == 0 && close(b) == 0); /* both still the caller's */
}

static void test_time(void **state)
{
    static const struct {
        int64_t wall_ms;
        const char *want;
    } rows[] = {
        {1769850000123, "2026-01-31T09:00:00.123Z"}, {1769850000124, "2026-01-31T09:00:00.124Z"},
        {1769850000000, "2026-01-31T09:00:00.000Z"}, {1769850000999, "2026-01-31T09:00:00.999Z"},
        {1769850001000, "2026-01-31T09:00:01.000Z"}, {0, "1970-01-01T00:00:00.000Z"},
        {951782399999, "2000-02-28T23:59:59.999Z"},  {951782400000, "2000-02-29T00:00:00.000Z"},
        {-1, "1970-01-01T00:00:00.000Z"},            {253402300799999, "9999-12-31T23:59:59.999Z"},
        {INT64_MAX, "9999-12-31T23:59:59.999Z"},     {INT64_MIN, "1970-01-01T00:00:00.000Z"},
    };
    (void)state;
    setenv("TZ", "America/Chicago", 1);
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        char out[LOG_TIME_BYTES];
        log_time(rows[i].wall_ms, out);
        assert_string_equal(out, rows[i].want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_levels),
        cmocka_unit_test(test_any_bytes_are_one_line),
        cmocka_unit_test(test_a_line_inside_another),
        cmocka_unit_test(test_full_pipe),
        cmocka_unit_test(test_close_waits),
        cmocka_unit_test(test_close_of_a_full_pipe),
        cmocka_unit_test(test_slow_pipe),
        cmocka_unit_test(test_slow_socket),
        cmocka_unit_test(test_socket_flags_stay),
        cmocka_unit_test(test_long_lines),
        cmocka_unit_test(test_file_takes_everything),
        cmocka_unit_test(test_file_is_shared),
        cmocka_unit_test(test_reader_gone),
        cmocka_unit_test(test_full_disk_heals),
        cmocka_unit_test(test_dev_full),
        cmocka_unit_test(test_flags_are_put_back),
        cmocka_unit_test(test_opened_anew),
        cmocka_unit_test(test_time),
    };
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    alarm(60); /* whoever waits for a slow reader ends here */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
