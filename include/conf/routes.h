/* conf/routes: what a path and method need. First by exactness, then by length; cost does not grow with the number of
   routes (a hash per segment of the path). What matches nothing is refused by the caller. */
#ifndef CONF_ROUTES_H
#define CONF_ROUTES_H

#include "base/slice.h"
#include "conf/options.h"

struct routes;

struct routes *routes_create(const struct conf_route *v, size_t n);
void routes_destroy(struct routes *r);

/* path: the normalised path, one trailing slash allowed (routes like the path without it). NULL: nothing matches.
   The method is not looked at here. Prefix /api matches /api and /api/x, not /apix. */
const struct conf_route *routes_find(const struct routes *r, struct slice path);

/* May the method be used on it? HEAD goes where GET is listed. */
bool route_allows(const struct conf_route *route, struct slice method);

#endif
