/* proxy/request: one request and the runner of its steps (steps.def). Lives in its connection's arena. */
#ifndef PROXY_REQUEST_H
#define PROXY_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "authz/decision.h"
#include "http/parser.h"
#include "http/target.h"
#include "proxy/budget.h"
#include "proxy/announce.h"
#include "proxy/conn.h"
#include "proxy/borrow.h"
#include "proxy/team.h"

enum step {
#define STEP(id, name) STEP_##id,
#include "proxy/steps.def"
#undef STEP
    STEP_COUNT
};

/* What a step returns: NEXT: r->step says where to go on; WAIT: a callback will run the steps again; DONE: the request
   may be gone already, touch nothing. */
enum step_result { STEP_NEXT, STEP_WAIT, STEP_DONE };

#define REQUEST_LIFTED_MAX 32 /* entries of policy.query */

struct request {
    struct conn *conn;
    struct proxy *proxy;
    struct settings *settings; /* those it began with, to its end; held */
    const struct conf *conf;   /* of them */
    struct arena *arena;
    struct head *head;
    enum step step;
    enum reason reason;       /* how it ended; UNSET is a refusal */
    const char *detail;       /* for the log; nothing of the client's in it */
    enum step ended;          /* the step that ended it */

    struct slice id;
    struct slice host;        /* the authority asked for, lower case */
    struct slice client_ip;   /* behind trusted proxies: the one they saw */
    struct target target;
    const struct conf_route *route;
    const struct own *own;    /* an endpoint of our own */
    struct ask *ask;          /* POST /authorize: what is asked */
    struct slice resource;
    struct slice action;
    struct named lifted[REQUEST_LIFTED_MAX];
    size_t lifted_n;
    struct slice sent_path;   /* what the upstream gets */

    struct token_call token_call;
    struct token *token;
    struct identity_call identity_call;
    struct user *user;
    struct decision_call decision_call;
    struct decision *decision;
    enum found_in context_source, decision_source;
    bool stale;               /* one of them was past its time */

    struct budget budget;
    struct announce_call announce_call;
    struct team_call *team_call; /* all workers are being asked, or have been; NULL: there is this process only */
    bool flushed;             /* POST /cache/flush: done here, told or being told to others */

    struct upstream_call upstream_call;
    struct uconn *up;
    struct parser up_parser;
    struct buf up_partial;    /* part of an answer's head */
    struct deadline up_deadline;
    unsigned up_interims;     /* 1xx answers so far */
    bool retried;
    bool head_sent;           /* to the upstream */
    bool up_answered;         /* a byte of an answer came */
    bool up_done;             /* the answer is complete */
    bool up_chunk;            /* the client gets the answer chunked */
    size_t head_bytes;
    bool body_held;           /* no body bytes are read before the decision */
    bool body_paused;         /* the upstream does not take more at the moment */
    bool answer_started;      /* bytes of a final answer went to the client */
    bool keep_alive;          /* of the client's connection after this */
    bool up_paused;           /* the client does not take more at the moment */
    bool up_dirty;            /* bytes came behind the end of the answer */
    bool websocket;           /* the client asked for one, and the route has them */
    bool tunnel;              /* switched: bytes pass as they are */
    enum reason ended_by;     /* of a tunnel */
    bool body_over;           /* a chunked body went over max_body_bytes */

    struct buf body;          /* of an endpoint of our own */
    int status;
    struct slice allow;       /* for 405 */
    int64_t retry_ms;         /* for 503: when asking again may be worth it, as far as is known; 0: it is not */
    struct slice message;     /* for the client, in place of the reason's text (the policy's) */
    uint64_t bytes_in, bytes_out; /* body bytes */
    uint64_t begun_ns;
    uint64_t step_ns;         /* when the step `waiting` began to wait; 0: none does */
    enum step waiting;
    uint64_t up_sent_ns, up_first_ns;
    uint32_t waited_us[STEP_COUNT];
    bool up_reused;
};

/* A whole head stands at bytes (in the arena). Runs until it must wait. */
void request_begin(struct conn *c, struct slice head_bytes);
/* A request that is refused before it could be parsed. */
void request_refuse(struct conn *c, enum reason reason);
void request_run(struct request *r);

/* More of the client's body may be in conn->pending, or the client ended its side. */
void request_on_input(struct request *r);
void request_on_body(struct request *r, struct slice data); /* of the parser, inside request_on_input */
void request_on_client_end(struct request *r, int error);
void request_on_client_drain(struct request *r);
/* The client's connection breaks off, whatever the state: cancels all that is out, logs. */
void request_abort(struct request *r, enum reason reason);

/* Sets the outcome and the step that answers for it. */
enum step_result request_fail(struct request *r, enum reason reason, const char *detail);

const char *step_name(enum step s);

/* What the policy is asked of a request whose context is known; what it points to lives as long as the request. */
void request_question(struct request *r, struct decision_question *q);
/* The head as the upstream gets it, in the arena. Once: Host is dropped from the client's. */
struct slice request_head_out(struct request *r);
/* host[:port] of the address that it goes to; of the first one while none is picked. */
struct slice request_authority_out(const struct request *r);

/* The steps, in their files. */
#define STEP(id, name) enum step_result step_##name(struct request *r);
#include "proxy/steps.def"
#undef STEP

#endif
