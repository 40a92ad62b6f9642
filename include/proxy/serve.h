/* proxy/serve: serves until it is told to end. */
#ifndef PROXY_SERVE_H
#define PROXY_SERVE_H

#include "proxy/settings.h"

struct team;

/* Takes the settings. team: NULL, or whose worker this process is; stays the caller's. The exit code: 0 ended in order,
   1 could not run (a line on standard error says why) or was cut short. */
int serve(struct settings *settings, const struct conf_source *source, struct team *team);
/* From the first reading of the configuration until serve or supervise hears signals: SIGHUP would end us. */
void serve_hold_hangup(bool held);
/* A line of the log. */
void serve_tell_started(const struct conf *c, int port, int admin_port, unsigned workers);

#endif
