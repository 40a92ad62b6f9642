/* See fuzz/message.h. What a reading found is written to a transcript; the transcripts of all ways to cut the stream
   are the same text. */
#include "message.h"

#include <ctype.h>

#include "base/buf.h"
#include "base/list.h"
#include "fuzz.h"
#include "http/writer.h"

#define HEADERS_MAX 30

enum cut { CUT_NOWHERE, CUT_EVERYWHERE, CUT_ANYWHERE };

struct reading {
    struct parser parser;
    struct arena arena;
    enum parser_kind kind;
    bool to_head;
    bool first;          /* of all cuts: what it finds is compared with the second reading too */
    struct slice stream; /* all of it */
    size_t begun;        /* where the message begins in it */
    size_t used;         /* how much of it was taken */
    struct buf pending;  /* come, not taken yet */
    size_t scanned;
    struct slice head; /* heap, exact; p NULL: no message under way */
    struct buf body;
    bool over; /* nothing more can be read */
    struct buf transcript;
};

/* --- the second reading ------------------------------------------------------------------------------------------- */

static bool is_name(struct slice s)
{
    for (size_t i = 0; i < s.n; i++)
        if (!isalnum((unsigned char)s.p[i]) && (!s.p[i] || !strchr("!#$%&'*+-.^_`|~", s.p[i]))) return false;
    return s.n > 0;
}

/* A line without its CR LF off the front; it has neither in it. */
static bool take_line(struct slice *rest, struct slice *line)
{
    const char *end = rest->n >= 2 ? memmem(rest->p, rest->n, "\r\n", 2) : NULL;
    if (!end) return false;
    *line = slice_make(rest->p, (size_t)(end - rest->p));
    *rest = slice_make(end + 2, rest->n - line->n - 2);
    return !memchr(line->p, '\r', line->n) && !memchr(line->p, '\n', line->n) && !memchr(line->p, 0, line->n);
}

static void check_first_line(const struct head *h, enum parser_kind kind, struct slice line)
{
    struct buf b;
    buf_init(&b, NULL);
    if (kind == PARSER_REQUEST)
        buf_printf(&b, "%.*s %.*s HTTP/1.%d", (int)h->method.n, h->method.p, (int)h->target.n, h->target.p,
                   h->version_minor);
    else
        buf_printf(&b, "HTTP/1.%d %03d", h->version_minor, h->status);
    if (kind == PARSER_RESPONSE && line.n > b.n)
        buf_printf(&b, " %.*s", (int)h->phrase.n, h->phrase.n ? h->phrase.p : "");
    CHECK(slice_eq(line, buf_slice(&b)), "the first line is what the parser made of it");
    buf_free(&b);
    CHECK(h->version_major == 1 && (h->version_minor == 0 || h->version_minor == 1), "HTTP/1.0 or 1.1");
    for (size_t i = 0; i < h->target.n; i++)
        CHECK(h->target.p[i] > 0x20 && h->target.p[i] != 0x7f, "a target prints");
    for (size_t i = 0; i < h->phrase.n; i++)
        CHECK((unsigned char)h->phrase.p[i] >= 0x20 || h->phrase.p[i] == '\t', "a phrase prints");
}

struct facts {
    size_t hosts, lengths, codings;
    struct slice length, coding;
};

static struct facts check_lines(const struct head *h, struct slice rest)
{
    struct facts f = {0};
    struct slice line;
    size_t n = 0;
    while (take_line(&rest, &line) && line.n) {
        const char *colon = memchr(line.p, ':', line.n);
        CHECK(colon && n < h->n, "a header line the parser saw");
        struct slice name = slice_make(line.p, (size_t)(colon - line.p));
        struct slice value = slice_trim(slice_make(colon + 1, line.n - name.n - 1));
        CHECK(is_name(name) && slice_eq(name, h->v[n].name), "the name of a header");
        CHECK(slice_eq(value, h->v[n].value), "the value of a header");
        for (size_t i = 0; i < value.n; i++)
            CHECK((unsigned char)value.p[i] >= 0x20 || value.p[i] == '\t', "no control character in a value");
        f.hosts += slice_eq_nocase(name, SLICE("host"));
        if (slice_eq_nocase(name, SLICE("content-length"))) f.lengths++, f.length = value;
        if (slice_eq_nocase(name, SLICE("transfer-encoding"))) f.codings++, f.coding = value;
        n++;
    }
    CHECK(n == h->n && rest.n == 0, "as many headers, and the head ends with them");
    return f;
}

