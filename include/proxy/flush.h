/* proxy/flush: POST /cache/flush {"all":true} | {"issuer":…} | {"issuer":…,"subject":…}. */
#ifndef PROXY_FLUSH_H
#define PROXY_FLUSH_H

#include "proxy/proxy.h"

/* Tokens, contexts and decisions stored up to now are gone. Empty when done, else what is wrong with the body. */
struct slice flush_caches(struct proxy *p, struct slice body);

#endif
