/* authz/decision: the question to the policy engine, a strict reading of the answer, and the cache of both outcomes.
   Only an explicit allow allows. One flight per key. The key is SHA-256 over exactly the bytes of the policy input
   without its volatile fields (timestamp, request id), the use and the flush tags; key and input cannot drift apart. With
   stale_s an allow past its time still answers at once while one question in the background, made of the request that
   hit it, brings the next; a denial never does. What the engine says replaces or ends it; that it says nothing (away,
   broken off, 5xx) does not, until the hard end. */
#ifndef AUTHZ_DECISION_H
#define AUTHZ_DECISION_H

#include <stdbool.h>
#include <stdint.h>

#include "authz/grant.h"
#include "authz/identity.h"
#include "base/arena.h"
#include "base/cache.h"
#include "base/dependency.h"
#include "base/flight.h"
#include "base/held.h"
#include "base/op.h"
#include "base/reason.h"
#include "remote/fetch.h"

struct rego_engine;

enum decision_use {
    DECISION_GRANT,     /* judged; an allow renders the grant */
    DECISION_USER_ONLY, /* an authenticated route: nothing is asked, the grant has policy null */
    DECISION_AUTHORIZE, /* judged; the authorize shape renders the answer, allow or deny */
};

struct decisions_config {
    struct held *owner;         /* of all that is pointed to here; held as long as it is used. NULL: outlives it */
    struct rego_engine *rego;   /* evaluates here; NULL: url is asked */
    int64_t eval_limit_ms;
    unsigned threads;           /* that evaluate; 0: the loop does, at once. Not to be adjusted */
    struct slice url;           /* http, https, unix; provenance=true is added */
    struct slice authorization; /* "Bearer …" for the engine, or empty; secret */
    int64_t timeout_ms;
    unsigned max_inflight, max_waiting;
    bool on_error_allow; /* only when the engine cannot be reached at all */
    size_t max_response_bytes;
    int64_t ttl_s, deny_ttl_s; /* of a bare boolean, or an answer without ttl */
    int64_t stale_s; /* how much longer an allow is used while the engine is asked again; 0: not */
    int64_t revision_grace_s;
    size_t max_entries, max_bytes;
    double jitter; /* 0 to 1: a lifetime is shortened by up to that part */
    unsigned what_if_max_inflight;
    struct breaker_rules breaker;
    struct fetch_tls tls;
    struct grant *grant;
    struct shape *authorize_shape; /* NULL: the general form */
};

struct named { /* decoded name and value */
    struct slice name;
    struct slice value;
};

struct decision_question {
    enum decision_use use;
    const struct user *user;
    const struct token *token; /* NULL: anonymous */
    struct slice user_json;    /* user->json, or a what-if user */
    struct slice resource, action;
    struct slice method;
    struct slice path;          /* the judged path */
    struct slice query;         /* as it came, without '?'; empty: none */
    const struct named *params; /* decoded, in order */
    size_t params_n;
    const struct slice *segments; /* decoded */
    size_t segments_n;
    const struct named *lifted; /* policy.query values found: context.<name> */
    size_t lifted_n;
    struct slice context_extra; /* more members of context as JSON text without braces (/authorize), or empty */
    struct slice host;
    struct slice request_id;
    struct slice source_ip; /* empty: not given to the policy */
    struct slice source_certificate; /* its subject, of the client's verified certificate; empty: none was shown */
    int64_t route_ttl_ms;   /* 0: the answer's or the default */
    bool uncached;          /* what-if: neither reads nor writes the cache, own cap, on_error never allows */
};

struct decision {
    struct cache_entry entry; /* expires_ms: the hard end */
    int64_t fresh_ms;         /* monotonic: from then on it is stale, and asked for again */
    int64_t asked_again_ms;   /* monotonic: when that was done last; 0 never */
    bool allow;
    bool bypassed;         /* let through by on_error */
    struct slice id;       /* decision_id, made here, in the grant too */
    struct slice message;  /* the policy's own reason, or empty */
    struct slice rendered; /* the grant's header value (allow), or the /authorize answer; NUL behind it */
    int64_t decided_ms;    /* monotonic */
    uint64_t revision;     /* hash of the bundle revision, 0 none */
};

struct decision_call {
    void (*on_done)(struct decision_call *c);
    struct decision *decision; /* read or made; the caller releases it. NULL: refused for `reason` */
    enum reason reason;        /* FORWARDED with an allow; POLICY_DENIED … otherwise */
    const char *detail;        /* fixed text for the log, or NULL */
    enum found_in source;
    bool stale;                /* found past its time: the engine is asked again */
    int64_t retry_ms;          /* of a refusal: what is left of the engine's rest; 0 when it does not rest */
    /* private */
    struct flight_waiter waiter;
    struct flight *flight; /* while it waits */
};

struct decisions;

struct decisions *decisions_create(struct loop *l, struct fetch *f, const struct decisions_config *c);
/* With one more reference: destroy takes one, and with the last cancels what is out. */
void decisions_hold(struct decisions *d);
/* Other limits, times of calls and credential from now on, under which what is kept still means the same: url, grant and
   authorize_shape do the same as before, and the lifetimes and threads are those of before. */
void decisions_adjust(struct decisions *d, const struct decisions_config *c);
void decisions_destroy(struct decisions *d);

/* a: the request's arena, used only inside this call. */
enum op decision_find(struct decisions *d, const struct decision_question *q, struct arena *a, struct decision_call *c);
void decision_cancel(struct decision_call *c);
void decision_hold(struct decision *d);
void decision_release(struct decision *d);

void decisions_flush(struct decisions *d, uint64_t tag); /* 0: all */
void decisions_stats(const struct decisions *d, struct cache_stats *out);
/* The engine was seen to answer: it rests no longer, and the next question tries. */
void decisions_wake(struct decisions *d);
unsigned decisions_inflight(const struct decisions *d);

#endif
