/* proxy/gauges: the metrics that are states, read when somebody looks. */
#ifndef PROXY_GAUGES_H
#define PROXY_GAUGES_H

#include "proxy/proxy.h"

void gauges_update(struct proxy *p);
void gauges_of_process(void); /* of them, those that need no proxy */

#endif
