/* io/tls_fault: what OpenSSL's queue of errors says, as one of enum tls_error and in words. For io/tls_stream. */
#ifndef IO_TLS_FAULT_H
#define IO_TLS_FAULT_H

#include <stddef.h>

struct ssl_st;

/* Of the call that just failed on this connection. name: whom the certificate was to be for. The text is cut to cap.
   Empties the queue. */
int tls_fault(struct ssl_st *ssl, const char *name, char *text, size_t cap);

#endif
