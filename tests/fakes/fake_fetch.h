/* fakes/fake_fetch: remote/fetch.h without a network. Every call is recorded and stays open until the test answers it
   by hand; a cancelled call can no longer be answered. Linked into a test program before the remote library, so that
   the real one is not pulled in. Everything is freed by fetch_destroy. */
#ifndef FAKES_FAKE_FETCH_H
#define FAKES_FAKE_FETCH_H

#include <stdbool.h>
#include <stddef.h>

#include "remote/fetch.h"

enum fake_call_state { FAKE_CALL_OPEN, FAKE_CALL_ANSWERED, FAKE_CALL_CANCELLED };

/* All texts are copies with a NUL behind them. */
struct fetch_call {
    struct fetch_call *next; /* in the order they were started */
    enum fake_call_state state;
    char *method;
    char *url;
    char **headers; /* whole lines */
    size_t headers_n;
    char *body; /* "" when none */
    size_t body_n;
    int64_t timeout_ms;
    size_t max_bytes;
    void (*on_answer)(const struct fetch_answer *a, void *arg);
    void *arg;
};

struct fetch {
    struct fetch_call *first;
};

size_t fake_fetch_started(const struct fetch *f); /* calls started so far, in any state */
size_t fake_fetch_open(const struct fetch *f);    /* calls that wait for an answer */

/* The nth call started, from 0; it fails the test when there is none. */
struct fetch_call *fake_fetch_nth(const struct fetch *f, size_t n);
/* The oldest open call; NULL when none is open. */
struct fetch_call *fake_fetch_oldest(const struct fetch *f);
/* Does the call carry exactly this header line? */
bool fake_fetch_has_header(const struct fetch_call *c, const char *line);

/* An ANSWERED call with that status and body (no other fields). A body over max_bytes becomes TOO_LARGE, as in the
   real one. c: open. */
void fake_fetch_answer(struct fetch_call *c, int status, const char *body);
void fake_fetch_answer_cached(struct fetch_call *c, int status, const char *body, const char *cache_control);
/* Any other outcome. */
void fake_fetch_fail(struct fetch_call *c, enum fetch_outcome outcome);

#endif
