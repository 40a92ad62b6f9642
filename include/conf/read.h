/* conf/read: a tree to struct conf, along the tables. */
#ifndef CONF_READ_H
#define CONF_READ_H

#include "conf/load.h"

/* Every option of the tree into conf, defaults where it says nothing; unknown keys and wrong values are problems.
   Fields whose value was wrong stay zero. */
void read_options(struct load *l, const struct node *top, struct conf *conf);

#endif
