/* remote/redis_watch through remote/redis against the real server: what others change is told, what we change is not; and
   the moment the watch is broken in any way everything is told to be in doubt, and again when it stands. */
#include "redis_server.h"

#include "base/arena.h"
#include "base/log.h"
#include "base/metric.h"

struct heard {
    int all;        /* times that everything was in doubt */
    int keys;
    char last[100]; /* key */
    int messages;
    char message[100];
};

static void on_invalidated(struct slice key, void *arg)
{
    struct heard *h = arg;
    if (key.n == 0) {
        h->all++;
        return;
    }
    h->keys++;
    snprintf(h->last, sizeof h->last, "%.*s", (int)key.n, key.p);
}

static void on_message(struct slice payload, void *arg)
{
    struct heard *h = arg;
    h->messages++;
    snprintf(h->message, sizeof h->message, "%.*s", (int)payload.n, payload.n ? payload.p : "");
}

static bool tracking(struct redis *r)
{
    struct redis_state state;
    redis_state(r, &state);
    assert_true(state.tracking != (state.tracking_error != NULL));
    return state.tracking;
}

static struct redis *watch(struct server *s, struct heard *h, const char *url)
{
    *h = (struct heard){0};
    return connect_with(s, url, (struct redis_config){.timeout_ms = 300,
                                                      .track_prefix = SLICE("d:"),
                                                      .on_invalidated = on_invalidated,
                                                      .on_message = on_message,
                                                      .watch_arg = h});
}

static struct redis *watch_here(struct server *s, struct heard *h)
{
    struct redis *r = watch(s, h, "redis://127.0.0.1:%d");
    harness_until(&s->h, tracking(r));
    assert_int_equal(h->all, 1);
    return r;
}

static void what_others_change_is_told(void **state)
{
    struct server s;
    struct heard h;
    (void)state;
    open_server(&s, "");
    struct redis *r = watch_here(&s, &h);
    cli(&s, "SET d:1 x", NULL);
    harness_until(&s.h, h.keys == 1);
    assert_string_equal(h.last, "d:1");
    cli(&s, "DEL d:1", NULL);
    harness_until(&s.h, h.keys == 2);
    cli(&s, "SET e:1 x", NULL);
    redis_set(r, SLICE("d:own"), SLICE("v"), 100);
    redis_drop(r, SLICE("d:own"));
    redis_increment(r, SLICE("d:n"), NULL, NULL);
    assert_int_equal(get_from(&s, r, "d:n").calls, 1);
    cli(&s, "SETEX d:last 100 x", NULL);
    harness_until(&s.h, h.keys == 3);
    assert_string_equal(h.last, "d:last"); /* neither another prefix nor what we wrote ourselves */
    assert_int_equal(h.all, 1);
    cli(&s, "EVAL \"for i=1,500 do redis.call('set','d:many'..i,1) end\" 0", NULL);
    harness_until(&s.h, h.keys == 503);
    cli(&s, "-n 3 FLUSHDB", NULL);
    harness_until(&s.h, h.all == 2);
    cli(&s, "FLUSHALL", NULL);
    harness_until(&s.h, h.all == 3);
    disconnect(&s, r);
    close_server(&s);
}

/* Two of us: each hears of the other, and what is published comes to both. */
static void two_instances(void **state)
{
    struct server s;
    struct heard here, there;
    (void)state;
    open_server(&s, "");
    struct redis *a = watch_here(&s, &here), *b = watch_here(&s, &there);
    redis_set(a, SLICE("d:k"), SLICE("v"), 100);
    harness_until(&s.h, there.keys == 1);
    redis_publish(a, SLICE("flush me"));
    harness_until(&s.h, there.messages == 1 && here.messages == 1);
    assert_string_equal(there.message, "flush me");
    redis_publish(b, SLICE(""));
    harness_until(&s.h, there.messages == 2 && here.messages == 2);
    assert_string_equal(here.message, "");
    assert_int_equal(here.keys, 0);
    disconnect(&s, a);
    disconnect(&s, b);
    close_server(&s);
}

