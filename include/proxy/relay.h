/* proxy/relay: bodies both ways between a client and an upstream connection, with back-pressure: neither side is read
   while the other has more than RELAY_HIGH_BYTES queued. */
#ifndef PROXY_RELAY_H
#define PROXY_RELAY_H

#include "proxy/request.h"

#define RELAY_HIGH_BYTES 65536

extern const struct uconn_events relay_events;

/* r->up is set: sends the head (with the first of the body, where one follows); the answer comes by relay_events. */
void relay_start(struct request *r, struct slice head);
/* Client body bytes, inside parser_body. */
void relay_body(struct request *r, struct slice data);
/* After the bytes of one read were parsed: writes them; ends the body when the parser is complete. */
void relay_flush(struct request *r);
/* A switched connection: what is pending of the client's goes out. */
void relay_tunnel(struct request *r);
/* The client's queue is empty again. */
void relay_client_drained(struct request *r);
/* Forgets what was gathered for a write that will not be made. */
void relay_discard(void);
/* Lets go of the upstream connection: given back when clean, dropped otherwise. */
void relay_release(struct request *r);

#endif
