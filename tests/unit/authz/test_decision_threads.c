/* policy.threads: questions are evaluated off the loop, so many at a time; the others wait, and may give up. */
#include "authz/rego_engine.h"

#include "decide.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

/* --- in place of the library: an engine that ends an evaluation when the test says so --------------------------------- */

struct rego_engine {
    atomic_int users; /* never more than one */
};

static struct {
    struct rego_engine first;
    atomic_int engines, asked, at_a_time, most;
    sem_t let_go;
    enum rego_word word;
    const char *text;
} r;

const char *rego_engine_version(void)
{
    return "fake";
}

struct rego_engine *rego_engine_create(const struct rego_source *files, size_t n, struct slice rule, char **error)
{
    (void)files, (void)n, (void)rule, (void)error;
    return &r.first;
}

struct rego_engine *rego_engine_again(const struct rego_engine *e)
{
    CHECK(e == &r.first, "the one that is configured");
    r.engines++;
    return xzalloc(sizeof(struct rego_engine));
}

void rego_engine_destroy(struct rego_engine *e)
{
    r.engines--;
    free(e);
}

uint64_t rego_engine_revision(const struct rego_engine *e)
{
    (void)e;
    return 7;
}

void rego_engine_evaluate(struct rego_engine *e, struct slice input, int64_t limit_ms, size_t answer_bytes,
                          struct rego_said *out)
{
    CHECK(e != &r.first && atomic_fetch_add(&e->users, 1) == 0, "an engine of its own for each");
    CHECK(limit_ms == 50 && answer_bytes == 65536 && slice_starts(input, SLICE("{\"user\":")), "as configured");
    int now = atomic_fetch_add(&r.at_a_time, 1) + 1;
    if (now > r.most) r.most = now;
    r.asked++;
    while (sem_wait(&r.let_go) != 0) continue;
    *out = (struct rego_said){.word = r.word, .text = xstrdup(r.text), .n = strlen(r.text), .took_us = 1000};
    r.at_a_time--;
    e->users--;
}

void rego_said_free(struct rego_said *said)
{
    free(said->text);
}

/* --- */

static struct decisions_config threads_config(unsigned threads)
{
    struct decisions_config c = base_config();
    memset(&r, 0, sizeof r);
    sem_init(&r.let_go, 0, 0);
    c.url = SLICE("");
    c.rego = &r.first;
    c.eval_limit_ms = 50;
    c.threads = threads;
    c.max_waiting = 100;
    return c;
}

static void says(enum rego_word word, const char *text)
{
    r.word = word;
    r.text = text;
}

static void let_go(int n)
{
    while (n-- > 0) sem_post(&r.let_go);
}

/* Until so many evaluations have begun in all. */
static void wait_asked(int n)
{
    while (r.asked < n) sched_yield();
}

static void turn_until(const int *told)
{
    while (!*told) loop_turn(t.loop);
}

static struct decision_question numbered(int i)
{
    static char paths[MANY][32];
    struct decision_question q = question();
    snprintf(paths[i], sizeof paths[i], "/cwms-data/%d", i);
    q.path = slice_str(paths[i]);
    return q;
}

/* Ends all that threads still have; the decisions are gone then. */
static void finish(void)
{
    decisions_destroy(t.d);
    t.d = NULL;
    let_go(MANY);
    while (r.engines) loop_turn(t.loop);
    sem_destroy(&r.let_go);
}

static double failures(const char *kind)
{
    struct slice labels[] = {SLICE("policy"), slice_str(kind)};
    return metric_value(METRIC_DEPENDENCY_FAILURES, labels);
}

static void test_said(void **state)
{
    (void)state;
    static const struct {
        enum rego_word word;
        const char *text;
        enum reason reason;
    } rows[] = {
        {REGO_SAID, "true", REASON_FORWARDED},         {REGO_SAID, "false", REASON_POLICY_DENIED},
        {REGO_SAID, "1", REASON_POLICY_MALFORMED},     {REGO_SAID, "", REASON_POLICY_GARBAGE},
        {REGO_SAID_UNDEFINED, "", REASON_POLICY_UNDEFINED}, {REGO_SAID_FAILED, "a.rego:3:1: it", REASON_POLICY_FAILED},
        {REGO_SAID_LIMIT, "time", REASON_POLICY_LIMIT}, {REGO_SAID_NOTHING, "true", REASON_POLICY_FAILED},
    };
    struct decision_question q = question();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct call c;
        open_with(threads_config(2));
        says(rows[i].word, rows[i].text);
        let_go(1);
        assert_int_equal(find(&c, &q), OP_PENDING);
        turn_until(&c.told);
        enum reason reason = c.call.reason == REASON_FORWARDED && !c.call.decision->allow ? REASON_POLICY_DENIED : c.call.reason;
        assert_int_equal(reason, rows[i].reason);
        assert_int_equal(decisions_inflight(t.d), 0);
        drop(&c);
        finish();
    }
}

