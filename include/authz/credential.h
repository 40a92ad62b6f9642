/* authz/credential: the Authorization value to a scheme and its one text (RFC 9110 11.6.2, RFC 6750 2.1). */
#ifndef AUTHZ_CREDENTIAL_H
#define AUTHZ_CREDENTIAL_H

#include <stdbool.h>

#include "authz/refusal.h"
#include "base/slice.h"

enum credential_scheme { CREDENTIAL_NONE, CREDENTIAL_BEARER, CREDENTIAL_API_KEY };

/* *text points into value. Two credentials, by comma or by space, are refused whatever they are: the API might read the
   other one. */
bool credential_read(struct slice value, bool api_keys, enum credential_scheme *scheme, struct slice *text,
                     struct refusal *r);

#endif
