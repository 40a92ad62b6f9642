/* proxy/peer: who asked. Called when a request begins and when its head is written. Refuses to believe forwarding
   headers and request ids of peers that are not in trusted_proxies. */
#include "proxy/peer.h"

#include <arpa/inet.h>
#include <sys/random.h>

#include "base/check.h"
#include "http/writer.h"

#define REQUEST_ID_MAX 128

bool peer_is_trusted(const struct conf *conf, const struct address *a)
{
    for (size_t i = 0; i < conf->listen.trusted_n; i++) {
        const struct conf_net *net = &conf->listen.trusted[i];
        if (net->family != a->family) continue;
        size_t whole = net->bits / 8, rest = net->bits % 8;
        if (memcmp(net->bytes, a->bytes, whole) != 0) continue;
        if (rest == 0 || ((net->bytes[whole] ^ a->bytes[whole]) >> (8 - rest)) == 0) return true;
    }
    return false;
}

static bool id_is_valid(struct slice id)
{
    if (id.n == 0 || id.n > REQUEST_ID_MAX) return false;
    for (size_t i = 0; i < id.n; i++) {
        char c = id.p[i];
        bool alnum = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!alnum && c != '.' && c != '_' && c != '-') return false;
    }
    return true;
}

static char *hex64(char *out, uint64_t v)
{
    static const char digits[] = "0123456789abcdef";
    for (int i = 15; i >= 0; i--, v >>= 4) out[i] = digits[v & 15];
    return out + 16;
}

/* 128 bits: one half of the process, the other a counter that is mixed (splitmix64), so unique and not telling. */
static struct slice new_id(struct arena *a)
{
    static uint64_t process, seed, count;
    if (!process) {
        CHECK(getrandom(&process, sizeof process, 0) == sizeof process, "random bytes");
        CHECK(getrandom(&seed, sizeof seed, 0) == sizeof seed, "random bytes");
        process |= 1;
    }
    uint64_t z = seed + ++count * 0x9e3779b97f4a7c15ULL;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    char *text = arena_alloc(a, 32);
    hex64(hex64(text, process), z ^ (z >> 31));
    return slice_make(text, 32);
}

/* Address text of one hop in X-Forwarded-For: trimmed, brackets and a port taken off. */
static bool parse_hop(struct slice hop, struct address *a, struct slice *text)
{
    hop = slice_trim(hop);
    if (hop.n && hop.p[0] == '[') {
        const char *end = memchr(hop.p, ']', hop.n);
        if (!end) return false;
        hop = slice_make(hop.p + 1, (size_t)(end - hop.p) - 1);
    } else {
        const char *colon = hop.n ? memchr(hop.p, ':', hop.n) : NULL;
        if (colon && memrchr(hop.p, ':', hop.n) == colon) hop.n = (size_t)(colon - hop.p);
    }
    memset(a, 0, sizeof *a);
    if (hop.n == 0 || hop.n >= sizeof a->text) return false;
    memcpy(a->text, hop.p, hop.n);
    *text = hop;
    if (inet_pton(AF_INET, a->text, a->bytes) == 1)
        a->family = 4;
    else if (inet_pton(AF_INET6, a->text, a->bytes) == 1)
        a->family = 6;
    return a->family != 0;
}

/* X-Forwarded-For as one list, however many lines it came in (RFC 9110 5.3): some proxies add a line of their own. */
static struct slice forwarded_chain(const struct request *r)
{
    size_t lines;
    const struct header *first = head_find(r->head, HEADER_FORWARDED_FOR, &lines);
    if (lines < 2) return first ? first->value : SLICE("");
    struct buf out;
    buf_init(&out, r->arena);
    for (size_t i = 0; i < r->head->n; i++) {
        const struct header *h = &r->head->v[i];
        if (h->id != HEADER_FORWARDED_FOR || h->value.n == 0) continue;
        if (out.n) buf_add_lit(&out, ", ");
        buf_add_slice(&out, h->value);
    }
    return buf_slice(&out);
}

/* The nearest hop that is not a trusted proxy: what stands further left is hearsay. */
static struct slice client_behind(const struct request *r, struct slice chain)
{
    struct slice found = slice_str(r->conn->peer.text);
    while (chain.n) {
        const char *comma = memrchr(chain.p, ',', chain.n);
        struct slice hop = comma ? slice_make(comma + 1, (size_t)(chain.p + chain.n - comma) - 1) : chain;
        chain.n = comma ? (size_t)(comma - chain.p) : 0;
        struct address address;
        struct slice text;
        if (!parse_hop(hop, &address, &text)) break;
        found = text;
        if (!peer_is_trusted(r->conf, &address)) break;
    }
    return found;
}

bool peer_speaks_for_us(struct slice name, bool trusted)
{
    static const struct slice whole[] = {{"forwarded", 9}, {"x-real-ip", 9}, {"x-request-id", 12}};
    bool ours = false, forwarded = header_name_begins(name, SLICE("x-forwarded-"));
    if (forwarded && !trusted) return true;
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        ours |= name.n == whole[i].n && header_name_begins(name, whole[i]);
    /* by another spelling: to a server that reads '_' and '.' as '-' it is the same */
    return (ours || forwarded) && (memchr(name.p, '_', name.n) || memchr(name.p, '.', name.n));
}

void peer_identify(struct request *r)
{
    bool trusted = r->conn->trusted;
    struct header *id = head_find(r->head, HEADER_REQUEST_ID, NULL);
    r->id = trusted && id && id_is_valid(id->value) ? id->value : new_id(r->arena);
    r->client_ip = trusted ? client_behind(r, forwarded_chain(r)) : slice_str(r->conn->peer.text);
    for (size_t i = 0; i < r->head->n; i++) {
        struct header *h = &r->head->v[i];
        switch ((int)h->id) {
        case HEADER_REQUEST_ID:
        case HEADER_FORWARDED_FOR:
        case HEADER_FORWARDED_PROTO:
        case HEADER_FORWARDED_HOST:
            h->drop = true; /* written anew by peer_headers */
            break;
        case HEADER_FORWARDED:
        case HEADER_FORWARDED_PORT:
        case HEADER_REAL_IP:
            h->drop |= !trusted;
            break;
        case HEADER_OTHER:
            h->drop |= peer_speaks_for_us(h->name, trusted);
            break;
        default:
            break;
        }
    }
}

/* What a trusted peer said in its one header of that name, else ours. */
static struct slice trusted_or(const struct request *r, enum header_id id, struct slice ours)
{
    size_t n;
    const struct header *h = head_find(r->head, id, &n);
    return r->conn->trusted && n == 1 && h->value.n ? h->value : ours;
}

void peer_headers(const struct request *r, struct buf *out)
{
    writer_header(out, SLICE("X-Request-Id"), r->id);
    buf_add_lit(out, "X-Forwarded-For: ");
    struct slice chain = r->conn->trusted ? forwarded_chain(r) : SLICE("");
    if (chain.n) {
        buf_add_slice(out, chain);
        buf_add_lit(out, ", ");
    }
    buf_add_slice(out, slice_str(r->conn->peer.text));
    buf_add_lit(out, "\r\n");
    writer_header(out, SLICE("X-Forwarded-Proto"), trusted_or(r, HEADER_FORWARDED_PROTO, r->conn->stream.tls ? SLICE("https") : SLICE("http")));
    struct slice host = trusted_or(r, HEADER_FORWARDED_HOST, r->host);
    if (host.n) writer_header(out, SLICE("X-Forwarded-Host"), host);
}
