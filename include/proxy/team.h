/* proxy/team: a worker's side of several: what its supervisor tells it, and asking all workers at once, so that whoever is
   asked for metrics, readiness or a flush answers for all. Each member is asked through the supervisor; one that does not
   answer in time is said to have not. */
#ifndef PROXY_TEAM_H
#define PROXY_TEAM_H

#include "base/list.h"
#include "base/op.h"
#include "proxy/flush.h"

struct team;

/* What a worker is born with; descriptors are its own from then on. */
struct team_birth {
    unsigned number;         /* from 1 */
    unsigned workers;
    int channel, log_fd;
    int sockets[2];          /* that listen: main and admin; -1: none */
    uint64_t revision;       /* of the configuration in force */
    int64_t loaded_wall_ms;
};

struct team_hooks {
    void (*on_drain)(void *arg, const char *why, bool delayed); /* as on SIGTERM, or on SIGINT; may come again */
    void (*on_end)(void *arg);                    /* cut short */
    bool (*on_reload)(void *arg, struct conf_files *files);
};

struct team *team_create(const struct team_birth *b);
/* The proxy has started: takes its revision, says so, and listens to the supervisor. arg: of the hooks. */
void team_join(struct team *t, struct proxy *p, const struct team_hooks *hooks, void *arg);
void team_leave(struct team *t);   /* the loop lets go of its handle */
void team_destroy(struct team *t); /* NULL: nothing */

int team_log(const struct team *t);          /* where its lines go */
unsigned team_workers(const struct team *t); /* 1 for NULL */
/* The listening socket that was given for main (0) or admin (1), once; -1: none. */
int team_take_socket(struct team *t, size_t which);

/* Nobody else has the listening sockets, or soon will not: the whole ends, or another configuration has others. True for
   NULL. */
bool team_is_last(const struct team *t);
/* Of workers that others took the sockets of: rest as listener_rest. NULL: nothing. */
void team_close_listeners(struct team *t, bool rest);

enum team_question { TEAM_READY, TEAM_METRICS, TEAM_FLUSH, TEAM_QUESTIONS };

struct team_part {
    unsigned worker; /* 0: the supervisor */
    int pid;
    const char *state; /* "running", "starting", "down", "stuck": did not answer in time, "supervisor" */
    bool answered, good;
    struct slice body; /* valid inside on_done */
};

struct team_call {
    void (*on_done)(struct team_call *c);
    const struct team_part *parts; /* valid inside on_done */
    size_t parts_n;
    bool whole; /* all workers that should be there have answered */
    void *arg;  /* the caller's */
    /* private */
    struct list link;
    enum team_question question;
    struct flush_scope scope;
};

/* PENDING; or DONE without a team (NULL). */
enum op team_ask(struct team *t, enum team_question q, const struct flush_scope *scope, struct team_call *c);
void team_cancel(struct team_call *c); /* harmless when it is not pending, or NULL */

#endif
