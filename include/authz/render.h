/* authz/render: a decision to what is handed on: the grant's header value or the answer of /authorize. */
#ifndef AUTHZ_RENDER_H
#define AUTHZ_RENDER_H

#include <stdbool.h>
#include <stdint.h>

#include "authz/decision.h"
#include "base/buf.h"

struct verdict { /* what is known of a decision before it is rendered */
    enum decision_use use;
    bool allow;
    bool bypassed;
    const char *id;       /* decision_id */
    struct slice message; /* the policy's own reason */
    struct slice members; /* ,"reason":… as answer.members */
    uint64_t revision;
    int64_t now_ms; /* monotonic */
    int64_t wall_ms;
    int64_t fresh_ms; /* monotonic: how long it is used without asking again */
    int64_t end_ms;   /* monotonic: how long it may be kept; not after now: not at all */
};

struct front { /* what of a shape's input is the question's: {"user":…,"request":{…}. Nothing volatile in it */
    struct buf text;
    size_t user_n; /* bytes of the user's object */
};

void front_init(struct front *f, const struct decision_question *q);
void front_free(struct front *f);

/* The decision (refs 1, key, tags and stored_ms unset), rendered if its use and outcome ask for it; NULL with *reason
   and *detail (fixed text) when that failed. */
struct decision *render_decision(const struct decisions_config *c, const struct verdict *v, const struct front *front,
                                 enum reason *reason, const char **detail);
void render_free(struct cache_entry *e); /* of the struct decision around it */

#endif
