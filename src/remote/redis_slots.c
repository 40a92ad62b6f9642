/* remote/redis_slots: reads what servers say of other servers. Called by redis_route and redis. Refuses slots and ports out
   of range, ranges that overlap, hosts with bytes that no host has, and maps with more masters than REDIS_MASTERS_MOST. */
#include "remote/redis_slots.h"

#include <stdlib.h>

#include "base/check.h"

bool redis_place_same(const struct redis_place *a, const struct redis_place *b)
{
    return a->port == b->port && strcmp(a->host, b->host) == 0;
}

/* CRC-16/XMODEM: polynomial 0x1021, from 0, not reflected. */
static uint16_t crc16(struct slice s)
{
    uint16_t crc = 0;
    for (size_t i = 0; i < s.n; i++) {
        crc = (uint16_t)(crc ^ (uint16_t)((unsigned char)s.p[i] << 8));
        for (int bit = 0; bit < 8; bit++)
            crc = (uint16_t)(crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1);
    }
    return crc;
}

unsigned redis_slot(struct slice key)
{
    const char *open = key.n ? memchr(key.p, '{', key.n) : NULL;
    if (open) {
        size_t left = key.n - (size_t)(open + 1 - key.p);
        const char *close = memchr(open + 1, '}', left);
        if (close && close > open + 1) key = slice_make(open + 1, (size_t)(close - open - 1));
    }
    return crc16(key) % REDIS_SLOTS;
}

static bool read_host(struct slice host, const char *asked, struct redis_place *out)
{
    if (host.n == 0 || slice_eq(host, SLICE("?"))) host = slice_str(asked);
    if (host.n == 0 || host.n >= sizeof out->host) return false;
    for (size_t i = 0; i < host.n; i++) {
        char c = host.p[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!letter && !strchr(".:-_", c)) return false;
        if (c == '\0') return false;
    }
    memcpy(out->host, host.p, host.n);
    out->host[host.n] = '\0';
    return true;
}

static bool read_port(long long port, struct redis_place *out)
{
    out->port = (int)port;
    return port >= 1 && port <= 65535;
}

/* [host or nil, port, id, …] */
static bool read_node(const struct redis_reply *r, const char *asked, struct redis_place *out)
{
    if (r->kind != REDIS_KIND_ARRAY || r->n < 2 || r->items[1].kind != REDIS_KIND_INTEGER) return false;
    if (r->items[0].kind != REDIS_KIND_STRING && r->items[0].kind != REDIS_KIND_NIL) return false;
    return read_host(r->items[0].text, asked, out) && read_port(r->items[1].integer, out);
}

static size_t find(const struct redis_place *places, size_t n, const struct redis_place *p)
{
    size_t i = 0;
    while (i < n && !redis_place_same(&places[i], p))
        i++;
    return i;
}

static bool add(struct redis_place **places, size_t *n, const struct redis_place *p, size_t *at)
{
    *at = find(*places, *n, p);
    if (*at < *n) return true;
    if (*n == REDIS_MASTERS_MOST) return false;
    if ((*n & (*n - 1)) == 0) *places = xrealloc(*places, (*n ? *n * 2 : 1) * sizeof **places);
    (*places)[(*n)++] = *p;
    return true;
}

/* [first slot, last slot, master, replica…] */
static bool read_range(const struct redis_reply *r, const char *asked, struct redis_slots *out)
{
    struct redis_place place;
    size_t at;
    if (r->kind != REDIS_KIND_ARRAY || r->n < 3) return false;
    if (r->items[0].kind != REDIS_KIND_INTEGER || r->items[1].kind != REDIS_KIND_INTEGER) return false;
    long long first = r->items[0].integer, last = r->items[1].integer;
    if (first < 0 || last < first || last >= REDIS_SLOTS) return false;
    if (!read_node(&r->items[2], asked, &place) || !add(&out->masters, &out->masters_n, &place, &at)) return false;
    for (long long slot = first; slot <= last; slot++) {
        if (out->owner[slot] != REDIS_NOBODY) return false;
        out->owner[slot] = (uint16_t)at;
    }
    /* Replicas are only asked for the map one day: one that cannot be read is left out. */
    for (size_t i = 3; i < r->n; i++)
        if (read_node(&r->items[i], asked, &place)) add(&out->replicas, &out->replicas_n, &place, &at);
    return true;
}

struct redis_slots *redis_slots_read(const struct redis_reply *reply, const char *asked)
{
    if (reply->kind != REDIS_KIND_ARRAY || reply->n == 0 || reply->n > REDIS_SLOTS) return NULL;
    struct redis_slots *s = xzalloc(sizeof *s);
    memset(s->owner, 0xff, sizeof s->owner);
    for (size_t i = 0; i < reply->n; i++) {
        if (read_range(&reply->items[i], asked, s)) continue;
        redis_slots_free(s);
        return NULL;
    }
    return s;
}

void redis_slots_free(struct redis_slots *s)
{
    if (!s) return;
    free(s->masters);
    free(s->replicas);
    free(s);
}

enum redis_redirection redis_redirection_read(struct slice error, const char *asked, unsigned *slot,
                                              struct redis_place *to)
{
    struct slice word, number, host, port, rest = error;
    long long n;
    if (!slice_next(&rest, ' ', &word) || !slice_next(&rest, ' ', &number) || rest.n == 0) return REDIS_STAYS;
    enum redis_redirection kind = slice_eq(word, SLICE("MOVED")) ? REDIS_MOVED
                                  : slice_eq(word, SLICE("ASK")) ? REDIS_ASK
                                                                 : REDIS_STAYS;
    const char *colon = memrchr(rest.p, ':', rest.n); /* an IPv6 address has more of them */
    if (kind == REDIS_STAYS || !slice_to_int(number, &n) || n >= REDIS_SLOTS || !colon) return REDIS_STAYS;
    *slot = (unsigned)n;
    host = slice_make(rest.p, (size_t)(colon - rest.p));
    port = slice_make(colon + 1, rest.n - host.n - 1);
    return slice_to_int(port, &n) && read_port(n, to) && read_host(host, asked, to) ? kind : REDIS_STAYS;
}

bool redis_master_read(const struct redis_reply *reply, struct redis_place *out)
{
    long long port;
    if (reply->kind != REDIS_KIND_ARRAY || reply->n != 2) return false;
    if (reply->items[0].kind != REDIS_KIND_STRING || reply->items[1].kind != REDIS_KIND_STRING) return false;
    return read_host(reply->items[0].text, NULL, out) && slice_to_int(reply->items[1].text, &port) &&
           read_port(port, out);
}
