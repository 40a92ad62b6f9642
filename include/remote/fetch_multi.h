/* remote/fetch_multi: curl's multi handle on our loop: its sockets watched by uv_poll, its one timer. Knows curl's easy
   handles, not what they are for (remote/fetch does). Includes curl: for remote/fetch.c only. */
#ifndef REMOTE_FETCH_MULTI_H
#define REMOTE_FETCH_MULTI_H

#include <curl/curl.h>

#include "io/loop.h"

struct fetch_multi;

struct fetch_multi_events {
    /* easy has ended, and is still in the multi: take it out, and anything else may be done, also destroying. */
    void (*on_done)(CURL *easy, CURLcode code, void *arg);
    /* Its socket cannot be watched, so that it would only time out. Comes from inside curl: touch no handle. */
    void (*on_unwatchable)(CURL *easy, void *arg);
};

struct fetch_multi *fetch_multi_create(struct loop *l, const struct fetch_multi_events *events, void *arg);
/* All easy handles are out of it. Closes the kept connections; done runs later, when no handle is left. */
void fetch_multi_destroy(struct fetch_multi *m, void (*done)(void *arg), void *arg);
CURLM *fetch_multi_handle(struct fetch_multi *m);

#endif
