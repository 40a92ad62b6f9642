/* authz/profile: the call to the API's profile endpoint and what its answer means. */
#ifndef AUTHZ_PROFILE_H
#define AUTHZ_PROFILE_H

#include <stdbool.h>

#include "authz/identity.h"

/* May and should the service credential ask for this token's subject? Only for verified names. */
bool profile_by_service(const struct identity_config *c, bool verified);
/* Not a name that a server takes off the path, whatever its escapes (RFC 3986 6.2.2.3): the service credential would
   read what stands above it. */
bool profile_can_name(struct slice name);

/* service: service_url with the name in it and the service credential; else url with the caller's own credential. */
struct fetch_call *profile_ask(struct fetch *f, const struct identity_config *c, bool service, struct slice name,
                               struct slice authorization, int64_t timeout_ms,
                               void (*on_answer)(const struct fetch_answer *, void *), void *arg);

/* The user (refs 1, times unset), or NULL with *reason and *detail (fixed text). Counts the call. */
struct user *profile_read(const struct identity_config *c, bool service, const struct fetch_answer *a,
                          enum reason *reason, const char **detail);

#endif
