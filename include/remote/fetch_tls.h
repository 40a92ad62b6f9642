/* remote/fetch_tls: what a call of remote/fetch shows and trusts over https, and what went wrong there in a fixed text.
   For remote/fetch.c only; struct fetch_tls stands in remote/fetch.h. */
#ifndef REMOTE_FETCH_TLS_H
#define REMOTE_FETCH_TLS_H

#include "remote/fetch.h"

#define FETCH_TLS_ERROR_BYTES 256 /* what curl writes an error into */

/* easy: a CURL. The bytes of t are used, not copied, until the call is out of curl's hands. */
void fetch_tls_set(void *easy, const struct fetch_tls *t);
/* NULL: the CURLcode is no fault of TLS. said: curl's own words, looked through for what the peer's alert was. silent:
   no byte of an answer came. */
const char *fetch_tls_error(void *easy, int code, const char *said, bool silent);

#endif
