/* authz/base64url: the decoder of RFC 7515 appendix C, strict: no padding, no line break, no other alphabet, and the
   unused bits of the last character are zero, so that one text has one decoding and one decoding one text. */
#ifndef AUTHZ_BASE64URL_H
#define AUTHZ_BASE64URL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"

/* Bytes that decoding n characters needs at most. */
#define BASE64URL_ROOM(n) ((n) / 4 * 3 + 3)

/* out: room for BASE64URL_ROOM(in.n) bytes. Empty text is empty bytes. False: not strict
   base64url; out is undefined. */
bool base64url_decode(struct slice in, uint8_t *out, size_t *out_n);

/* Without padding, appended to out. */
void base64url_encode(struct slice in, struct buf *out);

#endif
