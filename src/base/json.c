/* base/json: the streaming JSON writer. Called by the log, the metrics, the policy input, local answers. Refuses to
   put out anything but ASCII: what is not valid UTF-8 becomes U+FFFD, a control character its escape. Nesting is the
   caller's to get right; only the commas are kept here. */
#include "base/json.h"

#include <math.h>

#include "base/word.h"

void json_init(struct json *j, struct buf *out)
{
    *j = (struct json){.out = out};
}

static void before(struct json *j)
{
    if (j->comma) buf_add_char(j->out, ',');
    j->comma = true;
}

static void open_with(struct json *j, char bracket)
{
    before(j);
    buf_add_char(j->out, bracket);
    j->comma = false;
}

static void close_with(struct json *j, char bracket)
{
    buf_add_char(j->out, bracket);
    j->comma = true;
}

void json_object_start(struct json *j)
{
    open_with(j, '{');
}

void json_object_end(struct json *j)
{
    close_with(j, '}');
}

void json_array_start(struct json *j)
{
    open_with(j, '[');
}

void json_array_end(struct json *j)
{
    close_with(j, ']');
}

/* Written as it stands. DEL is not: the text may become a header value, where it is not allowed (RFC 9110 5.5). */
static bool is_plain(char c)
{
    return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

#define EACH_BYTE(byte) (UINT64_C(0x0101010101010101) * (byte))
#define TOP_BITS EACH_BYTE(0x80)

/* The top bit of a byte that is zero, and of none below the lowest such byte. */
static uint64_t zero_bytes(uint64_t w)
{
    return (w - EACH_BYTE(1)) & ~w & TOP_BITS;
}

/* Are eight bytes plain? Most of what is written is, and most of writing it was this question, byte by byte. */
static bool are_plain(uint64_t w)
{
    uint64_t control = (w - EACH_BYTE(0x20)) & ~w & TOP_BITS;
    return ((w & TOP_BITS) | control | zero_bytes(w ^ EACH_BYTE(0x7f)) | zero_bytes(w ^ EACH_BYTE('"')) |
            zero_bytes(w ^ EACH_BYTE('\\'))) == 0;
}

static size_t plain_run(struct slice s)
{
    size_t n = 0;
    while (n + sizeof(uint64_t) <= s.n && are_plain(word_at(s.p + n))) n += sizeof(uint64_t);
    if (n == s.n || (n + sizeof(uint64_t) > s.n && are_plain(word_last(s.p, n, s.n)))) return s.n;
    while (n < s.n && is_plain(s.p[n])) n++;
    return n;
}

static void add_unit(struct buf *out, uint32_t unit)
{
    static const char hex[] = "0123456789abcdef";
    char text[6] = {'\\', 'u', hex[unit >> 12 & 15], hex[unit >> 8 & 15], hex[unit >> 4 & 15], hex[unit & 15]};
    buf_add(out, text, sizeof(text));
}

static void add_escaped(struct buf *out, uint32_t code)
{
    static const char shorts[] = "\"\"\\\\\bb\ff\nn\rr\tt"; /* pairs: character, its letter behind the backslash */
    for (size_t i = 0; i + 1 < sizeof(shorts) && code < 0x80; i += 2) {
        if ((uint32_t)shorts[i] != code) continue;
        char text[2] = {'\\', shorts[i + 1]};
        buf_add(out, text, sizeof(text));
        return;
    }
    if (code < 0x10000) {
        add_unit(out, code);
        return;
    }
    code -= 0x10000;
    add_unit(out, 0xd800 | code >> 10);
    add_unit(out, 0xdc00 | (code & 0x3ff));
}

static void add_text(struct buf *out, struct slice s)
{
    buf_reserve(out, s.n + 2);
    buf_add_char(out, '"');
    while (s.n) {
        size_t run = plain_run(s);
        buf_add(out, s.p, run);
        s = slice_make(s.p + run, s.n - run);
        if (s.n == 0) break;
        uint32_t code;
        size_t length = slice_utf8(s, &code);
        add_escaped(out, length ? code : 0xfffd);
        if (length == 0) length = 1;
        s = slice_make(s.p + length, s.n - length);
    }
    buf_add_char(out, '"');
}

void json_key(struct json *j, struct slice key)
{
    before(j);
    add_text(j->out, key);
    buf_add_char(j->out, ':');
    j->comma = false;
}

void json_text(struct json *j, struct slice text)
{
    before(j);
    add_text(j->out, text);
}

void json_plain(struct json *j, struct slice text)
{
    before(j);
    buf_reserve(j->out, text.n + 2);
    buf_add_char(j->out, '"');
    buf_add_slice(j->out, text);
    buf_add_char(j->out, '"');
}

void json_int(struct json *j, long long value)
{
    before(j);
    buf_add_int(j->out, value);
}

void json_double(struct json *j, double value)
{
    if (!isfinite(value)) {
        json_nil(j);
        return;
    }
    before(j);
    buf_add_double(j->out, value);
}

void json_thousandths(struct json *j, uint64_t value)
{
    before(j);
    buf_add_thousandths(j->out, value);
}

void json_bool(struct json *j, bool value)
{
    json_raw(j, value ? SLICE("true") : SLICE("false"));
}

void json_nil(struct json *j)
{
    json_raw(j, SLICE("null"));
}

void json_raw(struct json *j, struct slice text)
{
    before(j);
    buf_add_slice(j->out, text);
}
