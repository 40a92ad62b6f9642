/* conf/compare: two configurations side by side, for when one takes the other's place. By the tables of options: a new
   option is compared without a line here. */
#ifndef CONF_COMPARE_H
#define CONF_COMPARE_H

#include <stdbool.h>

#include "base/buf.h"
#include "conf/options.h"

/* Each option whose value is another, in the order of the tables: "policy.url", "upstreams.files.url",
   "tokens.issuers[0].audiences"; an entry that only one of them has by its own path ("routes[3]"). Of a file the
   contents count. path is valid inside each only. */
void conf_differences(const struct conf *a, const struct conf *b, void (*each)(const char *path, void *arg), void *arg);

/* No difference in the options whose path begins with prefix ("context."); only those that stand once. */
bool conf_same(const struct conf *a, const struct conf *b, const char *prefix);

/* The whole configuration without its secrets, as bytes that are the same for the same configuration: for a digest. */
void conf_canonical(const struct conf *c, struct buf *out);

#endif
