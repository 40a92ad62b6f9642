/* proxy/authorize: POST /authorize, a decision without proxying. It goes the way of a proxied request (authenticate,
   identify, decide) with the question taken from its body, and is answered with what the authorize shape made. */
#ifndef PROXY_AUTHORIZE_H
#define PROXY_AUTHORIZE_H

#include "proxy/request.h"

struct ask {
    struct slice resource, action;
    struct slice method, path;
    struct slice *segments;
    size_t segments_n;
    struct slice credential;    /* an Authorization value, or empty: anonymous */
    struct slice user_json;     /* a what-if user, or empty */
    struct slice context_extra; /* members as JSON text without braces */
};

/* Reads the body; r->ask is set and the request goes on to authenticate, or is refused. */
enum step_result authorize_begin(struct request *r);
/* After the decision. */
enum step_result authorize_answer(struct request *r);
/* The question of r->ask. */
void authorize_question(const struct request *r, struct decision_question *q);

#endif
