/* http/parser: the one door to llhttp. Called by conn for requests and upstream for responses. llhttp finds the parts;
   http/message judges the framing before a byte of the body is read. Refuses a head whose end llhttp sees elsewhere. */
#include "http/parser.h"

#include <llhttp.h>
#include <stdio.h>

#include "base/check.h"
#include "base/list.h"

#define TRAILERS_MAX 32
#define TRAILER_BYTES_MAX 8192
#define CHUNK_OVERHEAD_MAX 16384

_Static_assert(sizeof(llhttp_t) <= sizeof((struct parser *)0)->llhttp, "room for llhttp's state");

static llhttp_t *ll_of(struct parser *p)
{
    return (llhttp_t *)(void *)p->llhttp;
}

static struct parser *of_ll(llhttp_t *ll)
{
    return container_of((unsigned char (*)[sizeof((struct parser *)0)->llhttp])(void *)ll, struct parser, llhttp);
}

static int refuse(struct parser *p, enum reason r)
{
    if (p->reason == REASON_UNSET) p->reason = r;
    return HPE_USER;
}

/* Spans of one part come in pieces only where the input does; a head is one input, trailers may not be. */
static void extend(struct slice *s, const char *at, size_t n)
{
    if (s->n == 0) s->p = at;
    s->n += n;
}

static int on_url(llhttp_t *ll, const char *at, size_t n)
{
    extend(&of_ll(ll)->head.target, at, n);
    return 0;
}

static int on_status(llhttp_t *ll, const char *at, size_t n)
{
    extend(&of_ll(ll)->head.phrase, at, n);
    return 0;
}

static struct header *add_header(struct parser *p, struct head *h, size_t max)
{
    if (h->n == max) return NULL;
    if (h->n == h->cap) {
        size_t cap = h->cap ? h->cap * 2 : 24;
        struct header *v = arena_alloc(p->arena, cap * sizeof *v);
        if (h->n) memcpy(v, h->v, h->n * sizeof *v);
        h->v = v;
        h->cap = cap;
    }
    struct header *header = &h->v[h->n++];
    *header = (struct header){0};
    return header;
}

/* Trailers come with the body, whose bytes do not stay: they are gathered in one piece of memory, in the order they
   come, so that a peer that sends them byte by byte costs no more than one that does not. */
static int add_trailer_piece(struct parser *p, struct slice *to, const char *at, size_t n)
{
    if (n > TRAILER_BYTES_MAX - p->trailer_bytes) return refuse(p, REASON_HEADERS_TOO_LARGE);
    if (!p->trailer_text) p->trailer_text = arena_alloc(p->arena, TRAILER_BYTES_MAX);
    char *end = p->trailer_text + p->trailer_bytes;
    memcpy(end, at, n);
    extend(to, end, n);
    p->trailer_bytes += n;
    return 0;
}

static int on_header_field(llhttp_t *ll, const char *at, size_t n)
{
    struct parser *p = of_ll(ll);
    struct head *h = p->head_done ? &p->trailers : &p->head;
    struct header *last = h->n ? &h->v[h->n - 1] : NULL;
    if (!last || last->value.p) last = add_header(p, h, p->head_done ? TRAILERS_MAX : p->max_headers);
    if (!last) return refuse(p, REASON_HEADERS_TOO_LARGE);
    if (p->head_done) return add_trailer_piece(p, &last->name, at, n);
    extend(&last->name, at, n);
    return 0;
}

static int on_header_value(llhttp_t *ll, const char *at, size_t n)
{
    struct parser *p = of_ll(ll);
    struct head *h = p->head_done ? &p->trailers : &p->head;
    struct header *last = &h->v[h->n - 1];
    if (p->head_done) return add_trailer_piece(p, &last->value, at, n);
    extend(&last->value, at, n);
    return 0;
}

static int on_header_value_complete(llhttp_t *ll)
{
    struct parser *p = of_ll(ll);
    struct head *h = p->head_done ? &p->trailers : &p->head;
    struct header *last = &h->v[h->n - 1];
    if (last->name.n == 0) return refuse(p, REASON_HEADER_INVALID); /* RFC 9110 5.1: a name is a token */
    if (!last->value.p) last->value = SLICE("");
    last->value = slice_trim(last->value);
    last->id = header_identify(last->name);
    return 0;
}

