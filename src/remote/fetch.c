/* remote/fetch: owns small HTTP calls and is, with fetch_multi, the door to curl. Called by authz (profile, keys,
   policy engine) and by the probes. Refuses redirects, proxies and credentials from the environment or the URL, other
   protocols, and bodies over the caller's bound.
   Unreachable is said only when no connection came about because of the other side, since a policy may be waived on it:
   what may be our own fault (no descriptor, no port, no memory) counts as broken. */
#include "remote/fetch.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/check.h"
#include "remote/fetch_multi.h"
#include "remote/fetch_tls.h"
#include "remote/fetch_url.h"

#define MAX_IDLE_EASIES 64
#define MAX_CACHE_CONTROL_BYTES 1024
#define KEEPALIVE_S 60L

struct fetch {
    struct fetch_multi *multi;
    uv_idle_t teller;   /* runs while failed is not empty */
    struct list out;    /* calls that curl has */
    struct list failed; /* calls that never got to curl, or whose socket cannot be watched */
    CURL *idle[MAX_IDLE_EASIES];
    size_t idle_n;
    unsigned open; /* the multi and the teller */
    bool destroyed;
    void (*done)(void *arg);
    void *done_arg;
    bool (*instead)(const struct fetch_request *q, struct fetch_answer *a, void *arg); /* NULL: all calls go out */
    void *instead_arg;
};

struct fetch_call {
    struct list link;
    struct fetch *fetch;
    CURL *easy;         /* NULL: never got to curl */
    struct arena arena; /* the copied request */
    struct slice key;   /* a secret in it; empty: none */
    char said[FETCH_TLS_ERROR_BYTES];
    struct curl_slist *headers;
    struct buf body;
    struct buf cache_control;
    size_t max_bytes;
    uint64_t start_ns;
    int64_t timeout_ms;
    bool head_ended; /* the empty line after the head came */
    bool any_byte;   /* of an answer */
    bool retried;
    bool too_large;
    bool starved; /* no descriptor for its socket */
    bool is_given; /* it never goes out: this is its answer */
    struct fetch_answer given;
    const char *refusal;
    void (*on_answer)(const struct fetch_answer *a, void *arg);
    void *arg;
};

static void on_done(CURL *easy, CURLcode code, void *arg);
static void on_unwatchable(CURL *easy, void *arg);
static curl_socket_t on_open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *address);
static size_t on_header(char *line, size_t size, size_t n, void *arg);
static size_t on_body(char *data, size_t size, size_t n, void *arg);
static void on_tell(uv_idle_t *idle);
static void on_teller_closed(uv_handle_t *handle);
static void on_part_gone(void *arg);

static const struct fetch_multi_events multi_events = {on_done, on_unwatchable};

/* --- outcomes --------------------------------------------------------------------------------------------------- */

static bool out_of_descriptors(void)
{
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd >= 0) close(fd);
    return fd < 0;
}

static void connect_outcome(const struct fetch_call *c, struct fetch_answer *a)
{
    long error = 0;
    curl_easy_getinfo(c->easy, CURLINFO_OS_ERRNO, &error);
    a->outcome = FETCH_UNREACHABLE;
    if (c->starved) {
        a->outcome = FETCH_BROKEN;
        a->error = "no descriptor left for a connection";
    } else if (error == ECONNREFUSED) {
        a->error = "connection refused";
    } else if (error == ENOENT) {
        a->error = "there is no such unix socket";
    } else if (error == EHOSTUNREACH || error == ENETUNREACH || error == EHOSTDOWN || error == ENETDOWN) {
        a->error = "no route to the host";
    } else if (error == ETIMEDOUT) {
        a->outcome = FETCH_TIMEOUT;
        a->error = "connecting took too long";
    } else {
        a->outcome = FETCH_BROKEN;
        a->error = "connecting failed on our side";
    }
}

