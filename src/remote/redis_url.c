/* remote/redis_url: reads the URL of a Redis. Called by redis_create. Refuses other schemes, a user without a password, bytes that
   no host has; its messages are fixed texts, since the URL carries a password. */
#include "remote/redis_url.h"

#include <stdlib.h>
#include <sys/un.h>

#include "base/check.h"

#define DEFAULT_PORT 6379
#define MAX_PART_BYTES 1024

static bool strip(struct slice *s, const char *prefix)
{
    size_t n = strlen(prefix);
    if (s->n < n || !slice_eq_nocase(slice_make(s->p, n), slice_make(prefix, n))) return false;
    *s = slice_make(s->p + n, s->n - n);
    return true;
}

/* Cuts *s at the first byte that is in stops: the rest, that byte included, is returned. */
static struct slice cut_at(struct slice *s, const char *stops)
{
    size_t i = 0;
    while (i < s->n && !strchr(stops, s->p[i]))
        i++;
    struct slice rest = slice_make(s->p + i, s->n - i);
    s->n = i;
    return rest;
}

static int hex(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

/* Heap copy of s with %XX decoded; NULL when an escape is broken or a NUL would stand in it. */
static char *decode(struct slice s)
{
    char *out = xmalloc(s.n + 1);
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        if (c == '%') {
            int high = i + 2 < s.n ? hex(s.p[i + 1]) : -1;
            int low = high >= 0 ? hex(s.p[i + 2]) : -1;
            if (low < 0)
                c = '\0';
            else
                c = (char)(high * 16 + low);
            i += 2;
        }
        if (c == '\0') {
            explicit_bzero(out, n);
            free(out);
            return NULL;
        }
        out[n++] = c;
    }
    out[n] = '\0';
    return out;
}

static const char *read_number(struct slice s, long long max, int *out, const char *wrong)
{
    long long value;
    if (!slice_to_int(s, &value) || value > max) return wrong;
    *out = (int)value;
    return NULL;
}

static const char *read_query(struct slice query, struct redis_url *out)
{
    static const char wrong[] = "the only query is db=N";
    if (query.n == 0) return NULL;
    if (!strip(&query, "?db=")) return wrong;
    return read_number(query, INT32_MAX, &out->db, wrong);
}

/* Takes "[user]:password@" off the front of *authority. */
static const char *read_user(struct slice *authority, struct redis_url *out)
{
    const char *at = memrchr(authority->p, '@', authority->n);
    if (!at) return NULL;
    struct slice user = slice_make(authority->p, (size_t)(at - authority->p));
    *authority = slice_make(at + 1, authority->n - user.n - 1);
    struct slice password = cut_at(&user, ":");
    if (password.n < 2) return "a user needs a password: redis://user:password@host";
    if (user.n > MAX_PART_BYTES || password.n > MAX_PART_BYTES) return "the user or password is too long";
    if (user.n && !(out->user = decode(user))) return "the user is not well percent-encoded";
    out->password = decode(slice_make(password.p + 1, password.n - 1));
    return out->password ? NULL : "the password is not well percent-encoded";
}

static const char *read_host(struct slice authority, int default_port, struct redis_url *out)
{
    struct slice host = authority, port;
    if (host.n && host.p[0] == '[') {
        port = cut_at(&host, "]");
        if (port.n == 0) return "an address in brackets has no end";
        host = slice_make(host.p + 1, host.n - 1);
        port = slice_make(port.p + 1, port.n - 1);
    } else {
        port = cut_at(&host, ":");
    }
    if (host.n == 0) return "the host is missing";
    if (host.n > 255) return "the host is too long";
    for (size_t i = 0; i < host.n; i++)
        if (host.p[i] <= ' ' || host.p[i] > '~' || strchr("%\"<>\\^`{|}[", host.p[i]))
            return "the host has a character that no host has";
    out->port = default_port;
    if (port.n) {
        if (port.p[0] != ':') return "after the host comes :port or /db";
        const char *wrong = read_number(slice_make(port.p + 1, port.n - 1), 65535, &out->port, "the port is no port");
        if (wrong) return wrong;
        if (out->port == 0) return "the port is no port";
    }
    out->host = xstrndup(host.p, host.n);
    return NULL;
}

static const char *read_tcp(struct slice rest, struct redis_url *out)
{
    struct slice authority = rest;
    struct slice path = cut_at(&authority, "/?");
    struct slice query = cut_at(&path, "?");
    const char *wrong = read_user(&authority, out);
    if (!wrong) wrong = read_host(authority, DEFAULT_PORT, out);
    if (!wrong && path.n > 1)
        wrong = read_number(slice_make(path.p + 1, path.n - 1), INT32_MAX, &out->db, "the database is a number");
    return wrong ? wrong : read_query(query, out);
}

static const char *read_unix(struct slice path, struct redis_url *out)
{
    struct slice query = cut_at(&path, "?");
    if (path.n < 2 || path.p[0] != '/') return "a unix socket is an absolute path: unix:/path/to.sock";
    out->path = decode(path);
    if (!out->path) return "the path is not well percent-encoded";
    if (strlen(out->path) >= sizeof((struct sockaddr_un *)0)->sun_path)
        return "the path of the unix socket is too long";
    return read_query(query, out);
}

static const char *read_redis_unix(struct slice rest, struct redis_url *out)
{
    struct slice authority = rest;
    struct slice path = cut_at(&authority, "/");
    const char *wrong = read_user(&authority, out);
    if (wrong) return wrong;
    if (authority.n) return "a unix socket has no host: redis+unix:///path/to.sock";
    return read_unix(path, out);
}

const char *redis_url_parse(struct slice url, struct redis_url *out)
{
    const char *wrong;
    memset(out, 0, sizeof *out);
    out->tls = url.n > 6 && slice_eq_nocase(slice_make(url.p, 7), SLICE("rediss:"));
    if (url.n && memchr(url.p, '\0', url.n)) return "the url has a NUL in it";
    if (strip(&url, "redis://"))
        wrong = read_tcp(url, out);
    else if (strip(&url, "redis+unix://"))
        wrong = read_redis_unix(url, out);
    else if (strip(&url, "unix://") || strip(&url, "unix:"))
        wrong = read_unix(url, out);
    else if (strip(&url, "rediss://"))
        wrong = read_tcp(url, out);
    else
        wrong = "not a redis://, rediss://, unix: or redis+unix:// url";
    if (wrong) redis_url_finish(out);
    return wrong;
}

const char *redis_address_parse(struct slice text, int default_port, struct redis_url *out)
{
    memset(out, 0, sizeof *out);
    bool nul = text.n && memchr(text.p, '\0', text.n);
    const char *wrong = nul ? "the address has a NUL in it" : read_host(text, default_port, out);
    if (wrong) redis_url_finish(out);
    return wrong;
}

void redis_url_finish(struct redis_url *u)
{
    if (u->password) explicit_bzero(u->password, strlen(u->password));
    free(u->host);
    free(u->path);
    free(u->user);
    free(u->password);
    memset(u, 0, sizeof *u);
}
