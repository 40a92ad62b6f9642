/* conf/checkroutes: what upstreams and routes say to each other. */
#ifndef CONF_CHECKROUTES_H
#define CONF_CHECKROUTES_H

#include "conf/load.h"

/* Fills in the parts of each upstream's url, and a route's upstream, name and strip_prefix. Routes given twice or that
   can never match and upstreams that are not there are problems. Wrongly read fields are zero and are passed over. */
void check_routes(struct load *l, const struct node *top, struct conf *conf);

#endif
