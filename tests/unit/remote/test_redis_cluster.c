/* remote/redis as a cluster, against scripted nodes: redirections are followed, once each and no further; a map is learned
   from whoever has a good one; one node's trouble is not the others'. The real cluster is in the end-to-end tests. */
#include "redis_bench.h"
#include "remote/redis_slots.h"

struct node {
    struct script s;
    const char *get;  /* its answer to GET; NULL: silence */
    const char *slots; /* to CLUSTER SLOTS */
    int gets, asked_slots, askings, sets;
    bool asking;
    bool asked_before_get; /* ASKING came right before the last GET */
};

struct world {
    struct harness h;
    struct node a, b;
    char map[2][300]; /* all slots at a; "bar" and all below 8192 at a, "foo" and the rest at b */
    char moved[60], asked[60];
    struct redis *redis;
};

/* One whole command off the front of what came: its first two words. False: not yet whole. */
static bool take_command(struct peer *p, char words[2][40])
{
    size_t at = 0;
    int n = 0, used = 0;
    words[0][0] = words[1][0] = '\0';
    buf_add_char(&p->in, '\0');
    p->in.n--;
    if (sscanf(p->in.p, "*%d\r\n%n", &n, &used) != 1 || used == 0) return false;
    at = (size_t)used;
    for (int i = 0; i < n; i++) {
        int length = 0;
        used = 0;
        if (at >= p->in.n || sscanf(p->in.p + at, "$%d\r\n%n", &length, &used) != 1 || used == 0) return false;
        at += (size_t)used;
        if (at + (size_t)length + 2 > p->in.n) return false;
        if (i < 2) snprintf(words[i], sizeof words[i], "%.*s", length, p->in.p + at);
        at += (size_t)length + 2;
    }
    peer_take(p, at);
    return true;
}

static void on_node(struct peer *p)
{
    struct node *n = p->script->arg;
    char words[2][40];
    while (!p->closing && take_command(p, words)) {
        const char *answer = "+OK\r\n";
        if (strcmp(words[0], "PING") == 0) answer = "+PONG\r\n";
        if (strcmp(words[0], "CLUSTER") == 0) {
            answer = n->slots;
            n->asked_slots++;
        } else if (strcmp(words[0], "GET") == 0) {
            answer = n->get;
            n->gets++;
            n->asked_before_get = n->asking;
        } else if (strcmp(words[0], "SETEX") == 0) {
            n->sets++;
        }
        n->asking = strcmp(words[0], "ASKING") == 0;
        n->askings += n->asking;
        if (answer) peer_send(p, answer, strlen(answer));
    }
}

static void open_world(struct world *w)
{
    memset(w, 0, sizeof *w);
    harness_open(&w->h);
    script_listen(&w->a.s, &w->h, NULL, on_node);
    script_listen(&w->b.s, &w->h, NULL, on_node);
    w->a.s.arg = &w->a;
    w->b.s.arg = &w->b;
    snprintf(w->map[0], sizeof w->map[0], "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:%d\r\n", w->a.s.port);
    snprintf(w->map[1], sizeof w->map[1],
             "*2\r\n*3\r\n:0\r\n:8191\r\n*2\r\n$9\r\n127.0.0.1\r\n:%d\r\n*3\r\n:8192\r\n:16383\r\n*2\r\n$0\r\n\r\n:%d\r\n",
             w->a.s.port, w->b.s.port);
    snprintf(w->moved, sizeof w->moved, "-MOVED 12182 127.0.0.1:%d\r\n", w->b.s.port);
    snprintf(w->asked, sizeof w->asked, "-ASK 12182 127.0.0.1:%d\r\n", w->b.s.port);
    w->a.slots = w->b.slots = w->map[0];
    w->a.get = "$1\r\na\r\n";
    w->b.get = "$1\r\nb\r\n";
}

static void begin(struct world *w, int64_t timeout_ms)
{
    char url[60], more[60], *error = NULL;
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", w->a.s.port);
    snprintf(more, sizeof more, "127.0.0.1:%d", w->b.s.port);
    struct slice nodes[] = {slice_str(more)};
    struct redis_config c = {
        .url = slice_str(url), .timeout_ms = timeout_ms, .cluster = true, .nodes = nodes, .nodes_n = 1};
    w->redis = redis_create(w->h.loop, &c, &error);
    assert_non_null(w->redis);
}

