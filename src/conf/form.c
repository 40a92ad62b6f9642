/* conf/form: one function per form of text. Called by values.c through its table of kinds. It refuses what a reader
   further in could take for something else: spaces in names, forbidden header names, paths that are not normal. */
#include "conf/form.h"

#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "conf/net.h"

enum { NAME_BYTES = 64, QUERY_NAMES = 4 };

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_alnum(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c);
}

/* Every byte is a letter, a digit, or one of more. */
static bool consists_of(struct slice s, const char *more)
{
    for (size_t i = 0; i < s.n; i++)
        if (!is_alnum(s.p[i]) && !strchr(more, s.p[i])) return false;
    return s.n > 0;
}

static bool is_one_of(struct slice s, const char *const *names)
{
    for (; *names; names++)
        if (slice_eq(s, slice_str(*names))) return true;
    return false;
}

/* As those names are read that are removed: '_' and '.' stand for '-' (http/message). */
static bool is_alias_of_one(struct slice s, const char *const *names)
{
    for (; *names; names++) {
        struct slice name = slice_str(*names);
        size_t i = 0;
        if (s.n != name.n) continue;
        while (i < s.n && (s.p[i] == '_' || s.p[i] == '.' ? '-' : s.p[i]) == name.p[i]) i++;
        if (i == s.n) return true;
    }
    return false;
}

static void lower(struct arena *a, struct slice *text)
{
    char *p = arena_alloc(a, text->n + 1);
    for (size_t i = 0; i < text->n; i++) {
        char c = text->p[i];
        p[i] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
    }
    p[text->n] = '\0';
    *text = slice_make(p, text->n);
}

const char *form_line(struct arena *a, struct slice *text)
{
    (void)a;
    uint32_t code;
    for (struct slice s = *text; s.n;) {
        size_t n = slice_utf8(s, &code);
        if (n == 0) return "is not UTF-8, expected a line of text";
        if (code < 0x20 || (code >= 0x7f && code < 0xa0)) return "has a control character, expected a line of text";
        s = slice_make(s.p + n, s.n - n);
    }
    return NULL;
}

const char *form_prefix_name(struct arena *a, struct slice *text)
{
    (void)a;
    if (consists_of(*text, "_") && !is_digit(text->p[0])) return NULL;
    return "is no prefix of metric names, expected letters, digits and _, no digit first";
}

static bool is_path_byte(char c)
{
    return is_alnum(c) || (c && strchr("-._~!$&'()*+,;=:@/%", c));
}

const char *form_path_text(struct arena *a, struct slice *text)
{
    (void)a;
    bool good = text->p[0] == '/';
    for (size_t i = 0; i < text->n; i++) good = good && is_path_byte(text->p[i]);
    return good ? NULL : "is no path, expected a slash and characters that may stand in a path";
}

const char *form_url(struct arena *a, struct slice *text)
{
    (void)a;
    struct net_url url;
    if (!slice_starts(*text, SLICE("unix:"))) return net_url(*text, &url);
    /* unix:/path/to.sock:/v1/data/... */
    const char *colon = text->n > 6 ? memchr(text->p + 6, ':', text->n - 6) : NULL;
    for (size_t i = 0; i < text->n; i++)
        if (text->p[i] <= ' ' || text->p[i] > '~') return "a character in the URL that must be escaped, expected RFC 3986";
    if (text->p[5] == '/' && colon && colon + 1 < text->p + text->n && colon[1] == '/') return NULL;
    return "no socket and path in the URL, expected unix:/path/to.sock:/path";
}

const char *form_named_url(struct arena *a, struct slice *text)
{
    static const char mark[] = "{name}";
    const char *at = memmem(text->p, text->n, mark, sizeof mark - 1);
    if (!at) return "no {name} in the URL, expected one in its path or query";
    struct buf b;
    buf_init(&b, a);
    buf_add(&b, text->p, (size_t)(at - text->p));
    buf_add_lit(&b, "name");
    buf_add(&b, at + sizeof mark - 1, (size_t)(text->p + text->n - at) - (sizeof mark - 1));
    struct slice plain = buf_slice(&b);
    struct net_url url;
    const char *wrong = form_url(a, &plain);
    if (wrong || slice_starts(plain, SLICE("unix:"))) return wrong;
    net_url(plain, &url);
    size_t before = (size_t)(at - text->p);
    if (before < url.scheme.n + 3 + url.authority.n) return "{name} is in the host, expected it in the path or query";
    return NULL;
}

