/* flow/fake_resolve: io/resolve.h without a resolver. Each name has one address, the same for all, unless the test says
   otherwise; a question is answered in the next turn. */
#ifndef FLOW_FAKE_RESOLVE_H
#define FLOW_FAKE_RESOLVE_H

#include <stddef.h>

#include "io/resolve.h"

#define FAKE_ADDRESS "198.51.100.1"

/* Addresses by comma, of every name from now on; NULL: FAKE_ADDRESS. A negative uv error in place of them: fails. */
void fake_resolve_say(const char *addresses, int error);
extern bool fake_resolve_silent;  /* no question is answered */
size_t fake_resolve_asked(void);  /* since the last reset */
void fake_resolve_reset(void);

#endif
