/* authz/identity: a token to the user's context: memory, then Redis, then the API's profile endpoint; one flight per
   key. Key: issuer + subject for verified tokens, the credential's digest otherwise; never a name alone. With stale_s a
   context past its time in memory still answers at once while one lookup in the background, with the credential of the
   request that hit it, brings the next. What the API says replaces or ends it (401, 403, 404, no context); that it says
   nothing (away, broken off, 5xx) does not, until the hard end. */
#ifndef AUTHZ_IDENTITY_H
#define AUTHZ_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>

#include "authz/shape.h"
#include "authz/token.h"
#include "base/breaker.h"
#include "base/cache.h"
#include "base/flight.h"
#include "base/held.h"
#include "base/op.h"
#include "base/reason.h"
#include "remote/fetch.h"
#include "remote/redis.h"

struct identity_config {
    struct held *owner;         /* of all that is pointed to here; held as long as it is used. NULL: outlives it */
    struct slice url; /* profile endpoint, asked with the caller's own credential; empty: the claims are the context */
    struct slice service_url; /* optional, `{name}` is replaced (percent-encoded): verified names, asked with … */
    struct slice service_authorization; /* … this Authorization value; secret */
    struct shape *shape;                /* profile (or claims) -> context; NULL: the document as it is */
    bool judge_anonymous;               /* tokens.anonymous: judge: a 404 of the API gives the anonymous context */
    struct slice key_prefix;            /* of Redis keys */
    struct slice made_by;               /* says how contexts are made: those in Redis that were made otherwise are
                                           not taken. Empty: it is not said there */
    int64_t ttl_s;                      /* in Redis */
    int64_t memory_ttl_s;
    int64_t stale_s; /* how much longer it is used from memory while it is asked for again; 0: not */
    double jitter;   /* 0 to 1: a lifetime, in memory or Redis, is shortened by up to that part */
    size_t memory_entries;
    int64_t timeout_ms;
    unsigned max_inflight, max_waiting; /* of calls to the API */
    size_t max_bytes; /* of a profile */
    struct breaker_rules breaker; /* of the profile API */
    struct fetch_tls tls;
    /* Others have flushed more than one subject: no context is in memory any more, and what was decided of them is of
       no use either. Inside a turn of the loop. May be NULL. */
    void (*on_raised)(void *arg);
    void *raised_arg;
};

struct user {
    struct cache_entry entry; /* expires_ms: the hard end in memory; tags as of the token */
    int64_t fresh_ms;         /* monotonic: from then on it is stale in memory, and asked for again */
    int64_t asked_again_ms;   /* monotonic: when that was done last; 0 never */
    int64_t end_ms;           /* monotonic: the context's end, memory and Redis together */
    struct slice json;        /* the context, ASCII JSON object text, NUL behind it */
    uint8_t json_digest[CACHE_KEY_BYTES]; /* SHA-256 of it */
    struct slice id;          /* its "id" as text, for the log */
    bool anonymous;
    int64_t read_ms; /* monotonic: when it was read from the API, as far as known */
};

enum found_in { FOUND_NONE, FOUND_MEMORY, FOUND_REDIS, FOUND_REMOTE, FOUND_TOKEN };
const char *found_in_name(enum found_in f); /* "none", "memory", "redis", "api", "token" */

struct identities;

struct identity_call {
    void (*on_done)(struct identity_call *c);
    struct user *user; /* success; the caller releases it (user_release). NULL: refused for `reason` */
    enum reason reason;
    const char *detail; /* fixed text for the log */
    enum found_in source;
    bool stale;         /* found in memory past its time: it is asked for again */
    int64_t retry_ms;   /* of a refusal: what is left of the API's rest; 0 when it does not rest */
    /* private */
    struct flight_waiter waiter;
    struct flight *flight; /* while it waits */
};

/* redis may be NULL. */
struct identities *identities_create(struct loop *l, struct fetch *f, struct redis *r, const struct identity_config *c);
/* With one more reference: destroy takes one, and with the last cancels what is out. */
void identities_hold(struct identities *d);
/* Other limits, times of calls and credential from now on, under which what is kept still means the same: where contexts
   come from, their shape and their lifetimes are as before. */
void identities_adjust(struct identities *d, const struct identity_config *c);
void identities_destroy(struct identities *d);

/* token NULL: the anonymous user, DONE. authorization: the header value the token came from (copied when needed). */
enum op identity_find(struct identities *d, const struct token *token, struct slice authorization,
                      struct identity_call *c);
void identity_cancel(struct identity_call *c);
struct user *user_create(struct slice json); /* for what-if questions: any object, else NULL; refs 1 */
void user_hold(struct user *u);
void user_release(struct user *u);

/* tag 0: all. context: of one subject (identities_context), or NULL. In memory at once; in Redis one subject by DEL, an
   issuer or all by the generation. */
void identities_flush(struct identities *d, uint64_t tag, const uint8_t *context);
/* What another instance has flushed: in memory at once, and in Redis, where it has seen to it, what we may have stored
   behind its back. */
void identities_flush_told(struct identities *d, uint64_t tag, const uint8_t *context);
/* Under which key the context of a verified subject is kept, in memory and in Redis. */
void identities_context(struct slice issuer, struct slice subject, uint8_t out[CACHE_KEY_BYTES]);
/* Redis says that a key was changed by others; empty: that any may have been. The context that it holds is dropped from
   memory, lookups of it that are out are not kept; the generation is read again. */
void identities_invalidated(struct identities *d, struct slice key);
void identities_stats(const struct identities *d, struct cache_stats *out);
unsigned identities_inflight(const struct identities *d);

#endif
