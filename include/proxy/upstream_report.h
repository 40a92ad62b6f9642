/* proxy/upstream_report: what /ready and the metrics say of an upstream and its addresses. */
#ifndef PROXY_UPSTREAM_REPORT_H
#define PROXY_UPSTREAM_REPORT_H

#include <stdbool.h>

#include "base/json.h"

struct upstream;

void upstream_gauges(const struct upstream *u);     /* sets its metrics, members by state too */
/* Writes one object per address (or name without any) into an open array: kind, name, address, ok, state, in_flight,
   breaker, age_ms of the last check. True when at least one address may be used. */
bool upstream_ready(const struct upstream *u, struct json *j);

#endif
