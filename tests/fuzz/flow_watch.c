/* See fuzz/flow_watch.h. Its reader knows just enough HTTP and is strict: what the proxy writes is well formed. */
#include "flow_watch.h"

#include <ctype.h>
#include <jansson.h>
#include <strings.h>

#include "base/check.h"

#define GRANT "x-auth-context"

struct watch watch;

static const char *keep(struct slice s)
{
    return arena_copy(&flow.arena, s).p;
}

static const char *text_at(const json_t *o, const char *a, const char *b)
{
    const json_t *v = json_object_get(json_object_get(o, a), b);
    return json_is_string(v) ? json_string_value(v) : "";
}

void watch_allow(const char *body, int64_t ttl_ms)
{
    json_t *o = json_loads(body, JSON_REJECT_DUPLICATES, NULL);
    const json_t *in = json_object_get(o, "input");
    if (!o && strlen(body) > 4000) return; /* jansson reads 2048 levels; a what-if question may have as many below ours */
    CHECK(json_is_object(in), "a question to the engine has an input");
    CHECK(watch.allowed_n < WATCH_MARKS_MAX, "room for what is allowed");
    watch.allowed[watch.allowed_n].user = keep(slice_str(text_at(in, "user", "id")));
    watch.allowed[watch.allowed_n].method = keep(slice_str(text_at(in, "request", "method")));
    watch.allowed[watch.allowed_n].path = keep(slice_str(text_at(in, "request", "path")));
    watch.allowed[watch.allowed_n++].until_ms = loop_now_ms(flow.loop) + ttl_ms;
    json_decref(o);
}

static bool is_allowed(const char *user, const char *method, const char *path)
{
    for (size_t i = 0; i < watch.allowed_n; i++)
        if (strcmp(watch.allowed[i].user, user) == 0 && strcmp(watch.allowed[i].method, method) == 0 &&
            strcmp(watch.allowed[i].path, path) == 0 && watch.allowed[i].until_ms >= loop_now_ms(flow.loop))
            return true;
    return false;
}

/* --- heads -------------------------------------------------------------------------------------------------------- */

static bool take_line(struct slice *rest, struct slice *line)
{
    const char *end = rest->n >= 2 ? memmem(rest->p, rest->n, "\r\n", 2) : NULL;
    if (!end) return false;
    *line = slice_make(rest->p, (size_t)(end - rest->p));
    *rest = slice_make(end + 2, rest->n - line->n - 2);
    return true;
}

static bool is_header(struct slice line, const char *name, struct slice *value)
{
    size_t n = strlen(name);
    if (line.n <= n || line.p[n] != ':' || strncasecmp(line.p, name, n) != 0) return false;
    *value = slice_trim(slice_make(line.p + n + 1, line.n - n - 1));
    return true;
}

/* Names that a server may take for the grant's. */
static bool is_like_grant(struct slice line)
{
    size_t n = sizeof GRANT - 1;
    if (line.n <= n || line.p[n] != ':') return false;
    for (size_t i = 0; i < n; i++) {
        char c = line.p[i] == '_' || line.p[i] == '.' ? '-' : (char)tolower((unsigned char)line.p[i]);
        if (c != GRANT[i]) return false;
    }
    return true;
}

struct out {                   /* a request at the upstream */
    const char *method, *path; /* path without its query */
    size_t mark, marks, hosts, lengths, codings, grants, expects;
    uint64_t length;
    const char *grant;
};

static void read_header(struct out *o, struct slice line)
{
    struct slice value;
    CHECK(memchr(line.p, ':', line.n), "a header has a colon");
    o->hosts += is_header(line, "host", &value);
    o->expects += is_header(line, "expect", &value);
    if (is_header(line, "x-mark", &value)) {
        o->marks++;
        o->mark = strtoul(keep(value), NULL, 10);
    }
    if (is_header(line, "content-length", &value)) {
        o->lengths++;
        o->length = strtoull(keep(value), NULL, 10);
    }
    o->codings += is_header(line, "transfer-encoding", &value);
    if (is_like_grant(line)) {
        o->grants++;
        CHECK(is_header(line, GRANT, &value), "the grant by its own name");
        o->grant = keep(value);
    }
}

static struct out read_head(struct slice head)
{
    struct out o = {.mark = WATCH_MARKS_MAX};
    struct slice line;
    CHECK(take_line(&head, &line), "a request line");
    const char *space = memchr(line.p, ' ', line.n), *last = memrchr(line.p, ' ', line.n);
    CHECK(space && last > space && slice_eq(slice_make(last, line.n - (size_t)(last - line.p)), SLICE(" HTTP/1.1")),
          "method, target and version");
    o.method = keep(slice_make(line.p, (size_t)(space - line.p)));
    struct slice target = slice_make(space + 1, (size_t)(last - space - 1));
    const char *mark = memchr(target.p, '?', target.n);
    CHECK(target.n && target.p[0] == '/' && !memchr(target.p, ' ', target.n), "a path");
    o.path = keep(mark ? slice_make(target.p, (size_t)(mark - target.p)) : target);
    while (take_line(&head, &line) && line.n)
        read_header(&o, line);
    CHECK(o.hosts == 1 && o.lengths + o.codings <= 1, "one Host, one framing");
    return o;
}

/* --- requests at the upstream ------------------------------------------------------------------------------------- */

