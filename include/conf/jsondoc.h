/* conf/jsondoc: a JSON text from a variable of the environment to a tree. */
#ifndef CONF_JSONDOC_H
#define CONF_JSONDOC_H

#include "conf/node.h"

/* All nodes name the variable (kept by pointer). NULL when it is no JSON: a problem has been told, without any of the
   text. Keys given twice are refused. */
struct node *jsondoc_read(struct problems *p, const char *variable, struct slice text);

#endif