static void open_cluster(struct world *w)
{
    open_world(w);
    begin(w, 2000);
    harness_until(&w->h, connected(w->redis));
}

static void close_world(struct world *w)
{
    destroy_redis(&w->h, w->redis);
    script_close(&w->a.s);
    script_close(&w->b.s);
    harness_close(&w->h);
}

static struct got get(struct world *w, const char *key)
{
    struct got g = {0};
    redis_get(w->redis, slice_str(key), on_value, &g);
    harness_until(&w->h, g.calls);
    assert_int_equal(g.calls, 1);
    return g;
}

static void keys_go_to_their_masters(void **state)
{
    struct world w;
    (void)state;
    open_world(&w);
    w.a.slots = w.map[1];
    begin(&w, 2000);
    harness_until(&w.h, connected(w.redis));
    assert_string_equal(get(&w, "bar").value, "a");
    assert_string_equal(get(&w, "foo").value, "b");
    assert_string_equal(get(&w, "{foo}x").value, "b");
    assert_int_equal(w.a.gets, 1);
    assert_int_equal(w.b.gets, 2);
    close_world(&w);
}

/* Also to one that was not known: its first connection is waited for. */
static void moved_is_followed_and_remembered(void **state)
{
    struct world w;
    (void)state;
    open_cluster(&w);
    double before = metric_value(METRIC_REDIS_REDIRECTS, (struct slice[]){SLICE("moved")});
    harness_rest(&w.h, 400); /* nothing is in doubt any more */
    int slots = w.a.asked_slots;
    w.a.get = w.moved;
    w.a.slots = w.b.slots = w.map[1];
    assert_string_equal(get(&w, "foo").value, "b");
    assert_int_equal(w.a.gets, 1);
    assert_false(w.b.asked_before_get);
    assert_string_equal(get(&w, "foo").value, "b");
    assert_int_equal(w.a.gets, 1); /* it is known now */
    assert_true(metric_value(METRIC_REDIS_REDIRECTS, (struct slice[]){SLICE("moved")}) == before + 1);
    int64_t start_ms = harness_clock_ms();
    harness_until(&w.h, w.a.asked_slots > slots); /* and the map is asked for, before its time */
    assert_true(harness_clock_ms() - start_ms < 3000);
    assert_string_equal(get(&w, "foo").value, "b");
    close_world(&w);
}

static void ask_is_followed_and_forgotten(void **state)
{
    struct world w;
    (void)state;
    open_cluster(&w);
    w.a.get = w.asked;
    for (int i = 1; i < 3; i++) {
        assert_string_equal(get(&w, "foo").value, "b");
        assert_int_equal(w.a.gets, i);
        assert_int_equal(w.b.gets, i);
        assert_int_equal(w.b.askings, i);
        assert_true(w.b.asked_before_get);
    }
    w.a.get = "$1\r\na\r\n";
    assert_string_equal(get(&w, "foo").value, "a");
    assert_int_equal(w.a.askings, 0);
    close_world(&w);
}

static void a_circle_has_an_end(void **state)
{
    struct world w;
    char back[60];
    (void)state;
    open_cluster(&w);
    snprintf(back, sizeof back, "-MOVED 12182 127.0.0.1:%d\r\n", w.a.s.port);
    w.a.get = w.moved;
    w.b.get = back;
    assert_int_equal(get(&w, "foo").outcome, REDIS_UNAVAILABLE);
    assert_int_equal(w.a.gets + w.b.gets, 4);
    close_world(&w);
}

