/* proxy/supervisor_reload: another configuration, the same for all. */
#ifndef PROXY_SUPERVISOR_RELOAD_H
#define PROXY_SUPERVISOR_RELOAD_H

#include "proxy/supervisor_parts.h"

void reloading_start(struct supervisor *s); /* SIGHUP */
void reloading_answer(struct supervisor *s, struct seat *from, bool good);
void reloading_gone(struct supervisor *s, struct seat *seat);
void reloading_due(struct supervisor *s, int64_t now_ms);
int64_t reloading_next_ms(const struct supervisor *s); /* when it is due; INT64_MAX: never */
void reloading_finish(struct supervisor *s); /* drops what is under way */

#endif
