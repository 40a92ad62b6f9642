/* remote/fetch when connections do not come about, have died or are not to be trusted, and when callbacks start, cancel
   and destroy. */
#include "remote/fetch.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "fetch_bench.h"

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
    char why[256];
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unreachable_is_only_what_never_connected),
        cmocka_unit_test(our_own_shortage_is_not_unreachable),
        cmocka_unit_test(a_stale_connection_costs_nothing),
        cmocka_unit_test(over_a_unix_socket),
        cmocka_unit_test(callbacks_may_start_and_cancel),
        cmocka_unit_test(destroy_cancels_everything),
        cmocka_unit_test(many_at_once),
        cmocka_unit_test(an_unvouched_certificate_is_broken),
    };
    return cmocka_run_group_tests_name("remote/fetch, faults", tests, NULL, NULL);
}
