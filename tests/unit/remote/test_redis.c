/* remote/redis against a scripted server: the handshake, every prefix of the answers with calls waiting, answers out of
   turn, garbage, silence, lateness. The real server is in test_redis_real. */
#include "remote/redis.h"

#include "redis_bench.h"

/* Six calls are out when the stream ends after its n-th byte: each is told once, by its own answer or as unavailable.
 */
static void every_prefix_tells_each_call_once(void **state)
{
    static const char answers[] = "$3\r\nabc\r\n+OK\r\n:1\r\n$-1\r\n-ERR x\r\n:42\r\n*2\r\n$1\r\nx\r\n:1\r\n$0\r\n\r\n";
    static const size_t ends[] = {9, 14, 18, 23, 31, 36, 51, 57};
    static const enum redis_outcome outcomes[] = {REDIS_FOUND, REDIS_ABSENT, REDIS_ABSENT,
                                                  REDIS_FOUND, REDIS_ABSENT, REDIS_FOUND};
    static const size_t asked[] = {0, 3, 4, 5, 6, 7}; /* the set and the drop are not awaited */
    static const char *const values[] = {"abc", "", "", "42", "", ""};
    (void)state;
    assert_int_equal(sizeof answers - 1, ends[7]);
    for (int way = 0; way < 3; way++)
        for (size_t n = 0; n < sizeof answers; n++) {
            struct bench b;
            struct plan plan = {answers, n, 8, way == 0, way != 1, way == 1, "", 0};
            struct got g[6] = {{0}};
            open_bench(&b, "", "", 5000, on_plan, &plan);
            harness_until(&b.h, connected(b.redis));
            redis_get(b.redis, SLICE("a"), on_value, &g[0]);
            redis_set(b.redis, SLICE("k"), SLICE("v"), 10);
            redis_drop(b.redis, SLICE("k"));
            redis_get(b.redis, SLICE("b"), on_value, &g[1]);
            redis_get(b.redis, SLICE("c"), on_value, &g[2]);
            redis_increment(b.redis, SLICE("d"), on_value, &g[3]);
            redis_get(b.redis, SLICE("e"), on_value, &g[4]);
            redis_get(b.redis, SLICE("f"), on_value, &g[5]);
            for (size_t i = 0; i < 6; i++)
                assert_int_equal(g[i].calls, 0);
            harness_until(&b.h, g[5].calls);
            harness_turn(&b.h);
            for (size_t i = 0; i < 6; i++) {
                bool told = ends[asked[i]] <= n;
                /* A reset may overtake what was sent before it. */
                if (way == 1 && g[i].outcome == REDIS_UNAVAILABLE) told = false;
                assert_int_equal(g[i].calls, 1);
                assert_int_equal(g[i].outcome, told ? outcomes[i] : REDIS_UNAVAILABLE);
                assert_string_equal(g[i].value, told ? values[i] : "");
            }
            close_bench(&b);
        }
}

static void the_handshake_comes_first(void **state)
{
    static const struct {
        const char *user, *tail, *sent;
    } table[] = {
        {"", "", "*1\r\n$4\r\nPING\r\n"},
        {":p%40ss@", "/0", "*2\r\n$4\r\nAUTH\r\n$4\r\np@ss\r\n*1\r\n$4\r\nPING\r\n"},
        {"me:pw@", "/12",
         "*3\r\n$4\r\nAUTH\r\n$2\r\nme\r\n$2\r\npw\r\n*2\r\n$6\r\nSELECT\r\n$2\r\n12\r\n*1\r\n$4\r\nPING\r\n"},
    };
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct bench b;
        struct plan plan = {0};
        open_bench(&b, table[i].user, table[i].tail, 5000, on_plan, &plan);
        harness_until(&b.h, connected(b.redis));
        assert_string_equal(plan.first, table[i].sent);
        close_bench(&b);
    }
}

struct greeting {
    const char *answer;
    bool hang;
};