static void check_facts(const struct head *h, enum parser_kind kind, bool to_head, struct slice bytes)
{
    struct slice rest = bytes, line;
    CHECK(take_line(&rest, &line), "a head that was taken has a first line");
    check_first_line(h, kind, line);
    struct facts f = check_lines(h, rest);
    long long value = 0;
    CHECK(f.lengths + f.codings <= 1, "one thing says how long the body is");
    CHECK(!f.codings || (slice_eq_nocase(f.coding, SLICE("chunked")) && h->version_minor == 1),
          "chunked and only that");
    CHECK(!f.lengths || slice_to_int(f.length, &value), "a length is digits");
    if (kind == PARSER_REQUEST) {
        CHECK(f.hosts == 1 || (f.hosts == 0 && h->version_minor == 0), "one Host");
        CHECK(h->body != BODY_UNTIL_CLOSE, "a request's body ends by itself");
    } else if (to_head || h->status < 200 || h->status == 204 || h->status == 304) {
        CHECK(h->body == BODY_NONE, "an answer without a body");
        return;
    }
    enum body_kind none = kind == PARSER_REQUEST ? BODY_NONE : BODY_UNTIL_CLOSE;
    CHECK(h->body == (f.codings ? BODY_CHUNKED : value ? BODY_LENGTH : f.lengths ? BODY_NONE : none), "the framing");
    CHECK(h->body != BODY_LENGTH || h->length == (uint64_t)value, "the length");
}