static void judge(const struct fetch_call *c, CURLcode code, struct fetch_answer *a)
{
    long status = 0;
    a->outcome = FETCH_BROKEN;
    a->error = curl_easy_strerror(code);
    switch ((int)code) {
    case CURLE_OK:
        /* curl takes a connection that ends within the head for a whole answer; and a 1xx is the end of none. */
        curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
        a->status = (int)status;
        a->outcome = c->head_ended && status >= 200 ? FETCH_ANSWERED : FETCH_BROKEN;
        a->error = a->outcome == FETCH_ANSWERED ? NULL : "the answer ended within its head";
        break;
    case CURLE_OPERATION_TIMEDOUT:
        a->outcome = FETCH_TIMEOUT;
        a->error = "no answer in time";
        break;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
        if (out_of_descriptors()) {
            a->error = "no descriptor left for name resolution";
            break;
        }
        a->outcome = FETCH_UNREACHABLE;
        a->error = "the name cannot be resolved";
        break;
    case CURLE_COULDNT_CONNECT:
        connect_outcome(c, a);
        break;
    case CURLE_WRITE_ERROR:
        if (!c->too_large) break;
        a->outcome = FETCH_TOO_LARGE;
        a->error = "the answer is too large";
        break;
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_WEIRD_SERVER_REPLY:
        a->error = "the answer is not HTTP";
        break;
    default:
        break;
    }
    const char *fault = a->outcome == FETCH_BROKEN ? fetch_tls_error(c->easy, (int)code, c->said, !c->any_byte) : NULL;
    a->insecure = fault != NULL;
    if (fault) a->error = fault;
}

/* --- calls ------------------------------------------------------------------------------------------------------ */

static void give_back_easy(struct fetch_call *c)
{
    struct fetch *f = c->fetch;
    CURL *easy = c->easy;
    if (!easy) return;
    c->easy = NULL;
    curl_multi_remove_handle(fetch_multi_handle(f->multi), easy);
    curl_easy_reset(easy); /* no pointer into this call stays in it */
    if (f->idle_n < MAX_IDLE_EASIES)
        f->idle[f->idle_n++] = easy;
    else
        curl_easy_cleanup(easy);
}

static void free_call(struct fetch_call *c)
{
    list_remove(&c->link);
    give_back_easy(c);
    curl_slist_free_all(c->headers);
    buf_free(&c->body);
    buf_free(&c->cache_control);
    if (c->key.n) explicit_bzero((void *)(uintptr_t)c->key.p, c->key.n);
    arena_reset(&c->arena);
    free(c);
}

/* Its owner is told when the call is off every list and out of curl's hands: the client may be destroyed meanwhile. */
static void finish(struct fetch_call *c, CURLcode code)
{
    struct fetch_answer a = {.elapsed_us = (int64_t)((uv_hrtime() - c->start_ns) / 1000)};
    list_remove(&c->link);
    if (c->is_given) {
        a = c->given;
    } else if (c->refusal) {
        a.outcome = FETCH_BROKEN;
        a.error = c->refusal;
    } else {
        judge(c, code, &a);
    }
    if (a.outcome == FETCH_ANSWERED && !c->is_given) {
        const char *type = NULL;
        curl_easy_getinfo(c->easy, CURLINFO_CONTENT_TYPE, &type);
        a.body = buf_slice(&c->body);
        a.cache_control = buf_slice(&c->cache_control);
        if (type) a.content_type = arena_copy(&c->arena, slice_str(type));
    }
    give_back_easy(c);
    c->on_answer(&a, c->arg);
    free_call(c);
}

static struct fetch_call *call_of(CURL *easy)
{
    char *c = NULL;
    curl_easy_getinfo(easy, CURLINFO_PRIVATE, &c);
    return (struct fetch_call *)(void *)c;
}

/* A kept connection that the peer had ended already says nothing about the peer: once more, on a fresh one. curl does
   it itself when the peer closed, not always when it reset. Questions and lookups are safe to repeat. */
