/* io/tls_stream: TLS as a filter of a stream, between io/stream and OpenSSL. Only those two call here; the words for all
   others are in io/stream.h and io/tls.h. */
#ifndef IO_TLS_STREAM_H
#define IO_TLS_STREAM_H

#include "io/stream.h"
#include "io/tls.h"

/* Of io/stream, for the filter below. */
void stream_pass(struct stream *s, struct slice bytes);   /* to the transport or the queue, as they are */
void stream_pull(struct stream *s, bool on);              /* the transport's reading */
void stream_tell_end(struct stream *s, int error);        /* on_end, once; nothing is read behind it */
void stream_fail(struct stream *s, int error);            /* on_end, in a later turn */

/* Of io/tls_stream, for a stream that has s->tls. */
void tls_got(struct stream *s, struct slice bytes);       /* what the transport read */
void tls_ended(struct stream *s, int error);              /* the transport's end, or a failed write */
void tls_send(struct stream *s, const struct slice *parts, size_t n);
void tls_read(struct stream *s);                          /* s->reading was changed */
void tls_bye(struct stream *s);                           /* says the end of our side; harmless when said */
void tls_stop(struct stream *s);                          /* the stream closes: nothing is told any more */
void tls_free(struct stream *s);
bool tls_shakes_hands(const struct stream *s);            /* the events are not to be told of anything yet */

/* Of io/tls: what one connection needs of OpenSSL, with the context's settings. *wanted is set when the peer asks for a
   certificate and there is none. */
struct ssl_st *tls_context_session(struct tls_context *ctx, bool *wanted);
bool tls_context_verifies(const struct tls_context *ctx); /* the name of a server too */

#endif
