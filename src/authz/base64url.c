/* authz/base64url: strict decoding for tokens and keys. Called by jws and jwk. It refuses whatever has a second
   spelling: a lax decoder gives one token many texts, each a cache entry and a log identity of its own. */
#include "authz/base64url.h"

#define BAD 0xff

static uint8_t value_of(unsigned char c)
{
    if (c >= 'A' && c <= 'Z') return (uint8_t)(c - 'A');
    if (c >= 'a' && c <= 'z') return (uint8_t)(c - 'a' + 26);
    if (c >= '0' && c <= '9') return (uint8_t)(c - '0' + 52);
    if (c == '-') return 62;
    if (c == '_') return 63;
    return BAD;
}

bool base64url_decode(struct slice in, uint8_t *out, size_t *out_n)
{
    if (in.n % 4 == 1) return false; /* six bits are no byte */
    uint32_t bits = 0;
    unsigned have = 0;
    size_t n = 0;
    for (size_t i = 0; i < in.n; i++) {
        uint8_t v = value_of((unsigned char)in.p[i]);
        if (v == BAD) return false;
        bits = bits << 6 | v;
        have += 6;
        if (have >= 8) {
            have -= 8;
            out[n++] = (uint8_t)(bits >> have & 0xff);
        }
    }
    if (bits & ((1u << have) - 1)) return false; /* left-over bits: another text would decode to the same bytes */
    *out_n = n;
    return true;
}

void base64url_encode(struct slice in, struct buf *out)
{
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    uint32_t bits = 0;
    unsigned have = 0;
    buf_reserve(out, in.n / 3 * 4 + 4);
    for (size_t i = 0; i < in.n; i++) {
        bits = (bits << 8 | (unsigned char)in.p[i]) & 0xffff;
        have += 8;
        while (have >= 6) {
            have -= 6;
            buf_add_char(out, alphabet[bits >> have & 63]);
        }
    }
    if (have) buf_add_char(out, alphabet[bits << (6 - have) & 63]);
}