static bool retry(struct fetch_call *c, CURLcode code)
{
    long fresh = 1;
    if (c->retried || c->refusal || c->any_byte) return false;
    if (code != CURLE_SEND_ERROR && code != CURLE_RECV_ERROR && code != CURLE_GOT_NOTHING) return false;
    curl_easy_getinfo(c->easy, CURLINFO_NUM_CONNECTS, &fresh);
    int64_t left_ms = c->timeout_ms - (int64_t)((uv_hrtime() - c->start_ns) / 1000000);
    if (fresh || left_ms < 1) return false;
    c->retried = true;
    curl_multi_remove_handle(fetch_multi_handle(c->fetch->multi), c->easy);
    curl_easy_setopt(c->easy, CURLOPT_FRESH_CONNECT, 1L);
    curl_easy_setopt(c->easy, CURLOPT_TIMEOUT_MS, (long)left_ms);
    if (curl_multi_add_handle(fetch_multi_handle(c->fetch->multi), c->easy) == CURLM_OK) return true;
    c->refusal = "curl does not take the call";
    return false;
}

static void on_done(CURL *easy, CURLcode code, void *arg)
{
    struct fetch_call *c = call_of(easy);
    (void)arg;
    CHECK(c, "every easy handle in the multi has a call");
    if (!retry(c, code)) finish(c, code);
}

static void fail_later(struct fetch_call *c, const char *refusal)
{
    c->refusal = refusal;
    list_remove(&c->link);
    list_add_last(&c->fetch->failed, &c->link);
    uv_idle_start(&c->fetch->teller, on_tell);
}

/* curl also watches sockets of its own, without a call, when it closes connections. */
static void on_unwatchable(CURL *easy, void *arg)
{
    struct fetch_call *c = call_of(easy);
    (void)arg;
    if (c) fail_later(c, "the connection cannot be watched");
}

static void on_tell(uv_idle_t *idle)
{
    struct fetch *f = container_of(idle, struct fetch, teller);
    size_t n = 0;
    for (const struct list *i = f->failed.next; i != &f->failed; i = i->next)
        n++;
    /* Only those that are in the row now: one that a callback adds waits for its own turn. */
    while (n-- > 0 && !list_empty(&f->failed))
        finish(container_of(f->failed.next, struct fetch_call, link), CURLE_OK);
    if (list_empty(&f->failed)) uv_idle_stop(idle);
}

/* --- callbacks of curl ------------------------------------------------------------------------------------------ */

static curl_socket_t on_open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct fetch_call *c = arg;
    (void)purpose;
    int fd = socket(address->family, address->socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, address->protocol);
    if (fd < 0 && errno != EAFNOSUPPORT) c->starved = true;
    return fd < 0 ? CURL_SOCKET_BAD : fd;
}

static size_t on_header(char *line, size_t size, size_t n, void *arg)
{
    static const char name[] = "cache-control:";
    struct fetch_call *c = arg;
    size_t bytes = size * n;
    c->any_byte = true;
    if (c->head_ended && memcmp(line, "HTTP/", bytes < 5 ? bytes : 5) == 0) {
        c->cache_control.n = 0; /* what a 1xx before it said is void */
        c->head_ended = false;
    }
    if (bytes && (line[0] == '\r' || line[0] == '\n')) c->head_ended = true;
    if (c->head_ended || bytes < sizeof name) return bytes; /* a trailer is no header */
    if (!slice_eq_nocase(slice_make(line, sizeof name - 1), SLICE("cache-control:"))) return bytes;
    struct slice value = slice_make(line + sizeof name - 1, bytes - (sizeof name - 1));
    while (value.n && (value.p[value.n - 1] == '\n' || value.p[value.n - 1] == '\r'))
        value.n--;
    value = slice_trim(value);
    if (c->cache_control.n + value.n > MAX_CACHE_CONTROL_BYTES) return bytes;
    if (c->cache_control.n) buf_add_lit(&c->cache_control, ", ");
    buf_add_slice(&c->cache_control, value);
    return bytes;
}

static size_t on_body(char *data, size_t size, size_t n, void *arg)
{
    struct fetch_call *c = arg;
    size_t bytes = size * n;
    if (bytes > c->max_bytes - c->body.n) {
        c->too_large = true;
        return 0;
    }
    buf_add(&c->body, data, bytes);
    return bytes;
}

