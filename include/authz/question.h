/* authz/question: the calls to the policy engine: one question on its way there and its answer, read strictly. What is
   done with an answer (kept, told to those who wait) is decision's. */
#ifndef AUTHZ_QUESTION_H
#define AUTHZ_QUESTION_H

#include <stdbool.h>
#include <stdint.h>

#include "authz/answer.h"
#include "authz/decision.h"
#include "authz/input.h"
#include "authz/render.h"
#include "authz/rego_threads.h"
#include "base/buf.h"
#include "base/dependency.h"
#include "base/list.h"
#include "io/loop.h"

struct engine { /* the policy engine, and what is asked of it */
    struct loop *loop;
    struct fetch *fetch;
    const struct decisions_config *config; /* kept by pointer */
    struct buf url;                        /* with provenance=true */
    struct buf authorization;              /* header line, secret; empty none */
    struct list questions;                 /* all that are */
    struct dependency dependency;
    struct dependency_cap calls, what_ifs;
    struct rego_threads *threads;   /* evaluate in place of an engine elsewhere; or NULL */
    struct deadline_list *patience; /* of questions that wait for their turn, and of those that threads have */
    int64_t told_ms;               /* monotonic: when a failed evaluation was last told; 0 never */
    bool *gone;                    /* or NULL: told when the engine ends inside a callback of ours */
};

struct question { /* one call to the engine */
    struct list link;
    struct engine *engine;
    struct fetch_call *call; /* while it is out */
    struct rego_task *task;  /* in place of it, of an engine with threads */
    struct dependency_call slot;
    struct deadline patience; /* while it waits for its turn; with threads until it is answered */
    struct buf body;          /* heap: what will be sent then */
    bool hurried;             /* most of its time was over when its turn came */
    /* It waited, and will not be asked: the engine rests (RESTS), or policy.timeout_ms are over (FULL). In place of
       on_answered. */
    void (*on_refused)(struct question *q, enum dependency_word word);
    /* Once, later. Both answers are valid inside it; then the asker frees the question, inside it or later. fetched: NULL
       where it was evaluated in this process. */
    void (*on_answered)(struct question *q, const struct answer *a, const struct fetch_answer *fetched);
    void *owner;           /* the asker's */
    struct flight *flight; /* the asker's */
    enum decision_use use;
    bool what_if;
    uint8_t key[CACHE_KEY_BYTES];
    uint64_t tags[2];
    int64_t asked_ms;
    int64_t limit_ms; /* monotonic: the token's and the context's end */
    int64_t route_ttl_ms;
    struct front front;
    struct buf texts; /* resource and action */
    struct slice resource, action;
};

void engine_init(struct engine *e, struct loop *l, struct fetch *f, const struct decisions_config *c);
void engine_adjust(struct engine *e); /* what its config points to has changed */
void engine_finish(struct engine *e); /* no question may be left */
/* May a question be asked now? GO, WAITS: slot is for question_create; WAITS only where it can_wait, and then
   question_wait follows. What-if questions never wait. */
enum dependency_word engine_begin(struct engine *e, bool what_if, bool can_wait, struct dependency_call *slot);

/* What q is made of is copied as far as the answer needs it; owner, flight, on_answered and on_refused are the caller's
   to set. */
struct question *question_create(struct engine *e, struct dependency_call slot, const struct decision_question *q,
                                 const uint8_t *key);
/* Sends it, or gives it to the threads. a: the request's arena, used only inside this call. */
void question_ask(struct question *out, const struct decision_question *q, const struct input *in, struct arena *a);
/* Evaluates it, here and now, by the engine in this process. out: answer_free. */
void question_evaluate(struct question *asked, const struct decision_question *q, const struct input *in, struct arena *a,
                       struct answer *out);
/* Sends it when its turn comes; time in the queue counts for policy.timeout_ms. */
void question_wait(struct question *out, const struct decision_question *q, const struct input *in);
bool question_waits(const struct question *q); /* for its turn, or for a thread */
/* After a question was withdrawn without an answer: whose turn has come takes the place. */
void engine_take_turns(struct engine *e);
/* Cancels the call when it is out: no answer will come. The engine no longer knows the question. */
void question_withdraw(struct question *q);
/* Withdraws it, if that was not done. */
void question_free(struct question *q);

/* Is it let through by policy.on_error: allow? That is for an engine that cannot be reached at all, and never for a
   question that opens nothing. a: NULL where it was evaluated. */
bool question_bypasses(const struct question *q, const struct fetch_answer *a);

/* Monotonic: no decision on this token and context is kept longer. */
int64_t question_limit(const struct engine *e, const struct decision_question *q);

#endif
