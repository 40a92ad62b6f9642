/* conf/net: addresses, address blocks, hosts and URLs as texts. Pure: nothing is resolved or opened. What returns a
   text returns NULL when all is well, else what is wrong and what was expected (static). */
#ifndef CONF_NET_H
#define CONF_NET_H

#include <stdbool.h>

#include "base/slice.h"
#include "conf/options.h"

/* "127.0.0.1:3001" or "[::1]:3001": a literal and a port from 0 to 65535 (0: any free one). host comes without brackets. */
const char *net_address(struct slice text, struct slice *host, int *port);
bool net_is_loopback(struct slice host);

/* "10.0.0.0/8", "192.0.2.1", "2001:db8::/32". Blocks of everything, bits beyond the prefix and IPv4 in IPv6 are refused. */
const char *net_block(struct slice text, struct conf_net *out);

/* A DNS name, an IPv4 literal or an IPv6 literal in brackets. */
bool net_is_host(struct slice text);
/* Digits, 1 to 65535. */
bool net_is_port(struct slice text, int *port);

struct net_url {
    struct slice scheme;
    struct slice host;   /* without brackets */
    int port;            /* the scheme's own when none is given */
    struct slice authority;
    struct slice path;   /* from the first slash, "" when none */
    bool query;
};

/* http and https with a host; no user info, no fragment, only bytes that RFC 3986 allows. */
const char *net_url(struct slice text, struct net_url *out);

#endif
