/* proxy/probe: asks a running Doorward's /health once, for a container's health check. Blocking, two seconds at most. */
#ifndef PROXY_PROBE_H
#define PROXY_PROBE_H

#include "conf/options.h"

/* 0 when it answers 200; else 1, and says why on standard error. */
int probe_health(const struct conf *conf);

#endif
