/* remote/fetch: small bounded HTTP calls (OPA, profile API, JWKS, probes), curl multi on our loop, pooled connections.
   No redirects, no proxy from the environment, no cookies, https verified, only http, https and unix sockets. */
#ifndef REMOTE_FETCH_H
#define REMOTE_FETCH_H

#include <stdbool.h>
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

struct fetch_tls { /* of https; all of it PEM text. The certificate and the name of the peer are always verified */
    struct slice ca;          /* trusted in place of the system's authorities; empty: those */
    struct slice certificate; /* to show when it is asked for, with the rest of its chain; empty: none */
    struct slice key;         /* its private key; secret */
};

struct fetch_request {
    struct slice method;         /* GET, HEAD, POST */
    struct slice url;            /* http://…, https://…, or unix:/path/to.sock:/v1/data/… */
    const struct slice *headers; /* whole lines "Name: value"; copied */
    size_t headers_n;
    struct slice body;  /* copied; empty: none */
    int64_t timeout_ms; /* for the whole call */
    size_t max_bytes;   /* of the answer's body */
    const struct fetch_tls *tls; /* copied; NULL: the system's authorities, and nothing to show */
};

struct fetch_answer {
    enum fetch_outcome outcome;
    int status;                 /* HTTP status when ANSWERED */
    struct slice body;          /* valid inside the callback only */
    struct slice cache_control; /* header value, or empty */
    struct slice content_type;
    int64_t elapsed_us;
    bool insecure;     /* BROKEN for the sake of TLS: a certificate, or the handshake; error says what of it */
    const char *error; /* fixed text for the log when not ANSWERED, e.g. "connection refused" */
};

struct fetch *fetch_create(struct loop *l);
/* Cancels all calls, closes all connections; done runs when no handle is left. */
void fetch_destroy(struct fetch *f, void (*done)(void *arg), void *arg);

/* Of a rehearsal, before the first call: each call is shown to `answer` before anything of it goes out. True: *a is what it
   is told, later, and no connection is made; what *a points to outlives the call. */
void fetch_instead(struct fetch *f, bool (*answer)(const struct fetch_request *q, struct fetch_answer *a, void *arg),
                   void *arg);

/* The callback comes later, once. All of the request is copied. */
struct fetch_call *fetch_start(struct fetch *f, const struct fetch_request *q,
                               void (*on_answer)(const struct fetch_answer *a, void *arg), void *arg);
void fetch_cancel(struct fetch_call *c); /* no callback will come */

/* NULL when url is one of the forms above with a host; else what is wrong with it (static text). */
const char *fetch_url_check(struct slice url);
const char *fetch_version(void); /* libcurl's version text */

#endif
