/* fuzz/flow_watch: the eyes of fuzz_flow. It remembers what clients sent and what was allowed, reads what reaches the
   upstream and the clients with a reader of its own, and fails a CHECK when a request goes out twice, without an allow,
   without its one grant, or when an answer comes to another client. */
#ifndef FUZZ_FLOW_WATCH_H
#define FUZZ_FLOW_WATCH_H

#include <stdbool.h>

#include "flow/flow.h"

#define WATCH_MARKS_MAX 400
#define WATCH_UPS_MAX 400

struct sent { /* one request that a client sent; it has its number in X-Mark */
    size_t client;
    const char *method, *path, *user; /* user: whose token, "anonymous" or NULL: none or a bad one */
    size_t body;                      /* bytes of it */
    size_t out;                       /* times it reached the upstream */
    size_t last_up;                   /* where it did */
    size_t out_body;                  /* bytes of its body that did */
};

struct up {           /* one connection to the upstream */
    size_t at;        /* bytes read */
    size_t heads;     /* requests begun on it */
    size_t answered;  /* of them */
    size_t mark;      /* of the last one; WATCH_MARKS_MAX none */
    bool answer_sent; /* any byte of an answer to the last one */
    bool in_body, chunked, tunnel, head;
    uint64_t left; /* of the body or chunk */
};

struct watch {
    bool raw;    /* a client sent bytes of any kind: what is told by the marks alone is no longer checked */
    bool judged; /* anonymous callers are judged */
    struct sent sent[WATCH_MARKS_MAX];
    size_t sent_n;
    struct up ups[WATCH_UPS_MAX];
    struct {
        const char *user, *method, *path;
        int64_t until_ms;
    } allowed[WATCH_MARKS_MAX];
    size_t allowed_n;
};

extern struct watch watch;

/* The engine was told to allow the question in body (JSON), for ttl_ms. */
void watch_allow(const char *body, int64_t ttl_ms);
/* Reads what is new at the upstream. */
void watch_ups(void);
/* What a client got is for it. */
void watch_client(size_t client, struct slice got);

#endif
