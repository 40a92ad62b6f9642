/* io/stream: one byte stream with its outgoing queue. Bytes given to stream_send are written at once where the kernel
   takes them, else copied and queued: the caller's memory is never kept. Reading is switched on and off (back-pressure);
   what is read stands in one buffer of the process and must be used or copied inside on_read. Closed once. TLS is a
   filter above the queue (io/tls_stream): what is sent is encrypted before it is queued, what is read is decrypted before
   on_read; everything else stays as it is. */
#ifndef IO_STREAM_H
#define IO_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "base/slice.h"
#include "io/loop.h"

struct stream;
struct tls_context;
struct tls_stream;

struct stream_events {
    void (*on_read)(struct stream *s, struct slice data);
    /* error 0: the peer ended its side in order; else a negative uv error (reset …), also for a failed write. Nothing
       more is read. Told once; but after an end in order a write that fails is told too, and that is the last. */
    void (*on_end)(struct stream *s, int error);
    /* All that was queued is written. Told only when something had been queued. May be NULL. */
    void (*on_drain)(struct stream *s);
};

/* What a transport must do. TCP and UNIX sockets are built in; tests bring a memory transport. */
struct stream_ops {
    int (*read_start)(struct stream *s);
    void (*read_stop)(struct stream *s);
    /* Bytes taken now (0 = would block) or a negative uv error. */
    long (*try_write)(struct stream *s, const uv_buf_t *bufs, unsigned n);
    /* Writes all of it (memory stays until stream_written is called with the status), later. */
    int (*write)(struct stream *s, uv_buf_t buf);
    int (*shutdown)(struct stream *s);
    void (*close)(struct stream *s); /* calls stream_closed later, once */
    /* How much of what write was given is not with the kernel yet; NULL: all of it until stream_written. */
    size_t (*unwritten)(const struct stream *s);
    /* Do bytes wait to be read? NULL: not known. */
    bool (*has_arrived)(const struct stream *s);
};

struct stream {
    const struct stream_ops *ops;
    const struct stream_events *events;
    struct loop *loop;
    struct tls_stream *tls; /* NULL: plain */
    union {
        uv_stream_t uv;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    };
    uv_write_t write_req;
    uv_shutdown_t shutdown_req;
    struct deadline failed;  /* tells a failed write in a later turn */
    int failed_error;
    void (*on_closed)(struct stream *s);
    char *writing;       /* heap: handed to the kernel's queue */
    size_t writing_n;
    char *queue;         /* heap: waits behind writing */
    size_t queue_n;
    size_t queue_cap;
    bool reading;
    bool want_shutdown;
    bool shutting;
    bool closing;
    bool ended;
    bool reset; /* set before stream_close: the peer is to see a break, not an end in order (RST) */
};

/* A TCP stream, not yet connected: for uv_accept or uv_tcp_connect on &s->tcp. */
int stream_init_tcp(struct stream *s, struct loop *l, const struct stream_events *events);
/* A UNIX socket, likewise on &s->pipe. */
int stream_init_pipe(struct stream *s, struct loop *l, const struct stream_events *events);
/* A stream over ops of the caller. */
void stream_init(struct stream *s, struct loop *l, const struct stream_ops *ops, const struct stream_events *events);

void stream_read(struct stream *s, bool on);
/* All parts in order, as one message to the kernel where it can. A failure is told by on_end later, never inside. */
void stream_send(struct stream *s, const struct slice *parts, size_t n);
size_t stream_queued(const struct stream *s); /* bytes not yet with the kernel */
/* Bytes of the peer's are here that were not read yet: who closes now breaks off what it just sent. One system call. */
bool stream_has_arrived(const struct stream *s);
/* Ends our side when all is written. */
void stream_shutdown(struct stream *s);
/* Drops what is queued. on_closed runs later, once, and may free the struct; no other callback runs after this call. */
void stream_close(struct stream *s, void (*on_closed)(struct stream *s));

/* TLS from here on, on a connected stream that nothing was sent or read on. on_secured comes later, once, unless the stream
   is closed before: error 0, or a negative uv error or enum tls_error with why (a text, valid inside the call), and the
   stream is to be closed (an alert that says so is on its way already; stream_shutdown and lingering let the peer read
   it). Before it nothing is told by the events, and nothing may be sent; stream_read has effect behind it. How long it may
   take is the caller's deadline. ctx is held by the stream. The end of what the peer sends without TLS having said so is
   UV_ECONNRESET: an answer that only the end delimits could have been cut. */
typedef void (*stream_secured)(struct stream *s, int error, const char *why);
void stream_secure_server(struct stream *s, struct tls_context *ctx, stream_secured on_secured);
/* name: whom the certificate must be for: a name (sent as SNI), or an address literal. NUL-terminated, copied. */
void stream_secure_client(struct stream *s, struct tls_context *ctx, const char *name, stream_secured on_secured);
/* Of a secured stream, until it is closed. The subject of the verified certificate of the peer in RFC 2253 form (ASCII);
   empty: plain, or none was shown. */
struct slice stream_peer_subject(const struct stream *s);
const char *stream_tls_version(const struct stream *s); /* "TLSv1.3"; "" plain */
/* What broke TLS, after on_end told one of enum tls_error; else NULL. Valid until the stream is closed. */
const char *stream_tls_fault(const struct stream *s);

/* For transports: the outcomes of their work. */
void stream_got(struct stream *s, struct slice data);
void stream_got_end(struct stream *s, int error);
void stream_written(struct stream *s, int status);
void stream_closed(struct stream *s);

#endif
