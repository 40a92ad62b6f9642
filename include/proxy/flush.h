/* proxy/flush: POST /cache/flush {"all":true} | {"issuer":…} | {"issuer":…,"subject":…}: what is to go, and its going
   from the caches of this instance. Told to the others by proxy/announce. */
#ifndef PROXY_FLUSH_H
#define PROXY_FLUSH_H

#include "proxy/proxy.h"

enum flush_what { FLUSH_ALL, FLUSH_ISSUER, FLUSH_SUBJECT };

struct flush_scope { /* no name in it: it goes through Redis */
    enum flush_what what;
    uint64_t tag; /* of tokens, contexts and decisions; 0: all */
    uint8_t context[CACHE_KEY_BYTES]; /* of a subject */
};

/* Empty when read, else what is wrong with the body. */
struct slice flush_read(struct slice body, struct flush_scope *out);
/* Tokens, contexts and decisions stored up to now are gone. told: by another instance, which has seen to Redis. */
void flush_apply(struct proxy *p, const struct flush_scope *s, bool told);

#endif
