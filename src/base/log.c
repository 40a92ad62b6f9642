/* base/log: the buffer of log lines and the one descriptor they go to. Called from everywhere; flushed by the loop.
   Refuses to wait: a line that finds no room is dropped whole and counted. A line partly written is always finished
   before anything else is. */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"

#define BUFFER_BYTES (256 * 1024)
#define SPARE_BYTES_MAX (16 * 1024)
#define CLOSE_WAIT_MS 1000 /* for a reader that takes nothing at the end */
#define LAST_WALL_MS 253402300799999LL /* the end of the year 9999: RFC 3339 has four digits */

static struct {
    int fd;
    bool own_fd;       /* reopened: ours to close */
    bool is_socket;
    int restore_flags; /* of a shared descriptor that could not be reopened; -1: nothing to restore */
    enum log_level level;
    char *lines; /* whole lines, but for the first, whose front may be written already */
    size_t start, end;
    bool mid_line; /* lines[start] is not the first byte of its line */
    bool blocked;  /* the reader was slow in this turn: no further try until the next log_flush */
    uint64_t dropped;
    struct buf spare; /* the memory of the last line, for the next one */
    int worker;
} sink = {.fd = -1, .level = LOG_OFF, .restore_flags = -1};

static const char *const level_names[] = {"debug", "info", "warn", "error", "off"};

/* A file keeps nobody waiting. All who write to this description append then, so that none writes over another's lines. */
static void append_to(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags >= 0 && !(flags & O_APPEND)) (void)fcntl(fd, F_SETFL, flags | O_APPEND);
}

/* A new open file description: O_NONBLOCK on the one that was inherited would be seen by every process that shares it.
   O_APPEND, since the new one has an offset of its own. */
static int reopen(int fd)
{
    char path[40];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return open(path, O_WRONLY | O_NONBLOCK | O_APPEND | O_NOCTTY | O_CLOEXEC);
}

static uint64_t count_lines(const char *p, size_t n)
{
    uint64_t count = 0;
    for (const char *end = p + n; p < end && (p = memchr(p, '\n', (size_t)(end - p))) != NULL; p++) count++;
    return count;
}

void log_open(int fd, enum log_level level)
{
    struct stat st;
    log_close();
    sink.level = level;
    sink.fd = fd;
    if (fstat(fd, &st) != 0) st.st_mode = 0;
    sink.is_socket = S_ISSOCK(st.st_mode);
    sink.lines = xmalloc(BUFFER_BYTES);
    if (sink.is_socket) return;
    if (S_ISREG(st.st_mode)) {
        append_to(fd);
        return;
    }
    int own = reopen(fd);
    if (own >= 0) {
        sink.fd = own;
        sink.own_fd = true;
        return;
    }
    int flags = fcntl(fd, F_GETFL);
    if (flags >= 0 && !(flags & O_NONBLOCK) && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0) sink.restore_flags = flags;
}

void log_set_level(enum log_level level)
{
    sink.level = level;
}

void log_set_worker(int number)
{
    sink.worker = number;
}

void log_field_worker(struct json *j)
{
    if (sink.worker) json_field_int(j, "worker", sink.worker);
}

bool log_on(enum log_level level)
{
    return sink.fd >= 0 && level >= sink.level && level < LOG_OFF;
}

/* The descriptor is broken (reader gone). What waits is dropped, but for the rest of a line that was begun,
   so that should it heal the next line stands on its own. */
static void drop_waiting(void)
{
    size_t keep = 0;
    if (sink.mid_line) {
        const char *newline = memchr(sink.lines + sink.start, '\n', sink.end - sink.start);
        keep = (size_t)(newline + 1 - (sink.lines + sink.start));
    }
    sink.dropped += count_lines(sink.lines + sink.start + keep, sink.end - sink.start - keep);
    sink.end = sink.start + keep;
}

/* A slow reader, a full disk: what waits is written later, as far as the buffer holds it. */
static bool may_pass(int error)
{
    return error == EAGAIN || error == EWOULDBLOCK || error == ENOSPC || error == EDQUOT;
}

static void write_out(void)
{
    while (sink.start < sink.end) {
        const char *p = sink.lines + sink.start;
        size_t waiting = sink.end - sink.start;
        ssize_t n = sink.is_socket ? send(sink.fd, p, waiting, MSG_DONTWAIT | MSG_NOSIGNAL)
                                   : write(sink.fd, p, waiting);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) {
            sink.blocked = true;
            if (n == 0 || !may_pass(errno)) drop_waiting();
            return;
        }
        sink.mid_line = p[n - 1] != '\n';
        sink.start += (size_t)n;
    }
    sink.start = sink.end = 0;
}

