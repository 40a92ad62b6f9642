/* remote/fetch against scripted peers: every outcome by its name, every prefix of an answer, kept connections that
   died, cancel and start inside callbacks, unix sockets, a certificate that nobody vouches for. */
#include "remote/fetch.h"

#include "harness.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/arena.h"

struct bench {
    struct harness h;
    struct script s;
    struct fetch *fetch;
    char url[200];
};

struct got {
    int calls;
    enum fetch_outcome outcome;
    int status;
    char body[4096];
    size_t body_n;
    char cache_control[200];
    char content_type[200];
    char error[200];
    int64_t elapsed_us;
};

static void put(char *out, size_t size, struct slice s)
{
    assert_true(s.n < size);
    if (s.n) memcpy(out, s.p, s.n);
    out[s.n] = '\0';
}

static void on_answer(const struct fetch_answer *a, void *arg)
{
    struct got *g = arg;
    g->calls++;
    g->outcome = a->outcome;
    g->status = a->status;
    g->elapsed_us = a->elapsed_us;
    put(g->body, sizeof g->body, a->body);
    g->body_n = a->body.n;
    put(g->cache_control, sizeof g->cache_control, a->cache_control);
    put(g->content_type, sizeof g->content_type, a->content_type);
    snprintf(g->error, sizeof g->error, "%s", a->error ? a->error : "");
    assert_true((a->outcome == FETCH_ANSWERED) == (a->error == NULL));
}

static struct fetch_request request_to(const char *url)
{
    return (struct fetch_request){.method = SLICE("GET"), .url = slice_str(url), .timeout_ms = 2000, .max_bytes = 4000};
}

static struct got *ask(struct bench *b, const struct fetch_request *q)
{
    static struct got g;
    memset(&g, 0, sizeof g);
    assert_non_null(fetch_start(b->fetch, q, on_answer, &g));
    assert_int_equal(g.calls, 0);
    harness_until(&b->h, g.calls > 0);
    harness_turn(&b->h);
    assert_int_equal(g.calls, 1);
    return &g;
}

static struct got *get(struct bench *b, const char *url)
{
    struct fetch_request q = request_to(url);
    return ask(b, &q);
}

/* --- the script: answers each whole request with s.arg ---------------------------------------------------------- */

struct answer {
    const char *bytes;
    size_t n;
    bool close;
    bool reset;
    bool drip;
    bool hang;
    int die_at;      /* the n-th request on a connection gets no answer, but an end (1 is the second) */
    char last[8192]; /* the last request */
    int requests;
};

static void on_request(struct peer *p)
{
    struct answer *a = p->script->arg;
    const char *end = memmem(p->in.p, p->in.n, "\r\n\r\n", 4);
    if (!end) return;
    size_t n = (size_t)(end - p->in.p) + 4;
    const char *length = memmem(p->in.p, n, "Content-Length: ", 16);
    if (length) n += (size_t)atoi(length + 16);
    if (p->in.n < n) return;
    put(a->last, sizeof a->last, slice_make(p->in.p, n));
    peer_take(p, n);
    a->requests++;
    if (a->hang) return;
    if (a->die_at && p->answered++ == a->die_at) {
        if (a->reset)
            peer_reset(p);
        else
            peer_close(p);
        return;
    }
    if (a->drip) {
        peer_drip(p, a->bytes, a->n, a->close);
        return;
    }
    peer_send(p, a->bytes, a->n);
    if (a->reset && !a->die_at)
        peer_reset(p);
    else if (a->close)
        peer_close(p);
}

static void open_bench(struct bench *b, struct answer *a, const char *unix_path)
{
    memset(b, 0, sizeof *b);
    harness_open(&b->h);
    script_listen(&b->s, &b->h, unix_path, on_request);
    b->s.arg = a;
    b->fetch = fetch_create(b->h.loop);
    snprintf(b->url, sizeof b->url, "http://127.0.0.1:%d/x", b->s.port);
}

static void close_bench(struct bench *b)
{
    fetch_destroy(b->fetch, harness_on_gone, &b->h.gone);
    assert_false(b->h.gone);
    harness_until(&b->h, b->h.gone);
    script_close(&b->s);
    harness_close(&b->h);
    arena_trim();
    assert_int_equal(arena_chunks_out(), 0);
}

