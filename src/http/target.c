/* http/target: the request target to one reading of it, or a refusal. Called by proxy/request before anything is routed
   or judged; the path it gives is the path that is sent. It refuses what two readers could take differently: dot and
   empty segments however written, encoded NULs, text that is not UTF-8, bytes that RFC 3986 has no place for. It knows
   nothing of routes: encoded slashes and path parameters are flagged, and the caller refuses them. */
#include "http/target.h"

#include <stdint.h>

#define FAST_SEGMENTS 32
#define PARAMS_MAX 256

enum {
    BAD = 0,       /* zeroed rows refuse */
    PATH = 1,      /* stands for itself in a path and in a query */
    PURE = 2,      /* unreserved (RFC 3986 2.3): an escape of it means the same as the byte */
    SLASH = 4,
    QUERY_TOO = 8, /* reserved, of use in a query only: '?' and the brackets, which form libraries send as they are */
    HEX = 16,
    HOST = 32,     /* reg-name without escapes */
    ODD = 64,      /* wants the slow path: '%' and ';' */
};

#define ALPHA (PATH | PURE | HOST)
#define ALPHA_HEX (PATH | PURE | HOST | HEX)
#define DELIM (PATH | HOST)

static const uint8_t classes[256] = {
    ['0'] = ALPHA_HEX, ['1'] = ALPHA_HEX, ['2'] = ALPHA_HEX, ['3'] = ALPHA_HEX, ['4'] = ALPHA_HEX, ['5'] = ALPHA_HEX,
    ['6'] = ALPHA_HEX, ['7'] = ALPHA_HEX, ['8'] = ALPHA_HEX, ['9'] = ALPHA_HEX, ['A'] = ALPHA_HEX, ['B'] = ALPHA_HEX,
    ['C'] = ALPHA_HEX, ['D'] = ALPHA_HEX, ['E'] = ALPHA_HEX, ['F'] = ALPHA_HEX, ['a'] = ALPHA_HEX, ['b'] = ALPHA_HEX,
    ['c'] = ALPHA_HEX, ['d'] = ALPHA_HEX, ['e'] = ALPHA_HEX, ['f'] = ALPHA_HEX, ['G'] = ALPHA, ['H'] = ALPHA,
    ['I'] = ALPHA, ['J'] = ALPHA, ['K'] = ALPHA, ['L'] = ALPHA, ['M'] = ALPHA, ['N'] = ALPHA, ['O'] = ALPHA,
    ['P'] = ALPHA, ['Q'] = ALPHA, ['R'] = ALPHA, ['S'] = ALPHA, ['T'] = ALPHA, ['U'] = ALPHA, ['V'] = ALPHA,
    ['W'] = ALPHA, ['X'] = ALPHA, ['Y'] = ALPHA, ['Z'] = ALPHA, ['g'] = ALPHA, ['h'] = ALPHA, ['i'] = ALPHA,
    ['j'] = ALPHA, ['k'] = ALPHA, ['l'] = ALPHA, ['m'] = ALPHA, ['n'] = ALPHA, ['o'] = ALPHA, ['p'] = ALPHA,
    ['q'] = ALPHA, ['r'] = ALPHA, ['s'] = ALPHA, ['t'] = ALPHA, ['u'] = ALPHA, ['v'] = ALPHA, ['w'] = ALPHA,
    ['x'] = ALPHA, ['y'] = ALPHA, ['z'] = ALPHA, ['-'] = ALPHA, ['.'] = ALPHA, ['_'] = ALPHA, ['~'] = ALPHA,
    ['!'] = DELIM, ['$'] = DELIM, ['&'] = DELIM, ['\''] = DELIM, ['('] = DELIM, [')'] = DELIM, ['*'] = DELIM,
    ['+'] = DELIM, [','] = DELIM, ['='] = DELIM, [':'] = PATH, ['@'] = PATH, [';'] = PATH | HOST | ODD,
    ['%'] = PATH | ODD, ['/'] = PATH | SLASH, ['?'] = QUERY_TOO, ['['] = QUERY_TOO, [']'] = QUERY_TOO,
};

static uint8_t class_of(char c)
{
    return classes[(unsigned char)c];
}

static unsigned hex_value(char c)
{
    return c <= '9' ? (unsigned)(c - '0') : (unsigned)((c | 0x20) - 'a') + 10;
}

/* The byte of the escape at p (where a '%' stands), or -1 when it is none. */
static int escaped(const char *p, const char *end)
{
    if (end - p < 3 || !(class_of(p[1]) & HEX) || !(class_of(p[2]) & HEX)) return -1;
    return (int)(hex_value(p[1]) << 4 | hex_value(p[2]));
}

