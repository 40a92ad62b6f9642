/* remote/fetch: small bounded HTTP calls (OPA, profile API, JWKS, probes), curl multi on our loop, pooled connections.
   No redirects, no proxy from the environment, no cookies, https verified, only http, https and unix sockets. */
#ifndef REMOTE_FETCH_H
#define REMOTE_FETCH_H

#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"
#include "io/loop.h"

struct fetch;      /* the client: pool and multi handle */
struct fetch_call; /* one call out */

enum fetch_outcome {
    FETCH_ANSWERED,    /* a whole answer with some status */
    FETCH_UNREACHABLE, /* no connection: refused, not resolvable, connect failed */
    FETCH_TIMEOUT,     /* connected or not, the time was up */
    FETCH_TOO_LARGE,   /* the body went over max_bytes */
    FETCH_BROKEN,      /* connected, then reset, garbage, TLS failure */
};

struct fetch_request {
    struct slice method;         /* GET, HEAD, POST */
    struct slice url;            /* http://…, https://…, or unix:/path/to.sock:/v1/data/… */
    const struct slice *headers; /* whole lines "Name: value"; copied */
    size_t headers_n;
    struct slice body;  /* copied; empty: none */
    int64_t timeout_ms; /* for the whole call */
    size_t max_bytes;   /* of the answer's body */
};

struct fetch_answer {
    enum fetch_outcome outcome;
    int status;                 /* HTTP status when ANSWERED */
    struct slice body;          /* valid inside the callback only */
    struct slice cache_control; /* header value, or empty */
    struct slice content_type;
    int64_t elapsed_us;
    const char *error; /* fixed text for the log when not ANSWERED, e.g. "connection refused" */
};

struct fetch *fetch_create(struct loop *l);
/* Cancels all calls, closes all connections; done runs when no handle is left. */
void fetch_destroy(struct fetch *f, void (*done)(void *arg), void *arg);

/* The callback comes later, once. All of the request is copied. */
struct fetch_call *fetch_start(struct fetch *f, const struct fetch_request *q,
                               void (*on_answer)(const struct fetch_answer *a, void *arg), void *arg);
void fetch_cancel(struct fetch_call *c); /* no callback will come */

/* NULL when url is one of the forms above with a host; else what is wrong with it (static text). */
const char *fetch_url_check(struct slice url);
const char *fetch_version(void); /* libcurl's version text */

#endif
