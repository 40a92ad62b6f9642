/* proxy/supervisor_help: workers that stand in for others. */
#ifndef PROXY_SUPERVISOR_HELP_H
#define PROXY_SUPERVISOR_HELP_H

#include "proxy/supervisor_parts.h"

void help_all(struct supervisor *s, int64_t now_ms);
void help_gone(struct supervisor *s, const struct seat *seat); /* its worker has died: it helps nobody */

#endif
