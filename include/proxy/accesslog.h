/* proxy/accesslog: one JSON line and the metrics of a finished request. */
#ifndef PROXY_ACCESSLOG_H
#define PROXY_ACCESSLOG_H

#include "proxy/request.h"

void accesslog_write(const struct request *r);

#endif
