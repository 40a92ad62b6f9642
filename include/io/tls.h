/* io/tls: what TLS needs to know: a certificate with its key, whom to trust, what to ask. Made of PEM texts, never of
   files; counted, so that a connection keeps the one it began with while a renewed one takes its place. TLS 1.2 at
   least, forward secrecy, no compression, no renegotiation. The stream's side of it is in io/stream.h. */
#ifndef IO_TLS_H
#define IO_TLS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

struct tls_context;

enum tls_ask { /* a server, of its clients; with `ca` to verify what is shown */
    TLS_ASK_NONE,
    TLS_ASK_OPTIONAL, /* one that is shown must verify */
    TLS_ASK_REQUIRED,
};

struct tls_config {
    struct slice certificate; /* PEM, the own one first, then its chain; empty: none (a client only) */
    struct slice key;         /* PEM, without a passphrase; belongs to the certificate */
    struct slice ca;          /* PEM; empty: the system's store (client), nobody (server) */
    enum tls_ask ask;
    bool http;                /* ALPN: http/1.1 and nothing else */
    bool unverified;          /* client: for asking oneself on the loopback; nothing secret may be sent */
};

/* How a handshake, or what came after it, failed; beside negative uv errors, where on_end, on_secured and dial_done
   tell one. UV_ECONNRESET: the peer ended without saying so in TLS (a truncation). */
enum tls_error {
    TLS_NOT_SPOKEN = -20001,  /* the peer does not speak TLS (plain HTTP …) */
    TLS_CERTIFICATE = -20002, /* the peer's certificate is missing, or was refused by us */
    TLS_CERTIFICATE_REFUSED = -20003, /* ours, by the peer's alert; or it wants one and got none */
    TLS_REFUSED = -20004,     /* any other alert of the peer: it finds no version, no cipher … */
    TLS_PROTOCOL = -20005,    /* nothing in common, or broken records */
};

/* With one reference. NULL: *error is a heap text that names what is wrong (certificate, key, ca) and why; never a byte
   of the key. What is expired already is taken: tls_context_expiry tells. */
struct tls_context *tls_server_create(const struct tls_config *c, char **error);
struct tls_context *tls_client_create(const struct tls_config *c, char **error);
struct tls_context *tls_context_hold(struct tls_context *ctx);
void tls_context_release(struct tls_context *ctx); /* NULL: nothing */
/* Made of the same? Then one may stand for the other (a configuration that was read again). Either may be NULL: plain. */
bool tls_context_same(const struct tls_context *a, const struct tls_context *b);
/* Is the same asked of clients, by the same authorities? */
bool tls_context_asks_same(const struct tls_context *a, const struct tls_context *b);
/* Unix time (s) when the first of its own certificates to do so expires; 0: it has none. */
int64_t tls_context_expiry(const struct tls_context *ctx);
/* A short word for a metric's label: not_tls, certificate, alert, protocol, timeout, closed. Any error. */
const char *tls_error_label(int error);

#endif
