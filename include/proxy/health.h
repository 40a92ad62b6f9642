/* proxy/health: asks each address that is used, in the background, over a connection of its own, made like those of the
   requests. With health.path a status under 400 is good: an address that fails two checks in a row is out, and back with
   the first good one; while it fails it is asked each second. Without, any status under 500 is good and only /ready hears
   of it (serve.probe_interval_ms). Either way a good check ends the rest of an address that could not be
   connected. For the files that make up an upstream. */
#ifndef PROXY_HEALTH_H
#define PROXY_HEALTH_H

#include "proxy/member.h"

/* Harmless when it runs. An address is asked at most each second, however often this is called. */
void health_start(struct member *m);
void health_stop(struct member *m);  /* what is out is cancelled; harmless when none runs */

extern const struct stream_events health_stream_events; /* of its connections: tests know them by it */

#endif