static void on_teller_closed(uv_handle_t *handle)
{
    on_part_gone(container_of((uv_idle_t *)handle, struct fetch, teller));
}

static void on_part_gone(void *arg)
{
    struct fetch *f = arg;
    if (--f->open) return;
    void (*done)(void *arg) = f->done;
    void *done_arg = f->done_arg;
    free(f);
    if (done) done(done_arg);
}

/* --- starting --------------------------------------------------------------------------------------------------- */

static bool has_any(struct slice s, const char *bytes, size_t n)
{
    for (size_t i = 0; i < s.n; i++)
        if (memchr(bytes, s.p[i], n)) return true;
    return false;
}

static void set_fixed_options(struct fetch_call *c)
{
    CURL *e = c->easy;
    curl_easy_setopt(e, CURLOPT_PRIVATE, c);
    curl_easy_setopt(e, CURLOPT_ERRORBUFFER, c->said);
    curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(e, CURLOPT_WRITEDATA, c);
    curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(e, CURLOPT_HEADERDATA, c);
    curl_easy_setopt(e, CURLOPT_OPENSOCKETFUNCTION, on_open_socket);
    curl_easy_setopt(e, CURLOPT_OPENSOCKETDATA, c);
    CHECK(curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK, "only http and https");
    CHECK(curl_easy_setopt(e, CURLOPT_PROXY, "") == CURLE_OK, "no proxy from the environment");
    curl_easy_setopt(e, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(e, CURLOPT_DISALLOW_USERNAME_IN_URL, 1L);
    curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(e, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    curl_easy_setopt(e, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(e, CURLOPT_TCP_NODELAY, 1L);
    curl_easy_setopt(e, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(e, CURLOPT_TCP_KEEPIDLE, KEEPALIVE_S);
    curl_easy_setopt(e, CURLOPT_SSL_VERIFYPEER, 1L);
    curl_easy_setopt(e, CURLOPT_SSL_VERIFYHOST, 2L);
    curl_easy_setopt(e, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    /* A resolver that hangs is left behind when its call ends; without this curl waits for its thread, and so do we. */
    CHECK(curl_easy_setopt(e, CURLOPT_QUICK_EXIT, 1L) == CURLE_OK, "curl is at least 7.87");
}

static void set_tls(struct fetch_call *c, const struct fetch_tls *given)
{
    struct fetch_tls t = {arena_copy(&c->arena, given->ca), arena_copy(&c->arena, given->certificate),
                          arena_copy(&c->arena, given->key)};
    c->key = t.key;
    fetch_tls_set(c->easy, &t);
}

/* NULL, or why it is refused. */
static const char *set_headers(struct fetch_call *c, const struct fetch_request *q)
{
    c->headers = curl_slist_append(NULL, "Expect:");
    for (size_t i = 0; i < q->headers_n; i++) {
        if (has_any(q->headers[i], "\r\n", 3)) return "a header to send has a line end in it";
        struct curl_slist *more = curl_slist_append(c->headers, arena_copy(&c->arena, q->headers[i]).p);
        CHECK(more, "out of memory");
        c->headers = more;
    }
    curl_easy_setopt(c->easy, CURLOPT_HTTPHEADER, c->headers);
    return NULL;
}

static const char *set_request(struct fetch_call *c, const struct fetch_request *q)
{
    struct slice url = q->url;
    if (has_any(url, "", 1) || !(fetch_url_is_http(url) || fetch_url_is_unix(url)))
        return "not an http, https or unix url";
    if (fetch_url_is_unix(url)) {
        struct slice path, target;
        fetch_url_split_unix(url, &path, &target);
        const char *socket_path = arena_copy(&c->arena, path).p;
        if (curl_easy_setopt(c->easy, CURLOPT_UNIX_SOCKET_PATH, socket_path) != CURLE_OK) return "the path is too long";
        url = arena_printf(&c->arena, "http://localhost%.*s", (int)target.n, target.p);
    }
    curl_easy_setopt(c->easy, CURLOPT_URL, arena_copy(&c->arena, url).p);
    if (slice_eq(q->method, SLICE("POST"))) {
        curl_easy_setopt(c->easy, CURLOPT_POST, 1L);
        curl_easy_setopt(c->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)q->body.n);
        curl_easy_setopt(c->easy, CURLOPT_POSTFIELDS, arena_copy(&c->arena, q->body).p);
    } else if (slice_eq(q->method, SLICE("HEAD"))) {
        curl_easy_setopt(c->easy, CURLOPT_NOBODY, 1L);
        /* A probe: is there a way to the peer now? And some answer HEAD with a body, which spoils a kept connection. */
        curl_easy_setopt(c->easy, CURLOPT_FRESH_CONNECT, 1L);
        curl_easy_setopt(c->easy, CURLOPT_FORBID_REUSE, 1L);
    } else {
        CHECK(slice_eq(q->method, SLICE("GET")), "the methods are GET, HEAD and POST");
        curl_easy_setopt(c->easy, CURLOPT_HTTPGET, 1L);
    }
    curl_easy_setopt(c->easy, CURLOPT_TIMEOUT_MS, (long)c->timeout_ms);
    if (q->tls) set_tls(c, q->tls);
    return set_headers(c, q);
}

struct fetch *fetch_create(struct loop *l)
{
    struct fetch *f = xzalloc(sizeof *f);
    f->multi = fetch_multi_create(l, &multi_events, f);
    list_init(&f->out);
    list_init(&f->failed);
    CHECK(uv_idle_init(loop_uv(l), &f->teller) == 0, "idle handle");
    f->open = 2;
    return f;
}

void fetch_destroy(struct fetch *f, void (*done)(void *arg), void *arg)
{
    CHECK(!f->destroyed, "destroyed once");
    f->destroyed = true;
    f->done = done;
    f->done_arg = arg;
    while (!list_empty(&f->out))
        free_call(container_of(f->out.next, struct fetch_call, link));
    while (!list_empty(&f->failed))
        free_call(container_of(f->failed.next, struct fetch_call, link));
    while (f->idle_n)
        curl_easy_cleanup(f->idle[--f->idle_n]);
    fetch_multi_destroy(f->multi, on_part_gone, f);
    uv_close((uv_handle_t *)&f->teller, on_teller_closed);
}

void fetch_instead(struct fetch *f, bool (*answer)(const struct fetch_request *q, struct fetch_answer *a, void *arg),
                   void *arg)
{
    f->instead = answer;
    f->instead_arg = arg;
}

struct fetch_call *fetch_start(struct fetch *f, const struct fetch_request *q,
                               void (*on_answer)(const struct fetch_answer *a, void *arg), void *arg)
{
    CHECK(!f->destroyed, "no call after fetch_destroy");
    struct fetch_call *c = xzalloc(sizeof *c);
    c->fetch = f;
    c->on_answer = on_answer;
    c->arg = arg;
    c->start_ns = uv_hrtime();
    c->max_bytes = q->max_bytes;
    c->timeout_ms = q->timeout_ms > 0 ? q->timeout_ms : 1; /* to curl 0 means for ever */
    arena_init(&c->arena);
    buf_init(&c->body, NULL);
    buf_init(&c->cache_control, NULL);
    list_init(&c->link);
    c->is_given = f->instead && f->instead(q, &c->given, f->instead_arg);
    if (c->is_given) {
        fail_later(c, NULL);
        return c;
    }
    c->easy = f->idle_n ? f->idle[--f->idle_n] : curl_easy_init();
    CHECK(c->easy, "out of memory");
    set_fixed_options(c);
    const char *refusal = set_request(c, q);
    if (!refusal && curl_multi_add_handle(fetch_multi_handle(f->multi), c->easy) != CURLM_OK)
        refusal = "curl does not take the call";
    if (refusal)
        fail_later(c, refusal);
    else
        list_add_last(&f->out, &c->link);
    return c;
}

void fetch_cancel(struct fetch_call *c)
{
    free_call(c);
}

const char *fetch_version(void)
{
    return curl_version();
}