/* Length of the UTF-8 sequence at p (RFC 3629: no overlong form, no surrogate, nothing over U+10FFFF), or 0. */
static size_t utf8_length(const unsigned char *p, size_t n)
{
    unsigned low = 0x80, high = 0xBF; /* of the second byte */
    size_t length;

    if (p[0] < 0x80) return 1;
    if (p[0] < 0xC2 || p[0] > 0xF4) return 0;
    length = p[0] < 0xE0 ? 2 : p[0] < 0xF0 ? 3 : 4;
    if (p[0] == 0xE0) low = 0xA0;
    if (p[0] == 0xED) high = 0x9F;
    if (p[0] == 0xF0) low = 0x90;
    if (p[0] == 0xF4) high = 0x8F;
    if (n < length || p[1] < low || p[1] > high) return 0;
    for (size_t i = 2; i < length; i++) {
        if (p[i] < 0x80 || p[i] > 0xBF) return 0;
    }
    return length;
}

/* Text that every reader ends at the same place: UTF-8 without a NUL. */
static bool is_text(struct slice s)
{
    for (size_t i = 0; i < s.n;) {
        size_t length = utf8_length((const unsigned char *)s.p + i, s.n - i);
        if (length == 0 || s.p[i] == '\0') return false;
        i += length;
    }
    return true;
}

/* host [":" port] of RFC 3986 3.2 without user information (RFC 9110 4.2.4) and without escapes in the name. */
static bool authority_good(struct slice s)
{
    size_t i = 0;
    unsigned port = 0;

    if (s.n && s.p[0] == '[') {
        for (i = 1; i < s.n && s.p[i] != ']'; i++) {
            if (!(class_of(s.p[i]) & HEX) && s.p[i] != ':' && s.p[i] != '.') return false;
        }
        if (i == s.n || i == 1) return false;
        i++;
    } else {
        while (i < s.n && (class_of(s.p[i]) & HOST)) i++;
        if (i == 0) return false;
    }
    if (i == s.n) return true;
    if (s.p[i++] != ':') return false;
    for (; i < s.n; i++) {
        if (s.p[i] < '0' || s.p[i] > '9') return false;
        port = port * 10 + (unsigned)(s.p[i] - '0');
        if (port > 65535) return false;
    }
    return true;
}

/* Takes scheme and authority off the front of *raw: an absolute form of http or https. */
static bool take_authority(struct slice *raw, struct target *t)
{
    size_t start, end;

    if (raw->n >= 7 && slice_eq_nocase(slice_make(raw->p, 7), SLICE("http://"))) {
        start = 7;
    } else if (raw->n >= 8 && slice_eq_nocase(slice_make(raw->p, 8), SLICE("https://"))) {
        start = 8;
    } else {
        return false;
    }
    for (end = start; end < raw->n && raw->p[end] != '/' && raw->p[end] != '?'; end++) continue;
    t->authority = slice_make(raw->p + start, end - start);
    *raw = slice_make(raw->p + end, raw->n - end);
    return authority_good(t->authority);
}

static bool query_good(struct slice query)
{
    for (size_t i = 0; i < query.n; i++) {
        if (!(class_of(query.p[i]) & (PATH | QUERY_TOO))) return false;
    }
    return true;
}

