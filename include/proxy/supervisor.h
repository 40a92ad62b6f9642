/* proxy/supervisor: several workers in place of one process: started, watched, told, ended. */
#ifndef PROXY_SUPERVISOR_H
#define PROXY_SUPERVISOR_H

#include "proxy/settings.h"

/* How many processes serve with that configuration; auto is what the process may run on. */
unsigned workers_of(const struct conf *c);
/* What of it is the share of one of so many. */
void workers_share(struct conf *c, unsigned workers);

/* Takes the settings. Forks the workers, and returns in each of them too, with its exit code: main goes on as after
   serve. */
int supervise(struct settings *settings, const struct conf_source *source, unsigned workers);

#endif
