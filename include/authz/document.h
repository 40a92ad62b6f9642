/* authz/document: JSON texts of others, read strictly, and written back as ASCII on one line. */
#ifndef AUTHZ_DOCUMENT_H
#define AUTHZ_DOCUMENT_H

#include "base/buf.h"
#include "base/slice.h"

struct json_t; /* jansson's value */

/* A JSON object: duplicate names, NUL characters, invalid UTF-8, anything behind it refused. NULL then; a good one is
   the caller's (json_decref). */
struct json_t *document_object(struct slice text);

/* Members in the order they were read. Nothing but 0x20 to 0x7e comes out, so that it may stand in a header. */
void document_write(const struct json_t *value, struct buf *out);

#endif
