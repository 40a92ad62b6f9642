/* base/slice: pointer and length text. A slice never owns its bytes. */
#ifndef BASE_SLICE_H
#define BASE_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct slice {
    const char *p; /* may be NULL when n is 0 */
    size_t n;
};

/* A slice of a string literal, without its NUL. */
#define SLICE(lit) ((struct slice){"" lit, sizeof(lit) - 1})

static inline struct slice slice_make(const char *p, size_t n)
{
    return (struct slice){p, n};
}

/* The whole of a C string; NULL gives an empty slice. */
static inline struct slice slice_str(const char *s)
{
    return (struct slice){s, s ? strlen(s) : 0};
}

static inline bool slice_eq(struct slice a, struct slice b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

static inline bool slice_starts(struct slice s, struct slice prefix)
{
    return s.n >= prefix.n && (prefix.n == 0 || memcmp(s.p, prefix.p, prefix.n) == 0);
}

/* ASCII case-insensitive equality. No locale. */
bool slice_eq_nocase(struct slice a, struct slice b);

/* s without leading and trailing spaces and tabs (RFC 9110 5.6.3 OWS). */
struct slice slice_trim(struct slice s);

/* Takes the text up to sep off the front of *rest (sep itself dropped); false when *rest is used up
   (rest->p == NULL). "a,,b" gives "a", "", "b". */
bool slice_next(struct slice *rest, char sep, struct slice *part);

/* Decimal digits only, no sign, no space, at least one digit, at most INT64_MAX. */
bool slice_to_int(struct slice s, long long *value);

/* The character that s begins with: its length in bytes (1 to 4) and its code point; 0 when s is empty or does not
   begin with valid UTF-8 (RFC 3629: no overlong forms, no surrogates, nothing beyond U+10FFFF). */
size_t slice_utf8(struct slice s, uint32_t *code);

#endif
