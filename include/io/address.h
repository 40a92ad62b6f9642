/* io/address: addresses of sockets as values. */
#ifndef IO_ADDRESS_H
#define IO_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>

/* host: an address literal, without brackets; false: it is none. */
bool address_literal(const char *host, int port, struct sockaddr_storage *out);
bool address_same(const struct sockaddr_storage *a, const struct sockaddr_storage *b); /* address and port */
#define ADDRESS_TEXT_BYTES 80
/* "192.0.2.1:80", "[2001:db8::1]:80". */
void address_text(const struct sockaddr_storage *a, char out[ADDRESS_TEXT_BYTES]);

#endif
