/* proxy/wire: the configuration to the parts below proxy/: each room gets only its own values. */
#ifndef PROXY_WIRE_H
#define PROXY_WIRE_H

#include "base/breaker.h"
#include "proxy/proxy.h"

struct wire; /* a configuration and what was compiled of it: parts keep pointers into it, and hold it. Counted */

/* Takes conf, also when it fails. Compiles every shape and reads every key without touching the network: what --check
   asks for beyond the file itself. NULL: *error is a heap text. */
struct wire *wire_create(struct conf *conf, char **error);
const struct conf *wire_conf(const struct wire *w);
struct grant *wire_grant(const struct wire *w);
struct keypair *wire_keypair(const struct wire *w); /* NULL: the listener speaks plain HTTP */
const struct rego_engine *wire_rego(const struct wire *w); /* NULL: policies are not evaluated in this process */
void wire_hold(struct wire *w);
void wire_release(struct wire *w);

/* The parts that live as long as the proxy, for p (loop and settings are set). False: *error is a heap text. */
bool wire_start(struct wire *w, struct proxy *p, char **error);
/* Ends them; their last handles are let go by the loop. */
void wire_stop(struct proxy *p);
/* The tokens that p has go on under this configuration; see tokens_reconfigure. */
bool wire_retoken(struct wire *w, struct proxy *p, char **error);
/* The parts of settings: made anew, or `same` (may be NULL), held once more; contexts and decisions are told the new limits
   then, a pool is taken only where a new one would be no other. */
struct identities *wire_identities(struct wire *w, struct proxy *p, struct identities *same);
struct decisions *wire_decisions(struct wire *w, struct proxy *p, struct decisions *same);
struct upstream *wire_upstream(struct wire *w, struct proxy *p, size_t i, struct upstream *same); /* i: of conf->upstreams */

/* breakers.* */
struct breaker_rules wire_breaker(const struct conf *conf);

#endif
