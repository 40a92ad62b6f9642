/* authz/input: the policy input, written once into the arena. What is volatile (context.timestamp, request.id) stands
   last in its object and is left out; the key is the digest of what is written (of the user's JSON, which may be
   long and is the same each time, its digest in its place), the body is the same bytes with the volatile members put in. */
#ifndef AUTHZ_INPUT_H
#define AUTHZ_INPUT_H

#include "authz/decision.h"
#include "base/buf.h"

struct input {
    struct buf stable;   /* {"input":{…}} without the volatile members */
    size_t user_at;      /* where the user's JSON begins */
    size_t timestamp_at; /* where ,"timestamp":"…" belongs */
    size_t id_at;        /* where ,"id":"…" belongs; behind timestamp_at */
};

void input_write(const struct decision_question *q, struct arena *a, struct input *in);
void input_key(const struct input *in, const struct decision_question *q, uint8_t key[CACHE_KEY_BYTES]);
/* What is the value of "input" in such a body. */
struct slice input_value(struct slice body);
void input_body(const struct input *in, struct slice timestamp, struct slice request_id, struct buf *out);

#endif
