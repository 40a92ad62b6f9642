/* flow/flow: a whole proxy in this process: real configuration, parser, authorization, relay; redis, fetch, dial and
   the streams are fakes that the test turns by hand, and so is the clock. One proxy at a time: flow_start … flow_end,
   which asserts that nothing is left of it. All texts it gives are in flow.arena. */
#ifndef FLOW_FLOW_H
#define FLOW_FLOW_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fakes/fake_fetch.h"
#include "fakes/fake_redis.h"
#include "flow/fake_dial.h"
#include "flow/fake_resolve.h"
#include "flow/memory.h"
#include "proxy/proxy.h"

/* Each stage has its own length, so that a test knows which one fired. */
#define HEADER_MS 3000
#define IDLE_MS 7000
#define BODY_MS 11000
#define CONNECT_MS 2000
#define RESPONSE_MS 5000
#define POOL_MS 40000

#define FLOW_ISSUER "https://issuer.test"
#define FLOW_SECRET "an-hmac-secret-of-32-bytes-or-more"
#define FLOW_UPS_MAX 1024

/* Parts of the YAML; NULL: the default. listen, upstream, tokens and serve: more members; the others replace. */
struct flow_config {
    const char *listen, *upstream, *issuers, *tokens, *context, *policy, *grant, *serve, *routes, *more;
    int header_ms, idle_ms, body_ms; /* 0: HEADER_MS … */
};

struct flow_answer {
    const char *body;
    int status; /* 0: 200 */
    enum fetch_outcome outcome;
};

struct flow {
    struct loop *loop;
    struct proxy proxy;
    struct arena arena;
    int log_fd;
    bool manual;                /* fetch and redis are answered by the test only */
    struct flow_answer profile; /* what is answered otherwise */
    struct flow_answer policy;
    size_t policy_calls, profile_calls, probe_calls;
    struct memory *ups[FLOW_UPS_MAX]; /* connections to the upstream, in order */
    size_t ups_n;
    size_t drained; /* on_drained calls */
};

extern struct flow flow;

void flow_start(const struct flow_config *c); /* NULL: all defaults */
void flow_end(void);
/* Another configuration in force, while all else goes on; and turns. False: it was refused. */
bool flow_reload(const struct flow_config *c);

/* Turns until nothing moves: streams, dials, fetch and redis unless manual, the loop. A few ms of the clock pass. */
void flow_turn(void);
/* That much of the clock passes; what is due happens. */
void flow_pass(int64_t ms);

/* --- clients */
struct memory *flow_client(void);                                 /* from 192.0.2.1, not trusted */
struct memory *flow_client_from(const char *address, bool admin); /* trusted as the configuration has it */
void flow_send(struct memory *m, const char *format, ...) __attribute__((format(printf, 2, 3))); /* and turns */
void flow_send_bytes(struct memory *m, const char *p, size_t n);                                 /* and turns */
void flow_stop(struct memory *m, int error); /* ends or resets, and turns */
/* A whole Authorization line of that subject, signed, good for an hour. */
const char *flow_bearer(const char *subject);
/* The same with claims of the test's own; payload: JSON. */
const char *flow_bearer_of(const char *header, const char *payload);
const char *flow_get(const char *path, const char *subject); /* a GET with such a line; subject NULL: without */

/* --- messages, as a client or an API reads them */
struct message {
    const char *first; /* line */
    const char *head;  /* all of it, "" lines as sent */
    const char *body;  /* NUL behind it */
    size_t body_n;
    const char *trailers;
    int status; /* of an answer */
};
/* Takes one whole message off what the proxy wrote; fails the test when there is none. */
struct message flow_take(struct memory *m);
struct message flow_take_head_answer(struct memory *m);             /* the answer to a HEAD */
bool flow_has_message(const struct memory *m);                      /* bytes that were not taken */
const char *flow_header(const struct message *m, const char *name); /* the first one's value, or NULL */
size_t flow_header_count(const struct message *m, const char *name);
void flow_expect(struct memory *client, int status, const char *body); /* body NULL: any */
/* Takes an answer of ours: status and "code" must be as the reason has it. */
void flow_expect_reason(struct memory *client, enum reason reason);

/* --- the upstream */
struct memory *flow_up(size_t n); /* the nth connection made */
/* The last connection that has bytes of a request which nobody took; NULL: none has. */
struct memory *flow_asked(void);
/* One request is there: checks its first line and answers 200 with that body. */
void flow_serve(struct memory *up, const char *first_line, const char *body);

/* --- the log */
size_t flow_lines(void);                                     /* access lines so far */
const char *flow_logged(const char *key);                    /* a member of the last one, as text; NULL: not there */
bool flow_log_holds(const char *text);                       /* anywhere in the log */
void flow_expect_line(enum reason reason, const char *step); /* reason, status and step of the last one */

/* A text of that many bytes that is not the same at any two places that are near. */
char *flow_bytes(size_t n);
const char *flow_printf(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
