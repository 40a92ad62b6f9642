/* authz/blame: what the end of a call says about the party that was called, as opposed to the one question it was
   asked. */
#ifndef AUTHZ_BLAME_H
#define AUTHZ_BLAME_H

#include <stdbool.h>

#include "base/dependency.h"
#include "remote/fetch.h"

/* FAILED: unreachable, timeout, broken off, and 502, 503, 504, by which a server or what stands before it says that it
   cannot. ANSWERED: everything else, also what is of no use: a 4xx is an answer; a 500, garbage and what is too large
   may come of one question, and whoever can ask such a one must not be able to take the party away from the others. */
enum dependency_outcome blame_of(const struct fetch_answer *a);

/* Was nothing said about what was asked? So it is when the party was not there, was cut off, or is in trouble itself
   (any 5xx, 429): then what was known before is as true as it was. */
bool blame_nothing_said(const struct fetch_answer *a);

#endif