/* Nobody waits for the loop any more: a reader that is only behind gets its last lines, and a begun one its end. */
static void write_rest(void)
{
    struct pollfd ready = {.fd = sink.fd, .events = POLLOUT};
    while (sink.start < sink.end) {
        size_t before = sink.end - sink.start;
        if (poll(&ready, 1, CLOSE_WAIT_MS) > 0) write_out();
        if (sink.end - sink.start == before) return;
    }
}

static void let_go(void)
{
    if (sink.own_fd) close(sink.fd);
    sink.fd = -1;
    sink.own_fd = false;
    sink.restore_flags = -1;
    sink.level = LOG_OFF;
    sink.start = sink.end = 0;
    sink.mid_line = sink.blocked = false;
    free(sink.lines);
    sink.lines = NULL;
    buf_free(&sink.spare);
}

void log_close(void)
{
    if (sink.fd < 0) return;
    log_flush();
    write_rest();
    sink.dropped += count_lines(sink.lines + sink.start, sink.end - sink.start);
    if (sink.restore_flags >= 0) fcntl(sink.fd, F_SETFL, sink.restore_flags);
    let_go();
}

void log_leave(void)
{
    let_go();
    sink.dropped = 0;
}

/* One try a turn is enough when the reader is slow: each further line would cost a system call to be told so again. */
static bool make_room(size_t bytes)
{
    if (sink.end - sink.start + bytes > BUFFER_BYTES && !sink.blocked) write_out();
    if (sink.end - sink.start + bytes > BUFFER_BYTES) return false;
    if (sink.end + bytes > BUFFER_BYTES) {
        memmove(sink.lines, sink.lines + sink.start, sink.end - sink.start);
        sink.end -= sink.start;
        sink.start = 0;
    }
    return true;
}

void log_raw(struct slice line)
{
    if (sink.fd < 0) return;
    if (line.n >= BUFFER_BYTES || !make_room(line.n + 1)) {
        sink.dropped++;
        return;
    }
    if (line.n) memcpy(sink.lines + sink.end, line.p, line.n);
    sink.end += line.n;
    sink.lines[sink.end++] = '\n';
}

void log_begin(struct log_line *l, enum log_level level, struct slice event)
{
    struct timespec now;
    char time_text[LOG_TIME_BYTES];
    l->level = level;
    l->buf = sink.spare; /* taken: a line begun inside another gets memory of its own */
    l->buf.n = 0;
    buf_init(&sink.spare, NULL);
    clock_gettime(CLOCK_REALTIME, &now);
    log_time((int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000, time_text);
    json_init(&l->json, &l->buf);
    json_object_start(&l->json);
    json_field_string(&l->json, "time", slice_str(time_text));
    json_field_string(&l->json, "level", slice_str(level_names[level < LOG_OFF ? level : LOG_OFF]));
    json_field_string(&l->json, "event", event);
    log_field_worker(&l->json);
}

void log_end(struct log_line *l)
{
    json_object_end(&l->json);
    if (log_on(l->level)) log_raw(buf_slice(&l->buf));
    if (sink.fd >= 0 && sink.spare.p == NULL && l->buf.cap <= SPARE_BYTES_MAX) {
        sink.spare = l->buf;
    } else {
        buf_free(&l->buf);
    }
}

void log_event(enum log_level level, const char *event, struct slice detail)
{
    struct log_line l;
    if (!log_on(level)) return;
    log_begin(&l, level, slice_str(event));
    if (detail.n) json_field_string(&l.json, "detail", detail);
    log_end(&l);
}

void log_flush(void)
{
    sink.blocked = false;
    if (sink.fd >= 0) write_out();
}

bool log_has_room(void)
{
    return sink.end - sink.start <= BUFFER_BYTES / 2;
}

uint64_t log_dropped(void)
{
    return sink.dropped;
}

void log_time(int64_t wall_ms, char out[LOG_TIME_BYTES])
{
    static int64_t cached_s = -1;
    static char cached[LOG_TIME_BYTES];
    if (wall_ms < 0) wall_ms = 0;
    if (wall_ms > LAST_WALL_MS) wall_ms = LAST_WALL_MS;
    time_t second = (time_t)(wall_ms / 1000);
    int ms = (int)(wall_ms % 1000);
    if (second != cached_s) {
        struct tm tm;
        gmtime_r(&second, &tm);
        strftime(cached, sizeof(cached), "%Y-%m-%dT%H:%M:%S.000Z", &tm);
        cached_s = second;
    }
    memcpy(out, cached, LOG_TIME_BYTES);
    out[20] = (char)('0' + ms / 100);
    out[21] = (char)('0' + ms / 10 % 10);
    out[22] = (char)('0' + ms % 10);
}
