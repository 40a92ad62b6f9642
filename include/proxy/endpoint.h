/* proxy/endpoint: one URL of an upstream and the addresses that its name has now, each a member. For the files that make
   up an upstream.

   A name is resolved at the start, again before dns_ttl_s have passed, and at once when every address of it is ejected. A
   resolution that fails changes nothing; addresses that are gone are drained, new ones join. Of a name with addresses of
   both families (localhost) one family is used: the first in the resolver's order, until a connect to all of it has failed,
   then the other. So an API that listens on one of them only is reached as ever, and nobody is told. */
#ifndef PROXY_ENDPOINT_H
#define PROXY_ENDPOINT_H

#include "io/resolve.h"
#include "proxy/member.h"

#define ENDPOINT_ADDRESSES_MAX 64

struct endpoint {
    struct group *group;
    struct conf_endpoint conf;
    struct resolve *question;
    struct deadline next;
    struct member *members[ENDPOINT_ADDRESSES_MAX];
    size_t members_n;
    int family;      /* that is used; 0: none yet */
    bool literal;
    bool connected;  /* an address of that family was, and has not been given up since */
    bool both_tried; /* and the other failed as well: now the log speaks */
    int error;       /* of the last resolution; 0: it gave addresses */
    int64_t asked_ms;
};

void endpoint_start(struct endpoint *e, struct group *g, struct conf_endpoint conf);
/* Asks the resolver unless it is asked already, or was within the last second. */
void endpoint_ask(struct endpoint *e);
void endpoint_pause(struct endpoint *e); /* asks nobody any more until the next endpoint_ask */
void endpoint_stop(struct endpoint *e);  /* and lets go of its members */
bool endpoint_is_used(const struct endpoint *e, const struct member *m);
bool endpoint_has_other_family(const struct endpoint *e);
/* What a connect to m came to; m may be of no endpoint any more. Unreachable may change which members are used
   (group->on_change). */
void endpoint_connected(struct member *m);
void endpoint_unreachable(struct member *m);
/* An address was ejected: asks the resolver when it was the last. */
void endpoint_ejected(struct endpoint *e);

#endif
