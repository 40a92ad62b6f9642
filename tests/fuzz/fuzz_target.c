/* Request targets: what target_parse takes means one thing only. A second, simple decoding must agree with its segments
   and parameters, and its path, parsed again, is itself. */
#include <ctype.h>

#include "base/buf.h"
#include "fuzz.h"
#include "http/target.h"

/* -1: not an escape. */
static int escape_at(struct slice s, size_t i)
{
    if (i + 2 >= s.n || !isxdigit((unsigned char)s.p[i + 1]) || !isxdigit((unsigned char)s.p[i + 2])) return -1;
    char hex[3] = {s.p[i + 1], s.p[i + 2], '\0'};
    return (int)strtol(hex, NULL, 16);
}

static bool decode(struct slice s, bool plus, struct buf *out)
{
    for (size_t i = 0; i < s.n; i++) {
        int byte = s.p[i] == '%' ? escape_at(s, i) : plus && s.p[i] == '+' ? ' ' : (unsigned char)s.p[i];
        if (byte < 0) return false;
        if (s.p[i] == '%') i += 2;
        buf_add_char(out, (char)byte);
    }
    return true;
}

static bool is_utf8(struct slice s)
{
    for (uint32_t code; s.n;) {
        size_t n = slice_utf8(s, &code);
        if (!n || !code) return false;
        s = slice_make(s.p + n, s.n - n);
    }
    return true;
}

/* What a server that takes more characters for separators than we do would see. */
static void check_no_dots(struct slice s)
{
    size_t start = 0;
    for (size_t i = 0; i <= s.n; i++) {
        if (i < s.n && !strchr("/\\;", s.p[i])) continue;
        struct slice name = slice_make(s.p + start, i - start);
        CHECK(!slice_eq(name, SLICE(".")) && !slice_eq(name, SLICE("..")), "no dot segment in any reading");
        start = i + 1;
    }
}

static void check_path(const struct target *t)
{
    CHECK(t->path.n && t->path.p[0] == '/', "a path begins with a slash");
    for (size_t i = 0; i < t->path.n; i++) {
        CHECK(t->path.p[i] > 0x20 && t->path.p[i] < 0x7f && !strchr("?#\\\"<>^`{|}[]", t->path.p[i]), "a path byte");
        if (t->path.p[i] != '%') continue;
        int byte = escape_at(t->path, i);
        CHECK(byte > 0, "a whole escape, not of NUL");
        CHECK(!isalnum(byte) && !strchr("-._~", byte), "no escape of what needs none");
        CHECK(!islower((unsigned char)t->path.p[i + 1]) && !islower((unsigned char)t->path.p[i + 2]), "upper case");
        CHECK((byte != '/' && byte != '\\') || t->encoded_slash, "an encoded slash is told");
        CHECK(byte != ';' || t->path_parameter, "an encoded semicolon is told");
    }
    CHECK(!memchr(t->path.p, ';', t->path.n) || t->path_parameter, "a semicolon is told");
}

/* The segments, put back together, are the path. */
static void check_segments(const struct target *t)
{
    struct slice rest = slice_make(t->path.p + 1, t->path.n - 1), part;
    size_t n = 0;
    if (rest.n && rest.p[rest.n - 1] == '/') rest.n--;
    while (rest.n && slice_next(&rest, '/', &part)) {
        struct buf b;
        buf_init(&b, NULL);
        CHECK(part.n && n < t->segments_n, "no empty segment, and none more");
        CHECK(decode(part, false, &b) && slice_eq(buf_slice(&b), t->segments[n]), "a segment is its part, decoded");
        CHECK(is_utf8(buf_slice(&b)), "a segment is text");
        check_no_dots(buf_slice(&b));
        buf_free(&b);
        n++;
    }
    CHECK(n == t->segments_n, "as many segments");
}

static void check_again(const struct target *t, struct arena *a)
{
    struct target again;
    struct buf b;
    buf_init(&b, NULL);
    buf_add_slice(&b, t->path);
    if (t->has_query) {
        buf_add_char(&b, '?');
        buf_add_slice(&b, t->query);
    }
    CHECK(target_parse(buf_slice(&b), a, &again) == REASON_FORWARDED, "what it gives it takes");
    CHECK(slice_eq(again.path, t->path) && slice_eq(again.query, t->query) && again.has_query == t->has_query &&
              again.segments_n == t->segments_n && again.encoded_slash == t->encoded_slash &&
              again.path_parameter == t->path_parameter,
          "and finds the same in it");
    buf_free(&b);
}

static void check_params(const struct target *t)
{
    struct slice rest = t->query, part;
    size_t n = 0;
    while (rest.n && slice_next(&rest, '&', &part)) {
        if (!part.n) continue;
        struct slice name, value = part;
        struct buf b, c;
        buf_init(&b, NULL);
        buf_init(&c, NULL);
        slice_next(&value, '=', &name);
        CHECK(n < t->params_n, "no parameter is lost");
        const struct target_param *p = &t->params[n++];
        bool good =
            decode(name, true, &b) && decode(value, true, &c) && is_utf8(buf_slice(&b)) && is_utf8(buf_slice(&c));
        CHECK(good == !p->undecodable, "undecodable or not");
        CHECK(!good || (slice_eq(buf_slice(&b), p->name) && slice_eq(buf_slice(&c), p->value)), "name and value");
        buf_free(&b);
        buf_free(&c);
    }
    CHECK(n == t->params_n, "as many parameters");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct slice raw = input_exact(slice_make((const char *)data, n));
    struct arena a;
    struct target t;
    arena_init(&a);
    if (target_parse(raw, &a, &t) == REASON_FORWARDED && !t.asterisk) {
        check_path(&t);
        check_segments(&t);
        check_again(&t, &a);
        for (size_t i = 0; i < t.query.n; i++)
            CHECK(t.query.p[i] > 0x20 && t.query.p[i] < 0x7f, "a query byte");
        if (target_params(&t, &a) == REASON_FORWARDED) check_params(&t);
    }
    arena_reset(&a);
    free((char *)(uintptr_t)raw.p);
    return 0;
}
