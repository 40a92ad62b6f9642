/* authz/lookup: one context that is not in memory, on its way through Redis and the API. What is done with what it
   finds (kept, told to those who wait) is identity's. */
#ifndef AUTHZ_LOOKUP_H
#define AUTHZ_LOOKUP_H

#include <stdbool.h>
#include <stdint.h>

#include "authz/context.h"
#include "authz/generation.h"
#include "authz/identity.h"
#include "base/buf.h"
#include "base/dependency.h"
#include "base/list.h"
#include "io/loop.h"

struct sources { /* where contexts come from, and the lookups that are out */
    struct loop *loop;
    struct fetch *fetch;
    struct redis *redis;                  /* or NULL */
    const struct identity_config *config; /* kept by pointer */
    struct list lookups;
    struct generation generation;
    uint64_t epoch; /* flushes so far; in a flight's key, so that nobody joins a lookup from before a flush */
    struct dependency api;
    struct dependency_cap calls;
    struct redis_call *reading; /* of the generation, for what Redis told; else lookups read it */
    bool told;                  /* that it changed: if it cannot be read it counts as raised */
    void (*on_raised)(void *arg); /* others raised the generation; what they flushed is in no lookup any more */
    void *arg;
    struct deadline_list *patience; /* of lookups that wait for their turn at the API */
    bool *gone;                    /* or NULL: told when the sources end inside a callback of ours */
    uint64_t last_500; /* of whose profile; see blame */
};

struct found { /* what a lookup came to */
    struct user *user; /* a reference that goes to whom it is told, or NULL */
    enum reason reason;
    const char *detail;
    enum found_in source;
    int64_t retry_ms; /* of a refusal: what is left of the API's rest; 0 when it does not rest */
    bool nothing_said; /* without user: the API was not asked, or was in no state to answer */
    bool shared;       /* Redis has it too, or will have */
    int64_t read_ms;   /* monotonic: when it was read from the API */
};

struct lookup {
    struct list link;
    struct sources *sources;
    /* Once, later; the lookup is no longer listed then. Then the asker frees it (lookup_free), inside it or later. */
    void (*on_found)(struct lookup *l, struct found f);
    void *owner;           /* the asker's */
    struct flight *flight; /* the asker's */
    uint8_t key[CACHE_KEY_BYTES];
    uint64_t tags[2];
    bool verified;
    bool service;
    bool flushed;   /* since it was asked: Redis is left alone, and memory too */
    uint64_t epoch; /* when it was asked */
    int64_t asked_ms, asked_wall_ms;
    int64_t credential_end_ms; /* monotonic; INT64_MAX none */
    struct buf texts;          /* issuer, name, authorization (secret), one after the other */
    struct subject subject;
    struct slice authorization;
    struct buf redis_key; /* empty: Redis is left alone */
    struct redis_call *redis_call;
    struct fetch_call *fetch_call;
    struct dependency_call slot; /* of fetch_call */
    struct deadline patience;    /* while it waits for its turn at the API */
    bool hurried;                /* most of its time was over when its turn came */
    int64_t api_due_ms;          /* monotonic: the end of context.timeout_ms, time in the queue included */
};

void sources_init(struct sources *s, struct loop *l, struct fetch *f, struct redis *r, const struct identity_config *c,
                  void (*on_raised)(void *arg), void *arg);
void sources_adjust(struct sources *s); /* what its config points to has changed */
void sources_finish(struct sources *s); /* no lookup may be left */
/* Lookups of that tag (0: all) that are out neither read nor write Redis any more. */
void sources_flush(struct sources *s, uint64_t tag);
/* The generation may have been raised (told: it was) by others: it is read again now. */
void sources_doubt(struct sources *s, bool told);

/* t and authorization are copied as far as they are needed; owner, flight and on_found are the caller's to set. */
struct lookup *lookup_create(struct sources *s, const struct token *t, struct slice authorization, const uint8_t *key);
/* False: refused at once; on_found does not come. */
bool lookup_start(struct lookup *l, struct found *refusal);
bool lookup_waits(const struct lookup *l); /* for its turn at the API */
/* Cancels what is out: on_found does not come. The sources no longer know the lookup. */
void lookup_withdraw(struct lookup *l);
/* Withdraws it, if that was not done. */
void lookup_free(struct lookup *l);

/* Monotonic: the token's exp; INT64_MAX none. */
int64_t lookup_credential_end(const struct sources *s, const struct token *t);

#endif