static bool is_below(const char *path, const char *prefix)
{
    size_t n = strlen(prefix);
    return strncmp(path, prefix, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

static void check_access(const struct out *o)
{
    if (is_below(o->path, "/public")) {
        CHECK(o->grants == 0, "no grant on a public route");
        return;
    }
    CHECK(o->grants == 1, "one grant on every other");
    json_t *grant = json_loads(o->grant, JSON_REJECT_DUPLICATES, NULL);
    const json_t *policy = json_object_get(grant, "policy");
    const char *user = text_at(grant, "user", "id");
    CHECK(grant && *user, "the grant names its user");
    if (is_below(o->path, "/me")) {
        CHECK(json_is_null(policy) && strcmp(user, "anonymous") != 0, "nobody was asked, and somebody is it");
    } else {
        CHECK(json_is_true(json_object_get(policy, "allow")), "the grant says allowed");
        CHECK(is_allowed(user, o->method, o->path), "and the engine had said so");
    }
    if (o->marks == 1 && !watch.raw) {
        const struct sent *s = &watch.sent[o->mark];
        /* under `anonymous: judge` whom the API does not know (404) is nobody, and judged as that */
        bool unknown = watch.judged && strcmp(user, "anonymous") == 0;
        CHECK(s->user && (unknown || strcmp(s->user, user) == 0), "the user is the one whose token it was");
    }
    json_decref(grant);
}

/* A request is sent again once, on another connection, when the first was used before, no byte of the body went out and
   none of an answer came. */
static void check_again(const struct sent *s)
{
    const struct up *first = &watch.ups[s->last_up];
    CHECK(s->out == 1 && strcmp(s->method, "POST") != 0, "once more at most, and only what may be repeated");
    CHECK(first->heads > 1 && first->mark == (size_t)(s - watch.sent) && !first->answer_sent && !s->out_body,
          "only when nothing can have come of the first");
    CHECK(flow.ups[s->last_up]->ends || flow.ups[s->last_up]->write_error || flow.ups[s->last_up]->closed, "it broke");
}

static void on_request(size_t i, struct up *u, struct slice head)
{
    struct out o = read_head(head);
    check_access(&o);
    u->heads++;
    u->mark = WATCH_MARKS_MAX;
    u->answer_sent = false;
    u->head = strcmp(o.method, "HEAD") == 0;
    u->chunked = o.codings == 1;
    u->in_body = o.codings || o.length;
    u->left = o.length;
    if (o.marks != 1 || o.mark >= watch.sent_n) {
        CHECK(watch.raw, "every request has its mark");
        return;
    }
    struct sent *s = &watch.sent[o.mark];
    u->mark = o.mark;
    if (!watch.raw) {
        CHECK(strcmp(s->method, o.method) == 0 && strcmp(s->path, o.path) == 0, "as the client sent it");
        CHECK(!o.lengths || o.length == s->body, "with its length");
    }
    if (s->out) check_again(s);
    s->out++;
    s->last_up = i;
}

static void on_body(struct up *u, struct slice data)
{
    for (size_t i = 0; i < data.n && !watch.raw; i++)
        CHECK(data.p[i] == 'b', "the body is the client's");
    if (u->mark == WATCH_MARKS_MAX) return;
    struct sent *s = &watch.sent[u->mark];
    s->out_body += data.n;
    CHECK(watch.raw || s->out_body <= s->body, "no more than the client sent");
}

/* One step: a head, a piece of a body or a chunk's frame; false when more must come. */
static bool read_some(size_t i, struct up *u, struct slice rest)
{
    struct slice line, from = rest;
    if (!u->in_body) {
        const char *end = rest.n ? memmem(rest.p, rest.n, "\r\n\r\n", 4) : NULL;
        if (!end) return false;
        u->at += (size_t)(end - rest.p) + 4;
        on_request(i, u, slice_make(rest.p, (size_t)(end - rest.p) + 4));
        return true;
    }
    if (u->left) {
        size_t n = rest.n < u->left ? rest.n : (size_t)u->left;
        on_body(u, slice_make(rest.p, n));
        u->at += n;
        u->left -= n;
        if (!u->left && !u->chunked) u->in_body = false;
        return n > 0;
    }
    if (!take_line(&rest, &line)) return false;
    u->at += line.n + 2;
    if (!line.n) return true; /* behind a chunk */
    CHECK(isxdigit((unsigned char)line.p[0]) && line.n < 18, "a chunk's size");
    u->left = strtoull(keep(line), NULL, 16);
    if (u->left) return true;
    u->at -= line.n + 2;
    rest = from;
    const char *end = rest.n ? memmem(rest.p, rest.n, "\r\n\r\n", 4) : NULL;
    if (!end) return false;
    while (take_line(&rest, &line) && line.n)
        CHECK(!is_like_grant(line), "no grant in the trailers");
    u->at += (size_t)(end - from.p) + 4;
    u->in_body = false;
    return true;
}

void watch_ups(void)
{
    CHECK(flow.ups_n < WATCH_UPS_MAX, "room for the connections");
    for (size_t i = 0; i < flow.ups_n; i++) {
        struct up *u = &watch.ups[i];
        const struct buf *got = &flow.ups[i]->got;
        while (!u->tunnel && u->at < got->n && read_some(i, u, slice_make(got->p + u->at, got->n - u->at)))
            continue;
    }
}

/* --- answers at the clients --------------------------------------------------------------------------------------- */

void watch_client(size_t client, struct slice got)
{
    size_t last = 0;
    const char *at;
    while (got.n && (at = memmem(got.p, got.n, "for-mark-", 9))) {
        if (got.n - (size_t)(at - got.p) < 13) return; /* the rest is still to come */
        const char *digits = keep(slice_make(at + 9, 4));
        got.n -= (size_t)(at - got.p) + 9;
        got.p = at + 9;
        if (strspn(digits, "0123456789") < 4) continue; /* the frame of a chunk parts it: read in two pieces */
        size_t mark = strtoul(digits, NULL, 10);
        CHECK(mark < watch.sent_n && watch.sent[mark].client == client, "an answer to this client's request");
        CHECK(mark >= last, "in the order they were sent");
        last = mark;
    }
}