/* RFC 9112 3: one space before the target, one behind it, then HTTP. llhttp takes more spaces, where others see an empty
   target, and RTSP or ICE in the place of HTTP. */
static bool is_request_line(struct slice target)
{
    static const char rest[] = " HTTP/";
    if (target.n == 0 || target.p[-2] == ' ') return false;
    for (size_t i = 0; rest[i]; i++)
        if (target.p[target.n + i] != rest[i]) return false;
    return true;
}

/* 0 goes on to the body, 1 says there is none. */
static int on_headers_complete(llhttp_t *ll)
{
    struct parser *p = of_ll(ll);
    p->head_done = true;
    ll->upgrade = 0; /* CONNECT and Upgrade are refused or dropped by the proxy: nothing switches protocols here */
    p->head.version_major = ll->http_major;
    p->head.version_minor = ll->http_minor;
    enum reason r;
    if (p->kind == PARSER_REQUEST) {
        p->head.method = slice_str(llhttp_method_name((llhttp_method_t)ll->method));
        r = is_request_line(p->head.target) ? head_check_request(&p->head) : REASON_MALFORMED;
    } else {
        p->head.status = ll->status_code;
        r = head_check_response(&p->head, p->to_head);
    }
    if (r != REASON_FORWARDED) {
        refuse(p, r);
        return -1;
    }
    return p->head.body == BODY_NONE ? 1 : 0;
}

/* Chunk framing and trailers have CR only with LF, LF only with CR, and no folded line (RFC 9112 2.2, 5.2, 7.1). llhttp
   ends trailers at a bare LF. */
static bool check_framing(struct parser *p, const char *end)
{
    for (; p->framing < end; p->framing++) {
        char c = *p->framing, last = p->framing_last;
        if ((c == '\n') != (last == '\r') || ((c == ' ' || c == '\t') && last == '\n')) return false;
        p->framing_last = c;
    }
    return true;
}

static int on_body(llhttp_t *ll, const char *at, size_t n)
{
    struct parser *p = of_ll(ll);
    if (p->in_head) return refuse(p, REASON_MALFORMED); /* the head ended before its empty line */
    if (p->head.body == BODY_CHUNKED && !check_framing(p, at)) return refuse(p, REASON_FRAMING);
    p->framing = at + n;
    p->framing_last = '\0';
    p->overhead = 0;
    p->on_body(p, slice_make(at, n));
    return 0;
}

static int on_message_complete(llhttp_t *ll)
{
    of_ll(ll)->complete = true;
    return HPE_PAUSED;
}

static const llhttp_settings_t *settings(void)
{
    static llhttp_settings_t s;
    if (!s.on_url) {
        llhttp_settings_init(&s);
        s.on_url = on_url;
        s.on_status = on_status;
        s.on_header_field = on_header_field;
        s.on_header_value = on_header_value;
        s.on_header_value_complete = on_header_value_complete;
        s.on_headers_complete = on_headers_complete;
        s.on_body = on_body;
        s.on_message_complete = on_message_complete;
    }
    return &s;
}

static enum reason reason_of(struct parser *p, llhttp_errno_t error)
{
    const llhttp_t *ll = ll_of(p);
    if (p->reason != REASON_UNSET) return p->reason;
    if (p->kind == PARSER_RESPONSE) return REASON_UPSTREAM_MALFORMED;
    switch ((int)error) {
    case HPE_UNEXPECTED_CONTENT_LENGTH:
    case HPE_INVALID_CONTENT_LENGTH:
    case HPE_INVALID_TRANSFER_ENCODING:
    case HPE_INVALID_CHUNK_SIZE:
        return REASON_FRAMING;
    case HPE_INVALID_HEADER_TOKEN:
        return REASON_HEADER_INVALID;
    case HPE_INVALID_URL:
        return REASON_TARGET_INVALID;
    case HPE_INVALID_VERSION: /* or what stands behind a good one */
        return ll->http_major == 1 && ll->http_minor <= 1 ? REASON_MALFORMED : REASON_HTTP_VERSION;
    default:
        return REASON_MALFORMED;
    }
}

