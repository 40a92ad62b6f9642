/* Decisions: what the engine is asked, what of its answers counts, what is handed on. */
#include "decide.h"

/* --- what is asked ---------------------------------------------------------------------------------------------- */

#define STAMP "2222-22-22T22:22:22.222Z"

/* The body with the timestamp's value made the same. */
static char *asked(const struct decision_question *q)
{
    struct call c;
    open_with(base_config());
    assert_int_equal(find(&c, q), OP_PENDING);
    decision_cancel(&c.call);
    char *body = xstrdup(fake_fetch_oldest(t.fetch)->body);
    char *at = strstr(body, "\"timestamp\":\"20");
    if (at) memcpy(at + 13, STAMP, sizeof STAMP - 1);
    fake_fetch_fail(fake_fetch_oldest(t.fetch), FETCH_BROKEN);
    return body;
}

static void test_input(void **state)
{
    (void)state;
    struct decision_question q = question();
    char *body = asked(&q);
    assert_string_equal(
        body, "{\"input\":{\"user\":{\"id\":\"u\"},\"resource\":\"timeseries\",\"action\":\"read\",\"context\":{"
              "\"method\":\"GET\",\"path\":\"/cwms-data/timeseries\",\"query\":{},\"timestamp\":\"" STAMP "\"},"
              "\"request\":{\"method\":\"GET\",\"path\":\"/cwms-data/timeseries\",\"segments\":[],\"query\":{},"
              "\"host\":\"api.example\",\"id\":\"req-1\"}}}");
    free(body);

    const struct named params[] = {{SLICE("office"), SLICE("SWT")}, {SLICE("name"), SLICE("a b")},
                                   {SLICE("office2"), SLICE("")},   {SLICE("name"), SLICE("c\"\xc3\xab")},
                                   {SLICE("x"), SLICE("1")},        {SLICE("name"), SLICE("a b")}};
    const struct named lifted[] = {{SLICE("office_id"), SLICE("SWT")},
                                   {SLICE("path"), SLICE("/public")},
                                   {SLICE("method"), SLICE("GET")},
                                   {SLICE("query"), SLICE("x")},
                                   {SLICE("timestamp"), SLICE("x")}};
    const struct slice segments[] = {SLICE("cwms-data"), SLICE("a/b")};
    t.token.claims = SLICE("{\"scope\":\"s\"}");
    q.query = SLICE("office=SWT&name=a+b");
    q.params = params;
    q.params_n = 6;
    q.lifted = lifted;
    q.lifted_n = 5;
    q.segments = segments;
    q.segments_n = 2;
    q.context_extra = SLICE("\"created_ns\":5,\"more\":[]");
    q.source_ip = SLICE("10.0.0.1");
    q.source_certificate = SLICE("CN=a\\, \"b\"");
    body = asked(&q);
    assert_string_equal(
        body, "{\"input\":{\"user\":{\"id\":\"u\"},\"resource\":\"timeseries\",\"action\":\"read\","
              "\"token\":{\"scope\":\"s\"},\"source\":{\"ip\":\"10.0.0.1\",\"certificate\":{\"subject\":\"CN=a\\\\, \\\"b\\\"\"}},\"context\":{"
              "\"method\":\"GET\",\"path\":\"/cwms-data/timeseries?office=SWT&name=a+b\",\"query\":{\"office\":\"SWT\","
              "\"name\":[\"a b\",\"c\\\"\\u00eb\",\"a b\"],\"office2\":\"\",\"x\":\"1\"},\"office_id\":\"SWT\","
              "\"created_ns\":5,\"more\":[],\"timestamp\":\"" STAMP "\"},"
              "\"request\":{\"method\":\"GET\",\"path\":\"/cwms-data/timeseries\",\"segments\":[\"cwms-data\",\"a/b\"],"
              "\"query\":{\"office\":\"SWT\",\"name\":[\"a b\",\"c\\\"\\u00eb\",\"a b\"],\"office2\":\"\",\"x\":\"1\"},"
              "\"host\":\"api.example\",\"id\":\"req-1\"}}}");
    free(body);

    t.token.verified = false; /* no raw claim of an unverified token */
    body = asked(&q);
    assert_null(strstr(body, "scope"));
    free(body);
}

