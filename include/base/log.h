/* base/log: JSON lines to one descriptor, never blocking. Lines gather in a buffer that log_flush writes (the loop
   calls it before it sleeps); what does not fit because the reader is slow is dropped whole and counted. No token,
   cookie, secret, header value or body is ever given to it. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/json.h"
#include "base/slice.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR, LOG_OFF };

/* fd: made non-blocking without touching the descriptor other processes share where possible (reopened); it stays the
   caller's and open. SIGPIPE is the program's to ignore. Before log_open and after log_close lines go nowhere. */
void log_open(int fd, enum log_level level);
void log_close(void); /* writes what is left, as long as the reader takes something each second; frees */
/* In a process just forked: as log_close, but what waits is the parent's to write, and so is the descriptor. */
void log_leave(void);
void log_set_level(enum log_level level);
/* Which of several processes speaks, from 1: a field of every line. 0: there is one only. */
void log_set_worker(int number);
void log_field_worker(struct json *j); /* that field, for lines made elsewhere */
bool log_on(enum log_level level);

/* One line: log_begin, any json_field_…(&line.json, …), log_end. A level that is off must not get here (log_on). */
struct log_line {
    struct json json;
    struct buf buf;
    enum log_level level;
};
void log_begin(struct log_line *l, enum log_level level, struct slice event); /* writes time, level, event */
void log_end(struct log_line *l);

/* For plain events without fields of their own: text is a fixed sentence, detail may be foreign (escaped). */
void log_event(enum log_level level, const char *event, struct slice detail);

/* The same buffer for lines made elsewhere (the access log), whatever the level: one whole line without the newline. */
void log_raw(struct slice line);

void log_flush(void);
uint64_t log_dropped(void);
bool log_has_room(void); /* for as much again as a slow reader has left waiting: lines of others may be taken on */

/* RFC 3339 UTC with milliseconds ("2026-01-31T09:00:00.123Z"), 24 bytes and a NUL, cached per second. Times before
   1970 or after the year 9999 are shown as those ends. */
#define LOG_TIME_BYTES 25
void log_time(int64_t wall_ms, char out[LOG_TIME_BYTES]);

#endif
