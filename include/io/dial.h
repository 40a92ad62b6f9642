/* io/dial: a name and port, or the path of a UNIX socket, to a connected stream within a deadline: resolves, tries the
   addresses in order, and speaks TLS where it is asked to. */
#ifndef IO_DIAL_H
#define IO_DIAL_H

#include <sys/socket.h>

#include "io/loop.h"
#include "io/stream.h"
#include "io/tls.h"

struct dial; /* one attempt, freed by itself after its callback or cancel */

/* Where to, in this order: path, address, host and port. What it points to stays until done; the struct need not. */
struct dial_target {
    const char *host;               /* name or address literal, without brackets; NUL-terminated */
    int port;
    const struct sockaddr *address; /* resolved already, or NULL; with its port */
    const char *path;               /* of a UNIX socket, or NULL */
    struct tls_context *tls;        /* NULL: plain; held until done, then by the stream */
    const char *tls_name;           /* whom the certificate must be for (stream_secure_client); NULL: host */
};

/* status 0: s is connected (and secured), reading is off, events as given, and the caller now owns its closing. Else a
   negative uv error (UV_ETIMEDOUT …) or enum tls_error, why says it in words (valid inside the callback), and s is closed
   already: its memory may be freed inside the callback. */
typedef void (*dial_done)(struct stream *s, int status, const char *why, void *arg);

/* s: memory of the caller. timeout_ms: for all of it. done comes later, once. */
struct dial *dial_start(struct loop *l, const struct dial_target *target, int64_t timeout_ms, struct stream *s,
                        const struct stream_events *events, dial_done done, void *arg);
/* No callback will come; on_closed runs later when s may be freed. */
void dial_cancel(struct dial *d, void (*on_closed)(struct stream *s));

#endif
