/* conf/yamldoc: a YAML text to a tree, by libyaml's events. */
#ifndef CONF_YAMLDOC_H
#define CONF_YAMLDOC_H

#include "conf/node.h"

/* file: its name in messages, kept by pointer. An empty document is an empty map. NULL when the text is no YAML or its
   top is no map (a problem has been told); keys given twice, anchors, aliases, tags and NULs are problems too, but the
   tree is given. Nothing of a value goes into a message. */
struct node *yamldoc_read(struct problems *p, const char *file, struct slice text);

#endif
