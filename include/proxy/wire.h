/* proxy/wire: the configuration to the parts below proxy/: each room gets only its own values. */
#ifndef PROXY_WIRE_H
#define PROXY_WIRE_H

#include "base/breaker.h"
#include "proxy/proxy.h"

struct wire; /* what the parts keep by pointer: lists, shapes */

/* Compiles every shape and reads every key without touching the network: what --check asks for beyond the file itself.
   NULL: *error is a heap text. */
struct wire *wire_prepare(const struct conf *conf, char **error);
/* Makes the parts and sets them in p (conf and loop are set). False: *error is a heap text. */
bool wire_start(struct wire *w, struct proxy *p, char **error);
/* Ends the parts; their last handles are let go by the loop. */
void wire_stop(struct wire *w, struct proxy *p);
void wire_free(struct wire *w);

/* breakers.* */
struct breaker_rules wire_breaker(const struct conf *conf);

#endif
