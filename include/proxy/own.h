/* proxy/own: endpoints of our own: /health, /ready, /metrics, /metrics/json, /authorize, /cache/flush, the public keys. */
#ifndef PROXY_OWN_H
#define PROXY_OWN_H

#include "proxy/request.h"

struct own;

/* The endpoint this request's path names on the listener it came in by, or NULL. */
const struct own *own_find(const struct request *r);
bool own_is_health(const struct own *o);    /* /health or /ready; o may be NULL */
struct slice own_name(const struct own *o); /* its path: a bounded label */

void own_body(struct request *r, struct slice data); /* body bytes while collecting; bounded */

#endif
