/* bench/load/client: one connection of the load generator, with at most one request out. */
#ifndef BENCH_LOAD_CLIENT_H
#define BENCH_LOAD_CLIENT_H

#include <llhttp.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/histogram.h"
#include "load/requests.h"

enum client_state { CLIENT_OFF, CLIENT_CONNECTING, CLIENT_IDLE, CLIENT_BUSY };

struct counts { /* of one part of the run */
    uint64_t scheduled, completed, errors, bytes;
    uint64_t classes[6]; /* 1xx … 5xx; [0]: any other */
    struct histogram latency;
};

struct client {
    struct client *next; /* in the schedule's line, when queued */
    bool queued;
    int fd;
    enum client_state state;
    llhttp_t parser;
    bool answered;        /* the answer is complete */
    bool keep_alive;      /* and leaves the connection open */
    bool is_head;
    int64_t due_ns;       /* of its request, or of its next one */
    struct counts *counts; /* where its request belongs */
    char *unsent;         /* heap: the part of the request that was not taken */
    size_t unsent_n, unsent_from;
};

struct load {
    int epoll, timer;
    struct sockaddr_in address;
    struct requests requests;
    struct client *clients;
    size_t clients_n;
    uint64_t cycle; /* numbers are taken modulo that; 0: not */
    uint64_t connects, connect_errors;
    bool done;
    /* of the schedule. A client is idle: just connected, or its request is over, well or not, and it has a connection. */
    void (*on_idle)(struct client *c, int64_t now);
    void (*on_timer)(int64_t now);
    void (*on_turn)(int64_t now); /* after every event; may be NULL */
};

extern struct load load;

/* Under way; on_idle comes later, also after a failure, by another attempt. Too many failures end the program. */
void client_connect(struct client *c);
/* Sends request number n. c: idle. What becomes of it is counted in counts. */
void client_send(struct client *c, uint64_t n, int64_t due_ns, struct counts *counts);
void client_close(struct client *c);

/* Turns until load.done. */
void load_run(void);

#endif