#define ANSWER(text)                                                                                                   \
    {                                                                                                                  \
        .bytes = "" text, .n = sizeof(text) - 1                                                                        \
    }
#define OK_HEAD                                                                                                        \
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nCache-Control: max-age=60\r\nContent-Length: 13\r\n\r\n"
#define OK "" OK_HEAD "{\"allow\":1234"

static void answers_come_whole(void **state)
{
    static const struct {
        const char *bytes;
        int status;
        const char *body, *cache_control;
        bool close;
    } table[] = {
        {OK, 200, "{\"allow\":1234", "max-age=60", false},
        {"HTTP/1.1 500 Oops\r\nContent-Length: 2\r\n\r\nno", 500, "no", "", false},
        {"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", 404, "", "", false},
        {"HTTP/1.1 204 No Content\r\n\r\n", 204, "", "", false},
        {"HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n", 302, "", "", false},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n", 200, "abcde", "",
         false},
        {"HTTP/1.1 100 Continue\r\nCache-Control: no-store\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", 200,
         "x", "", false},
        {"HTTP/1.1 200 OK\r\ncache-CONTROL:  public \r\nCache-Control: max-age=5\r\nContent-Length: 1\r\n\r\nx", 200,
         "x", "public, max-age=5", false},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nCache-Control: max-age=9\r\n\r\n", 200,
         "a", "", false},
        {"HTTP/1.1 200 OK\r\n\r\nto the end", 200, "to the end", "", true},
        {"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", 200, "x", "", true},
    };
    (void)state;
    for (int drip = 0; drip < 2; drip++)
        for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
            struct bench b;
            struct answer a = {
                .bytes = table[i].bytes, .n = strlen(table[i].bytes), .close = table[i].close, .drip = drip};
            open_bench(&b, &a, NULL);
            struct got *g = get(&b, b.url);
            assert_int_equal(g->outcome, FETCH_ANSWERED);
            assert_int_equal(g->status, table[i].status);
            assert_string_equal(g->body, table[i].body);
            assert_string_equal(g->cache_control, table[i].cache_control);
            if (i == 0) assert_string_equal(g->content_type, "application/json");
            assert_int_equal(a.requests, 1);
            close_bench(&b);
        }
}

static void the_request_is_what_was_asked(void **state)
{
    struct bench b;
    struct answer a = ANSWER(OK);
    (void)state;
    setenv("http_proxy", "http://127.0.0.1:1/", 1);
    setenv("all_proxy", "http://127.0.0.1:1/", 1);
    open_bench(&b, &a, NULL);
    char url[300], body[3000], header[] = "Authorization: Bearer abc";
    snprintf(url, sizeof url, "http://127.0.0.1:%d/a/../b%%2f?x=1", b.s.port);
    memset(body, 'x', sizeof body);
    struct slice headers[] = {SLICE("Content-Type: application/json"), slice_str(header)};
    struct fetch_request q = request_to(url);
    q.method = SLICE("POST");
    q.headers = headers;
    q.headers_n = 2;
    q.body = slice_make(body, sizeof body);
    struct got g = {0};
    fetch_start(b.fetch, &q, on_answer, &g);
    memset(url, 0, sizeof url); /* all of it was copied */
    memset(body, 0, sizeof body);
    memset(header, 0, sizeof header);
    harness_until(&b.h, g.calls == 1);
    assert_int_equal(g.outcome, FETCH_ANSWERED);
    assert_memory_equal(a.last, "POST /a/../b%2f?x=1 HTTP/1.1\r\n", 30);
    assert_non_null(strstr(a.last, "\r\nContent-Type: application/json\r\n"));
    assert_non_null(strstr(a.last, "\r\nAuthorization: Bearer abc\r\n"));
    assert_non_null(strstr(a.last, "\r\nContent-Length: 3000\r\n"));
    assert_null(strstr(a.last, "Expect"));
    assert_null(strstr(a.last, "form-urlencoded"));
    assert_non_null(strstr(a.last, "\r\n\r\nxxxxxxxx"));
    /* The same easy handle, now without body and headers. */
    assert_int_equal(get(&b, b.url)->outcome, FETCH_ANSWERED);
    assert_memory_equal(a.last, "GET /x HTTP/1.1\r\n", 17);
    assert_null(strstr(a.last, "Authorization"));
    assert_null(strstr(a.last, "Content-"));
    q = request_to(b.url);
    q.method = SLICE("POST");
    assert_int_equal(ask(&b, &q)->outcome, FETCH_ANSWERED);
    assert_non_null(strstr(a.last, "\r\nContent-Length: 0\r\n"));
    assert_int_equal(b.s.accepted, 1); /* one connection for all three */
    a.bytes = "HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n";
    a.n = strlen(a.bytes);
    q = request_to(b.url);
    q.method = SLICE("HEAD");
    assert_int_equal(ask(&b, &q)->outcome, FETCH_ANSWERED);
    close_bench(&b);
    unsetenv("http_proxy");
    unsetenv("all_proxy");
}

