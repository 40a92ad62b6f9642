/* conf/environ: the environment's part in the configuration: ${NAME} in values, DOORWARD_ variables over options. */
#ifndef CONF_ENVIRON_H
#define CONF_ENVIRON_H

#include "conf/load.h"

/* The value of a variable; NULL when it is not set. */
const char *environ_get(const struct load *l, const char *name);
/* "1" or "true": true; "0", "false" or "": false; neither: a problem, false. Not set: otherwise. */
bool environ_flag(struct load *l, const char *name, bool otherwise);
/* Is any variable of an option set? */
bool environ_any(struct load *l);

/* ${NAME} and ${NAME:-default} in the texts of the tree that come from a file; $${ stands for a plain ${. A name that is not set and has no
   default is a problem; one that is set to nothing counts as set without a default, as not set with one. With `named`
   a text with a variable in it is called by that variable in messages. */
void environ_expand(struct load *l, struct node *top, bool named);

/* DOORWARD_ variables of options into the tree, in place of what is there. Those that belong to no option are warned
   of, by name only. */
void environ_overlay(struct load *l, struct node *top);

/* Takes the variables that held secrets out of the process's environment, their bytes wiped; a copy goes to the store, if
   there is one. */
void environ_take(struct load *l);

#endif
