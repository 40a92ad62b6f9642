/* authz/refusal: why a credential is refused, passed up unchanged from the check that found it. */
#ifndef AUTHZ_REFUSAL_H
#define AUTHZ_REFUSAL_H

#include <stdbool.h>

#include "base/reason.h"

struct refusal {
    enum reason reason;
    const char *detail; /* fixed text for the log: exactly what was wrong, nothing of the token */
};

/* Always false: a check ends with `return refuse(…)`. */
static inline bool refuse(struct refusal *r, enum reason reason, const char *detail)
{
    r->reason = reason;
    r->detail = detail;
    return false;
}

#endif