static void a_connection_that_is_cut(void **state)
{
    static const char *const cuts[] = {"CLIENT KILL TYPE pubsub", "CLIENT KILL TYPE normal SKIPME yes"};
    struct server s;
    struct heard h;
    (void)state;
    open_server(&s, "");
    struct redis *r = watch_here(&s, &h);
    for (int round = 0; round < 6; round++) {
        h = (struct heard){0};
        cli(&s, cuts[round % 2], NULL);
        harness_until(&s.h, h.all == 2); /* at once, and when it stands again */
        assert_true(tracking(r));
        cli(&s, "SET d:1 x", NULL);
        harness_until(&s.h, h.keys == 1);
        cli(&s, "DEL d:1", NULL);
        harness_until(&s.h, h.keys == 2);
        harness_rest(&s.h, 50);
        assert_int_equal(h.keys, 2); /* told once: no tracking of before is left */
        assert_int_equal(h.all, 2);
    }
    disconnect(&s, r);
    close_server(&s);
}

static void a_server_that_dies_and_comes_back(void **state)
{
    struct server s;
    struct heard h;
    (void)state;
    open_server(&s, "");
    struct redis *r = watch_here(&s, &h);
    stop_server(&s);
    harness_until(&s.h, h.all == 2);
    assert_false(tracking(r));
    start_server(&s);
    harness_until(&s.h, tracking(r));
    assert_int_equal(h.all, 3);
    disconnect(&s, r);
    close_server(&s);
}

/* Nothing is asked, nothing is lost: only that nothing comes. */
static void a_silent_death_is_seen(void **state)
{
    struct server s;
    struct heard h;
    (void)state;
    open_server(&s, "");
    struct redis *r = watch_here(&s, &h);
    int64_t start_ms = harness_clock_ms();
    kill(s.pid, SIGSTOP);
    harness_until(&s.h, h.all == 2);
    assert_in_range(harness_clock_ms() - start_ms, 500, 4000);
    assert_false(tracking(r));
    kill(s.pid, SIGCONT);
    harness_until(&s.h, tracking(r));
    assert_int_equal(h.all, 3);
    disconnect(&s, r);
    close_server(&s);
}

static void who_may_not(void **state)
{
    static const struct {
        const char *rights, *error;
    } table[] = {
        {"'&*' +@all '-client|tracking'", "this user may not CLIENT TRACKING"},
        {"'&*' +@all -subscribe", "this user may not subscribe"},
        {"resetchannels +@all", "this user may not subscribe"},
        {"'&*' +@all '-client|id'", "the server or its ACL refused CLIENT ID"},
    };
    struct server s;
    int fds[2];
    char rule[200], out[200], text[4096];
    (void)state;
    open_server(&s, "");
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct heard h;
        struct redis_state now;
        assert_int_equal(pipe(fds), 0);
        log_open(fds[1], LOG_WARN);
        snprintf(rule, sizeof rule, "ACL SETUSER u reset on '>pw' '~*' %s", table[i].rights);
        cli(&s, rule, out);
        assert_string_equal(out, "OK");
        struct redis *r = watch(&s, &h, "redis://u:pw@127.0.0.1:%d");
        harness_until(&s.h, (redis_state(r, &now), now.tracking_error && strstr(now.tracking_error, table[i].error)));
        assert_false(now.tracking);
        assert_int_equal(get_from(&s, r, "k").outcome, REDIS_ABSENT);
        cli(&s, "CLIENT KILL TYPE normal SKIPME yes", NULL); /* again, but the warning comes once */
        harness_rest(&s.h, 100);
        harness_until(&s.h, connected(r) && (redis_state(r, &now), strstr(now.tracking_error, table[i].error)));
        assert_int_equal(h.all, 0);
        disconnect(&s, r);
        log_close();
        close(fds[1]);
        ssize_t n = read(fds[0], text, sizeof text - 1);
        text[n > 0 ? n : 0] = '\0';
        close(fds[0]);
        char *warning = strstr(text, "redis_not_tracking");
        assert_non_null(warning);
        assert_null(strstr(warning + 1, "redis_not_tracking"));
    }
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
        cmocka_unit_test(what_others_change_is_told),
        cmocka_unit_test(two_instances),
        cmocka_unit_test(a_connection_that_is_cut),
        cmocka_unit_test(a_server_that_dies_and_comes_back),
        cmocka_unit_test(a_silent_death_is_seen),
        cmocka_unit_test(who_may_not),
    };
    metric_init("doorward_");
    return cmocka_run_group_tests_name("remote/redis_watch", tests, NULL, teardown);
}
