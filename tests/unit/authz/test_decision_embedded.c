/* The engine in this process: what it says is read as what one says by HTTP, at once, and nothing waits. */
#include "authz/rego_engine.h"

#include "decide.h"

/* --- in place of the library -------------------------------------------------------------------------------------- */

struct rego_engine {
    uint64_t revision;
};

static struct {
    struct rego_engine engine;
    enum rego_word word;
    const char *text;
    int asked;
    char input[4096];
    int64_t limit_ms;
} r;

const char *rego_engine_version(void)
{
    return "fake";
}

struct rego_engine *rego_engine_create(const struct rego_source *files, size_t n, struct slice rule, char **error)
{
    (void)files, (void)n, (void)rule, (void)error;
    return &r.engine;
}

struct rego_engine *rego_engine_again(const struct rego_engine *e)
{
    (void)e;
    return &r.engine;
}

void rego_engine_destroy(struct rego_engine *e)
{
    (void)e;
}

uint64_t rego_engine_revision(const struct rego_engine *e)
{
    return e->revision;
}

void rego_engine_evaluate(struct rego_engine *e, struct slice input, int64_t limit_ms, size_t answer_bytes,
                          struct rego_said *out)
{
    (void)e, (void)answer_bytes;
    r.asked++;
    r.limit_ms = limit_ms;
    snprintf(r.input, sizeof r.input, "%.*s", (int)input.n, input.p);
    *out = (struct rego_said){.word = r.word, .text = r.text ? strdup(r.text) : NULL, .n = r.text ? strlen(r.text) : 0};
}

void rego_said_free(struct rego_said *said)
{
    free(said->text);
}

/* --- */

static struct decisions_config embedded_config(void)
{
    struct decisions_config c = base_config();
    memset(&r, 0, sizeof r);
    r.engine.revision = 7;
    c.url = SLICE("");
    c.rego = &r.engine;
    c.eval_limit_ms = 50;
    return c;
}

static void says(enum rego_word word, const char *text)
{
    r.word = word;
    r.text = text;
}

static struct decision_call ask(const struct decision_question *q)
{
    struct call c;
    assert_int_equal(find(&c, q), OP_DONE);
    assert_int_equal(c.told, 0);
    assert_int_equal(fake_fetch_open(t.fetch), 0);
    drop(&c);
    return c.call;
}

static void test_said(void **state)
{
    (void)state;
    static const struct {
        enum rego_word word;
        const char *text;
        enum reason reason;
        int asked; /* for two questions */
    } rows[] = {
        {REGO_SAID, "true", REASON_FORWARDED, 1},
        {REGO_SAID, "{\"allow\":true,\"reason\":\"r\"}", REASON_FORWARDED, 1},
        {REGO_SAID, "false", REASON_POLICY_DENIED, 1},
        {REGO_SAID, "{\"allow\":false}", REASON_POLICY_DENIED, 1},
        {REGO_SAID, "{\"allow\":true,\"ttl\":0}", REASON_FORWARDED, 2},
        {REGO_SAID, "1", REASON_POLICY_MALFORMED, 2},
        {REGO_SAID, "null", REASON_POLICY_MALFORMED, 2},
        {REGO_SAID, "[true]", REASON_POLICY_MALFORMED, 2},
        {REGO_SAID, "{\"allow\":\"true\"}", REASON_POLICY_MALFORMED, 2},
        {REGO_SAID, "true,\"result\":true", REASON_POLICY_GARBAGE, 2},
        {REGO_SAID, "", REASON_POLICY_GARBAGE, 2},
        {REGO_SAID, NULL, REASON_POLICY_GARBAGE, 2},
        {REGO_SAID_UNDEFINED, "", REASON_POLICY_UNDEFINED, 2},
        {REGO_SAID_FAILED, "a.rego:3:1: it failed", REASON_POLICY_FAILED, 2},
        {REGO_SAID_LIMIT, "time", REASON_POLICY_LIMIT, 2},
        {REGO_SAID_NOTHING, NULL, REASON_POLICY_FAILED, 2},
        {REGO_SAID_NOTHING, "true", REASON_POLICY_FAILED, 2},
    };
    struct decision_question q = question();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        open_with(embedded_config());
        says(rows[i].word, rows[i].text);
        struct decision_call c = ask(&q);
        assert_int_equal(c.reason, rows[i].reason);
        assert_int_equal(ask(&q).reason, rows[i].reason);
        assert_int_equal(r.asked, rows[i].asked);
    }
}