static void test_the_call(void **state)
{
    (void)state;
    static const struct {
        const char *url, *asked;
    } rows[] = {
        {"http://opa/v1/data/x", "http://opa/v1/data/x?provenance=true"},
        {"http://opa/v1/data/x?a=b", "http://opa/v1/data/x?a=b&provenance=true"},
        {"unix:/run/opa.sock:/v1/data/x", "unix:/run/opa.sock:/v1/data/x?provenance=true"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct decisions_config config = base_config();
        struct decision_question q = question();
        struct call c;
        config.url = slice_str(rows[i].url);
        if (i) config.authorization = SLICE("Bearer engine");
        open_with(config);
        find(&c, &q);
        struct fetch_call *f = fake_fetch_oldest(t.fetch);
        assert_string_equal(f->method, "POST");
        assert_string_equal(f->url, rows[i].asked);
        assert_true(fake_fetch_has_header(f, "Content-Type: application/json"));
        assert_int_equal(fake_fetch_has_header(f, "Authorization: Bearer engine"), i > 0);
        assert_int_equal(f->timeout_ms, 2000);
        assert_int_equal(f->max_bytes, 65536);
        answer("{\"result\":true}");
        drop(&c);
    }
}

/* Anything that is asked makes another key; what is volatile does not. */
static void test_key(void **state)
{
    (void)state;
    const struct named one = {SLICE("a"), SLICE("b")};
    const struct slice segment = SLICE("cwms-data");
    struct token other = t.token;
    other.entry.tags[1] = 13;
    struct decision_question base = question(), rows[16];
    size_t n = 0;
#define ROW(member, value) (rows[n] = base, rows[n++].member = (value))
    ROW(use, DECISION_AUTHORIZE);
    ROW(user_json, SLICE("{\"id\":\"v\"}"));
    ROW(resource, SLICE("timeserie"));
    ROW(action, SLICE("create"));
    ROW(method, SLICE("HEAD"));
    ROW(path, SLICE("/cwms-data/timeseries/"));
    ROW(query, SLICE("a=b"));
    ROW(host, SLICE("other.example"));
    ROW(source_ip, SLICE("10.0.0.1"));
    ROW(source_certificate, SLICE("10.0.0.1"));
    ROW(context_extra, SLICE("\"a\":1"));
    ROW(token, &other);
    ROW(token, NULL);
    rows[n] = base, rows[n].params = &one, rows[n++].params_n = 1;
    rows[n] = base, rows[n].lifted = &one, rows[n++].lifted_n = 1;
    rows[n] = base, rows[n].segments = &segment, rows[n++].segments_n = 1;
    open_with(base_config());
    decide(&base, "{\"result\":true}");
    for (size_t i = 0; i < n; i++) {
        if (remembered(&rows[i])) fail_msg("row %zu", i);
    }
    struct decision_question later = base;
    later.request_id = SLICE("req-2");
    later.route_ttl_ms = 5000;
    loop_advance(t.loop, 1000);
    assert_true(remembered(&later));
    rows[0] = base;
    rows[0].use = DECISION_USER_ONLY;
    assert_false(remembered(&rows[0]));
    assert_true(remembered(&rows[0]));
}

/* Of the user the digest is in the key: the same text, wherever it is from, is the same question, another user is not. */
static void test_key_of_a_user(void **state)
{
    (void)state;
    struct user *same = user_create(SLICE("{\"id\":\"u\"}")), *other = user_create(SLICE("{\"id\":\"v\"}"));
    struct decision_question base = question(), asked = base;
    open_with(base_config());
    decide(&base, "{\"result\":true}");
    asked.user = same;
    asked.user_json = same->json;
    assert_true(remembered(&asked));
    asked.user_json = SLICE("{\"id\":\"u\"}");
    assert_true(remembered(&asked));
    asked.user_json.n--; /* not the user's text, though it begins at the same place */
    assert_false(remembered(&asked));
    asked.user_json = slice_make(same->json.p, same->json.n - 1);
    assert_false(remembered(&asked));
    asked.user = other;
    asked.user_json = other->json;
    assert_false(remembered(&asked));
    user_release(same);
    user_release(other);
}

/* --- what is answered ------------------------------------------------------------------------------------------- */

static const struct {
    enum fetch_outcome outcome;
    int status;
    const char *body;
    enum reason reason;
    bool kept;
} answers[] = {
    {FETCH_ANSWERED, 200, "{\"result\":true}", REASON_FORWARDED, true},
    {FETCH_ANSWERED, 200, "{\"result\":false}", REASON_POLICY_DENIED, true},
    {FETCH_ANSWERED, 200, "{\"result\":{\"allow\":true}}", REASON_FORWARDED, true},
    {FETCH_ANSWERED, 200, "{\"result\":{\"allow\":false}}", REASON_POLICY_DENIED, true},
    {FETCH_ANSWERED, 200,
     "{\"result\":{\"allow\":true,\"reason\":\"r\",\"ttl\":5,\"filters\":{},\"headers\":{},\"constraints\":{},"
     "\"context\":{},\"other\":[1]},\"decision_id\":\"x\",\"metrics\":{}}",
     REASON_FORWARDED, true},
    {FETCH_ANSWERED, 200, "{\"result\":{\"allow\":true,\"ttl\":0}}", REASON_FORWARDED, false},
    {FETCH_ANSWERED, 200, "{\"result\":{\"allow\":false,\"ttl\":0}}", REASON_POLICY_DENIED, false},
    {FETCH_ANSWERED, 200, "{\"result\":{\"allow\":true,\"ttl\":0.5}}", REASON_FORWARDED, true},
    {FETCH_ANSWERED, 200, "{\"result\":{\"allow\":true,\"ttl\":1e300}}", REASON_FORWARDED, true},

    {FETCH_ANSWERED, 200, "{}", REASON_POLICY_UNDEFINED, false},
    {FETCH_ANSWERED, 200, "{\"results\":true}", REASON_POLICY_UNDEFINED, false},
    {FETCH_ANSWERED, 200, "{\"allow\":true}", REASON_POLICY_UNDEFINED, false},

    {FETCH_ANSWERED, 200, "{\"result\":null}", REASON_POLICY_MALFORMED, false},
    {FETCH_ANSWERED, 200, "{\"result\":\"true\"}", REASON_POLICY_MALFORMED, false},
    {FETCH_ANSWERED, 200, "{\"result\":1}", REASON_POLICY_MALFORMED, false},
    {FETCH_ANSWERED, 200, "{\"result\":[true]}", REASON_POLICY_MALFORMED, false},
    {FETCH_ANSWERED, 200, "{\"result\":{}}", REASON_POLICY_MALFORMED, false},
    {FETCH_ANSWERED, 200, "{\"result\":{\"allow\":\"true\"}}", REASON_POLICY_MALFORMED, false},
    {FETCH_ANSWERED, 200, "{\"result\":{\"allow\":1}}", REASON_POLICY_MALFORMED, false},
    {FETCH_ANSWERED, 200, "{\"result\":{\"allow\":null}}", REASON_POLICY_MALFORMED, false},
    {FETCH_ANSWERED, 200, "{\"result\":{\"Allow\":true}}", REASON_POLICY_MALFORMED, false},
    {FETCH_ANSWERED, 200, "{\"result\":{\"allow\":{\"allow\":true}}}", REASON_POLICY_MALFORMED, false},
    {FETCH_ANSWERED, 200, "{\"result\":{\"allow\":true,\"reason\":5}}", REASON_POLICY_MALFORMED, false},
    {FETCH_ANSWERED, 200, "{\"result\":{\"allow\":true,\"reason\":null}}", REASON_POLICY_MALFORMED, false},
    {FETCH_ANSWERED, 200, "{\"result\":{\"allow\":true,\"ttl\":-1}}", REASON_POLICY_MALFORMED, false},
    {FETCH_ANSWERED, 200, "{\"result\":{\"allow\":true,\"ttl\":-0.001}}", REASON_POLICY_MALFORMED, false},
    {FETCH_ANSWERED, 200, "{\"result\":{\"allow\":true,\"ttl\":\"5\"}}", REASON_POLICY_MALFORMED, false},
    {FETCH_ANSWERED, 200, "{\"result\":{\"allow\":true,\"ttl\":null}}", REASON_POLICY_MALFORMED, false},
    {FETCH_ANSWERED, 200, "{\"result\":{\"allow\":true,\"ttl\":true}}", REASON_POLICY_MALFORMED, false},
    {FETCH_ANSWERED, 200, "{\"result\":{\"allow\":true,\"filters\":[]}}", REASON_POLICY_MALFORMED, false},
    {FETCH_ANSWERED, 200, "{\"result\":{\"allow\":true,\"headers\":\"x\"}}", REASON_POLICY_MALFORMED, false},
    {FETCH_ANSWERED, 200, "{\"result\":{\"allow\":true,\"constraints\":null}}", REASON_POLICY_MALFORMED, false},
    {FETCH_ANSWERED, 200, "{\"result\":{\"allow\":true,\"context\":7}}", REASON_POLICY_MALFORMED, false},

    {FETCH_ANSWERED, 200, "", REASON_POLICY_GARBAGE, false},
    {FETCH_ANSWERED, 200, "true", REASON_POLICY_GARBAGE, false},
    {FETCH_ANSWERED, 200, "[{\"result\":true}]", REASON_POLICY_GARBAGE, false},
    {FETCH_ANSWERED, 200, "<html>", REASON_POLICY_GARBAGE, false},
    {FETCH_ANSWERED, 200, "{\"result\":true", REASON_POLICY_GARBAGE, false},
    {FETCH_ANSWERED, 200, "{\"result\":true}}", REASON_POLICY_GARBAGE, false},
    {FETCH_ANSWERED, 200, "{\"result\":true}{\"result\":true}", REASON_POLICY_GARBAGE, false},
    {FETCH_ANSWERED, 200, "{\"result\":false,\"result\":true}", REASON_POLICY_GARBAGE, false},
    {FETCH_ANSWERED, 200, "{\"result\":{\"allow\":false,\"allow\":true}}", REASON_POLICY_GARBAGE, false},
    {FETCH_ANSWERED, 200, "{\"result\":{\"allow\":true,\"ttl\":NaN}}", REASON_POLICY_GARBAGE, false},
    {FETCH_ANSWERED, 200, "{\"result\":{\"allow\":true,\"reason\":\"\xff\"}}", REASON_POLICY_GARBAGE, false},

    {FETCH_ANSWERED, 201, "{\"result\":true}", REASON_POLICY_UNAVAILABLE, false},
    {FETCH_ANSWERED, 204, "", REASON_POLICY_UNAVAILABLE, false},
    {FETCH_ANSWERED, 302, "{\"result\":true}", REASON_POLICY_UNAVAILABLE, false},
    {FETCH_ANSWERED, 400, "{\"result\":true}", REASON_POLICY_UNAVAILABLE, false},
    {FETCH_ANSWERED, 401, "{\"result\":true}", REASON_POLICY_UNAVAILABLE, false},
    {FETCH_ANSWERED, 403, "{\"result\":true}", REASON_POLICY_UNAVAILABLE, false},
    {FETCH_ANSWERED, 404, "{\"result\":true}", REASON_POLICY_UNAVAILABLE, false},
    {FETCH_ANSWERED, 500, "{\"result\":true}", REASON_POLICY_UNAVAILABLE, false},
    {FETCH_TIMEOUT, 0, "", REASON_POLICY_TIMEOUT, false},
    {FETCH_TOO_LARGE, 0, "", REASON_POLICY_GARBAGE, false},
    {FETCH_UNREACHABLE, 0, "", REASON_POLICY_UNAVAILABLE, false},
    {FETCH_BROKEN, 0, "", REASON_POLICY_UNAVAILABLE, false},
};

static void test_answers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        struct decision_question q = question();
        struct call c;
        open_with(base_config());
        assert_int_equal(find(&c, &q), OP_PENDING);
        struct fetch_call *f = fake_fetch_oldest(t.fetch);
        if (answers[i].outcome == FETCH_ANSWERED)
            fake_fetch_answer(f, answers[i].status, answers[i].body);
        else
            fake_fetch_fail(f, answers[i].outcome);
        assert_int_equal(c.told, 1);
        if (c.call.reason != answers[i].reason) fail_msg("row %zu: %s", i, reason_code(c.call.reason));
        bool spoke = answers[i].reason == REASON_FORWARDED || answers[i].reason == REASON_POLICY_DENIED;
        assert_int_equal(c.call.decision != NULL, spoke);
        if (spoke)
            assert_int_equal(c.call.decision->allow, answers[i].reason == REASON_FORWARDED);
        else
            assert_non_null(c.call.detail);
        drop(&c);
        if (remembered(&q) != answers[i].kept) fail_msg("row %zu: kept or not", i);
    }
    struct slice allow[] = {SLICE("timeseries"), SLICE("read"), SLICE("allow")};
    struct slice garbage[] = {SLICE("policy"), SLICE("garbage")}, late[] = {SLICE("policy"), SLICE("timeout")};
    struct slice denied[] = {SLICE("deny"), SLICE("timeseries")};
    assert_int_equal(metric_value(METRIC_OPA_EVALUATIONS, allow), 6);
    assert_int_equal(metric_value(METRIC_DEPENDENCY_FAILURES, late), 1);
    assert_true(metric_value(METRIC_DEPENDENCY_FAILURES, garbage) >= 12);
    assert_int_equal(metric_value(METRIC_DECISIONS, denied), 5); /* three asked for, two of them found again */
}