static void on_greeting(struct peer *p)
{
    struct greeting *g = p->script->arg;
    if (!g->hang) peer_send(p, g->answer, strlen(g->answer));
}

static void a_bad_greeting_never_counts_as_connected(void **state)
{
    static const struct {
        const char *user, *answer, *error;
    } table[] = {
        {"", "-NOAUTH Authentication required.\r\n", "the server wants a password"},
        {"", "-LOADING Redis is loading\r\n", "the server is still loading"},
        {"", "-ERR what\r\n", "the server refused PING"},
        {":secret@", "-WRONGPASS invalid 'secret'\r\n+PONG\r\n", "AUTH or SELECT was refused"},
        {"", "HTTP/1.1 400 Bad Request\r\n\r\n", "the server does not speak the Redis protocol"},
        {"", "", "the server took too long to greet"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct bench b;
        struct greeting g = {table[i].answer, table[i].answer[0] == '\0'};
        open_bench(&b, table[i].user, "", 60, on_greeting, &g);
        harness_until(&b.h, b.s.accepted >= 2); /* it tries again */
        assert_false(connected(b.redis));
        assert_string_equal(error_of(b.redis), table[i].error);
        close_bench(&b);
    }
    struct bench b;
    struct greeting g = {"-NOPERM this user has no permissions to run the 'ping' command\r\n", false};
    open_bench(&b, "", "", 5000, on_greeting, &g);
    harness_until(&b.h, connected(b.redis));
    close_bench(&b);
}

static void an_answer_nobody_asked_for_ends_the_link(void **state)
{
    static const char *const table[] = {"$1\r\nx\r\n$1\r\ny\r\n", "$1\r\nx\r\n+PONG\r\n", "$1\r\nx\r\n:5\r\n*0\r\n",
                                        "$1\r\nx\r\nwhat\r\n"};
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct bench b;
        struct plan plan = {.answers = table[i], .n = strlen(table[i]), .commands = 1};
        struct got g = {0};
        open_bench(&b, "", "", 5000, on_plan, &plan);
        harness_until(&b.h, connected(b.redis));
        redis_get(b.redis, SLICE("k"), on_value, &g);
        harness_until(&b.h, plan.pings == 2);
        assert_int_equal(g.calls, 1);
        assert_int_equal(g.outcome, REDIS_FOUND);
        close_bench(&b);
    }
}

static void on_flood_turn(uv_idle_t *idle)
{
    static char zeros[65536];
    struct peer *p = idle->data;
    uv_buf_t b = uv_buf_init(zeros, sizeof zeros);
    if (p->drip_at++ < 400) uv_try_write(&p->u.stream, &b, 1);
}

static void on_flood(struct peer *p)
{
    if (p->answered++) return;
    peer_send(p, "$400000000\r\n", 12);
    uv_idle_start(&p->idle, on_flood_turn);
}

static void an_answer_without_end_is_cut_off(void **state)
{
    struct bench b;
    struct plan plan = {0};
    struct got g = {0};
    (void)state;
    open_bench(&b, "", "", 5000, on_plan, &plan);
    harness_until(&b.h, connected(b.redis));
    b.s.on_data = on_flood;
    redis_get(b.redis, SLICE("k"), on_value, &g);
    harness_until(&b.h, g.calls);
    assert_int_equal(g.outcome, REDIS_UNAVAILABLE);
    assert_string_equal(error_of(b.redis), "the server sent an answer that is too large");
    close_bench(&b);
}

/* The server greets and is then silent: time-outs open the breaker, calls then fail in the next turn, and the link is
   made anew. */