static void a_redirection_to_nobody(void **state)
{
    struct world w;
    char nowhere[60];
    (void)state;
    open_cluster(&w);
    snprintf(nowhere, sizeof nowhere, "-MOVED 12182 127.0.0.1:%d\r\n", free_port());
    w.a.get = nowhere;
    int64_t start_ms = harness_clock_ms();
    assert_int_equal(get(&w, "foo").outcome, REDIS_UNAVAILABLE);
    assert_true(harness_clock_ms() - start_ms < 1000); /* refused, not timed out */
    w.a.get = "$1\r\na\r\n";
    harness_until(&w.h, get(&w, "foo").outcome == REDIS_FOUND); /* once the map was asked for again */
    close_world(&w);
}

static void on_silent(struct peer *p)
{
    (void)p;
}

static void a_redirection_to_one_that_hangs(void **state)
{
    struct world w;
    (void)state;
    open_world(&w);
    begin(&w, 150);
    harness_until(&w.h, connected(w.redis));
    w.b.s.on_data = on_silent;
    w.a.get = w.asked;
    int64_t start_ms = harness_clock_ms();
    assert_int_equal(get(&w, "foo").outcome, REDIS_UNAVAILABLE);
    assert_in_range(harness_clock_ms() - start_ms, 100, 600);
    w.a.get = "$1\r\na\r\n";
    assert_string_equal(get(&w, "foo").value, "a");
    close_world(&w);
}

static void errors_of_a_cluster(void **state)
{
    static const struct {
        const char *answer;
        enum redis_outcome outcome;
    } table[] = {
        {"-CLUSTERDOWN The cluster is down\r\n", REDIS_UNAVAILABLE},
        {"-TRYAGAIN Multiple keys request during rehashing of slot\r\n", REDIS_UNAVAILABLE},
        {"-LOADING Redis is loading the dataset in memory\r\n", REDIS_UNAVAILABLE},
        {"-MOVED 99999 127.0.0.1:1\r\n", REDIS_UNAVAILABLE},
        {"-MOVED 1 nowhere\r\n", REDIS_UNAVAILABLE},
        {"-ASK\r\n", REDIS_UNAVAILABLE},
        {"-ERR unknown command\r\n", REDIS_ABSENT},
        {"-WRONGTYPE Operation against a key\r\n", REDIS_ABSENT},
        {"$-1\r\n", REDIS_ABSENT},
    };
    struct world w;
    (void)state;
    open_cluster(&w);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        w.a.get = table[i].answer;
        if (get(&w, "foo").outcome != table[i].outcome) fail_msg("%s", table[i].answer);
    }
    close_world(&w);
}

static void a_bad_map_is_asked_of_another(void **state)
{
    static const char *const bad[] = {
        "*0\r\n", "-ERR This instance has cluster support disabled\r\n", "+OK\r\n", "$1\r\nx\r\n",
        "*1\r\n*3\r\n:0\r\n:99999\r\n*2\r\n$1\r\na\r\n:1\r\n", "*1\r\n*3\r\n:0\r\n:1\r\n*2\r\n$1\r\na\r\n:0\r\n",
        "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n", "HTTP/1.1 400 Bad Request\r\n\r\n",
        "*2147483647\r\n"};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct world w;
        open_world(&w);
        w.a.slots = bad[i];
        begin(&w, 300);
        harness_until(&w.h, connected(w.redis));
        assert_int_equal(w.b.asked_slots, 1);
        assert_string_equal(get(&w, "foo").value, "a");
        close_world(&w);
    }
}

/* Both bad: it is said, calls are told at once, and it goes on asking without haste. */
static void no_map_at_all(void **state)
{
    struct world w;
    struct got g = {0};
    (void)state;
    open_world(&w);
    w.a.slots = w.b.slots = "*0\r\n";
    begin(&w, 300);
    harness_until(&w.h, strcmp(error_of(w.redis), "no node of the cluster gives its map") == 0);
    redis_get(w.redis, SLICE("foo"), on_value, &g);
    harness_turn(&w.h);
    harness_turn(&w.h);
    assert_int_equal(g.outcome, REDIS_UNAVAILABLE);
    int asked = w.a.asked_slots;
    harness_rest(&w.h, 1000);
    assert_in_range(w.a.asked_slots - asked, 1, 8);
    w.b.slots = w.map[0];
    harness_until(&w.h, connected(w.redis));
    close_world(&w);
}