/* Whatever part of an answer comes before the end: never ANSWERED unless whole, never UNREACHABLE, always one callback.
 */
static void every_prefix_is_broken(void **state)
{
    static const char *const answers[] = {
        OK, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n"};
    (void)state;
    for (int way = 0; way < 3; way++)
        for (size_t i = 0; i < 2; i++) {
            struct bench b;
            struct answer a = {.bytes = answers[i], .close = way != 1, .reset = way == 1, .drip = way == 2};
            open_bench(&b, &a, NULL);
            /* Of the last line end of a chunked answer curl needs the first byte only. */
            size_t whole = strlen(answers[i]) - i;
            for (a.n = 0; a.n < whole; a.n++) {
                struct got *g = get(&b, b.url);
                if (g->outcome != FETCH_BROKEN)
                    fail_msg("answer %zu cut at %zu, way %d: outcome %d, status %d", i, a.n, way, g->outcome,
                             g->status);
                assert_int_equal(g->body_n, 0);
            }
            assert_int_equal(b.s.accepted, whole);
            close_bench(&b);
        }
}

static void what_is_not_http_is_broken(void **state)
{
    static const char *const table[] = {"hello\r\n\r\n",
                                        "\r\n\r\n",
                                        "SSH-2.0-OpenSSH\r\n",
                                        "HTTP/9.1 200 OK\r\n\r\n",
                                        "HTTP/1.1 abc OK\r\nContent-Length: 0\r\n\r\n",
                                        "HTTP/1.1 100 Continue\r\n\r\n",
                                        "HTTP/1.1 101 Switching Protocols\r\n\r\n",
                                        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"};
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct bench b;
        struct answer a = {.bytes = table[i], .n = strlen(table[i]), .close = true};
        open_bench(&b, &a, NULL);
        assert_int_equal(get(&b, b.url)->outcome, FETCH_BROKEN);
        close_bench(&b);
    }
}

static void a_body_over_the_bound_is_too_large(void **state)
{
    struct bench b;
    struct answer a = ANSWER(OK);
    (void)state;
    open_bench(&b, &a, NULL);
    struct fetch_request q = request_to(b.url);
    q.max_bytes = 13;
    assert_int_equal(ask(&b, &q)->outcome, FETCH_ANSWERED);
    q.max_bytes = 12;
    assert_int_equal(ask(&b, &q)->outcome, FETCH_TOO_LARGE);
    q.max_bytes = 0;
    assert_int_equal(ask(&b, &q)->outcome, FETCH_TOO_LARGE);
    a.drip = true; /* an endless answer is cut off while it comes, not at its end */
    a.bytes = "HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n0123456789";
    a.n = strlen(a.bytes);
    q.max_bytes = 9;
    assert_int_equal(ask(&b, &q)->outcome, FETCH_TOO_LARGE);
    close_bench(&b);
}

static void a_peer_that_hangs_is_a_timeout(void **state)
{
    struct bench b;
    struct answer a = {.hang = true};
    (void)state;
    open_bench(&b, &a, NULL);
    struct fetch_request q = request_to(b.url);
    q.timeout_ms = 150;
    for (int i = 0; i < 3; i++) {
        struct got *g = ask(&b, &q);
        assert_int_equal(g->outcome, FETCH_TIMEOUT);
        assert_in_range(g->elapsed_us, 149000, 600000);
        a = (struct answer){.bytes = OK, .n = sizeof OK - 1 - (size_t)i, .drip = true};
        a.n = i == 0 ? 20 : sizeof OK - 2; /* then: within the head, within the body */
    }
    close_bench(&b);
}

static void unreachable_is_only_what_never_connected(void **state)
{
    struct bench b;
    struct answer a = ANSWER(OK);
    char url[200];
    (void)state;
    open_bench(&b, &a, NULL);
    snprintf(url, sizeof url, "http://127.0.0.1:%d/", free_port());
    struct got *g = get(&b, url);
    assert_int_equal(g->outcome, FETCH_UNREACHABLE);
    assert_string_equal(g->error, "connection refused");
    snprintf(url, sizeof url, "https://localhost:%d/", free_port());
    assert_int_equal(get(&b, url)->outcome, FETCH_UNREACHABLE);
    g = get(&b, "http://nonexistent.invalid/");
    assert_int_equal(g->outcome, FETCH_UNREACHABLE);
    assert_string_equal(g->error, "the name cannot be resolved");
    g = get(&b, "unix:/nonexistent/opa.sock:/v1/data");
    assert_int_equal(g->outcome, FETCH_UNREACHABLE);
    assert_string_equal(g->error, "there is no such unix socket");
    assert_int_equal(get(&b, "https://user:secret@127.0.0.1/")->outcome, FETCH_BROKEN);
    assert_int_equal(get(&b, "ftp://127.0.0.1/")->outcome, FETCH_BROKEN);
    assert_int_equal(get(&b, "http://")->outcome, FETCH_BROKEN);
    struct slice evil = SLICE("X: a\r\nY: b");
    struct fetch_request q = request_to(b.url);
    q.headers = &evil;
    q.headers_n = 1;
    assert_int_equal(ask(&b, &q)->outcome, FETCH_BROKEN);
    assert_int_equal(a.requests, 0);
    snprintf(url, sizeof url, "https://127.0.0.1:%d/", b.s.port); /* it speaks no TLS */
    a.close = true;
    q = request_to(url);
    q.timeout_ms = 300;
    assert_true(ask(&b, &q)->outcome != FETCH_UNREACHABLE);
    close_bench(&b);
}

/* Our own want of descriptors must not look like an engine that is away: a policy may be waived on that. */
static void our_own_shortage_is_not_unreachable(void **state)
{
    struct bench b;
    struct answer a = ANSWER(OK);
    struct rlimit was, low;
    int fds[1100], n = 0;
    (void)state;
    open_bench(&b, &a, NULL);
    getrlimit(RLIMIT_NOFILE, &was);
    low = was;
    low.rlim_cur = 1024;
    setrlimit(RLIMIT_NOFILE, &low);
    while (n < 1100 && (fds[n] = open("/dev/null", O_RDONLY)) >= 0)
        n++;
    int by_address = get(&b, b.url)->outcome;
    char why[200];
    snprintf(why, sizeof why, "%s", get(&b, b.url)->error);
    int by_name = get(&b, "http://nonexistent.invalid/")->outcome;
    while (n)
        close(fds[--n]);
    setrlimit(RLIMIT_NOFILE, &was);
    assert_int_equal(by_address, FETCH_BROKEN);
    assert_string_equal(why, "no descriptor left for a connection");
    assert_int_equal(by_name, FETCH_BROKEN);
    assert_int_equal(get(&b, b.url)->outcome, FETCH_ANSWERED);
    close_bench(&b);
}

/* A kept connection that the peer ended: while idle, or (the race) only when the next request was there already. */
static void a_stale_connection_costs_nothing(void **state)
{
    (void)state;
    for (int way = 0; way < 6; way++) {
        struct bench b;
        struct answer a = ANSWER(OK);
        open_bench(&b, &a, NULL);
        struct fetch_request q = request_to(b.url);
        if (way % 2) {
            q.method = SLICE("POST");
            q.body = SLICE("{\"input\":{}}");
        }
        assert_int_equal(ask(&b, &q)->outcome, FETCH_ANSWERED);
        if (way < 2) {
            script_drop_peers(&b.s);
            harness_rest(&b.h, 10);
        } else {
            a.die_at = 1;
            a.reset = way >= 4;
            for (struct list *i = b.s.peers.next; i != &b.s.peers; i = i->next)
                container_of(i, struct peer, link)->answered = 1;
        }
        struct got *g = ask(&b, &q);
        if (g->outcome != FETCH_ANSWERED) fail_msg("way %d: outcome %d, %s", way, g->outcome, g->error);
        assert_int_equal(b.s.accepted, 2);
        assert_int_equal(a.requests, way < 2 ? 2 : 3);
        close_bench(&b);
    }
}

static void over_a_unix_socket(void **state)
{
    struct bench b;
    struct answer a = ANSWER(OK);
    char path[] = "/tmp/fetch-XXXXXX", url[200];
    (void)state;
    assert_non_null(mkdtemp(path));
    snprintf(url, sizeof url, "%s/s", path);
    open_bench(&b, &a, url);
    snprintf(url, sizeof url, "unix:%s/s:/v1/data/x?y=1", path);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(get(&b, url)->outcome, FETCH_ANSWERED);
        assert_memory_equal(a.last, "GET /v1/data/x?y=1 HTTP/1.1\r\n", 29);
    }
    assert_int_equal(b.s.accepted, 1);
    close_bench(&b);
    snprintf(url, sizeof url, "%s/s", path);
    unlink(url);
    rmdir(path);
}

