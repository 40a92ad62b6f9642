/* http/writer: heads and chunk framing as bytes. Called by relay, reply and upstream. */
#include "http/writer.h"

#include <stdio.h>
#include <time.h>

struct phrase {
    int status;
    struct slice text;
};

static const struct phrase phrases[] = {
#define P(status, text) {status, {text, sizeof text - 1}}
    P(100, "Continue"), P(200, "OK"), P(204, "No Content"), P(400, "Bad Request"), P(401, "Unauthorized"),
    P(403, "Forbidden"), P(404, "Not Found"), P(405, "Method Not Allowed"), P(408, "Request Timeout"),
    P(413, "Content Too Large"), P(414, "URI Too Long"), P(415, "Unsupported Media Type"),
    P(417, "Expectation Failed"), P(421, "Misdirected Request"), P(429, "Too Many Requests"),
    P(431, "Request Header Fields Too Large"), P(499, "Client Closed Request"), P(500, "Internal Server Error"),
    P(501, "Not Implemented"), P(502, "Bad Gateway"), P(503, "Service Unavailable"), P(504, "Gateway Timeout"),
    P(505, "HTTP Version Not Supported"),
#undef P
};

struct slice writer_phrase(int status)
{
    for (size_t i = 0; i < sizeof phrases / sizeof *phrases; i++)
        if (phrases[i].status == status) return phrases[i].text;
    return SLICE("");
}

void writer_status(struct buf *out, int status, struct slice phrase)
{
    buf_add_lit(out, "HTTP/1.1 ");
    buf_add_int(out, status);
    buf_add_char(out, ' ');
    buf_add_slice(out, phrase.n ? phrase : writer_phrase(status));
    buf_add_lit(out, "\r\n");
}

void writer_header(struct buf *out, struct slice name, struct slice value)
{
    buf_reserve(out, name.n + value.n + 4);
    char *p = out->p + out->n;
    memcpy(p, name.p, name.n);
    p += name.n;
    *p++ = ':';
    *p++ = ' ';
    if (value.n) memcpy(p, value.p, value.n);
    p += value.n;
    *p++ = '\r';
    *p++ = '\n';
    out->n += name.n + value.n + 4;
}

void writer_headers(struct buf *out, const struct head *h)
{
    for (size_t i = 0; i < h->n; i++)
        if (!h->v[i].drop) writer_header(out, h->v[i].name, h->v[i].value);
}

size_t writer_chunk(char out[WRITER_CHUNK_BYTES], uint64_t n)
{
    static const char digits[] = "0123456789abcdef";
    char reversed[16];
    size_t count = 0, at = 0;
    do {
        reversed[count++] = digits[n & 15];
        n >>= 4;
    } while (n);
    while (count) out[at++] = reversed[--count];
    out[at++] = '\r';
    out[at++] = '\n';
    return at;
}

struct slice writer_date(int64_t wall_ms)
{
    static char text[64];
    static time_t made;
    static size_t n;
    time_t now = (time_t)(wall_ms / 1000);
    if (now != made || n == 0) {
        struct tm tm;
        gmtime_r(&now, &tm);
        static const char days[][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
        static const char months[][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                         "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
        n = (size_t)snprintf(text, sizeof text, "%s, %02d %s %04d %02d:%02d:%02d GMT", days[tm.tm_wday], tm.tm_mday,
                             months[tm.tm_mon], tm.tm_year + 1900, tm.tm_hour, tm.tm_min, tm.tm_sec);
        made = now;
    }
    return slice_make(text, n);
}