static void test_what_is_handed_on(void **state)
{
    (void)state;
    struct decision_question q = question();
    struct call c;
    char expected[1024];
    q.query = SLICE("a=b");
    open_with(base_config());

    find(&c, &q);
    answer(
        "{\"result\":{\"allow\":true,\"reason\":\"Zo\xc3\xab\",\"headers\":{\"z\":1,\"b\":2},\"filters\":{\"f\":[]}}}");
    assert_int_equal(c.call.source, FOUND_REMOTE);
    const struct decision *d = c.call.decision;
    assert_string_equal(d->message.p, "Zo\xc3\xab");
    assert_int_equal(d->id.n, 36);
    assert_int_equal(d->id.p[14], '4');
    const char *time = strstr(d->rendered.p, "\"timestamp\":\"");
    assert_non_null(time);
    snprintf(expected, sizeof expected,
             "{\"user\":{\"id\":\"u\"},\"request\":{\"method\":\"GET\",\"path\":\"/cwms-data/timeseries\","
             "\"query\":\"a=b\",\"resource\":\"timeseries\",\"action\":\"read\"},\"decision\":{\"allow\":true,"
             "\"id\":\"%s\",\"reason\":\"Zo\\u00eb\",\"filters\":{\"f\":[]},\"headers\":{\"z\":1,\"b\":2}},%s",
             d->id.p, time);
    assert_string_equal(d->rendered.p, expected);
    assert_int_equal(strlen(d->rendered.p), d->rendered.n);
    assert_null(strstr(d->rendered.p, "req-1")); /* volatile */
    char *first = xstrdup(d->rendered.p);
    drop(&c);
    loop_advance(t.loop, 5000);
    assert_int_equal(find(&c, &q), OP_DONE);
    assert_string_equal(c.call.decision->rendered.p, first); /* timestamp and id are the decision's */
    free(first);
    drop(&c);

    q.path = SLICE("/denied");
    find(&c, &q);
    answer("{\"result\":{\"allow\":false,\"reason\":\"no\"}}");
    assert_int_equal(c.call.decision->rendered.n, 0); /* no grant for a denial */
    assert_string_equal(c.call.decision->message.p, "no");
    drop(&c);
    assert_int_equal(find(&c, &q), OP_DONE);
    assert_int_equal(c.call.reason, REASON_POLICY_DENIED);
    drop(&c);

    q.use = DECISION_AUTHORIZE;
    find(&c, &q);
    answer("{\"result\":{\"allow\":false,\"reason\":\"no\",\"constraints\":{\"k\":1}}}");
    assert_int_equal(c.call.reason, REASON_POLICY_DENIED);
    assert_non_null(strstr(c.call.decision->rendered.p, "\"allow\":false"));
    assert_non_null(strstr(c.call.decision->rendered.p, "\"constraints\":{\"k\":1}"));
    drop(&c);
}

