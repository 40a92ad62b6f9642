/* remote/redis against the real server, started here: what is stored and found, users and databases, a unix socket, and
   a server that is killed, comes back, stops answering, or drops the link while it is idle. */
#include "redis_server.h"

#include "base/arena.h"
#include "base/metric.h"

static double counted(enum metric m, const char *a, const char *b)
{
    return metric_value(m, (struct slice[]){slice_str(a), slice_str(b)});
}

static void what_is_stored_is_found(void **state)
{
    struct server s;
    struct got g;
    char out[200];
    (void)state;
    open_server(&s, "");
    double hits = counted(METRIC_CACHE_HITS, "redis", ""), misses = counted(METRIC_CACHE_MISSES, "redis", "");
    g = get(&s, "none");
    assert_int_equal(g.outcome, REDIS_ABSENT);
    redis_set(s.redis, SLICE("key with\r\nodd bytes \0"), SLICE("va\r\n\0lue"), 100);
    g = (struct got){0};
    redis_get(s.redis, SLICE("key with\r\nodd bytes \0"), on_value, &g);
    harness_until(&s.h, g.calls);
    assert_int_equal(g.outcome, REDIS_FOUND);
    assert_int_equal(g.n, 8);
    redis_set(s.redis, SLICE("k"), SLICE("1"), 100);
    assert_string_equal(get(&s, "k").value, "1");
    cli(&s, "TTL k", out);
    assert_in_range(atoi(out), 98, 100);
    g = (struct got){0};
    redis_increment(s.redis, SLICE("k"), on_value, &g);
    harness_until(&s.h, g.calls);
    assert_string_equal(g.value, "2");
    redis_increment(s.redis, SLICE("k"), NULL, NULL);
    assert_string_equal(get(&s, "k").value, "3");
    redis_drop(s.redis, SLICE("k"));
    assert_int_equal(get(&s, "k").outcome, REDIS_ABSENT);
    redis_set(s.redis, SLICE("brief"), SLICE("x"), 0); /* no time to live: not stored */
    assert_int_equal(get(&s, "brief").outcome, REDIS_ABSENT);
    redis_set(s.redis, SLICE("brief"), SLICE("x"), 1);
    harness_rest(&s.h, 1100);
    assert_int_equal(get(&s, "brief").outcome, REDIS_ABSENT);
    assert_true(counted(METRIC_CACHE_HITS, "redis", "") - hits == 3);
    assert_true(counted(METRIC_CACHE_MISSES, "redis", "") - misses == 4);
    close_server(&s);
}

static void what_is_no_string_is_absent(void **state)
{
    struct server s;
    (void)state;
    open_server(&s, "");
    cli(&s, "LPUSH list a b", NULL);
    assert_int_equal(get(&s, "list").outcome, REDIS_ABSENT); /* WRONGTYPE */
    assert_true(counted(METRIC_DEPENDENCY_FAILURES, "redis", "status") >= 1);
    cli(&s, "SET text abc", NULL);
    struct got g = {0};
    redis_increment(s.redis, SLICE("text"), on_value, &g);
    harness_until(&s.h, g.calls);
    assert_int_equal(g.outcome, REDIS_ABSENT);
    assert_true(connected(s.redis));
    close_server(&s);
}

static void values_over_a_mebibyte_are_ignored(void **state)
{
    struct server s;
    (void)state;
    open_server(&s, "");
    char *big = xzalloc((1 << 20) + 1);
    redis_set(s.redis, SLICE("big"), slice_make(big, (1 << 20) + 1), 100);
    redis_set(s.redis, SLICE("fits"), slice_make(big, 1 << 20), 100);
    assert_int_equal(get(&s, "big").outcome, REDIS_ABSENT);
    struct got g = get(&s, "fits");
    assert_int_equal(g.outcome, REDIS_FOUND);
    assert_int_equal(g.n, 1 << 20);
    cli(&s, "SETRANGE big 1048576 x", NULL);
    g = get(&s, "big");
    assert_int_equal(g.outcome, REDIS_ABSENT);
    assert_int_equal(g.n, 0);
    assert_int_equal(get(&s, "fits").outcome, REDIS_FOUND);
    free(big);
    close_server(&s);
}

static void many_calls_in_one_turn(void **state)
{
    struct server s;
    struct got g = {0};
    (void)state;
    open_server(&s, "");
    redis_set(s.redis, SLICE("k"), SLICE("v"), 100);
    for (int i = 0; i < 2000; i++)
        redis_get(s.redis, SLICE("k"), on_value, &g);
    harness_until(&s.h, g.calls == 2000);
    assert_string_equal(g.value, "v");
    close_server(&s);
}

