/* http/message: the header list and the framing rules. Called by parser, conn and upstream. Refuses every framing that
   two readers could take differently. */
#include "http/message.h"

#include <stdlib.h>

#include "base/check.h"

#define NAME_LENGTH_MAX 40

struct known {
    struct slice name;
    bool hop;
};

static const struct known known[HEADER_COUNT] = {
    {{0, 0}, false},
#define HEADER(id, name, hop) {{name, sizeof name - 1}, hop},
#include "http/headers.def"
#undef HEADER
};

struct name_set {
    struct slice *names; /* canonical: lower case, '-' */
    size_t n;
    uint64_t lengths; /* bit L: some name has L bytes (63: that or more) */
};

static char canonical(char c)
{
    if (c >= 'A' && c <= 'Z') return (char)(c | 0x20);
    return c == '_' || c == '.' ? '-' : c;
}

static bool is_tchar(char c)
{
    static const char extra[] = "!#$%&'*+-.^_`|~";
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c && memchr(extra, c, sizeof extra - 1) != NULL);
}

enum head_scan head_scan(struct slice bytes, size_t *from, size_t *end)
{
    if (bytes.n && !is_tchar(bytes.p[0])) return HEAD_BAD; /* TLS, binary, white space */
    size_t at = *from;
    while (at < bytes.n) {
        const char *lf = memchr(bytes.p + at, '\n', bytes.n - at);
        if (!lf) break;
        size_t i = (size_t)(lf - bytes.p);
        if (i == 0 || bytes.p[i - 1] != '\r') return HEAD_BAD;
        if (i >= 2 && bytes.p[i - 2] == '\n') {
            *end = i + 1;
            return HEAD_WHOLE;
        }
        if (i + 1 >= bytes.n) { /* the byte after decides whether it is folded: look at this line again then */
            *from = at;
            return HEAD_PARTIAL;
        }
        if (bytes.p[i + 1] == ' ' || bytes.p[i + 1] == '\t') return HEAD_BAD;
        at = i + 1;
    }
    *from = at;
    return HEAD_PARTIAL;
}

enum header_id header_identify(struct slice name)
{
    /* first known id of each length; the table is in order of length but for equal ones side by side */
    static uint8_t first[NAME_LENGTH_MAX], count[NAME_LENGTH_MAX];
    static uint8_t by_length[HEADER_COUNT];
    static bool ready;
    if (!ready) {
        uint8_t at = 0;
        for (size_t len = 0; len < NAME_LENGTH_MAX; len++) {
            first[len] = at;
            for (uint8_t id = 1; id < HEADER_COUNT; id++)
                if (known[id].name.n == len) by_length[at++] = id;
            count[len] = (uint8_t)(at - first[len]);
        }
        CHECK(at == HEADER_COUNT - 1, "every known header has its place");
        ready = true;
    }
    if (name.n >= NAME_LENGTH_MAX) return HEADER_OTHER;
    for (uint8_t i = 0; i < count[name.n]; i++) {
        uint8_t id = by_length[first[name.n] + i];
        if ((name.p[0] | 0x20) == known[id].name.p[0] && slice_eq_nocase(name, known[id].name))
            return (enum header_id)id;
    }
    return HEADER_OTHER;
}

struct header *head_find(const struct head *h, enum header_id id, size_t *count)
{
    struct header *found = NULL;
    size_t n = 0;
    for (size_t i = 0; i < h->n; i++) {
        if (h->v[i].id != id) continue;
        if (!found) found = &h->v[i];
        n++;
    }
    if (count) *count = n;
    return found;
}

bool header_item(struct slice *rest, struct slice *item)
{
    while (rest->p) {
        if (!slice_next(rest, ',', item)) return false;
        *item = slice_trim(*item);
        if (item->n) return true;
    }
    return false;
}

bool head_lists(const struct head *h, enum header_id id, struct slice word)
{
    for (size_t i = 0; i < h->n; i++) {
        if (h->v[i].id != id) continue;
        struct slice rest = h->v[i].value, item;
        while (header_item(&rest, &item))
            if (slice_eq_nocase(item, word)) return true;
    }
    return false;
}

/* Content_Length or Transfer.Encoding: no length to us, but to servers that read '_' and '.' as '-'. */
static bool frames_elsewhere(const struct head *h)
{
    static const struct slice names[] = {{"content-length", 14}, {"transfer-encoding", 17}};
    for (size_t i = 0; i < h->n; i++)
        for (size_t k = 0; k < 2 && h->v[i].id == HEADER_OTHER; k++)
            if (h->v[i].name.n == names[k].n && header_name_begins(h->v[i].name, names[k])) return true;
    return false;
}

/* RFC 9112 6: one length, or chunked alone, or nothing. */
static enum reason check_framing(struct head *h)
{
    size_t lengths, codings;
    struct header *length = head_find(h, HEADER_CONTENT_LENGTH, &lengths);
    struct header *coding = head_find(h, HEADER_TRANSFER_ENCODING, &codings);
    if (lengths > 1 || codings > 1 || (lengths && codings)) return REASON_FRAMING;
    if (coding) {
        if (h->version_minor == 0) return REASON_FRAMING;
        if (!slice_eq_nocase(coding->value, SLICE("chunked"))) {
            bool list = memchr(coding->value.p ? coding->value.p : "", ',', coding->value.n) != NULL;
            for (size_t i = 0; i < coding->value.n && !list; i++)
                if (!is_tchar(coding->value.p[i])) return REASON_FRAMING;
            return coding->value.n ? REASON_TRANSFER_CODING : REASON_FRAMING;
        }
        h->body = BODY_CHUNKED;
        return REASON_FORWARDED;
    }
    if (!length) return REASON_FORWARDED;
    long long value;
    if (!slice_to_int(length->value, &value) || length->value.n > 18) return REASON_FRAMING;
    h->length = (uint64_t)value;
    h->body = value ? BODY_LENGTH : BODY_NONE;
    return REASON_FORWARDED;
}