/* bytes: a whole chunked body. Its content; fails when it is not exactly one. */
static void decode_chunks(struct slice rest, struct buf *out)
{
    struct slice line;
    for (;;) {
        CHECK(take_line(&rest, &line), "a chunk has a size line");
        size_t size = 0, digits = 0;
        for (; digits < line.n && isxdigit((unsigned char)line.p[digits]); digits++) {
            char c = line.p[digits];
            CHECK(size < SIZE_MAX / 32, "a chunk size in range");
            size = size * 16 + (size_t)(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
        }
        CHECK(digits && (digits == line.n || strchr("; \t", line.p[digits])), "a chunk size and extensions");
        if (!size) break;
        CHECK(rest.n >= size + 2 && memcmp(rest.p + size, "\r\n", 2) == 0, "a chunk is as long as it says");
        buf_add(out, rest.p, size);
        rest = slice_make(rest.p + size + 2, rest.n - size - 2);
    }
    do {
        CHECK(take_line(&rest, &line), "trailers end with an empty line");
        CHECK(!line.n || (line.p[0] != ' ' && line.p[0] != '\t'), "no trailer is folded");
    } while (line.n);
    CHECK(rest.n == 0, "nothing of what follows was taken");
}

/* body: all bytes that the parser took for it. */
static void check_body(const struct reading *r, struct slice body)
{
    struct buf content;
    buf_init(&content, NULL);
    switch (r->parser.head.body) {
    case BODY_NONE:
        CHECK(body.n == 0, "no body");
        break;
    case BODY_LENGTH:
        CHECK(body.n == r->parser.head.length, "a body of its length");
        buf_add_slice(&content, body);
        break;
    case BODY_CHUNKED:
        decode_chunks(body, &content);
        break;
    case BODY_UNTIL_CLOSE:
        buf_add_slice(&content, body);
        break;
    }
    CHECK(slice_eq(buf_slice(&content), buf_slice(&r->body)), "the body's content");
    buf_free(&content);
}

/* What is passed on is read by the next one as it was read here. */
static void check_passed_on(struct reading *r)
{
    struct head *h = &r->parser.head;
    struct buf b;
    struct parser next;
    struct arena a;
    buf_init(&b, NULL);
    if (head_drop_hop(h) != REASON_FORWARDED) return;
    for (size_t i = 0; i < h->n; i++)
        CHECK(h->v[i].drop || (h->v[i].id != HEADER_CONNECTION && h->v[i].id != HEADER_TRANSFER_ENCODING),
              "hop by hop");
    if (r->kind == PARSER_REQUEST) {
        buf_printf(&b, "%.*s %.*s HTTP/1.1\r\n", (int)h->method.n, h->method.p, (int)h->target.n, h->target.p);
        if (!head_find(h, HEADER_HOST, NULL)) buf_add_lit(&b, "Host: a\r\n");
    } else {
        writer_status(&b, h->status, h->phrase);
    }
    writer_headers(&b, h);
    if (h->body == BODY_CHUNKED) writer_header(&b, SLICE("Transfer-Encoding"), SLICE("chunked"));
    buf_add_lit(&b, "\r\n");
    size_t from = 0, end = 0;
    CHECK(head_scan(buf_slice(&b), &from, &end) == HEAD_WHOLE && end == b.n, "what is passed on is one head");
    arena_init(&a);
    parser_init(&next, r->kind, NULL);
    CHECK(parser_head(&next, buf_slice(&b), &a, HEADERS_MAX + 2, r->to_head) == REASON_FORWARDED, "and a good one");
    CHECK(next.head.body == h->body && next.head.length == h->length, "framed as it came");
    arena_reset(&a);
    buf_free(&b);
}

/* --- the first ---------------------------------------------------------------------------------------------------- */

static void on_body(struct parser *p, struct slice data)
{
    buf_add_slice(&container_of(p, struct reading, parser)->body, data);
}

static void write_down_head(struct reading *r)
{
    const struct head *h = &r->parser.head;
    struct buf *t = &r->transcript;
    buf_printf(t, "%.*s %.*s %d %.*s %d.%d body %d %llu%s%s\n", (int)h->method.n, h->method.p, (int)h->target.n,
               h->target.p, h->status, (int)h->phrase.n, h->phrase.p, h->version_major, h->version_minor, (int)h->body,
               (unsigned long long)h->length, h->keep_alive ? " keep" : "", h->expect_continue ? " expects" : "");
    for (size_t i = 0; i < h->n; i++)
        buf_printf(t, " %d %.*s=%.*s%s\n", (int)h->v[i].id, (int)h->v[i].name.n, h->v[i].name.p, (int)h->v[i].value.n,
                   h->v[i].value.p, h->v[i].drop ? " drop" : "");
}

static void drop_message(struct reading *r)
{
    arena_reset(&r->arena);
    free((char *)(uintptr_t)r->head.p);
    r->head = slice_make(NULL, 0);
    r->body.n = 0;
}

static void end_message(struct reading *r, const char *how)
{
    const struct head *trailers = &r->parser.trailers;
    buf_printf(&r->transcript, "%s %zu ", how, r->used);
    buf_add_slice(&r->transcript, buf_slice(&r->body));
    if (r->parser.complete) {
        for (size_t i = 0; i < trailers->n; i++)
            buf_printf(&r->transcript, "\n trailer %.*s=%.*s", (int)trailers->v[i].name.n, trailers->v[i].name.p,
                       (int)trailers->v[i].value.n, trailers->v[i].value.p);
        if (r->first) {
            size_t head_end = r->begun + r->head.n;
            check_body(r, slice_make(r->stream.p + head_end, r->used - head_end));
            check_passed_on(r);
        }
    }
    buf_add_char(&r->transcript, '\n');
    drop_message(r);
}

static void take(struct reading *r, size_t n)
{
    r->used += n;
    r->pending.n -= n;
    memmove(r->pending.p, r->pending.p + n, r->pending.n);
}

/* True when it went on. */
static bool read_head(struct reading *r)
{
    size_t end = 0;
    enum head_scan s = head_scan(buf_slice(&r->pending), &r->scanned, &end);
    if (s == HEAD_PARTIAL) return false;
    if (s == HEAD_BAD) {
        buf_add_lit(&r->transcript, "bad\n");
        r->over = true;
        return false;
    }
    r->head = input_exact(slice_make(r->pending.p, end));
    r->begun = r->used;
    take(r, end);
    r->scanned = 0;
    enum reason reason = parser_head(&r->parser, r->head, &r->arena, HEADERS_MAX, r->to_head);
    buf_printf(&r->transcript, "head %s ", reason_code(reason));
    if (reason != REASON_FORWARDED) {
        buf_add_char(&r->transcript, '\n');
        drop_message(r);
        r->over = true;
        return false;
    }
    CHECK(r->parser.complete == (r->parser.head.body == BODY_NONE), "complete at once only without a body");
    if (r->first) check_facts(&r->parser.head, r->kind, r->to_head, r->head);
    write_down_head(r);
    if (r->parser.complete) end_message(r, "none");
    return true;
}

static bool read_body(struct reading *r)
{
    struct slice piece = input_exact(buf_slice(&r->pending));
    long n = piece.n ? parser_body(&r->parser, piece) : 0;
    free((char *)(uintptr_t)piece.p);
    if (n < 0) {
        CHECK(!r->parser.complete && r->parser.reason != REASON_FORWARDED, "broken and not complete");
        r->over = true;
        r->used = 0; /* where in a piece it broke is not told, and of two faults near each other either may be named */
        end_message(r, "broken");
        return false;
    }
    CHECK((size_t)n == r->pending.n || r->parser.complete, "all is taken before the end");
    take(r, (size_t)n);
    if (!r->parser.complete) return false;
    end_message(r, "whole");
    return true;
}

static size_t next_piece(enum cut cut, uint32_t *seed, size_t left)
{
    if (cut == CUT_NOWHERE) return left;
    if (cut == CUT_EVERYWHERE) return 1;
    *seed = *seed * 1664525u + 1013904223u;
    size_t most = *seed >> 8 & 1 ? 4 : 64, n = 1 + (*seed >> 16) % most;
    return n < left ? n : left;
}

static void read_stream(struct reading *r, enum cut cut, uint32_t seed)
{
    for (size_t at = 0; at < r->stream.n && !r->over;) {
        size_t n = next_piece(cut, &seed, r->stream.n - at);
        buf_add(&r->pending, r->stream.p + at, n);
        at += n;
        while (!r->over && r->pending.n && (r->head.p ? read_body(r) : read_head(r)))
            continue;
    }
    if (!r->head.p) return;
    CHECK(parser_end(&r->parser) == (r->parser.head.body == BODY_UNTIL_CLOSE), "the end of the stream ends only that");
    end_message(r, "end");
}

static struct buf transcript_of(enum parser_kind kind, bool to_head, struct slice bytes, enum cut cut, uint32_t seed)
{
    struct reading r = {.kind = kind, .to_head = to_head, .first = cut == CUT_NOWHERE, .stream = bytes};
    arena_init(&r.arena);
    parser_init(&r.parser, kind, on_body);
    read_stream(&r, cut, seed);
    buf_free(&r.pending);
    buf_free(&r.body);
    return r.transcript;
}

void message_fuzz(enum parser_kind kind, bool to_head, struct slice bytes)
{
    uint32_t seed = 2166136261u;
    for (size_t i = 0; i < bytes.n; i++)
        seed = (seed ^ (unsigned char)bytes.p[i]) * 16777619u;
    struct buf whole = transcript_of(kind, to_head, bytes, CUT_NOWHERE, 0);
    for (enum cut cut = CUT_EVERYWHERE; cut <= CUT_ANYWHERE; cut++) {
        struct buf other = transcript_of(kind, to_head, bytes, cut, seed);
        CHECK(slice_eq(buf_slice(&whole), buf_slice(&other)), "the same messages however the stream is cut");
        buf_free(&other);
    }
    buf_free(&whole);
    CHECK(arena_chunks_out() == 0, "no arena is left");
}