static void test_input(void **state)
{
    (void)state;
    struct decision_question q = question();
    open_with(embedded_config());
    says(REGO_SAID, "true");
    ask(&q);
    assert_int_equal(r.limit_ms, 50);
    assert_memory_equal(r.input, "{\"user\":{\"id\":\"u\"},", 19);
    assert_non_null(strstr(r.input, ",\"timestamp\":\""));
    assert_non_null(strstr(r.input, ",\"id\":\"req-1\"}}"));
    assert_string_equal(r.input + strlen(r.input) - 2, "}}");
}

static void test_what_if_is_not_kept(void **state)
{
    (void)state;
    struct decision_question q = question();
    q.uncached = true;
    open_with(embedded_config());
    says(REGO_SAID, "true");
    ask(&q);
    ask(&q);
    q.uncached = false;
    ask(&q);
    assert_int_equal(r.asked, 3);
}

static void test_counted_as_questions(void **state)
{
    (void)state;
    struct decision_question q = question();
    struct slice allow[] = {SLICE("timeseries"), SLICE("read"), SLICE("allow")};
    struct slice error[] = {SLICE("timeseries"), SLICE("read"), SLICE("error")};
    struct slice failed[] = {SLICE("policy"), SLICE("failed")}, limit[] = {SLICE("policy"), SLICE("limit")};
    struct slice decided[] = {SLICE("error"), SLICE("timeseries")};
    open_with(embedded_config());
    says(REGO_SAID_FAILED, "");
    ask(&q);
    says(REGO_SAID_LIMIT, "");
    ask(&q);
    says(REGO_SAID, "true");
    ask(&q);
    assert_int_equal(metric_value(METRIC_OPA_EVALUATIONS, allow), 1);
    assert_int_equal(metric_value(METRIC_OPA_EVALUATIONS, error), 2);
    assert_int_equal(metric_value(METRIC_DEPENDENCY_FAILURES, failed), 1);
    assert_int_equal(metric_value(METRIC_DEPENDENCY_FAILURES, limit), 1);
    assert_int_equal(metric_value(METRIC_DECISIONS, decided), 2);
}

/* A failure does not make the engine rest. */
static void test_never_rests(void **state)
{
    (void)state;
    struct decision_question q = question();
    struct decisions_config c = embedded_config();
    c.breaker = (struct breaker_rules){.failures = 2, .rest_ms = 1000, .max_rest_ms = 1000};
    open_with(c);
    says(REGO_SAID_FAILED, "");
    for (int i = 0; i < 10; i++) ask(&q);
    says(REGO_SAID, "true");
    assert_int_equal(ask(&q).reason, REASON_FORWARDED);
    assert_int_equal(decisions_inflight(t.d), 0);
}

/* Nothing is to be waited for, so what is stale is not used while it is evaluated again. */
static void test_stale_gives_way(void **state)
{
    (void)state;
    struct decision_question q = question();
    struct decisions_config config = embedded_config();
    config.stale_s = 60;
    open_with(config);
    says(REGO_SAID, "true");
    ask(&q);
    loop_advance(t.loop, 301000);
    says(REGO_SAID, "false");
    struct decision_call c = ask(&q);
    assert_int_equal(c.reason, REASON_POLICY_DENIED);
    assert_false(c.stale);
    assert_int_equal(ask(&q).reason, REASON_POLICY_DENIED);
    assert_int_equal(r.asked, 2);
}

static void test_stale_is_used_where_nothing_is_said(void **state)
{
    (void)state;
    struct decision_question q = question();
    struct decisions_config config = embedded_config();
    config.stale_s = 60;
    open_with(config);
    says(REGO_SAID, "true");
    ask(&q);
    loop_advance(t.loop, 301000);
    says(REGO_SAID_LIMIT, "");
    for (int i = 0; i < 5; i++) {
        struct decision_call c = ask(&q);
        assert_int_equal(c.reason, REASON_FORWARDED);
        assert_true(c.stale);
    }
    assert_int_equal(r.asked, 2); /* not again and again */
    loop_advance(t.loop, 1000);
    ask(&q);
    assert_int_equal(r.asked, 3);
    loop_advance(t.loop, 60000); /* its hard end */
    assert_int_equal(ask(&q).reason, REASON_POLICY_LIMIT);
}

static void test_flushed(void **state)
{
    (void)state;
    struct decision_question q = question();
    open_with(embedded_config());
    says(REGO_SAID, "true");
    ask(&q);
    decisions_flush(t.d, 0);
    says(REGO_SAID, "false");
    assert_int_equal(ask(&q).reason, REASON_POLICY_DENIED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_said),
        TEST(test_input),
        TEST(test_what_if_is_not_kept),
        TEST(test_counted_as_questions),
        TEST(test_never_rests),
        TEST(test_stale_gives_way),
        TEST(test_stale_is_used_where_nothing_is_said),
        TEST(test_flushed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