const char *form_base_url(struct arena *a, struct slice *text)
{
    struct net_url url;
    const char *wrong = net_url(*text, &url);
    if (wrong) return wrong;
    if (url.query) return "a query in the URL, expected none";
    while (url.path.n && url.path.p[url.path.n - 1] == '/') url.path.n--;
    if (url.path.n == 0) return NULL;
    wrong = form_route_path(a, &url.path);
    return wrong ? "a base path that is not normal, expected one without empty, dot or wrongly escaped segments" : NULL;
}

static bool is_token(struct slice s)
{
    return consists_of(s, "!#$%&'*+-.^_`|~");
}

const char *form_header(struct arena *a, struct slice *text)
{
    if (!is_token(*text)) return "is no header name, expected a token";
    lower(a, text);
    return NULL;
}

const char *form_grant_header(struct arena *a, struct slice *text)
{
    static const char *const taken[] = {"connection", "keep-alive", "proxy-connection", "proxy-authenticate",
                                        "proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade",
                                        "content-length", "content-type", "content-encoding", "host", "authorization",
                                        "cookie", "set-cookie", "expect", "forwarded", "x-forwarded-for",
                                        "x-forwarded-host", "x-forwarded-proto", "x-request-id", "traceparent", NULL};
    const char *wrong = form_header(a, text);
    if (wrong) return wrong;
    return is_alias_of_one(*text, taken) ? "has a meaning of its own in HTTP, expected a header of your own" : NULL;
}

const char *form_strip_header(struct arena *a, struct slice *text)
{
    static const char *const needed[] = {"connection", "transfer-encoding", "content-length", "host", "authorization",
                                         "expect", NULL};
    const char *wrong = form_header(a, text);
    if (wrong) return wrong;
    return is_alias_of_one(*text, needed) ? "is needed to read the request, expected another header" : NULL;
}

const char *form_host(struct arena *a, struct slice *text)
{
    static const char wrong[] = "is no host, expected host or host:port";
    struct net_url url;
    struct slice as_url = arena_printf(a, "http://%.*s", (int)text->n, text->p);
    if (net_url(as_url, &url) || url.authority.n != text->n) return wrong;
    lower(a, text);
    return NULL;
}

const char *form_block(struct arena *a, struct slice *text)
{
    (void)a;
    struct conf_net net;
    return net_block(*text, &net);
}

const char *form_method(struct arena *a, struct slice *text)
{
    (void)a;
    bool good = is_token(*text) && text->n <= NAME_BYTES;
    for (size_t i = 0; i < text->n; i++) good = good && !(text->p[i] >= 'a' && text->p[i] <= 'z');
    return good ? NULL : "is no method, expected one in capitals";
}

const char *form_origin(struct arena *a, struct slice *text)
{
    struct net_url url;
    if (slice_eq(*text, SLICE("*"))) return NULL;
    if (net_url(*text, &url) || url.path.n || url.query)
        return "is no origin, expected scheme://host[:port] without a path, or *";
    lower(a, text);
    return NULL;
}

const char *form_algorithm(struct arena *a, struct slice *text)
{
    static const char *const known[] = {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384",
                                        "ES512", "HS256", "HS384", "HS512", "EdDSA", NULL};
    (void)a;
    if (is_one_of(*text, known)) return NULL;
    return "is no algorithm known here, expected RS, PS, ES or HS with 256, 384 or 512, or EdDSA";
}

const char *form_query(struct arena *a, struct slice *text)
{
    (void)a;
    struct slice rest = *text, name;
    int names = 0;
    while (slice_next(&rest, '|', &name))
        if (++names > QUERY_NAMES || name.n > NAME_BYTES || !consists_of(name, "_-."))
            return "is no query name, expected letters, digits and -._, synonyms after |";
    return NULL;
}

bool form_query_has(struct slice query, struct slice name)
{
    struct slice part;
    while (slice_next(&query, '|', &part))
        if (slice_eq(part, name)) return true;
    return false;
}

