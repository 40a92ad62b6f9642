/* io/tls_hello: called by io/tls_stream with what a server reads in a handshake. Refuses only what is too long: what is
   wrong otherwise OpenSSL says better. */
#include "io/tls_hello.h"

#define RECORD_CIPHERS 20 /* RFC 8446 5.1 */
#define RECORD_HANDSHAKE 22
#define CLIENT_HELLO 1

/* A whole head of a record. */
static void begin_record(struct tls_hello *h, bool sealed)
{
    unsigned char type = h->record[0];
    h->record_n = 0;
    h->record_left = (size_t)h->record[3] << 8 | h->record[4];
    if (type == RECORD_CIPHERS)
        h->ciphers = true;
    else if (type != RECORD_HANDSHAKE || (h->ciphers && sealed))
        h->over = true;
}

/* A whole head of a message. */
static bool begin_message(struct tls_hello *h)
{
    h->message_n = 0;
    h->message_left = (size_t)h->message[1] << 16 | (size_t)h->message[2] << 8 | h->message[3];
    h->over = h->message[0] != CLIENT_HELLO;
    return h->over || h->message_left <= TLS_HELLO_MAX;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

bool tls_hello_take(struct tls_hello *h, struct slice bytes, bool sealed)
{
    for (size_t i = 0; i < bytes.n && !h->over;) {
        if (h->record_left == 0) {
            h->record[h->record_n++] = (unsigned char)bytes.p[i++];
            if (h->record_n == sizeof h->record) begin_record(h, sealed);
            continue;
        }
        bool handshake = h->record[0] == RECORD_HANDSHAKE;
        size_t skip = handshake ? least(h->record_left, h->message_left) : h->record_left;
        skip = least(skip, bytes.n - i);
        if (handshake && h->message_left == 0) {
            h->message[h->message_n++] = (unsigned char)bytes.p[i];
            skip = 1;
            if (h->message_n == sizeof h->message && !begin_message(h)) return false;
        } else if (handshake) {
            h->message_left -= skip;
        }
        h->record_left -= skip;
        i += skip;
    }
    return true;
}
