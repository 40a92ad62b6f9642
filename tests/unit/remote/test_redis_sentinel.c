/* remote/redis by sentinels, against scripted ones: who knows nothing or talks nonsense is passed over, a server that is no
   master is left, and one that becomes a replica is asked about again. The real ones are in the end-to-end tests. */
#include "redis_bench.h"

struct sentinel {
    struct script s;
    const char *answer;
    int asked;
};

struct data {
    struct script s;
    const char *role; /* of its answer to ROLE */
    const char *set;
    int gets, sets;
};

struct world {
    struct harness h;
    struct sentinel first, second;
    struct data a, b;
    char names_a[60], names_b[60];
    struct redis *redis;
};

static const char master[] = "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n";
static const char replica[] = "*5\r\n$5\r\nslave\r\n$1\r\nx\r\n:1\r\n$9\r\nconnected\r\n:0\r\n";

/* All commands that are here are small and come whole: each is one array, answered by its first word. */
static void on_sentinel(struct peer *p)
{
    struct sentinel *s = p->script->arg;
    struct slice in = buf_slice(&p->in);
    bool ping = memmem(in.p, in.n, "PING", 4) != NULL, question = memmem(in.p, in.n, "get-master", 10) != NULL;
    peer_take(p, in.n);
    if (ping) peer_send(p, "+PONG\r\n", 7);
    if (!question) return;
    s->asked++;
    peer_send(p, s->answer, strlen(s->answer));
}

static void on_data_server(struct peer *p)
{
    struct data *d = p->script->arg;
    struct slice in = buf_slice(&p->in);
    bool ping = memmem(in.p, in.n, "PING", 4) != NULL;
    int gets = count(in, "$3\r\nGET"), sets = count(in, "$5\r\nSETEX");
    peer_take(p, in.n);
    d->gets += gets;
    d->sets += sets;
    if (ping) {
        peer_send(p, "+PONG\r\n", 7);
        peer_send(p, d->role, strlen(d->role));
    }
    while (gets-- > 0)
        peer_send(p, "$1\r\nv\r\n", 7);
    while (sets-- > 0)
        peer_send(p, d->set, strlen(d->set));
}

static void name(char *out, size_t size, int port)
{
    char text[8];
    int n = snprintf(text, sizeof text, "%hu", (unsigned short)port);
    snprintf(out, size, "*2\r\n$9\r\n127.0.0.1\r\n$%d\r\n%s\r\n", n, text);
}

static void listen_all(struct world *w)
{
    memset(w, 0, sizeof *w);
    harness_open(&w->h);
    script_listen(&w->first.s, &w->h, NULL, on_sentinel);
    script_listen(&w->second.s, &w->h, NULL, on_sentinel);
    script_listen(&w->a.s, &w->h, NULL, on_data_server);
    script_listen(&w->b.s, &w->h, NULL, on_data_server);
    w->first.s.arg = &w->first;
    w->second.s.arg = &w->second;
    w->a.s.arg = &w->a;
    w->b.s.arg = &w->b;
    w->a.role = w->b.role = master;
    w->a.set = w->b.set = "+OK\r\n";
    name(w->names_a, sizeof w->names_a, w->a.s.port);
    name(w->names_b, sizeof w->names_b, w->b.s.port);
    w->first.answer = w->second.answer = w->names_a;
}

static void begin(struct world *w)
{
    char at[2][40], *error = NULL;
    snprintf(at[0], sizeof at[0], "127.0.0.1:%d", w->first.s.port);
    snprintf(at[1], sizeof at[1], "127.0.0.1:%d", w->second.s.port);
    struct slice sentinels[] = {slice_str(at[0]), slice_str(at[1])};
    struct redis_config c = {
        .url = SLICE("redis://name"), .timeout_ms = 300, .sentinels = sentinels, .sentinels_n = 2};
    w->redis = redis_create(w->h.loop, &c, &error);
    assert_non_null(w->redis);
}

static void end(struct world *w)
{
    destroy_redis(&w->h, w->redis);
    script_close(&w->first.s);
    script_close(&w->second.s);
    script_close(&w->a.s);
    script_close(&w->b.s);
    harness_close(&w->h);
}

