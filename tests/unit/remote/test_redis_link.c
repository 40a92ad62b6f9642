/* remote/redis_link through remote/redis: addresses, nobody there, what callbacks may do, destroying at any moment, and
   what the log says of it. */
#include "remote/redis_link.h"

#include <dlfcn.h>
#include <netdb.h>

#include "base/log.h"
#include "redis_bench.h"

typedef int getaddrinfo_fn(const char *, const char *, const struct addrinfo *, struct addrinfo **);

/* The resolver of this program, also libuv's: two.test has two addresses, and only the second has a listener. */
int getaddrinfo(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **out)
{
    getaddrinfo_fn *real = (getaddrinfo_fn *)(uintptr_t)dlsym(RTLD_NEXT, "getaddrinfo");
    if (!host || strcmp(host, "two.test") != 0) return real(host, port, hints, out);
    int error = real("127.0.0.2", port, hints, out);
    return error ? error : real("127.0.0.1", port, hints, &(*out)->ai_next);
}

static void the_second_address_is_tried(void **state)
{
    struct harness h;
    struct script s = {0};
    struct plan plan = {0};
    char url[60];
    (void)state;
    harness_open(&h);
    script_listen(&s, &h, NULL, on_plan);
    s.arg = &plan;
    snprintf(url, sizeof url, "redis://two.test:%d", s.port);
    struct redis *r = open_redis(&h, url, 1000);
    harness_until(&h, connected(r));
    assert_true(metric_value(METRIC_DEPENDENCY_FAILURES, (struct slice[]){SLICE("redis"), SLICE("unreachable")}) == 0);
    destroy_redis(&h, r);
    script_close(&s);
    harness_close(&h);
}

/* --- callbacks that do things ----------------------------------------------------------------------------------- */

struct actor {
    struct bench *b;
    struct redis_call *victim;
    bool destroys;
    bool destroyed;
    int calls;
    int again;
};

static void on_act(enum redis_outcome o, struct slice value, void *arg)
{
    struct actor *a = arg;
    (void)o;
    (void)value;
    a->calls++;
    if (a->victim) redis_cancel(a->victim);
    a->victim = NULL;
    if (a->destroys)
        redis_destroy(a->b->redis, harness_on_gone, &a->b->h.gone);
    else if (a->again-- > 0)
        redis_get(a->b->redis, SLICE("again"), on_act, a);
}

/* In each of the ways in which a call can end: answered, refused, lost, timed out. */
static void callbacks_may_cancel_ask_and_destroy(void **state)
{
    (void)state;
    for (int way = 0; way < 8; way++) {
        struct bench b;
        struct plan plan = {.answers = "$-1\r\n$-1\r\n$-1\r\n$-1\r\n", .n = 20, .commands = 3};
        struct got other = {0}, victim = {0};
        struct actor a = {.b = &b, .destroys = way >= 4, .again = 3};
        int how = way % 4;
        if (how == 2) plan = (struct plan){.answers = "", .commands = 3, .close = true};
        if (how == 3) plan.answers = NULL;
        open_bench(&b, "", "", 100, on_plan, &plan);
        if (how != 1) harness_until(&b.h, connected(b.redis));
        redis_get(b.redis, SLICE("a"), on_act, &a);
        a.victim = redis_get(b.redis, SLICE("b"), on_value, &victim);
        redis_get(b.redis, SLICE("c"), on_value, &other);
        harness_until(&b.h, a.destroys ? b.h.gone : a.again < 0 && other.calls == 1);
        assert_int_equal(a.calls, a.destroys ? 1 : 4);
        assert_int_equal(victim.calls, 0);
        assert_int_equal(other.calls, a.destroys ? 0 : 1);
        if (!a.destroys) destroy_redis(&b.h, b.redis);
        script_close(&b.s);
        harness_close(&b.h);
    }
}

static void destroy_at_any_moment(void **state)
{
    (void)state;
    for (int turns = 0; turns < 12; turns++) {
        struct bench b;
        struct plan plan = {0};
        struct got g = {0};
        open_bench(&b, ":pw@", "/3", 5000, on_plan, &plan);
        for (int i = 0; i < turns; i++)
            harness_turn(&b.h);
        redis_get(b.redis, SLICE("k"), on_value, &g);
        redis_set(b.redis, SLICE("k"), SLICE("v"), 1);
        close_bench(&b);
        assert_int_equal(g.calls, 0);
    }
}

static void nobody_there(void **state)
{
    static const char *const urls[] = {"redis://127.0.0.1:%d", "redis://localhost:%d", "redis://nonexistent.invalid:%d",
                                       "unix:/nonexistent/%d.sock"};
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct harness h;
        struct got g = {0};
        char url[100];
        harness_open(&h);
        snprintf(url, sizeof url, urls[i], free_port());
        struct redis *r = open_redis(&h, url, 1000);
        redis_get(r, SLICE("k"), on_value, &g);
        assert_int_equal(g.calls, 0);
        harness_turn(&h);
        harness_turn(&h);
        assert_int_equal(g.calls, 1);
        assert_int_equal(g.outcome, REDIS_UNAVAILABLE);
        harness_until(&h, strcmp(error_of(r), "not yet connected") != 0);
        destroy_redis(&h, r);
        harness_close(&h);
    }
}

/* One line when it is lost and one when it is back, however many attempts lie between; no password in them. */
static void the_log_tells_changes_only(void **state)
{
    int fds[2];
    char text[4096];
    struct bench b;
    struct plan plan = {0};
    (void)state;
    assert_int_equal(pipe(fds), 0);
    log_open(fds[1], LOG_INFO);
    open_bench(&b, "me:topsecret@", "/2", 5000, on_plan, &plan);
    harness_until(&b.h, connected(b.redis));
    int port = b.s.port;
    script_close(&b.s);
    harness_rest(&b.h, 700);
    b.s = (struct script){.port = port, .arg = &plan};
    script_listen(&b.s, &b.h, NULL, on_plan);
    harness_until(&b.h, connected(b.redis));
    close_bench(&b);
    log_close();
    close(fds[1]);
    ssize_t n = read(fds[0], text, sizeof text - 1);
    close(fds[0]);
    assert_true(n > 0);
    text[n] = '\0';
    assert_int_equal(count(slice_make(text, (size_t)n), "redis_connected"), 2);
    assert_int_equal(count(slice_make(text, (size_t)n), "redis_unavailable"), 1);
    assert_null(strstr(text, "topsecret"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_second_address_is_tried), cmocka_unit_test(callbacks_may_cancel_ask_and_destroy),
        cmocka_unit_test(destroy_at_any_moment),       cmocka_unit_test(nobody_there),
        cmocka_unit_test(the_log_tells_changes_only),
    };
    return cmocka_run_group_tests_name("remote/redis_link", tests, NULL, redis_bench_teardown);
}
