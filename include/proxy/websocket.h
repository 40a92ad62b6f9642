/* proxy/websocket: the one upgrade that is relayed (RFC 6455): on routes that say so, with an idle time of its own, ended
   with the token. Every other upgrade is dropped with the hop-by-hop headers. */
#ifndef PROXY_WEBSOCKET_H
#define PROXY_WEBSOCKET_H

#include "proxy/request.h"

/* Is this head an opening handshake (RFC 6455 4.2.1)? Asked before its hop-by-hop headers are dropped. */
bool websocket_is_asked(const struct head *h);
/* The two hop-by-hop lines of the handshake, for the upstream or the client. */
void websocket_headers(struct buf *out);
/* Does a 101 answer the handshake that was sent (RFC 6455 4.1)? */
bool websocket_is_accepted(const struct head *h);
/* The answer's head is on its way to the client: from now on bytes pass as they are. */
void websocket_begin(struct request *r);
/* Bytes came or went: the idle time starts anew. */
void websocket_touched(struct request *r);
/* Either side has ended, or its time is up: what is queued for the client is still written. */
void websocket_end(struct request *r, enum reason reason);

#endif