static void passwords_users_databases_and_sockets(void **state)
{
    static const struct {
        const char *url, *error;
        int db;
    } table[] = {
        {"redis://:pw%%40x@127.0.0.1:%d/3", NULL, 3},
        {"redis://default:pw%%40x@localhost:%d", NULL, 0},
        {"redis://me:mine@127.0.0.1:%d/2", NULL, 2},
        {"redis+unix://:pw%%40x@%s/s?db=5", NULL, 5},
        {"redis://:wrong@127.0.0.1:%d", "AUTH or SELECT was refused", 0},
        {"redis://me:wrong@127.0.0.1:%d", "AUTH or SELECT was refused", 0},
        {"redis://:pw%%40x@127.0.0.1:%d/99", "AUTH or SELECT was refused", 0},
        {"redis://127.0.0.1:%d", "the server wants a password", 0},
        {"unix:%s/s", "the server wants a password", 0},
    };
    struct server s;
    char out[200], command[60];
    (void)state;
    open_server(&s, "pw@x");
    cli(&s, "ACL SETUSER me on '>mine' '~*' +get +setex +select", out); /* no PING */
    assert_string_equal(out, "OK");
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct redis *r = connect_to(&s, table[i].url, 1000);
        struct redis_state st;
        redis_state(r, &st);
        assert_string_equal(st.error, "not yet connected");
        if (table[i].error) {
            harness_until(&s.h, (redis_state(r, &st), strcmp(st.error, "not yet connected") != 0));
            assert_string_equal(st.error, table[i].error);
            assert_false(st.connected);
            assert_int_equal(get_from(&s, r, "k").outcome, REDIS_UNAVAILABLE);
        } else {
            harness_until(&s.h, connected(r));
            redis_set(r, SLICE("k"), slice_str(table[i].url), 100);
            assert_string_equal(get_from(&s, r, "k").value, table[i].url);
            snprintf(command, sizeof command, "-n %d GET k", table[i].db);
            cli(&s, command, out);
            assert_string_equal(out, table[i].url);
        }
        disconnect(&s, r);
    }
    close_server(&s);
}

static void an_idle_link_that_is_dropped_comes_back_at_once(void **state)
{
    struct server s;
    char out[200];
    (void)state;
    open_server(&s, "");
    redis_set(s.redis, SLICE("k"), SLICE("v"), 100);
    for (int i = 0; i < 2; i++) {
        harness_rest(&s.h, 1050);
        cli(&s, "CLIENT KILL TYPE normal SKIPME yes", out);
        int64_t start_ms = harness_clock_ms();
        harness_until(&s.h, !connected(s.redis));
        harness_until(&s.h, connected(s.redis));
        assert_in_range(harness_clock_ms() - start_ms, 0, 80);
        assert_string_equal(get(&s, "k").value, "v");
    }
    close_server(&s);
}

static void killed_and_started_again(void **state)
{
    struct server s;
    struct got g[3] = {{0}};
    (void)state;
    open_server(&s, "");
    kill(s.pid, SIGSTOP);
    for (int i = 0; i < 3; i++)
        redis_get(s.redis, SLICE("k"), on_value, &g[i]);
    harness_turn(&s.h);
    int64_t start_ms = harness_clock_ms();
    stop_server(&s);
    harness_until(&s.h, g[2].calls);
    assert_in_range(harness_clock_ms() - start_ms, 0, 150); /* told by the reset, not by the deadline */
    for (int i = 0; i < 3; i++) {
        assert_int_equal(g[i].calls, 1);
        assert_int_equal(g[i].outcome, REDIS_UNAVAILABLE);
    }
    start_ms = harness_clock_ms();
    for (int i = 0; i < 20; i++)
        assert_int_equal(get(&s, "k").outcome, REDIS_UNAVAILABLE);
    assert_in_range(harness_clock_ms() - start_ms, 0, 100);
    harness_rest(&s.h, 500);
    start_server(&s);
    harness_until(&s.h, connected(s.redis));
    redis_set(s.redis, SLICE("k"), SLICE("again"), 100);
    assert_string_equal(get(&s, "k").value, "again");
    close_server(&s);
}

static void a_server_that_hangs(void **state)
{
    struct server s;
    struct redis_state st;
    (void)state;
    open_server(&s, "");
    redis_set(s.redis, SLICE("k"), SLICE("v"), 100);
    assert_string_equal(get(&s, "k").value, "v");
    kill(s.pid, SIGSTOP);
    for (int i = 0; i < 5; i++) {
        int64_t start_ms = harness_clock_ms();
        assert_int_equal(get(&s, "k").outcome, REDIS_UNAVAILABLE);
        assert_in_range(harness_clock_ms() - start_ms, 198, 500);
    }
    redis_state(s.redis, &st);
    assert_string_equal(st.breaker, "open");
    int64_t start_ms = harness_clock_ms();
    for (int i = 0; i < 20; i++)
        assert_int_equal(get(&s, "k").outcome, REDIS_UNAVAILABLE);
    assert_in_range(harness_clock_ms() - start_ms, 0, 100);
    harness_rest(&s.h, 1500);
    redis_state(s.redis, &st);
    assert_false(st.connected); /* its kernel accepts, but nobody says PONG */
    kill(s.pid, SIGCONT);
    harness_until(&s.h, connected(s.redis));
    assert_string_equal(get(&s, "k").value, "v");
    close_server(&s);
}

static int teardown(void **state)
{
    (void)state;
    metric_finish();
    arena_trim();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_stored_is_found),
        cmocka_unit_test(what_is_no_string_is_absent),
        cmocka_unit_test(values_over_a_mebibyte_are_ignored),
        cmocka_unit_test(many_calls_in_one_turn),
        cmocka_unit_test(passwords_users_databases_and_sockets),
        cmocka_unit_test(an_idle_link_that_is_dropped_comes_back_at_once),
        cmocka_unit_test(killed_and_started_again),
        cmocka_unit_test(a_server_that_hangs),
    };
    return cmocka_run_group_tests_name("remote/redis, the real server", tests, NULL, teardown);
}