static void who_knows_nothing_is_passed_over(void **state)
{
    static const char *const answers[] = {
        "*-1\r\n", "-IDONTKNOW no\r\n", "+OK\r\n", ":1\r\n", "*0\r\n", "*2\r\n$1\r\na\r\n:1\r\n",
        "*2\r\n$3\r\na@b\r\n$1\r\n1\r\n", "*2\r\n$1\r\na\r\n$5\r\n65536\r\n", "*2\r\n$0\r\n\r\n$1\r\n1\r\n",
        "*2\r\n*1\r\n$1\r\na\r\n$1\r\n1\r\n", "HTTP/1.0 400 Bad\r\n\r\n", "*2147483647\r\n"};
    (void)state;
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        struct world w;
        listen_all(&w);
        w.first.answer = answers[i];
        begin(&w);
        harness_until(&w.h, connected(w.redis));
        assert_int_equal(w.second.asked, 1);
        end(&w);
    }
}

static void only_a_master_is_taken(void **state)
{
    static const char *const roles[] = {replica, "-NOPERM this user has no permissions\r\n", "+master\r\n", "*0\r\n",
                                        "*1\r\n+master\r\n", "*1\r\n*1\r\n$6\r\nmaster\r\n", "$-1\r\n"};
    (void)state;
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        struct world w;
        struct got g = {0};
        listen_all(&w);
        w.a.role = roles[i];
        begin(&w);
        harness_until(&w.h, strncmp(error_of(w.redis), "the server ", 11) == 0);
        redis_set(w.redis, SLICE("k"), SLICE("v"), 10);
        redis_get(w.redis, SLICE("k"), on_value, &g);
        harness_until(&w.h, g.calls);
        assert_int_equal(g.outcome, REDIS_UNAVAILABLE);
        assert_int_equal(w.a.gets + w.a.sets, 0);
        w.a.role = master;
        harness_until(&w.h, connected(w.redis));
        end(&w);
    }
}

/* It was a master when the connection was made; a write says that it is none any more. */
static void readonly_leads_to_the_new_master(void **state)
{
    struct world w;
    struct redis_state now;
    char b[40];
    (void)state;
    listen_all(&w);
    begin(&w);
    harness_until(&w.h, connected(w.redis));
    double before = metric_value(METRIC_REDIS_FAILOVERS, NULL);
    w.a.set = "-READONLY You can't write against a read only replica.\r\n";
    w.a.role = replica;
    redis_set(w.redis, SLICE("k"), SLICE("v"), 10);
    harness_until(&w.h, !connected(w.redis));
    assert_int_equal(w.a.sets, 1);
    w.first.answer = w.second.answer = w.names_b;
    int64_t start_ms = harness_clock_ms();
    harness_until(&w.h, connected(w.redis));
    assert_true(harness_clock_ms() - start_ms < 1500);
    snprintf(b, sizeof b, "127.0.0.1:%d", w.b.s.port);
    redis_state(w.redis, &now);
    assert_string_equal(now.master, b);
    assert_true(metric_value(METRIC_REDIS_FAILOVERS, NULL) == before + 1);
    redis_set(w.redis, SLICE("k"), SLICE("v"), 10);
    harness_until(&w.h, w.b.sets == 1);
    assert_int_equal(w.a.sets, 1);
    end(&w);
}

/* The one that is asked was left behind: it names somebody who is not there. The other knows better. */
static void a_sentinel_that_was_left_behind(void **state)
{
    struct world w;
    char nobody[60];
    (void)state;
    listen_all(&w);
    name(nobody, sizeof nobody, free_port());
    w.first.answer = nobody;
    begin(&w);
    harness_until(&w.h, connected(w.redis));
    assert_in_range(w.first.asked, 2, 10);
    assert_int_equal(w.second.asked, 1);
    end(&w);
}

/* Nobody hurries it: each second is enough to see that another was named while the old one still answers. */
static void another_is_named_while_the_old_one_answers(void **state)
{
    struct world w;
    struct got g = {0};
    (void)state;
    listen_all(&w);
    begin(&w);
    harness_until(&w.h, connected(w.redis));
    w.first.answer = w.names_b;
    harness_until(&w.h, (redis_get(w.redis, SLICE("k"), on_value, &g), w.b.gets > 0));
    harness_rest(&w.h, 50);
    assert_in_range(w.first.asked, 2, 4);
    end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_knows_nothing_is_passed_over),
        cmocka_unit_test(only_a_master_is_taken),
        cmocka_unit_test(readonly_leads_to_the_new_master),
        cmocka_unit_test(a_sentinel_that_was_left_behind),
        cmocka_unit_test(another_is_named_while_the_old_one_answers),
    };
    metric_init("doorward_");
    return cmocka_run_group_tests_name("remote/redis, sentinels", tests, NULL, redis_bench_teardown);
}
