/* conf/check: what options say to each other. */
#ifndef CONF_CHECK_H
#define CONF_CHECK_H

#include "conf/load.h"

/* Contradictions and what is missing, as problems; fields that follow from others are filled in (cors.on, an issuer's
   default algorithm). Fields that were read wrongly are zero and are passed over. */
void check_options(struct load *l, const struct node *top, struct conf *conf);

/* A certificate without its key, or the other way round, in the `tls` of the map n (NULL: nothing is given). */
void check_tls(struct load *l, const struct node *n, const char *path);

#endif