/* Four of them at a time, each with an engine; all are answered. */
static void test_so_many_at_a_time(void **state)
{
    (void)state;
    static struct call c[50];
    struct decisions_config config = threads_config(4);
    config.max_inflight = 8; /* some wait for a thread, the others for their turn */
    open_with(config);
    says(REGO_SAID, "true");
    for (int i = 0; i < 50; i++) {
        struct decision_question q = numbered(i);
        assert_int_equal(find(&c[i], &q), OP_PENDING);
    }
    assert_int_equal(r.engines, 4);
    assert_int_equal(decisions_inflight(t.d), 8);
    wait_asked(4);
    let_go(50);
    for (int i = 0; i < 50; i++) {
        turn_until(&c[i].told);
        assert_int_equal(c[i].call.reason, REASON_FORWARDED);
        drop(&c[i]);
    }
    assert_int_equal(r.asked, 50);
    assert_int_equal(r.most, 4);
    finish();
}

static void test_one_flight(void **state)
{
    (void)state;
    struct decision_question q = question();
    struct call a, b;
    open_with(threads_config(2));
    says(REGO_SAID, "true");
    assert_int_equal(find(&a, &q), OP_PENDING);
    assert_int_equal(find(&b, &q), OP_PENDING);
    let_go(2);
    turn_until(&a.told);
    assert_int_equal(b.told, 1);
    assert_int_equal(r.asked, 1);
    drop(&a);
    drop(&b);
    assert_int_equal(find(&a, &q), OP_DONE);
    drop(&a);
    finish();
}

static void test_full(void **state)
{
    (void)state;
    struct call c[3];
    struct decisions_config config = threads_config(1);
    config.max_inflight = config.max_waiting = 1;
    open_with(config);
    says(REGO_SAID, "true");
    for (int i = 0; i < 3; i++) {
        struct decision_question q = numbered(i);
        assert_int_equal(find(&c[i], &q), i < 2 ? OP_PENDING : OP_DONE);
    }
    assert_int_equal(c[2].call.reason, REASON_POLICY_OVERLOADED);
    for (int i = 0; i < 2; i++) decision_cancel(&c[i].call);
    finish();
}

/* One has a thread, one waits for it, one waits for its turn: all have waited long enough. */
static void test_time_is_over(void **state)
{
    (void)state;
    static const enum reason reasons[] = {REASON_POLICY_TIMEOUT, REASON_POLICY_TIMEOUT, REASON_POLICY_OVERLOADED};
    struct call c[4];
    struct decisions_config config = threads_config(1);
    config.max_inflight = 2;
    open_with(config);
    says(REGO_SAID, "true");
    for (int i = 0; i < 3; i++) {
        struct decision_question q = numbered(i);
        assert_int_equal(find(&c[i], &q), OP_PENDING);
    }
    wait_asked(1);
    loop_advance(t.loop, 2000);
    for (int i = 0; i < 3; i++) {
        turn_until(&c[i].told);
        /* The last was given a place by the first, and no time. */
        assert_true(c[i].call.reason == reasons[i] || c[i].call.reason == REASON_POLICY_TIMEOUT);
        assert_null(c[i].call.decision);
    }
    assert_true(failures("timeout") >= 2);
    assert_int_equal(decisions_inflight(t.d), 0);
    struct decision_question q = numbered(3);
    assert_int_equal(find(&c[3], &q), OP_PENDING);
    let_go(2); /* the thread comes back from what nobody waits for any more */
    turn_until(&c[3].told);
    assert_int_equal(c[3].call.reason, REASON_FORWARDED);
    assert_int_equal(r.asked, 2);
    drop(&c[3]);
    finish();
}

