/* proxy/peer: who asked: trusted proxies, the client's address behind them, and the forwarding headers we send. */
#ifndef PROXY_PEER_H
#define PROXY_PEER_H

#include "proxy/request.h"

bool peer_is_trusted(const struct conf *conf, const struct address *a);
/* Fills r->id and r->client_ip, and drops the forwarding headers that are replaced. */
void peer_identify(struct request *r);
/* Is it another X-Forwarded-… of a peer that is not trusted, or a forwarding name or request id in a spelling that some
   servers take for it ('_' or '.')? */
bool peer_speaks_for_us(struct slice name, bool trusted);
/* X-Request-Id, X-Forwarded-For, -Proto, -Host: one of each. */
void peer_headers(const struct request *r, struct buf *out);

#endif
