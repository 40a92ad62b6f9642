/* authz/answer: a strict reading of the policy engine's answer. Only `true`, or an object whose allow is true,
   allows. */
#ifndef AUTHZ_ANSWER_H
#define AUTHZ_ANSWER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/reason.h"
#include "remote/fetch.h"

struct rego_said;

struct answer {
    enum reason reason; /* FORWARDED: the policy spoke, see allow; else what was wrong with the answer */
    const char *detail; /* fixed text, when something was wrong */
    const char *kind;   /* of the failure, for the metric: unreachable, timeout, garbage, status; NULL none */
    bool allow;
    bool has_ttl;
    int64_t ttl_ms;     /* when has_ttl */
    uint64_t revision;  /* of the bundles, 0 none */
    struct buf message; /* reason, decoded, heap */
    struct buf members; /* JSON members ,"reason":…,"filters":{…} … as the policy gave them, ASCII, heap */
};

void answer_read(const struct fetch_answer *a, struct answer *out);
/* The body of a 200 only: what a hostile engine may send. */
void answer_parse(struct slice body, struct answer *out);
/* The same reading of an evaluation in this process. revision: the engine's. */
/* Of an evaluation that was not over in time. */
void answer_of_silence(struct answer *out);
void answer_of_evaluation(const struct rego_said *said, uint64_t revision, struct answer *out);
void answer_free(struct answer *a);

#endif