/* A node that answers nothing: its breaker opens, and the other is as fast as ever. */
static void one_nodes_trouble_is_its_own(void **state)
{
    struct world w;
    struct redis_state now;
    (void)state;
    open_world(&w);
    w.a.slots = w.b.slots = w.map[1];
    w.b.get = NULL;
    begin(&w, 100);
    harness_until(&w.h, connected(w.redis));
    for (int i = 0; i < 5; i++)
        assert_int_equal(get(&w, "foo").outcome, REDIS_UNAVAILABLE);
    redis_state(w.redis, &now);
    assert_string_equal(now.breaker, "open");
    int gets = w.b.gets;
    for (int i = 0; i < 20; i++) {
        int64_t start_ms = harness_clock_ms();
        assert_int_equal(get(&w, "foo").outcome, REDIS_UNAVAILABLE);
        assert_string_equal(get(&w, "bar").value, "a");
        assert_true(harness_clock_ms() - start_ms < 90);
    }
    assert_int_equal(w.b.gets, gets);
    close_world(&w);
}

/* The master that had the key's slot is no more in the map: nothing leads to it, and it counts as a fail-over. */
static void who_left_the_map_is_left(void **state)
{
    struct world w;
    (void)state;
    open_world(&w);
    w.a.slots = w.b.slots = w.map[1];
    begin(&w, 2000);
    harness_until(&w.h, connected(w.redis));
    double before = metric_value(METRIC_REDIS_FAILOVERS, NULL);
    w.a.slots = w.map[0];
    w.b.get = "-CLUSTERDOWN x\r\n"; /* makes it ask */
    assert_int_equal(get(&w, "foo").outcome, REDIS_UNAVAILABLE);
    harness_until(&w.h, strcmp(get(&w, "foo").value, "a") == 0);
    assert_true(metric_value(METRIC_REDIS_FAILOVERS, NULL) == before + 1);
    struct redis_state now;
    redis_state(w.redis, &now);
    assert_int_equal(now.masters, 1);
    w.b.s.on_data = on_silent; /* gone for good: it is not tried for ever */
    script_drop_peers(&w.b.s);
    harness_rest(&w.h, 2600);
    int accepted = w.b.s.accepted;
    harness_rest(&w.h, 2600);
    assert_int_equal(w.b.s.accepted, accepted);
    close_world(&w);
}

/* Whatever is under way: a map, a redirection, a first connection that is waited for. */
static void destroy_at_any_moment(void **state)
{
    (void)state;
    for (int turns = 0; turns < 24; turns++) {
        struct world w;
        struct got g[2] = {{0}};
        open_world(&w);
        w.a.get = turns % 2 ? w.moved : w.asked;
        begin(&w, 2000);
        if (turns >= 8) {
            harness_until(&w.h, connected(w.redis));
            redis_get(w.redis, SLICE("foo"), on_value, &g[0]);
            redis_cancel(redis_get(w.redis, SLICE("foo"), on_value, &g[1]));
            redis_set(w.redis, SLICE("foo"), SLICE("v"), 10);
        }
        for (int i = 0; i < turns % 8; i++)
            harness_turn(&w.h);
        close_world(&w);
        assert_true(g[0].calls <= 1);
        assert_int_equal(g[1].calls, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_go_to_their_masters),
        cmocka_unit_test(moved_is_followed_and_remembered),
        cmocka_unit_test(ask_is_followed_and_forgotten),
        cmocka_unit_test(a_circle_has_an_end),
        cmocka_unit_test(a_redirection_to_nobody),
        cmocka_unit_test(a_redirection_to_one_that_hangs),
        cmocka_unit_test(errors_of_a_cluster),
        cmocka_unit_test(a_bad_map_is_asked_of_another),
        cmocka_unit_test(no_map_at_all),
        cmocka_unit_test(one_nodes_trouble_is_its_own),
        cmocka_unit_test(who_left_the_map_is_left),
        cmocka_unit_test(destroy_at_any_moment),
    };
    metric_init("doorward_");
    return cmocka_run_group_tests_name("remote/redis, a cluster", tests, NULL, redis_bench_teardown);
}