/* --- callbacks that do things ----------------------------------------------------------------------------------- */

struct chain {
    struct bench *b;
    struct fetch_call *victim;
    struct got victim_got;
    int left;
    bool destroy;
};

static void on_chain(const struct fetch_answer *a, void *arg)
{
    struct chain *c = arg;
    assert_int_equal(a->outcome, FETCH_ANSWERED);
    if (c->victim) fetch_cancel(c->victim);
    c->victim = NULL;
    if (c->destroy) {
        fetch_destroy(c->b->fetch, harness_on_gone, &c->b->h.gone);
        return;
    }
    if (c->left-- > 0) {
        struct fetch_request q = request_to(c->b->url);
        fetch_start(c->b->fetch, &q, on_chain, c);
    }
}

static void callbacks_may_start_and_cancel(void **state)
{
    struct bench b;
    struct answer a = ANSWER(OK);
    (void)state;
    open_bench(&b, &a, NULL);
    struct chain c = {.b = &b, .left = 20};
    struct fetch_request q = request_to(b.url);
    fetch_start(b.fetch, &q, on_chain, &c);
    c.victim = fetch_start(b.fetch, &q, on_answer, &c.victim_got);
    harness_until(&b.h, c.left < 0);
    assert_int_equal(c.victim_got.calls, 0);
    /* Cancelled at once, also one that never got to curl. */
    fetch_cancel(fetch_start(b.fetch, &q, on_answer, &c.victim_got));
    struct fetch_request bad = request_to("gopher://x/");
    fetch_cancel(fetch_start(b.fetch, &bad, on_answer, &c.victim_got));
    harness_rest(&b.h, 20);
    assert_int_equal(c.victim_got.calls, 0);
    close_bench(&b);
}

