/* base/slice: comparing, trimming, splitting and reading of borrowed text. Called from everywhere; allocates nothing,
   keeps nothing, knows no locale. */
#include "base/slice.h"

#include <limits.h>

#include "base/word.h"

#define EACH_BYTE(byte) (UINT64_C(0x0101010101010101) * (byte))

/* The case bit (0x20) set in each byte that is 'A' to 'Z'. A sum of seven bits carries into no other byte. */
static uint64_t lower(uint64_t w)
{
    uint64_t low = w & EACH_BYTE(0x7f);
    uint64_t from_a = low + EACH_BYTE(0x80 - 'A'), beyond_z = low + EACH_BYTE(0x7f - 'Z');
    uint64_t upper = from_a & ~beyond_z & ~w & EACH_BYTE(0x80);
    return w | upper >> 2;
}

bool slice_eq_nocase(struct slice a, struct slice b)
{
    size_t i = 0;
    if (a.n != b.n) return false;
    for (; i + sizeof(uint64_t) <= a.n; i += sizeof(uint64_t)) {
        if (lower(word_at(a.p + i)) != lower(word_at(b.p + i))) return false;
    }
    return i == a.n || lower(word_last(a.p, i, a.n)) == lower(word_last(b.p, i, b.n));
}

static bool is_ows(char c)
{
    return c == ' ' || c == '\t';
}

struct slice slice_trim(struct slice s)
{
    while (s.n && is_ows(s.p[0])) {
        s.p++;
        s.n--;
    }
    while (s.n && is_ows(s.p[s.n - 1])) s.n--;
    return s;
}

bool slice_next(struct slice *rest, char sep, struct slice *part)
{
    if (rest->p == NULL) return false;
    const char *at = rest->n ? memchr(rest->p, sep, rest->n) : NULL;
    if (at == NULL) {
        *part = *rest;
        *rest = slice_make(NULL, 0);
        return true;
    }
    *part = slice_make(rest->p, (size_t)(at - rest->p));
    *rest = slice_make(at + 1, rest->n - part->n - 1);
    return true;
}

bool slice_to_int(struct slice s, long long *value)
{
    long long v = 0;
    if (s.n == 0) return false;
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] < '0' || s.p[i] > '9') return false;
        int digit = s.p[i] - '0';
        if (v > (LLONG_MAX - digit) / 10) return false;
        v = v * 10 + digit;
    }
    *value = v;
    return true;
}

/* The ranges of the second byte keep out overlong forms, surrogates and what is beyond U+10FFFF (RFC 3629, 4). */
size_t slice_utf8(struct slice s, uint32_t *code)
{
    if (s.n == 0) return 0;
    const unsigned char *p = (const unsigned char *)s.p;
    unsigned char lead = p[0], low = 0x80, high = 0xbf;
    size_t length;
    uint32_t c;
    if (lead < 0x80) {
        *code = lead;
        return 1;
    }
    if (lead < 0xc2 || lead > 0xf4) return 0;
    if (lead < 0xe0) {
        length = 2;
        c = lead & 0x1fU;
    } else if (lead < 0xf0) {
        length = 3;
        c = lead & 0x0fU;
        if (lead == 0xe0) low = 0xa0;
        if (lead == 0xed) high = 0x9f;
    } else {
        length = 4;
        c = lead & 0x07U;
        if (lead == 0xf0) low = 0x90;
        if (lead == 0xf4) high = 0x8f;
    }
    if (s.n < length || p[1] < low || p[1] > high) return 0;
    for (size_t i = 1; i < length; i++) {
        if ((p[i] & 0xc0U) != 0x80) return 0;
        c = c << 6 | (p[i] & 0x3fU);
    }
    *code = c;
    return length;
}
