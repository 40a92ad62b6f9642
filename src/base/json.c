/* base/json: the streaming JSON writer. Called by the log, the metrics, the policy input, local answers. Refuses to
   put out anything but ASCII: what is not valid UTF-8 becomes U+FFFD, a control character its escape. Nesting is the
   caller's to get right; only the commas are kept here. */
#include "base/json.h"

#include <math.h>

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
        size_t run = 0;
        while (run < s.n && is_plain(s.p[run])) run++;
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
