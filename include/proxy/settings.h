/* proxy/settings: what one configuration means: the configuration itself, what was compiled of it, and the parts that
   serve it. A request keeps the settings it began with to its end; parts that mean the same in two settings are the same
   part. Counted. */
#ifndef PROXY_SETTINGS_H
#define PROXY_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "authz/decision.h"
#include "authz/grant.h"
#include "authz/identity.h"
#include "base/held.h"
#include "base/list.h"
#include "conf/options.h"
#include "conf/routes.h"
#include "http/message.h"
#include "io/loop.h"

struct keypair;
struct proxy;
struct upstream;
struct wire;

/* A name of policy.query with its synonyms: "office_id|office". */
#define LIFT_NAMES_MAX 4
struct lift {
    struct slice names[LIFT_NAMES_MAX]; /* [0] is what the policy sees */
    size_t n;
};

struct settings {
    struct held held;
    struct list link;      /* of the proxy's, from the attaching on */
    struct proxy *proxy;   /* NULL: not attached */
    uint64_t revision;     /* 1 at the start, one more with each reload */
    int64_t loaded_wall_ms;
    char digest[65];       /* of conf, but for its secrets: hex digits and a NUL */
    struct wire *wire;     /* held */
    const struct conf *conf; /* the wire's */
    struct grant *grant;     /* the wire's */
    struct keypair *keypair; /* the wire's; NULL: the listener speaks plain HTTP */
    struct routes *routes;
    struct name_set *stripped; /* the grant header, strip_headers, and what could override what was judged */
    struct lift *lifts;
    size_t lifts_n;
    struct upstream **upstreams; /* in the order of conf->upstreams; held */
    struct identities *identities; /* held */
    struct decisions *decisions;   /* held */
    struct deadline_list *header_timeout, *idle_timeout, *body_timeout, *websocket_timeout;
    struct deadline_list *budget; /* of each request; NULL: none has one */
};

/* Takes conf, also when it fails. Compiles and reads all that can be wrong; touches nothing outside. NULL: *error is a
   heap text. */
struct settings *settings_create(struct conf *conf, char **error);
/* Makes its parts in a proxy whose loop, fetch and redis are there, or takes those of `before` (may be NULL) that mean
   the same. */
void settings_attach(struct settings *s, struct proxy *p, const struct settings *before);

void settings_hold(struct settings *s);
/* The last one ends its parts; not inside this call, unless it was never attached. */
void settings_release(struct settings *s);
/* Ends those that nobody holds, now. */
void settings_sweep(struct proxy *p);

struct upstream *settings_upstream(const struct settings *s, const struct conf_upstream *c);

#endif
