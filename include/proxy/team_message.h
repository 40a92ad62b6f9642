/* proxy/team_message: what goes between supervisor and workers, as it stands in memory: both are one program. */
#ifndef PROXY_TEAM_MESSAGE_H
#define PROXY_TEAM_MESSAGE_H

#include "proxy/team.h"

#define TEAM_WORKERS_MAX 256
#define TEAM_BODY_MAX (64 * 1024 * 1024)
#define TEAM_FILES_MAX (256 * 1024 * 1024)
#define TEAM_ANSWER_MS 500 /* for a question, of all together */

enum team_kind {
    /* to a worker */
    TEAM_DRAIN = 1,
    TEAM_END,
    TEAM_SOCKET,   /* number: main 0, admin 1; with the socket. Before the reload that needs it */
    TEAM_RELOAD,   /* with the files */
    TEAM_ADOPT,    /* number: of the worker whose main socket comes with it: to accept from it too */
    TEAM_GIVE_BACK,
    TEAM_QUESTION, /* id: to be answered with it */
    TEAM_PART,     /* id: the asker's; an answer, or that there is none */
    TEAM_PARTS_END,
    /* to the supervisor */
    TEAM_STARTED,
    TEAM_RELOADED, /* good */
    TEAM_ASK,      /* id: the asker's own */
    TEAM_ANSWER,   /* id: the question's; with the body */
};

enum team_state { TEAM_STATE_DOWN, TEAM_STATE_STARTING, TEAM_STATE_RUNNING, TEAM_STATE_STUCK, TEAM_STATE_SUPERVISOR };

struct team_message {
    enum team_kind kind;
    enum team_question question;
    enum team_state state;
    unsigned number; /* of a worker */
    int pid;
    bool good;
    uint64_t id;
    struct flush_scope scope;
};

#endif
