/* proxy/supervisor_parts: what the files of the supervisor share; nobody else includes it. One thread that never waits but
   in one poll; no loop of libuv, so that it can fork at any time. */
#ifndef PROXY_SUPERVISOR_PARTS_H
#define PROXY_SUPERVISOR_PARTS_H

#include <sys/types.h>

#include "base/buf.h"
#include "proxy/policies.h"
#include "proxy/settings.h"
#include "proxy/team_message.h"

struct question { /* that one asked of all */
    enum team_question what;
    uint64_t asker_id; /* as the asker calls it */
    uint64_t serial;   /* 0: none is out */
    int64_t due_ms;
    bool *waits;       /* for which seats */
};

struct seat { /* a worker, or the place for one */
    unsigned number;
    pid_t pid; /* 0: nobody */
    enum team_state state;
    int channel, log_fd;
    int socket;          /* that listens: it outlives its worker, so that who waits in its queue is served by the next */
    int dump;            /* the last metrics it told; -1 none */
    struct buf log;      /* the line that it has begun */
    int64_t born_ms, due_ms; /* when it is to be there again */
    unsigned deaths;     /* in a row, each soon after its birth */
    int64_t silent_ms;   /* since it did not answer; 0: it does */
    struct seat *helper; /* the worker that accepts from its socket meanwhile */
    struct question question;
};

struct reloading {
    struct settings *next; /* NULL: nothing is */
    struct seat *trier;    /* the worker that tries it first */
    int64_t due_ms;
    int files;             /* what was read */
    int64_t look_ms;       /* at policy.path */
    struct policies_watch policies;
    bool moved[2];
    int *sockets;          /* of the seats, where the main address moves */
    int admin;
};

struct supervisor {
    const struct conf_source *source;
    struct settings *settings; /* in force */
    struct settings *first;    /* what never changes points into them */
    uint64_t revision;
    int64_t loaded_wall_ms;
    struct seat *seats;
    unsigned n;
    int admin; /* -1: none */
    int port, admin_port;
    int signals;
    struct question own;  /* metrics, asked for now and then: what the dead have counted is not lost */
    int64_t ask_ms;       /* when the next is due */
    uint64_t serial;
    int64_t relay_ms;     /* logs are not read before */
    struct reloading reload;
    bool reload_again;    /* asked for meanwhile */
    bool one_started, all_started;
    bool draining;
    int64_t kill_ms;      /* while draining: then by force */
    bool failed;          /* nobody starts: the end, with `code` */
    int code;
    struct team *team;    /* set in a worker, just born */
};

int64_t supervisor_now_ms(void);
void supervisor_kill(struct seat *seat, int signum);

#endif
