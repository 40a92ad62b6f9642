/* authz/blame: called by decision and identity when a call has ended, for the breaker. */
#include "authz/blame.h"

enum dependency_outcome blame_of(const struct fetch_answer *a)
{
    switch (a->outcome) {
    case FETCH_UNREACHABLE:
    case FETCH_TIMEOUT:
    case FETCH_BROKEN:
        return DEPENDENCY_FAILED;
    case FETCH_TOO_LARGE:
        return DEPENDENCY_ANSWERED;
    case FETCH_ANSWERED:
        break;
    }
    return a->status >= 502 && a->status <= 504 ? DEPENDENCY_FAILED : DEPENDENCY_ANSWERED;
}

bool blame_nothing_said(const struct fetch_answer *a)
{
    return blame_of(a) == DEPENDENCY_FAILED || (a->outcome == FETCH_ANSWERED && (a->status >= 500 || a->status == 429));
}
