/* remote/redis_url: where a Redis stands and who we are there, read from one URL. */
#ifndef REMOTE_REDIS_URL_H
#define REMOTE_REDIS_URL_H

#include <stdbool.h>

#include "base/slice.h"

struct redis_url {
    char *host;     /* name or address literal, without brackets; NULL for a unix socket */
    int port;       /* 6379 when not given */
    char *path;     /* of the unix socket, or NULL */
    char *user;     /* ACL user, or NULL */
    char *password; /* or NULL */
    int db;
    bool tls; /* rediss */
};

/* redis[s]://[[user]:password@]host[:port][/db][?db=N], unix:/path[?db=N], redis+unix://[[user]:password@]/path[?db=N].
   User, password and path are percent-decoded (RFC 3986 2.1). NULL: out is filled, heap, redis_url_finish frees it.
   Else what is wrong, a fixed text (no part of the url is in it), and out is all zero. */
const char *redis_url_parse(struct slice url, struct redis_url *out);
/* Wipes the password before it frees it. */
void redis_url_finish(struct redis_url *u);

/* "host:port" or "[address]:port" of a server, without a name or a password; default_port when it is left out. Fills
   host (heap) and port of out, like redis_url_parse. */
const char *redis_address_parse(struct slice text, int default_port, struct redis_url *out);

#endif
