/* authz/token: the Authorization value to a verified token. Verified tokens are kept by digest until they expire or
   their key is gone. RFC 6750, 7515, 7519, 8725. Nothing of a token is logged or put in an error. */
#ifndef AUTHZ_TOKEN_H
#define AUTHZ_TOKEN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cache.h"
#include "base/op.h"
#include "base/reason.h"
#include "base/slice.h"
#include "io/loop.h"
#include "remote/fetch.h"

struct texts { /* a list of texts */
    const struct slice *v;
    size_t n;
};

struct issuer_config {
    struct slice issuer;     /* exact `iss` */
    struct slice jwks_url;   /* one of jwks_url, jwks_file (contents in jwks), secret */
    struct fetch_tls tls;    /* of jwks_url */
    struct slice jwks;
    struct slice secret;     /* HS* only; at least 32 bytes */
    struct texts audiences;
    bool any_audience;
    struct texts algorithms; /* RS256 … EdDSA */
    struct texts types;      /* allowed `typ`, case-insensitive, "application/" prefix ignored; none: any */
    int64_t max_stale_s;
};

struct tokens_config {
    const struct issuer_config *issuers;
    size_t issuers_n;
    struct texts claims;     /* which go to the policy as input.token */
    struct slice name_claim; /* the subject's claim; `sub` where it is absent from the token */
    int64_t leeway_s;
    bool upstream;           /* verify: upstream: decode only, exp and nbf enforced, nothing in it is an identity */
    bool api_keys;           /* accept `apikey …`, judged by the API like verify: upstream */
    size_t max_entries;
    size_t max_bytes;        /* of one credential; longer: TOKEN_MALFORMED */
};

struct token {
    struct cache_entry entry; /* key: SHA-256 of the Authorization value; tags: issuer, issuer+subject */
    bool verified;            /* false: upstream mode or an API key; issuer, subject and claims are empty then */
    struct slice issuer;
    struct slice subject;     /* the name: name_claim, else sub */
    struct slice claims;      /* JSON object text of tokens.claims, "{}" when none */
    struct slice payload;     /* ASCII JSON object text of all claims of a verified token, else empty */
    uint8_t name_key[CACHE_KEY_BYTES]; /* of a verified one: token_name_key of issuer and subject, made once */
    bool has_name_key;
    int64_t exp_s;            /* Unix; INT64_MAX for an API key */
};

struct tokens;

struct token_call {
    void (*on_done)(struct token_call *c);
    struct token *token; /* success; the caller releases it (token_release). NULL: refused for `reason` */
    enum reason reason;  /* FORWARDED with a token */
    const char *detail;  /* fixed text for the log: exactly what was wrong */
    bool cached;
    int64_t retry_ms;    /* of KEYS_UNAVAILABLE: until they are asked for again; 0: not known */
    /* private */
    struct list link;
    struct tokens *tokens;
    char *pending;       /* heap copy of the credential while keys are fetched */
    size_t pending_n;
    void *issuer;
};

/* *error: heap text naming the issuer and what is wrong with it. Starts fetching keys. The structs of *c are copied;
   the texts and lists they point to are kept by pointer. */
struct tokens *tokens_create(struct loop *l, struct fetch *f, const struct tokens_config *c, char **error);
/* Puts another configuration in the place of the first, whose texts may go then. An issuer whose name and source of keys
   are the same keeps its keys, as fresh as they are; those that are new begin to fetch. Tokens of an issuer that is gone,
   or whose rules are others, are dropped, all of them where a rule for all is another. Who waits for the keys of an
   issuer that is gone is told so later, never inside this call. False: *error (heap text) says what is wrong, and
   nothing has changed. */
bool tokens_reconfigure(struct tokens *t, const struct tokens_config *c, char **error);
/* No call may be pending. Tokens that are held live on. */
void tokens_destroy(struct tokens *t);

/* authorization: the whole header value, not empty. DONE, or PENDING while an unknown kid's keys are refetched or the
   issuer's first keys are on their way. */
enum op tokens_check(struct tokens *t, struct slice authorization, struct token_call *c);
void tokens_cancel(struct token_call *c); /* harmless when the call is not pending */
void token_release(struct token *t);

/* tag 0: all. See cache_flush. */
void tokens_flush(struct tokens *t, uint64_t tag);
/* The tags under which an issuer's and a subject's entries are kept everywhere (tokens, contexts, decisions). */
uint64_t token_issuer_tag(struct slice issuer);
/* The key of a context by name, never by a name alone. */
void token_name_key(struct slice issuer, struct slice name, uint8_t key[CACHE_KEY_BYTES]);
uint64_t token_subject_tag(struct slice issuer, struct slice subject);

struct issuer_state {
    struct slice issuer;
    bool usable;        /* keys there and not stale */
    size_t keys;
    int64_t age_ms;     /* of the key set; -1 when never loaded */
    const char *error;  /* fixed text of the last failure, NULL when the last refresh was good */
};
size_t tokens_issuers(const struct tokens *t);
void tokens_issuer_state(const struct tokens *t, size_t i, struct issuer_state *out);
void tokens_stats(const struct tokens *t, struct cache_stats *out);

#endif