static void destroy_cancels_everything(void **state)
{
    struct bench b;
    struct answer a = ANSWER(OK);
    struct got g = {0};
    (void)state;
    open_bench(&b, &a, NULL);
    struct chain c = {.b = &b, .destroy = true};
    struct fetch_request q = request_to(b.url), bad = request_to("gopher://x/"),
                         name = request_to("http://nonexistent.invalid/");
    fetch_start(b.fetch, &q, on_chain, &c);
    a.hang = false;
    harness_until(&b.h, a.requests == 1);
    for (int i = 0; i < 5; i++)
        fetch_start(b.fetch, &q, on_answer, &g);
    harness_until(&b.h, b.h.gone); /* destroyed by on_chain */
    assert_int_equal(g.calls, 0);
    b.h.gone = false;
    b.fetch = fetch_create(b.h.loop);
    a.hang = true;
    for (int i = 0; i < 5; i++)
        fetch_start(b.fetch, &q, on_answer, &g);
    harness_rest(&b.h, 20);
    fetch_start(b.fetch, &bad, on_answer, &g);
    fetch_start(b.fetch, &name, on_answer, &g);
    harness_turn(&b.h);
    fetch_start(b.fetch, &bad, on_answer, &g);
    g.calls = 0;
    close_bench(&b);
    assert_int_equal(g.calls, 0);
}