/* RFC 9112 4: one space, three digits, and a space or nothing. llhttp takes a zero before them. */
static bool has_plain_status(struct slice bytes)
{
    const char *digits = bytes.p + sizeof "HTTP/1.1";
    if (bytes.n < sizeof "HTTP/1.1 200") return false;
    for (int i = 0; i < 3; i++)
        if (digits[i] < '0' || digits[i] > '9') return false;
    return digits[-1] == ' ' && (digits[3] == ' ' || digits[3] == '\r');
}

void parser_init(struct parser *p, enum parser_kind kind, void (*on_body_bytes)(struct parser *p, struct slice data))
{
    memset(p, 0, sizeof *p);
    p->kind = kind;
    p->on_body = on_body_bytes;
}

enum reason parser_head(struct parser *p, struct slice bytes, struct arena *arena, size_t max_headers, bool to_head)
{
    enum parser_kind kind = p->kind;
    void (*on_body_bytes)(struct parser *, struct slice) = p->on_body;
    parser_init(p, kind, on_body_bytes);
    p->arena = arena;
    p->max_headers = max_headers;
    p->to_head = to_head;
    if (kind == PARSER_RESPONSE && !has_plain_status(bytes)) return p->reason = REASON_UPSTREAM_MALFORMED;
    llhttp_t *ll = ll_of(p);
    llhttp_init(ll, kind == PARSER_REQUEST ? HTTP_REQUEST : HTTP_RESPONSE, settings());
    p->in_head = true;
    p->framing_last = '\n';
    llhttp_errno_t error = llhttp_execute(ll, bytes.p, bytes.n);
    p->in_head = false;
    if (p->complete && p->reason == REASON_UNSET) {
        if (error == HPE_PAUSED && llhttp_get_error_pos(ll) == bytes.p + bytes.n) return p->reason = REASON_FORWARDED;
        p->complete = false;
        return p->reason = kind == PARSER_REQUEST ? REASON_MALFORMED : REASON_UPSTREAM_MALFORMED;
    }
    if (error == HPE_OK && p->head_done && p->reason == REASON_UNSET) return p->reason = REASON_FORWARDED;
    return p->reason = reason_of(p, error == HPE_OK ? HPE_INVALID_CONSTANT : error);
}

long parser_body(struct parser *p, struct slice data)
{
    CHECK(p->head_done && p->reason == REASON_FORWARDED, "a body follows a good head");
    if (p->complete || data.n == 0) return 0;
    p->reason = REASON_UNSET;
    p->overhead += data.n; /* reset by each byte of the body itself */
    p->framing = data.p;
    llhttp_t *ll = ll_of(p);
    llhttp_errno_t error = llhttp_execute(ll, data.p, data.n);
    const char *end = error == HPE_OK ? data.p + data.n : llhttp_get_error_pos(ll);
    if (p->head.body == BODY_CHUNKED && !check_framing(p, end)) p->reason = REASON_FRAMING;
    if (p->reason == REASON_UNSET && p->overhead > CHUNK_OVERHEAD_MAX + data.n) refuse(p, REASON_FRAMING);
    if (p->reason == REASON_UNSET && p->complete && error == HPE_PAUSED) {
        p->reason = REASON_FORWARDED;
        return (long)(end - data.p);
    }
    if (p->reason == REASON_UNSET && error == HPE_OK) {
        p->reason = REASON_FORWARDED;
        return (long)data.n;
    }
    p->complete = false;
    p->reason = reason_of(p, error);
    return -1;
}

bool parser_end(struct parser *p)
{
    if (!p->complete && p->head_done && p->head.body == BODY_UNTIL_CLOSE) p->complete = true;
    return p->complete;
}

const char *parser_version(void)
{
    static char text[24];
    snprintf(text, sizeof text, "%d.%d.%d", LLHTTP_VERSION_MAJOR, LLHTTP_VERSION_MINOR, LLHTTP_VERSION_PATCH);
    return text;
}
