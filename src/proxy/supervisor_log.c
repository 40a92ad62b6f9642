/* proxy/supervisor_log: called by supervisor. Each worker writes to a pipe of its own; only here their lines meet, so that
   no line is inside another, whatever standard output is. Where it is slow, lines stay in the pipes, and it is the worker
   that drops and counts them, as ever. */
#include "proxy/supervisor_log.h"

#include <errno.h>
#include <unistd.h>

#include "base/log.h"
#include "base/metric.h"

#define PIECE_BYTES 65536
#define PIECES_MAX 16       /* at a time: others wait too */
#define LINE_BYTES_MAX (1024 * 1024)

static void take_lines(struct seat *seat)
{
    struct slice rest = buf_slice(&seat->log);
    const char *newline;
    while (rest.n && (newline = memchr(rest.p, '\n', rest.n)) != NULL) {
        size_t n = (size_t)(newline - rest.p);
        log_raw(slice_make(rest.p, n));
        rest = slice_make(newline + 1, rest.n - n - 1);
    }
    if (rest.n > LINE_BYTES_MAX) rest.n = 0;
    if (rest.n && rest.p != seat->log.p) memmove(seat->log.p, rest.p, rest.n);
    seat->log.n = rest.n;
}

static bool read_piece(struct seat *seat)
{
    ssize_t n;
    buf_reserve(&seat->log, PIECE_BYTES);
    do n = read(seat->log_fd, seat->log.p + seat->log.n, PIECE_BYTES);
    while (n < 0 && errno == EINTR);
    if (n > 0) {
        seat->log.n += (size_t)n;
        take_lines(seat);
        return true;
    }
    if (n == 0) {
        close(seat->log_fd);
        seat->log_fd = -1;
    }
    return false;
}

void relay_read(struct seat *seat)
{
    for (int i = 0; i < PIECES_MAX && seat->log_fd >= 0; i++) {
        if (!log_has_room()) log_flush();
        if (!log_has_room() || !read_piece(seat)) return;
    }
}

void relay_end(struct seat *seat)
{
    while (seat->log_fd >= 0 && read_piece(seat)) {}
    if (seat->log_fd >= 0) close(seat->log_fd);
    seat->log_fd = -1;
    if (seat->log.n) metric_add(METRIC_LINES_DROPPED, NULL, 1);
    buf_free(&seat->log);
}