static void test_user_only(void **state)
{
    (void)state;
    struct decision_question q = question();
    struct call c;
    q.use = DECISION_USER_ONLY;
    open_with(base_config());
    assert_int_equal(find(&c, &q), OP_DONE);
    assert_int_equal(c.call.reason, REASON_FORWARDED);
    assert_non_null(strstr(c.call.decision->rendered.p, "\"decision\":null"));
    struct decision *first = c.call.decision;
    drop(&c);
    assert_int_equal(find(&c, &q), OP_DONE);
    assert_ptr_equal(c.call.decision, first);
    assert_int_equal(c.call.source, FOUND_MEMORY);
    drop(&c);
    assert_int_equal(fake_fetch_started(t.fetch), 0);
    assert_int_equal(metric_value(METRIC_OPA_CACHE_MISSES, NULL), 0);
    q.use = DECISION_GRANT; /* its grant is nothing for a judged route */
    assert_int_equal(find(&c, &q), OP_PENDING);
    decision_cancel(&c.call);
}

static void test_grants_that_fail(void **state)
{
    (void)state;
    static const struct {
        const char *program;
        size_t max_bytes;
        enum reason reason;
    } rows[] = {{".", 20, REASON_GRANT_TOO_LARGE}, {"error(\"x\")", 7168, REASON_GRANT_FAILED}};
    for (size_t i = 0; i < 2; i++) {
        char *error = NULL;
        struct shape *s = shape_compile("t", slice_str(rows[i].program), &error);
        struct grant_config g = {.shape = s, .max_bytes = rows[i].max_bytes};
        struct decisions_config config = base_config();
        struct decision_question q = question(), authorize = question(), user_only = question();
        struct call c;
        config.grant = grant_create(&g, &error);
        if (i == 1) config.authorize_shape = s;
        open_with(config);
        find(&c, &q);
        answer("{\"result\":true}");
        assert_null(c.call.decision);
        assert_int_equal(c.call.reason, rows[i].reason);
        assert_non_null(c.call.detail);
        assert_false(remembered(&q));
        decide(&q, "{\"result\":false}"); /* a denial needs no grant */
        assert_true(remembered(&q));

        user_only.use = DECISION_USER_ONLY;
        assert_int_equal(find(&c, &user_only), OP_DONE);
        assert_null(c.call.decision);
        assert_int_equal(c.call.reason, rows[i].reason);
        authorize.use = DECISION_AUTHORIZE;
        find(&c, &authorize);
        answer("{\"result\":true}");
        assert_int_equal(c.call.reason, i == 1 ? REASON_GRANT_FAILED : REASON_FORWARDED);
        drop(&c);
        open_with(base_config());
        grant_destroy(config.grant);
        shape_destroy(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_input),
        TEST(test_the_call),
        TEST(test_key),
        TEST(test_key_of_a_user),
        TEST(test_answers),
        TEST(test_what_is_handed_on),
        TEST(test_user_only),
        TEST(test_grants_that_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