static void many_at_once(void **state)
{
    struct bench b;
    struct answer a = ANSWER(OK);
    struct got g = {0};
    (void)state;
    open_bench(&b, &a, NULL);
    struct fetch_request q = request_to(b.url);
    for (int i = 0; i < 150; i++)
        fetch_start(b.fetch, &q, on_answer, &g);
    harness_until(&b.h, g.calls == 150);
    assert_int_equal(g.outcome, FETCH_ANSWERED);
    close_bench(&b);
}

/* --- TLS -------------------------------------------------------------------------------------------------------- */

static void an_unvouched_certificate_is_broken(void **state)
{
    struct bench b;
    struct answer a = ANSWER(OK);
    char dir[] = "/tmp/fetch-XXXXXX", command[500], url[100], port[20];
    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(
        command, sizeof command,
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost "
        "-keyout %s/k -out %s/c 2>/dev/null",
        dir, dir);
    assert_int_equal(system(command), 0);
    int n = free_port();
    snprintf(port, sizeof port, "%d", n);
    pid_t pid = fork();
    if (pid == 0) {
        char key[100], cert[100];
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* also when an assertion ends this test */
        snprintf(key, sizeof key, "%s/k", dir);
        snprintf(cert, sizeof cert, "%s/c", dir);
        if (!freopen("/dev/null", "w", stdout)) _exit(1);
        if (!freopen("/dev/null", "w", stderr)) _exit(1);
        execlp("openssl", "openssl", "s_server", "-accept", port, "-key", key, "-cert", cert, "-www", NULL);
        _exit(1);
    }
    open_bench(&b, &a, NULL);
    snprintf(url, sizeof url, "https://localhost:%d/", n);
    struct got *g = get(&b, url);
    for (int i = 0; i < 100 && g->outcome == FETCH_UNREACHABLE; i++) { /* until it listens */
        harness_rest(&b.h, 30);
        g = get(&b, url);
    }
    assert_int_equal(g->outcome, FETCH_BROKEN);
    assert_non_null(strstr(g->error, "certificate"));
    close_bench(&b);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    snprintf(command, sizeof command, "rm -r %s", dir);
    assert_int_equal(system(command), 0);
}

static void urls_are_checked(void **state)
{
    static const char *const good[] = {
        "http://a",         "https://a.b:8443/x?y=z",        "http://[::1]:8181/v1/data/a/b",
        "http://10.0.0.1/", "unix:/run/opa.sock:/v1/data/x", "unix:/run/opa.sock"};
    static const char *const bad[] = {"",
                                      "a.b",
                                      "ftp://a/",
                                      "http://",
                                      "http:///x",
                                      "http://u:p@a/",
                                      "http://a b/",
                                      "unix:",
                                      "unix:/",
                                      "unix:relative",
                                      "http://a:99999999/",
                                      "file:///etc/passwd",
                                      "http://a\n/",
                                      "HTTP//a",
                                      "unix:/:/x"};
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_null(fetch_url_check(slice_str(good[i])));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (!fetch_url_check(slice_str(bad[i]))) fail_msg("taken: %s", bad[i]);
    assert_non_null(strstr(fetch_version(), "libcurl"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_come_whole),
        cmocka_unit_test(the_request_is_what_was_asked),
        cmocka_unit_test(every_prefix_is_broken),
        cmocka_unit_test(what_is_not_http_is_broken),
        cmocka_unit_test(a_body_over_the_bound_is_too_large),
        cmocka_unit_test(a_peer_that_hangs_is_a_timeout),
        cmocka_unit_test(unreachable_is_only_what_never_connected),
        cmocka_unit_test(our_own_shortage_is_not_unreachable),
        cmocka_unit_test(a_stale_connection_costs_nothing),
        cmocka_unit_test(over_a_unix_socket),
        cmocka_unit_test(callbacks_may_start_and_cancel),
        cmocka_unit_test(destroy_cancels_everything),
        cmocka_unit_test(many_at_once),
        cmocka_unit_test(an_unvouched_certificate_is_broken),
        cmocka_unit_test(urls_are_checked),
    };
    return cmocka_run_group_tests_name("remote/fetch", tests, NULL, NULL);
}
