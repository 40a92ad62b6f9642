/* conf/net: reading of addresses and URLs. Called by form.c and check.c. It refuses names where literals are expected,
   user info and fragments in URLs, and blocks that trust everybody. */
#include "conf/net.h"

#include <arpa/inet.h>

enum { HOST_BYTES = 253, LABEL_BYTES = 63 };

static bool is_alnum(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* 4, 6, or 0 when it is no literal. */
static int literal(struct slice text, uint8_t bytes[16])
{
    char copy[INET6_ADDRSTRLEN + 1];
    if (text.n == 0 || text.n >= sizeof copy) return 0;
    memcpy(copy, text.p, text.n);
    copy[text.n] = '\0';
    if (inet_pton(AF_INET, copy, bytes) == 1) return 4;
    return inet_pton(AF_INET6, copy, bytes) == 1 ? 6 : 0;
}

/* host[:port] or [v6][:port]: the host without brackets; port "" when none. False for a stray bracket. */
static bool split(struct slice text, struct slice *host, struct slice *port, bool *bracketed)
{
    const char *colon;
    *bracketed = text.n && text.p[0] == '[';
    if (*bracketed) {
        const char *end = memchr(text.p, ']', text.n);
        if (!end) return false;
        *host = slice_make(text.p + 1, (size_t)(end - text.p) - 1);
        text = slice_make(end + 1, text.n - host->n - 2);
        colon = text.n ? text.p : NULL;
        if (colon && *colon != ':') return false;
    } else {
        colon = text.n ? memchr(text.p, ':', text.n) : NULL;
        *host = colon ? slice_make(text.p, (size_t)(colon - text.p)) : text;
    }
    *port = colon ? slice_make(colon + 1, (size_t)(text.p + text.n - colon) - 1) : slice_make("", 0);
    return !colon || port->n;
}

bool net_is_port(struct slice text, int *port)
{
    long long v;
    if (text.n > 5 || !slice_to_int(text, &v) || v < 1 || v > 65535) return false;
    *port = (int)v;
    return true;
}

const char *net_address(struct slice text, struct slice *host, int *port)
{
    static const char wrong[] = "is no address to listen on, expected an IP literal and a port, as 0.0.0.0:3001 or [::]:3001";
    struct slice number;
    bool bracketed;
    uint8_t bytes[16];
    if (!split(text, host, &number, &bracketed)) return wrong;
    if (literal(*host, bytes) != (bracketed ? 6 : 4)) return wrong;
    *port = 0;
    if (slice_eq(number, SLICE("0"))) return NULL;
    return net_is_port(number, port) ? NULL : wrong;
}

bool net_is_loopback(struct slice host)
{
    uint8_t bytes[16];
    static const uint8_t one[16] = {[15] = 1};
    int family = literal(host, bytes);
    return family == 4 ? bytes[0] == 127 : family == 6 && memcmp(bytes, one, 16) == 0;
}

static bool is_clear_beyond(const uint8_t *bytes, int bits, int all)
{
    for (int i = bits; i < all; i++)
        if (bytes[i / 8] & (0x80 >> (i % 8))) return false;
    return true;
}

const char *net_block(struct slice text, struct conf_net *out)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    struct slice rest = text, host = text, bits = SLICE("");
    memset(out, 0, sizeof *out);
    slice_next(&rest, '/', &host);
    bool masked = rest.p != NULL;
    if (masked) bits = rest;
    out->family = (uint8_t)literal(host, out->bytes);
    if (!out->family) return "is no address block, expected one like 10.0.0.0/8 or 2001:db8::/32";
    int all = out->family == 4 ? 32 : 128;
    long long n = all;
    if (masked && (!slice_to_int(bits, &n) || n > all)) return "has no valid prefix length, expected one like /8";
    if (n == 0) return "trusts everybody, expected the addresses of your own proxies";
    if (out->family == 6 && memcmp(out->bytes, mapped, 12) == 0) return "is IPv4 inside IPv6, expected plain IPv4";
    if (!is_clear_beyond(out->bytes, (int)n, all)) return "has bits beyond its prefix length, expected them to be 0";
    out->bits = (uint8_t)n;
    return NULL;
}

/* Such a host is an IPv4 address to most readers (RFC 3986, 3.2.2), whole or cut short. */
static bool ends_in_number(struct slice text)
{
    size_t n = text.n;
    while (n && text.p[n - 1] >= '0' && text.p[n - 1] <= '9') n--;
    return n < text.n && (n == 0 || text.p[n - 1] == '.');
}

static bool is_name(struct slice text)
{
    size_t label = 0;
    if (text.n == 0 || text.n > HOST_BYTES) return false;
    for (size_t i = 0; i < text.n; i++) {
        char c = text.p[i];
        if (c == '.') {
            if (label == 0 || text.p[i - 1] == '-') return false;
            label = 0;
        } else {
            if (!is_alnum(c) && c != '_' && (c != '-' || label == 0)) return false;
            if (++label > LABEL_BYTES) return false;
        }
    }
    return text.p[text.n - 1] != '-' && !ends_in_number(text);
}

bool net_is_host(struct slice text)
{
    uint8_t bytes[16];
    if (text.n > 2 && text.p[0] == '[' && text.p[text.n - 1] == ']')
        return literal(slice_make(text.p + 1, text.n - 2), bytes) == 6;
    return literal(text, bytes) == 4 || is_name(text);
}

static bool is_url_byte(char c)
{
    return c > ' ' && c <= '~' && !strchr("\"<>\\^`{|}", c);
}

const char *net_url(struct slice text, struct net_url *out)
{
    static const char wrong[] = "no URL with a host, expected http://host[:port][/path] or https://...";
    struct slice rest, port;
    bool bracketed;
    memset(out, 0, sizeof *out);
    if (slice_starts(text, SLICE("http://"))) out->scheme = SLICE("http");
    else if (slice_starts(text, SLICE("https://"))) out->scheme = SLICE("https");
    else return wrong;
    rest = slice_make(text.p + out->scheme.n + 3, text.n - out->scheme.n - 3);
    size_t n = 0;
    while (n < rest.n && !strchr("/?#", rest.p[n])) n++;
    out->authority = slice_make(rest.p, n);
    rest = slice_make(rest.p + n, rest.n - n);
    if (memchr(out->authority.p, '@', n)) return "user info in the URL, expected none";
    if (!split(out->authority, &out->host, &port, &bracketed)) return wrong;
    out->port = out->scheme.n == 5 ? 443 : 80;
    if (port.n && !net_is_port(port, &out->port)) return "no valid port in the URL, expected 1 to 65535";
    if (!(bracketed ? net_is_host(slice_make(out->host.p - 1, out->host.n + 2)) : net_is_host(out->host))) return wrong;
    for (size_t i = 0; i < rest.n; i++) {
        if (rest.p[i] == '#') return "a fragment in the URL, expected none";
        if (!is_url_byte(rest.p[i])) return "a character in the URL that must be escaped, expected RFC 3986";
        if (rest.p[i] == '?') out->query = true;
    }
    n = 0;
    while (n < rest.n && rest.p[n] != '?') n++;
    out->path = slice_make(rest.p, n);
    return NULL;
}
