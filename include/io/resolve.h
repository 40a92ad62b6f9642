/* io/resolve: a name to all of its addresses, off the loop. */
#ifndef IO_RESOLVE_H
#define IO_RESOLVE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#include "io/loop.h"

struct resolve; /* one question, freed by itself after its callback or cancel */

/* status 0: n addresses (at least one, each once, in the resolver's order, with the port), valid inside the callback;
   else a negative uv error. */
typedef void (*resolve_done)(int status, const struct sockaddr_storage *v, size_t n, void *arg);

/* host: NUL-terminated, not kept. done comes later, once; it has no deadline of its own but the system's resolver's.
   Whoever asks for a name that is being asked for gets that answer. */
struct resolve *resolve_start(struct loop *l, const char *host, int port, resolve_done done, void *arg);
void resolve_cancel(struct resolve *r); /* no callback will come */

#endif
