/* remote/redis against scripted servers: every prefix of the answers with calls waiting, answers out of turn, garbage,
   silence; what callbacks may do; urls. The real server is in test_redis_real. */
#include "remote/redis.h"

#include "harness.h"

#include <dlfcn.h>
#include <netdb.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/metric.h"
#include "remote/redis_url.h"

typedef int getaddrinfo_fn(const char *, const char *, const struct addrinfo *, struct addrinfo **);

/* The resolver of this program, also libuv's: two.test has two addresses, and only the second has a listener. */
int getaddrinfo(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **out)
{
    getaddrinfo_fn *real = (getaddrinfo_fn *)(uintptr_t)dlsym(RTLD_NEXT, "getaddrinfo");
    if (!host || strcmp(host, "two.test") != 0) return real(host, port, hints, out);
    int error = real("127.0.0.2", port, hints, out);
    return error ? error : real("127.0.0.1", port, hints, &(*out)->ai_next);
}

struct got {
    int calls;
    enum redis_outcome outcome;
    char value[100];
};

struct bench {
    struct harness h;
    struct script s;
    struct redis *redis;
};

static void on_value(enum redis_outcome o, struct slice value, void *arg)
{
    struct got *g = arg;
    g->calls++;
    g->outcome = o;
    assert_true((o == REDIS_FOUND) || value.n == 0);
    snprintf(g->value, sizeof g->value, "%.*s", (int)value.n, value.n ? value.p : "");
}

static bool connected(struct redis *r)
{
    struct redis_state s;
    redis_state(r, &s);
    return s.connected;
}

static const char *error_of(struct redis *r)
{
    struct redis_state s;
    redis_state(r, &s);
    return s.error ? s.error : "";
}

static struct redis *open_redis(struct harness *h, const char *url, int64_t timeout_ms)
{
    char *error = NULL;
    struct redis_config c = {slice_str(url), timeout_ms};
    struct redis *r = redis_create(h->loop, &c, &error);
    assert_non_null(r);
    assert_null(error);
    return r;
}

static void open_bench(struct bench *b, const char *user, const char *tail, int64_t timeout_ms,
                       void (*on_data)(struct peer *), void *arg)
{
    char url[200];
    memset(b, 0, sizeof *b);
    harness_open(&b->h);
    script_listen(&b->s, &b->h, NULL, on_data);
    b->s.arg = arg;
    snprintf(url, sizeof url, "redis://%s127.0.0.1:%d%s", user, b->s.port, tail);
    b->redis = open_redis(&b->h, url, timeout_ms);
}

static void destroy_redis(struct harness *h, struct redis *r)
{
    h->gone = false;
    redis_destroy(r, harness_on_gone, &h->gone);
    assert_false(h->gone);
    harness_until(h, h->gone);
}

static void close_bench(struct bench *b)
{
    destroy_redis(&b->h, b->redis);
    script_close(&b->s);
    harness_close(&b->h);
}

/* --- a script: PONG for each PING, then `answers`, whole or cut, once `commands` others came -------------------- */

struct plan {
    const char *answers;
    size_t n; /* how much of it */
    int commands;
    bool drip, close, reset;
    char first[300]; /* what came with the handshake */
    int pings;
};

static int count(struct slice in, const char *what)
{
    int n = 0;
    for (const char *p = in.p; (p = memmem(p, (size_t)(in.p + in.n - p), what, strlen(what))); p++)
        n++;
    return n;
}

static void on_plan(struct peer *p)
{
    struct plan *plan = p->script->arg;
    const char *ping = memmem(p->in.p, p->in.n, "*1\r\n$4\r\nPING\r\n", 14);
    if (ping) {
        size_t n = (size_t)(ping - p->in.p) + 14;
        snprintf(plan->first, sizeof plan->first, "%.*s", (int)n, p->in.p);
        for (int i = count(slice_make(p->in.p, n), "*") - 1; i > 0; i--)
            peer_send(p, "+OK\r\n", 5);
        peer_send(p, "+PONG\r\n", 7);
        plan->pings++;
        peer_take(p, n);
    }
    if (p->answered || !plan->answers || count(buf_slice(&p->in), "*") < plan->commands) return;
    p->answered = 1;
    if (plan->drip) {
        peer_drip(p, plan->answers, plan->n, plan->close);
        return;
    }
    peer_send(p, plan->answers, plan->n);
    if (plan->reset)
        peer_reset(p);
    else if (plan->close)
        peer_close(p);
}

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

