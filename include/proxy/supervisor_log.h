/* proxy/supervisor_log: lines of the workers, each whole, in one output. */
#ifndef PROXY_SUPERVISOR_LOG_H
#define PROXY_SUPERVISOR_LOG_H

#include "proxy/supervisor_parts.h"

void relay_read(struct seat *seat);
void relay_end(struct seat *seat); /* what is left, and a line that was not finished is dropped */

#endif
