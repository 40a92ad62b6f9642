/* proxy/cors: the Fetch standard's CORS protocol: preflights answered, answers marked. Where it is configured it
   replaces what the API says. */
#ifndef PROXY_CORS_H
#define PROXY_CORS_H

#include "proxy/request.h"

/* An OPTIONS with Origin and Access-Control-Request-Method, and cors is on. */
bool cors_is_preflight(const struct request *r);
/* Headers for any answer to this request; for a preflight those too that answer it. Nothing when cors is off. */
void cors_headers(const struct request *r, struct buf *out, bool preflight);
/* Marks the API's own CORS headers as dropped, when cors is on. */
void cors_drop(const struct request *r, struct head *answer);

#endif
