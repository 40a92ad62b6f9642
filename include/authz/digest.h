/* authz/digest: SHA-256 (FIPS 180-4) and random ids. No allocation, nothing kept. */
#ifndef AUTHZ_DIGEST_H
#define AUTHZ_DIGEST_H

#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

#define DIGEST_BYTES 32
#define DIGEST_HEX_BYTES 65 /* 64 digits and a NUL */
#define DIGEST_UUID_BYTES 37

/* Over the parts one after the other, as if they were one text. */
void digest_parts(const struct slice *parts, size_t n, uint8_t out[DIGEST_BYTES]);
/* Over the parts, each with its length before it: no two different lists of parts are the same bytes. */
void digest_fields(const struct slice *fields, size_t n, uint8_t out[DIGEST_BYTES]);
void digest_hex(const uint8_t digest[DIGEST_BYTES], char out[DIGEST_HEX_BYTES]);

/* Version 4 UUID (RFC 9562 5.4), lower case, with a NUL. */
void digest_uuid(char out[DIGEST_UUID_BYTES]);

#endif