/* Who waits is forgotten, and others take the place; what a thread has is finished and kept. */
static void test_client_gone(void **state)
{
    (void)state;
    struct call c[4];
    struct decisions_config config = threads_config(1);
    config.max_inflight = 2;
    open_with(config);
    says(REGO_SAID, "true");
    for (int i = 0; i < 3; i++) {
        struct decision_question q = numbered(i);
        assert_int_equal(find(&c[i], &q), OP_PENDING);
    }
    wait_asked(1);
    decision_cancel(&c[0].call);
    decision_cancel(&c[1].call);
    assert_int_equal(metric_value(METRIC_DEPENDENCY_WAITING, &(struct slice){"policy", 6}), 0); /* its turn has come */
    assert_int_equal(decisions_inflight(t.d), 2);
    let_go(2);
    turn_until(&c[2].told);
    assert_int_equal(c[2].call.reason, REASON_FORWARDED);
    drop(&c[2]);
    assert_int_equal(r.asked, 2);
    struct decision_question first = numbered(0), second = numbered(1);
    assert_int_equal(find(&c[0], &first), OP_DONE);
    drop(&c[0]);
    assert_int_equal(find(&c[1], &second), OP_PENDING);
    decision_cancel(&c[1].call);
    finish();
}

/* With a flight out, one waiting, and a thread that comes back to nobody. */
static void test_destroyed(void **state)
{
    (void)state;
    struct call c[3];
    open_with(threads_config(1));
    says(REGO_SAID, "true");
    for (int i = 0; i < 3; i++) {
        struct decision_question q = numbered(i);
        assert_int_equal(find(&c[i], &q), OP_PENDING);
    }
    wait_asked(1);
    decisions_destroy(t.d);
    t.d = NULL;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(c[i].told, 1);
        assert_int_equal(c[i].call.reason, REASON_SHUTTING_DOWN);
    }
    assert_int_equal(r.engines, 1); /* the thread's */
    assert_int_equal(loop_handles(t.loop) > 0, 1);
    finish();
    assert_int_equal(r.asked, 1);
}

/* Stale at once, and evaluated again behind it. */
static void test_stale(void **state)
{
    (void)state;
    struct decision_question q = question();
    struct decisions_config config = threads_config(2);
    struct call c;
    config.stale_s = 60;
    open_with(config);
    says(REGO_SAID, "true");
    let_go(1);
    assert_int_equal(find(&c, &q), OP_PENDING);
    turn_until(&c.told);
    drop(&c);
    loop_advance(t.loop, 301000);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(find(&c, &q), OP_DONE);
        assert_true(c.call.stale);
        drop(&c);
    }
    wait_asked(2);
    says(REGO_SAID_LIMIT, ""); /* says nothing: what is stale is used on */
    let_go(1);
    while (decisions_inflight(t.d)) loop_turn(t.loop);
    assert_int_equal(find(&c, &q), OP_DONE);
    assert_true(c.call.stale);
    drop(&c);
    loop_advance(t.loop, 1000);
    assert_int_equal(find(&c, &q), OP_DONE);
    drop(&c);
    wait_asked(3);
    says(REGO_SAID, "false");
    let_go(1);
    while (decisions_inflight(t.d)) loop_turn(t.loop);
    assert_int_equal(find(&c, &q), OP_DONE);
    assert_int_equal(c.call.reason, REASON_POLICY_DENIED);
    assert_int_equal(r.asked, 3);
    drop(&c);
    finish();
}

static void test_never_rests(void **state)
{
    (void)state;
    struct decisions_config config = threads_config(1);
    config.breaker = (struct breaker_rules){.failures = 2, .rest_ms = 1000, .max_rest_ms = 1000};
    open_with(config);
    says(REGO_SAID_FAILED, "");
    let_go(10);
    for (int i = 0; i < 10; i++) {
        struct call c;
        struct decision_question q = numbered(i);
        assert_int_equal(find(&c, &q), OP_PENDING);
        turn_until(&c.told);
        assert_int_equal(c.call.reason, REASON_POLICY_FAILED);
    }
    assert_int_equal(failures("failed"), 10);
    assert_int_equal(failures("resting"), 0);
    finish();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_said),        TEST(test_so_many_at_a_time), TEST(test_one_flight), TEST(test_full),
        TEST(test_time_is_over), TEST(test_client_gone),      TEST(test_destroyed),  TEST(test_stale),
        TEST(test_never_rests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