static void check_keep_alive(struct head *h)
{
    bool close = head_lists(h, HEADER_CONNECTION, SLICE("close"));
    h->keep_alive = !close && (h->version_minor >= 1 || head_lists(h, HEADER_CONNECTION, SLICE("keep-alive")));
}

enum reason head_check_request(struct head *h)
{
    if (h->version_major != 1 || h->version_minor > 1) return REASON_HTTP_VERSION;
    h->body = BODY_NONE;
    enum reason r = frames_elsewhere(h) ? REASON_FRAMING : check_framing(h);
    if (r != REASON_FORWARDED) return r;
    check_keep_alive(h);
    size_t hosts;
    struct header *host = head_find(h, HEADER_HOST, &hosts);
    if (hosts > 1 || (!host && h->version_minor == 1)) return REASON_HOST_INVALID;
    size_t expects;
    struct header *expect = head_find(h, HEADER_EXPECT, &expects);
    if (expect) {
        if (expects > 1 || !slice_eq_nocase(expect->value, SLICE("100-continue"))) return REASON_EXPECTATION;
        h->expect_continue = h->version_minor == 1 && h->body != BODY_NONE;
        expect->drop = !h->expect_continue; /* RFC 9110 10.1.1: means nothing without a body or in 1.0 */
    }
    return REASON_FORWARDED;
}

/* RFC 9112 4: white space and what prints. */
static bool is_phrase(struct slice s)
{
    for (size_t i = 0; i < s.n; i++)
        if (((unsigned char)s.p[i] < 0x20 && s.p[i] != '\t') || s.p[i] == 0x7f) return false;
    return true;
}

enum reason head_check_response(struct head *h, bool to_head)
{
    if (h->version_major != 1 || h->version_minor > 1) return REASON_UPSTREAM_MALFORMED;
    if (h->status < 100 || !is_phrase(h->phrase)) return REASON_UPSTREAM_MALFORMED;
    h->body = BODY_UNTIL_CLOSE;
    bool bodiless = to_head || h->status < 200 || h->status == 204 || h->status == 304;
    size_t lengths, codings;
    head_find(h, HEADER_CONTENT_LENGTH, &lengths);
    head_find(h, HEADER_TRANSFER_ENCODING, &codings);
    if ((lengths || codings) && check_framing(h) != REASON_FORWARDED) return REASON_UPSTREAM_MALFORMED;
    check_keep_alive(h);
    if (bodiless) h->body = BODY_NONE;
    if (h->body == BODY_UNTIL_CLOSE) h->keep_alive = false;
    return REASON_FORWARDED;
}

static bool is_protected(enum header_id id)
{
    return id == HEADER_HOST || id == HEADER_CONTENT_LENGTH || id == HEADER_TRANSFER_ENCODING ||
           id == HEADER_AUTHORIZATION;
}

static void drop_by_name(struct head *h, struct slice name)
{
    for (size_t i = 0; i < h->n; i++)
        if (slice_eq_nocase(h->v[i].name, name)) h->v[i].drop = true;
}

enum reason head_drop_hop(struct head *h)
{
    enum reason r = REASON_FORWARDED;
    for (size_t i = 0; i < h->n; i++) {
        if (!known[h->v[i].id].hop) continue;
        h->v[i].drop = true;
        if (h->v[i].id != HEADER_CONNECTION) continue;
        struct slice rest = h->v[i].value, item;
        while (header_item(&rest, &item)) {
            if (slice_eq_nocase(item, SLICE("close")) || slice_eq_nocase(item, SLICE("keep-alive"))) continue;
            if (is_protected(header_identify(item)))
                r = REASON_HEADER_INVALID;
            else
                drop_by_name(h, item);
        }
    }
    return r;
}

bool header_name_begins(struct slice name, struct slice text)
{
    if (name.n < text.n) return false;
    for (size_t i = 0; i < text.n; i++)
        if (canonical(name.p[i]) != text.p[i]) return false;
    return true;
}

struct name_set *name_set_create(const struct slice *names, size_t n)
{
    struct name_set *s = xzalloc(sizeof *s);
    s->names = xzalloc((n + 1) * sizeof *s->names);
    for (size_t i = 0; i < n; i++) {
        char *copy = xstrndup(names[i].p ? names[i].p : "", names[i].n);
        for (char *c = copy; *c; c++) *c = canonical(*c);
        s->names[s->n++] = slice_make(copy, names[i].n);
        s->lengths |= 1ULL << (names[i].n < 63 ? names[i].n : 63);
    }
    return s;
}

void name_set_destroy(struct name_set *s)
{
    for (size_t i = 0; i < s->n; i++) free((char *)(uintptr_t)s->names[i].p);
    free(s->names);
    free(s);
}

bool name_set_has(const struct name_set *s, struct slice name)
{
    if (!(s->lengths >> (name.n < 63 ? name.n : 63) & 1)) return false;
    for (size_t i = 0; i < s->n; i++) {
        if (s->names[i].n != name.n) continue;
        size_t k = 0;
        while (k < name.n && canonical(name.p[k]) == s->names[i].p[k]) k++;
        if (k == name.n) return true;
    }
    return false;
}

void head_drop_named(struct head *h, const struct name_set *s)
{
    for (size_t i = 0; i < h->n; i++)
        if (name_set_has(s, h->v[i].name)) h->v[i].drop = true;
}
