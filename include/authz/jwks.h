/* authz/jwks: the key set of one issuer, kept fresh: fetched at start, then as Cache-Control says within bounds, with
   back-off while that fails; the old keys stay in the meantime. Or a fixed set from a file. RFC 7517. */
#ifndef AUTHZ_JWKS_H
#define AUTHZ_JWKS_H

#include <stdbool.h>
#include <stdint.h>

#include "authz/keyset.h"
#include "base/slice.h"
#include "io/loop.h"
#include "remote/fetch.h"

#define JWKS_REFRESH_MIN_MS 60000 /* bounds of max-age … */
#define JWKS_REFRESH_MAX_MS 3600000
#define JWKS_REFRESH_DEFAULT_MS 600000 /* … and what holds without it */
#define JWKS_RETRY_MIN_MS 100
#define JWKS_RETRY_MAX_MS 5000
#define JWKS_REFETCH_MS 30000 /* at most one refetch for unknown key ids in this time */
#define JWKS_FETCH_TIMEOUT_MS 5000
#define JWKS_MAX_BYTES 1048576

struct jwks;

struct jwks_config {
    struct slice issuer; /* for the log; issuer and url are kept by pointer */
    struct slice url;
    struct fetch_tls tls;          /* of url; by pointer too */
    int64_t max_stale_ms;          /* keys are good for that long after the last good load */
    void (*on_settled)(void *arg); /* a fetch ended, well or not */
    void *arg;
};

/* Starts the first fetch. */
struct jwks *jwks_create(struct loop *l, struct fetch *f, const struct jwks_config *c);
/* A set that never changes and never gets stale. NULL: *error says what is wrong with the document (fixed text). */
struct jwks *jwks_create_fixed(struct loop *l, struct slice issuer, struct slice document, const char **error);
/* The same keys under other limits: c has the same url. */
void jwks_adjust(struct jwks *j, const struct jwks_config *c);
/* No fetch any more, nor a word of one that is out; its keys stay. */
void jwks_stop(struct jwks *j);
void jwks_destroy(struct jwks *j);

bool jwks_usable(const struct jwks *j); /* loaded and not stale */
bool jwks_never_loaded(const struct jwks *j);
bool jwks_fetching(const struct jwks *j); /* on_settled will come */
const struct keyset *jwks_keys(const struct jwks *j);

/* A key id is not in the set: true when a fetch is out now (joined or started) whose end is worth waiting for; false
   when one was made for the same reason less than JWKS_REFETCH_MS ago. */
bool jwks_refetch(struct jwks *j);

int64_t jwks_retry_ms(const struct jwks *j);  /* until a failed fetch is tried again; 0: not known */
int64_t jwks_age_ms(const struct jwks *j);    /* since the last good load; -1: never */
const char *jwks_error(const struct jwks *j); /* fixed text of the last failure; NULL after a good load */

#endif