static bool is_dots(const char *p, size_t n)
{
    return (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.');
}

/* The common case in one pass: only bytes that stand for themselves, few segments, nothing to refuse. False says no more
   than that the slow path must look. */
static bool parse_clean(struct slice path, struct arena *a, struct target *t)
{
    struct slice found[FAST_SEGMENTS];
    size_t n = 0, start = 1;

    for (size_t i = 1; i <= path.n; i++) {
        unsigned class = i < path.n ? class_of(path.p[i]) : SLASH;
        if ((class & (PATH | ODD | SLASH)) == PATH) continue;
        if (!(class & SLASH)) return false;
        if (i == start) {
            if (i < path.n) return false;
            break; /* one slash at the end, or the root */
        }
        if (n == FAST_SEGMENTS || is_dots(path.p + start, i - start)) return false;
        found[n++] = slice_make(path.p + start, i - start);
        start = i + 1;
    }
    t->path = path;
    t->segments_n = n;
    if (n) {
        t->segments = arena_alloc(a, n * sizeof found[0]);
        memcpy(t->segments, found, n * sizeof found[0]);
    }
    return true;
}

/* The path with the escapes of unreserved bytes decoded and the others in upper case (RFC 3986 6.2.2), never longer. */
static enum reason normalise(struct slice raw, struct arena *a, struct target *t)
{
    static const char digits[] = "0123456789ABCDEF";
    const char *end = raw.p + raw.n;
    char *path = arena_alloc(a, raw.n);
    char *out = path;

    for (const char *p = raw.p; p < end; p++) {
        int byte;
        if (!(class_of(*p) & PATH)) return REASON_TARGET_INVALID;
        if (*p == ';') t->path_parameter = true;
        if (*p != '%') {
            *out++ = *p;
            continue;
        }
        byte = escaped(p, end);
        if (byte < 0) return REASON_TARGET_INVALID;
        p += 2;
        if (classes[byte] & PURE) {
            *out++ = (char)byte;
            continue;
        }
        if (byte == '/' || byte == '\\') t->encoded_slash = true;
        if (byte == ';') t->path_parameter = true;
        *out++ = '%';
        *out++ = digits[byte >> 4];
        *out++ = digits[byte & 15];
    }
    t->path = slice_make(path, (size_t)(out - path));
    return REASON_FORWARDED;
}

/* A segment, decoded: may every reader take it as one name? A server that drops parameters ("..;x") or decodes slashes
   must not find dots or nothing where we saw a name; these are refused even where a route keeps ';' and %2F. */
static bool segment_good(struct slice s)
{
    size_t start = 0;

    if (!is_text(s)) return false;
    if (s.n == 0 || s.p[0] == ';') return false;
    for (size_t i = 0; i <= s.n; i++) {
        if (i < s.n && s.p[i] != '/' && s.p[i] != '\\' && s.p[i] != ';') continue;
        if (is_dots(s.p + start, i - start)) return false;
        start = i + 1;
    }
    return true;
}

static struct slice decode_segment(struct slice s, struct arena *a)
{
    const char *end;
    char *text, *out;

    if (s.n == 0 || !memchr(s.p, '%', s.n)) return s;
    end = s.p + s.n;
    text = out = arena_alloc(a, s.n);
    for (const char *p = s.p; p < end; p++) {
        if (*p == '%') {
            *out++ = (char)escaped(p, end);
            p += 2;
        } else {
            *out++ = *p;
        }
    }
    return slice_make(text, (size_t)(out - text));
}

/* t->path, normalised, into t->segments. */
static enum reason split(struct arena *a, struct target *t)
{
    struct slice rest = slice_make(t->path.p + 1, t->path.n - 1);
    struct slice part;
    size_t count = 1;

    if (rest.n && rest.p[rest.n - 1] == '/') rest.n--;
    else if (rest.n == 0) return REASON_FORWARDED;
    for (size_t i = 0; i < rest.n; i++) count += rest.p[i] == '/';
    t->segments = arena_alloc(a, count * sizeof t->segments[0]);
    while (slice_next(&rest, '/', &part)) {
        struct slice segment = decode_segment(part, a);
        if (!segment_good(segment)) return REASON_PATH_AMBIGUOUS;
        t->segments[t->segments_n++] = segment;
    }
    return REASON_FORWARDED;
}

enum reason target_parse(struct slice raw, struct arena *a, struct target *t)
{
    const char *mark;
    struct slice path;
    enum reason reason;

    *t = (struct target){0};
    if (slice_eq(raw, SLICE("*"))) {
        t->asterisk = true;
        return REASON_FORWARDED;
    }
    if (raw.n == 0) return REASON_TARGET_INVALID;
    if (raw.p[0] != '/' && !take_authority(&raw, t)) return REASON_TARGET_INVALID;

    path = raw;
    mark = raw.n ? memchr(raw.p, '?', raw.n) : NULL;
    if (mark) {
        path.n = (size_t)(mark - raw.p);
        t->has_query = true;
        t->query = slice_make(mark + 1, raw.n - path.n - 1);
        if (!query_good(t->query)) return REASON_TARGET_INVALID;
    }
    if (path.n == 0) path = SLICE("/"); /* http://host and http://host?q: RFC 9112 3.2.1 */
    if (parse_clean(path, a, t)) return REASON_FORWARDED;
    reason = normalise(path, a, t);
    return reason == REASON_FORWARDED ? split(a, t) : reason;
}

/* A name or value of a form; raw again, and false, when it cannot be decoded. */
static bool decode_form(struct slice s, struct arena *a, struct slice *decoded)
{
    const char *end;
    char *text, *out;

    *decoded = s;
    if (s.n == 0 || (!memchr(s.p, '%', s.n) && !memchr(s.p, '+', s.n))) return true;
    end = s.p + s.n;
    text = out = arena_alloc(a, s.n);
    for (const char *p = s.p; p < end; p++) {
        int byte = (unsigned char)*p;
        if (*p == '+') byte = ' ';
        if (*p == '%') {
            byte = escaped(p, end);
            if (byte < 0) return false;
            p += 2;
        }
        *out++ = (char)byte;
    }
    if (!is_text(slice_make(text, (size_t)(out - text)))) return false;
    *decoded = slice_make(text, (size_t)(out - text));
    return true;
}

enum reason target_params(struct target *t, struct arena *a)
{
    struct slice rest = t->query;
    struct slice part;
    size_t count = 1;

    t->params = NULL;
    t->params_n = 0;
    if (rest.n == 0) return REASON_FORWARDED;
    for (size_t i = 0; i < rest.n; i++) count += rest.p[i] == '&';
    if (count > PARAMS_MAX) return REASON_QUERY_AMBIGUOUS;
    t->params = arena_alloc(a, count * sizeof t->params[0]);
    while (slice_next(&rest, '&', &part)) {
        struct target_param *param = &t->params[t->params_n];
        const char *equals;
        struct slice name = part, value = {0};
        bool name_good, value_good;
        if (part.n == 0) continue;
        equals = memchr(part.p, '=', part.n);
        if (equals) {
            name.n = (size_t)(equals - part.p);
            value = slice_make(equals + 1, part.n - name.n - 1);
        }
        name_good = decode_form(name, a, &param->name);
        value_good = decode_form(value, a, &param->value);
        param->undecodable = !name_good || !value_good;
        t->params_n++;
    }
    return REASON_FORWARDED;
}