static void urls(void **state)
{
    static const struct {
        const char *url, *host, *path, *user, *password;
        int port, db;
    } good[] = {
        {"redis://a", "a", NULL, NULL, NULL, 6379, 0},
        {"REDIS://a.b:1/", "a.b", NULL, NULL, NULL, 1, 0},
        {"redis://[::1]:7000/15", "::1", NULL, NULL, NULL, 7000, 15},
        {"redis://:p%40%3A%2f@a:1/2", "a", NULL, NULL, "p@:/", 1, 2},
        {"redis://u%20v:p:q@r@a?db=9", "a", NULL, "u v", "p:q@r", 6379, 9},
        {"unix:/run/r.sock", NULL, "/run/r.sock", NULL, NULL, 0, 0},
        {"unix:///run/r%20.sock?db=3", NULL, "/run/r .sock", NULL, NULL, 0, 3},
        {"redis+unix:///run/r.sock", NULL, "/run/r.sock", NULL, NULL, 0, 0},
        {"redis+unix://:pw@/r?db=1", NULL, "/r", NULL, "pw", 0, 1},
    };
    static const char *const bad[] = {
        "",
        "redis:",
        "redis://",
        "redis://:6379",
        "http://a",
        "rediss://a",
        "redis://hunter2@a",
        "redis://u:@a",
        "redis://:hunter2@",
        "redis://:hunter%2@a",
        "redis://:hunter2%zz@a",
        "redis://:hunter2%00@a",
        "redis://a:0",
        "redis://a:65536",
        "redis://a:-1",
        "redis://a:x",
        "redis://a/x",
        "redis://a/1/2",
        "redis://a/-1",
        "redis://a/99999999999",
        "redis://[::1",
        "redis://[::1]x",
        "redis://a?x=1",
        "redis://a?db=",
        "redis://a b",
        "unix:",
        "unix:/",
        "unix:r.sock",
        "unix:/r?timeout=1",
        "redis+unix://host/r",
        "redis+unix://hunter2@/r",
        "redis://:hunter2/x@a",
        "unix:/"
        "123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678",
    };
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct redis_url u;
        const char *wrong = redis_url_parse(slice_str(good[i].url), &u);
        if (wrong) fail_msg("%s: %s", good[i].url, wrong);
#define SAME(field) assert_true(good[i].field ? u.field &&strcmp(u.field, good[i].field) == 0 : !u.field)
        SAME(host);
        SAME(path);
        SAME(user);
        SAME(password);
        assert_int_equal(u.port, good[i].port);
        assert_int_equal(u.db, good[i].db);
        redis_url_finish(&u);
    }
    struct harness h;
    harness_open(&h);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char *error = NULL;
        struct redis_config c = {slice_str(bad[i]), 100};
        if (redis_create(h.loop, &c, &error)) fail_msg("taken: %s", bad[i]);
        assert_non_null(error);
        assert_null(strstr(error, "hunter"));
        free(error);
    }
    harness_close(&h);
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
        cmocka_unit_test(urls),
        cmocka_unit_test(the_second_address_is_tried),
        cmocka_unit_test(the_handshake_comes_first),
        cmocka_unit_test(a_bad_greeting_never_counts_as_connected),
        cmocka_unit_test(every_prefix_tells_each_call_once),
        cmocka_unit_test(an_answer_nobody_asked_for_ends_the_link),
        cmocka_unit_test(an_answer_without_end_is_cut_off),
        cmocka_unit_test(silence_opens_the_breaker),
        cmocka_unit_test(late_answers_are_no_success),
        cmocka_unit_test(a_late_answer_is_not_taken_for_the_next),
        cmocka_unit_test(callbacks_may_cancel_ask_and_destroy),
        cmocka_unit_test(destroy_at_any_moment),
        cmocka_unit_test(nobody_there),
        cmocka_unit_test(the_log_tells_changes_only),
    };
    return cmocka_run_group_tests_name("remote/redis", tests, NULL, teardown);
}
