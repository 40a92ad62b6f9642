/* io/dial: a name and port to a connected TCP stream within a deadline: resolves, then tries the addresses in order. */
#ifndef IO_DIAL_H
#define IO_DIAL_H

#include "io/loop.h"
#include "io/stream.h"

struct dial; /* one attempt, freed by itself after its callback or cancel */

/* status 0: s is connected, reading is off, events as given, and the caller now owns its closing. Else a negative uv
   error (UV_ETIMEDOUT …) and s is closed already: its memory may be freed inside the callback. */
typedef void (*dial_done)(struct stream *s, int status, void *arg);

/* host: name or address literal, without brackets; NUL-terminated; used until done. s: memory of the caller. */
struct dial *dial_start(struct loop *l, const char *host, int port, int64_t timeout_ms, struct stream *s,
                        const struct stream_events *events, dial_done done, void *arg);
/* No callback will come; on_closed runs later when s may be freed. */
void dial_cancel(struct dial *d, void (*on_closed)(struct stream *s));

#endif