static void silence_opens_the_breaker(void **state)
{
    struct bench b;
    struct plan plan = {0};
    struct got g[8] = {{0}};
    struct redis_state s;
    (void)state;
    open_bench(&b, "", "", 80, on_plan, &plan);
    harness_until(&b.h, connected(b.redis));
    int64_t start_ms = harness_clock_ms();
    for (int i = 0; i < 5; i++)
        redis_get(b.redis, SLICE("k"), on_value, &g[i]);
    assert_true(metric_value(METRIC_INFLIGHT, (struct slice[]){SLICE("redis")}) == 5);
    harness_until(&b.h, g[4].calls);
    assert_in_range(harness_clock_ms() - start_ms, 78, 400);
    for (int i = 0; i < 5; i++)
        assert_int_equal(g[i].outcome, REDIS_UNAVAILABLE);
    redis_state(b.redis, &s);
    assert_string_equal(s.breaker, "open");
    assert_true(metric_value(METRIC_BREAKER, (struct slice[]){SLICE("redis")}) == 2);
    redis_get(b.redis, SLICE("k"), on_value, &g[5]);
    harness_turn(&b.h);
    harness_turn(&b.h);
    assert_int_equal(g[5].calls, 1);
    harness_until(&b.h, plan.pings == 2);
    assert_in_range(harness_clock_ms() - start_ms, 900, 2500);
    harness_until(&b.h, connected(b.redis));
    redis_state(b.redis, &s);
    assert_string_equal(s.breaker, "closed");
    assert_true(metric_value(METRIC_INFLIGHT, (struct slice[]){SLICE("redis")}) == 0);
    close_bench(&b);
}

/* An answer that comes after its call timed out is nobody's, and no later call gets it. */
static void a_late_answer_is_not_taken_for_the_next(void **state)
{
    struct bench b;
    struct plan plan = {.answers = "$4\r\nlate\r\n$4\r\nnext\r\n", .n = 20, .commands = 2};
    struct got late = {0}, next = {0};
    (void)state;
    open_bench(&b, "", "", 100, on_plan, &plan);
    harness_until(&b.h, connected(b.redis));
    redis_get(b.redis, SLICE("a"), on_value, &late);
    harness_until(&b.h, late.calls);
    assert_int_equal(late.outcome, REDIS_UNAVAILABLE);
    redis_get(b.redis, SLICE("b"), on_value, &next);
    harness_until(&b.h, next.calls);
    assert_string_equal(next.value, "next");
    assert_int_equal(late.calls, 1);
    close_bench(&b);
}

static void on_one_late(struct peer *p)
{
    struct plan *plan = p->script->arg;
    if (plan->pings == 0) {
        on_plan(p);
        return;
    }
    if (p->answered++) peer_send(p, "$-1\r\n", 5);
    peer_take(p, p->in.n);
}

/* A server that answers each call too late is no good server. */
static void late_answers_are_no_success(void **state)
{
    struct bench b;
    struct plan plan = {0};
    struct redis_state s;
    (void)state;
    double misses = metric_value(METRIC_CACHE_MISSES, (struct slice[]){SLICE("redis")});
    open_bench(&b, "", "", 50, on_one_late, &plan);
    harness_until(&b.h, connected(b.redis));
    for (int i = 0; i < 5; i++) {
        struct got g = {0};
        redis_get(b.redis, SLICE("k"), on_value, &g);
        harness_until(&b.h, g.calls);
        assert_int_equal(g.outcome, REDIS_UNAVAILABLE);
    }
    redis_state(b.redis, &s);
    assert_string_equal(s.breaker, "open");
    assert_true(s.connected);
    assert_true(metric_value(METRIC_CACHE_MISSES, (struct slice[]){SLICE("redis")}) == misses);
    close_bench(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_handshake_comes_first),         cmocka_unit_test(a_bad_greeting_never_counts_as_connected),
        cmocka_unit_test(every_prefix_tells_each_call_once), cmocka_unit_test(an_answer_nobody_asked_for_ends_the_link),
        cmocka_unit_test(an_answer_without_end_is_cut_off),  cmocka_unit_test(silence_opens_the_breaker),
        cmocka_unit_test(late_answers_are_no_success),       cmocka_unit_test(a_late_answer_is_not_taken_for_the_next),
    };
    return cmocka_run_group_tests_name("remote/redis", tests, NULL, redis_bench_teardown);
}
