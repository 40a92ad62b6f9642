/* proxy/admission: how many connections there may be, in all and from one address. */
#ifndef PROXY_ADMISSION_H
#define PROXY_ADMISSION_H

#include "base/reason.h"
#include "proxy/proxy.h"

struct conn;

/* Counts the connection. FORWARDED: let in; CONNECTIONS or OVERLOADED: to be refused, and counted all the same. */
enum reason admission_take(struct proxy *p, struct conn *c);
void admission_give_back(struct proxy *p, struct conn *c);

#endif
