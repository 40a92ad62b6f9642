/* proxy/listener: accepts connections on one address. */
#ifndef PROXY_LISTENER_H
#define PROXY_LISTENER_H

#include <stdbool.h>

#include "base/slice.h"
#include "proxy/proxy.h"

struct listener;

/* Binds and listens; in a team, on the socket that the supervisor gave. NULL: *error is a heap text. bound_port (may be NULL) gets the port, for port 0. */
struct listener *listener_create(struct proxy *p, struct slice host, int port, bool admin, int *bound_port,
                                 char **error);
/* Takes what the kernel's queue still holds; NULL: nothing. */
void listener_rest(struct listener *l);
void listener_close(struct listener *l); /* freed by its close callback */

#endif
