/* proxy/eval_report: what a rehearsed request came to, as one JSON document. */
#ifndef PROXY_EVAL_REPORT_H
#define PROXY_EVAL_REPORT_H

#include <stdbool.h>

#include "base/buf.h"
#include "proxy/eval_credential.h"
#include "proxy/request.h"

enum eval_outcome { EVAL_ALLOWED, EVAL_REFUSED, EVAL_ANSWERED, EVAL_OPEN };

struct eval_findings {
    enum eval_outcome outcome;
    const struct eval_asked *asked;
    const struct eval_credential *credential;
    bool judged;          /* the policy is to be asked: input is what it gets */
    struct slice input;   /* JSON */
    const char *missing;  /* of an open outcome: what was not asked */
    struct slice answer;  /* of a refusal, or an answer of our own: its bytes */
};

/* The request is in its last step of those that are played. Drops Host from its head where it would be sent. */
void eval_report(struct request *r, const struct eval_findings *f, struct buf *out);

#endif
