/* io/tls_hello: how long the hello of a client says it is, read before OpenSSL reads it: that takes memory for as much as
   is announced, up to 128 KiB, before any of it has come, and anybody may announce. */
#ifndef IO_TLS_HELLO_H
#define IO_TLS_HELLO_H

#include <stdbool.h>

#include "base/slice.h"

#define TLS_HELLO_MAX 16384

struct tls_hello { /* zeroed: nothing came yet */
    unsigned char record[5], message[4]; /* heads (RFC 8446 5.1, 4), as far as they came */
    unsigned record_n, message_n;
    size_t record_left, message_left;
    bool ciphers; /* change_cipher_spec came */
    bool over;    /* what comes now is no hello */
};

/* Bytes of the client's side of a handshake, in order. sealed: TLS 1.2 was agreed on, so that all behind a
   change_cipher_spec is encrypted. False: a hello is announced that is longer than TLS_HELLO_MAX. */
bool tls_hello_take(struct tls_hello *h, struct slice bytes, bool sealed);

#endif