static int hex(char c)
{
    if (is_digit(c)) return c - '0';
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* An escape as a normal path has it: capitals, and only where it is needed. */
static const char *check_escape(struct slice s)
{
    int high = s.n > 2 ? hex(s.p[1]) : -1, low = s.n > 2 ? hex(s.p[2]) : -1;
    if (high < 0 || low < 0) return "has an invalid escape, expected % and two hexadecimal digits in capitals";
    int byte = high * 16 + low;
    if (byte == 0) return "has an escaped NUL, expected none";
    if (byte < 0x80 && (is_alnum((char)byte) || strchr("-._~", byte)))
        return "escapes a character that needs none, expected it plain";
    return NULL;
}

const char *form_route_path(struct arena *a, struct slice *text)
{
    if (text->p[0] != '/') return "is no path, expected one that begins with a slash";
    size_t n = text->n;
    if (n && text->p[n - 1] == '/') n--;
    struct slice segment, rest = slice_make(text->p + 1, n ? n - 1 : 0);
    if (memchr(text->p, '*', text->n)) return "has a *, expected a plain path; prefix covers everything below";
    for (size_t i = 0; i < n; i++) {
        if (!is_path_byte(text->p[i])) return "has a character that may not stand in a path, expected RFC 3986";
        const char *wrong = text->p[i] == '%' ? check_escape(slice_make(text->p + i, n - i)) : NULL;
        if (wrong) return wrong;
    }
    while (n && slice_next(&rest, '/', &segment)) {
        if (segment.n == 0) return "has an empty segment, expected none";
        if (slice_eq(segment, SLICE(".")) || slice_eq(segment, SLICE("..")))
            return "has a dot segment, expected a normal path";
    }
    *text = arena_copy(a, slice_make(text->p, n));
    return NULL;
}

const char *form_resource(struct arena *a, struct slice *text)
{
    (void)a;
    long long segment;
    if (text->p[0] == '$' && slice_to_int(slice_make(text->p + 1, text->n - 1), &segment) && text->p[1] != '0' &&
        segment <= 16)
        return NULL;
    if (text->n <= NAME_BYTES && consists_of(*text, "_-.:/")) return NULL;
    return "is no resource, expected a name or $1 to $16";
}

const char *form_reference(struct arena *a, struct slice *text)
{
    (void)a;
    return text->n <= NAME_BYTES && consists_of(*text, "_-.") ? NULL : "is no name, expected letters, digits and -._";
}

const char *form_rule(struct arena *a, struct slice *text)
{
    static const char wrong[] = "is no rule, expected data and its packages and name with dots between, as data.example.authz.allow";
    (void)a;
    struct slice rest = *text, part;
    slice_next(&rest, '.', &part);
    if (!slice_eq(part, SLICE("data")) || !rest.p) return wrong;
    while (slice_next(&rest, '.', &part))
        if (!part.n || is_digit(part.p[0]) || !consists_of(part, "_")) return wrong;
    return NULL;
}

const char *form_credential(struct arena *a, struct slice *text)
{
    (void)a;
    for (size_t i = 0; i < text->n; i++)
        if (text->p[i] < ' ' || text->p[i] > '~') return "not printable ASCII in one line, expected that";
    if (text->p[0] == ' ' || text->p[text->n - 1] == ' ') return "a space at an end, expected none";
    return NULL;
}

const char *form_redis_url(struct arena *a, struct slice *text)
{
    static const char wrong[] = "no Redis URL, expected redis:// or rediss://[user:password@]host[:port][/db], or unix:/path[?db=N]";
    struct slice s = *text;
    long long db;
    if (form_credential(a, text) || memchr(s.p, ' ', s.n)) return wrong;
    if (slice_starts(s, SLICE("redis+unix:"))) s = slice_make(s.p + 6, s.n - 6);
    if (slice_starts(s, SLICE("unix:"))) {
        struct slice path = slice_make(s.p + 5, s.n - 5);
        if (slice_starts(path, SLICE("//"))) path = slice_make(path.p + 2, path.n - 2);
        return path.n > 1 && path.p[0] == '/' ? NULL : wrong;
    }
    size_t scheme = slice_starts(s, SLICE("rediss://")) ? 9 : slice_starts(s, SLICE("redis://")) ? 8 : 0;
    if (scheme == 0) return wrong;
    s = slice_make(s.p + scheme, s.n - scheme);
    const char *at = memrchr(s.p, '@', s.n);
    if (at) s = slice_make(at + 1, (size_t)(s.p + s.n - at) - 1);
    struct net_url url;
    struct slice as_url = arena_printf(a, "http://%.*s", (int)s.n, s.p);
    if (net_url(as_url, &url) || url.query) return wrong;
    if (url.path.n > 1 && (!slice_to_int(slice_make(url.path.p + 1, url.path.n - 1), &db) || db > 65535)) return wrong;
    return NULL;
}

const char *form_private_key(struct arena *a, struct slice *text)
{
    (void)a;
    static const char begin[] = "-----BEGIN ", kind[] = "PRIVATE KEY-----";
    if (memmem(text->p, text->n, begin, sizeof begin - 1) && memmem(text->p, text->n, kind, sizeof kind - 1)) return NULL;
    return "no private key, expected PEM";
}
