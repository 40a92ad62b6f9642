/* proxy/member: one address of an upstream: its idle connections, what is out there, its breaker and its health. For
   the files that make up an upstream (upstream, endpoint, health, ready's rows); nobody else includes it. */
#ifndef PROXY_MEMBER_H
#define PROXY_MEMBER_H

#include <sys/socket.h>

#include "io/address.h"
#include "proxy/balance.h"
#include "proxy/borrow.h"

struct endpoint;
struct check;

/* What the members of one upstream share; the front of struct upstream. */
struct group {
    struct loop *loop;
    struct conf_upstream conf; /* a copy of its own, as far as it is read while running */
    struct breaker_rules rules;
    struct tls_context *tls; /* NULL: plain */
    int64_t probe_interval_ms;
    struct deadline_list *idle_timeout;
    size_t idle_n, open_n, inflight;
    size_t members_n;          /* alive, also those that only finish */
    struct tried slots;        /* of those that are not retired */
    bool closed;               /* keeps nothing any more */
    void (*on_change)(struct group *g);  /* which members there are; never inside a call of upstream.h */
    void (*on_vacant)(struct group *g);  /* the last member is gone */
};

struct health {            /* proxy/health */
    bool on;               /* it is checked from time to time */
    struct check *check;   /* that is out */
    struct deadline next;
    unsigned failed;       /* in a row */
    bool ok;
    int told;              /* to the log: 1 up, -1 down, 0 nothing */
    const char *state;     /* fixed text */
    int64_t checked_ms;    /* 0: never */
};

struct member {
    struct candidate candidate;
    struct group *group;
    struct endpoint *endpoint; /* NULL: its address is no longer one of the name's */
    struct health health;
    struct sockaddr_storage address;
    char text[ADDRESS_TEXT_BYTES];
    struct slice host, authority; /* of its URL */
    struct list idle;          /* most recently used first */
    size_t idle_n;
    unsigned refs;
    unsigned unreachable;      /* connects in a row that failed */
    bool unconnected;          /* so was its last failure: a check that connects knows better */
    bool quiet;                /* the log does not speak of it: another address family of the name is tried yet */
};

enum outcome {
    OUTCOME_GOOD,
    OUTCOME_FAILED,
    OUTCOME_UNCONNECTED, /* failed before anything was sent */
    OUTCOME_UNKNOWN, /* the client, or we, ended it */
};

/* With one reference; NULL: the upstream has as many as it can have. */
struct member *member_create(struct group *g, struct endpoint *e, const struct conf_endpoint *url,
                             const struct sockaddr_storage *address);
struct member *member_hold(struct member *m);
void member_release(struct member *m);
/* Nothing new goes there; idle connections are dropped, lent ones finish. Takes the creator's reference. */
void member_retire(struct member *m);
void member_drop_idle(struct member *m);
/* What became of a call that its breaker let through. latency_ms below 0: not measured. why: fixed text. */
void member_tell(struct member *m, uint32_t ticket, enum outcome o, double latency_ms, const char *why);
const char *member_state(const struct member *m); /* healthy, probing, limited, unhealthy */

/* An idle connection, counted as lent, or NULL. */
struct uconn *member_take_idle(struct member *m, enum borrow how, const struct uconn_events *events, void *owner);
/* A connection that is yet to be dialled; counted as lent. */
struct uconn *member_new(struct member *m, const struct uconn_events *events, void *owner);
extern const struct stream_events uconn_stream_events;
/* Close callback of one that was not connected; also frees it. */
void uconn_closed(struct stream *s);
/* It is no longer lent (counts). */
void uconn_unlend(struct uconn *c);

#endif
