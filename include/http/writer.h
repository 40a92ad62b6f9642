/* http/writer: heads and chunk framing as bytes. It writes what it is given: names and values were checked when read. */
#ifndef HTTP_WRITER_H
#define HTTP_WRITER_H

#include <stdint.h>

#include "base/buf.h"
#include "http/message.h"

void writer_status(struct buf *out, int status, struct slice phrase); /* HTTP/1.1 line; empty phrase: the standard one */
void writer_header(struct buf *out, struct slice name, struct slice value);
void writer_headers(struct buf *out, const struct head *h); /* all that are not dropped */
struct slice writer_phrase(int status);                     /* RFC 9110 15; "" when unknown */

/* "1a2b\r\n" into out; its length. */
#define WRITER_CHUNK_BYTES 20
size_t writer_chunk(char out[WRITER_CHUNK_BYTES], uint64_t n);

/* IMF-fixdate of now, e.g. "Sun, 06 Nov 1994 08:49:37 GMT", made once a second. */
struct slice writer_date(int64_t wall_ms);

#endif
