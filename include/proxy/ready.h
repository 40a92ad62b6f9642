/* proxy/ready: what we depend on, probed in the background, never by a request. */
#ifndef PROXY_READY_H
#define PROXY_READY_H

#include <stdbool.h>

#include "base/buf.h"
#include "proxy/proxy.h"
#include "proxy/team.h"

struct ready;

struct ready *ready_create(struct proxy *p); /* probes at once and then every serve.probe_interval_ms */
/* Other settings are in force: where they name another engine it is asked at once; until it answers, what was known of
   the one before holds. */
void ready_adjust(struct ready *d, const struct conf *before);
void ready_stop(struct ready *d);            /* cancels what is out */
void ready_free(struct ready *d);

/* The JSON body; true when ready. all: what the workers said of themselves (team_ask); NULL: of this process alone. */
bool ready_write(const struct ready *d, const struct team_call *all, struct buf *out);

#endif
