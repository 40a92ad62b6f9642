/* Decisions: what the engine is asked, what of its answers counts, how long that is kept, and who waits for whom. */
#include "authz/decision.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "authz/revision.h"
#include "base/check.h"
#include "base/metric.h"
#include "fakes/fake_fetch.h"

#define MANY 300

static struct {
    struct loop *loop;
    struct fetch *fetch;
    struct shape *whole; /* gives its input as it is */
    struct grant *grant;
    struct decisions *d;
    struct user *user;
    struct token token;
    struct arena arena;
} t;

static struct decisions_config base_config(void)
{
    return (struct decisions_config){
        .url = SLICE("http://opa/v1/data/x/allow"),
        .timeout_ms = 2000,
        .max_inflight = 4,
        .max_response_bytes = 65536,
        .ttl_s = 300,
        .deny_ttl_s = 30,
        .revision_grace_s = 10,
        .max_entries = 1000,
        .max_bytes = 1 << 20,
        .what_if_max_inflight = 2,
        .grant = t.grant,
        .authorize_shape = t.whole,
    };
}

static void open_with(struct decisions_config c)
{
    decisions_destroy(t.d);
    t.d = decisions_create(t.loop, t.fetch, &c);
}

static int set_up(void **state)
{
    char *error = NULL;
    (void)state;
    memset(&t, 0, sizeof t);
    metric_init("t_");
    arena_init(&t.arena);
    t.loop = loop_create();
    t.fetch = fetch_create(t.loop);
    t.whole = shape_compile("t", SLICE("."), &error);
    struct grant_config g = {.shape = t.whole, .max_bytes = 7168};
    t.grant = grant_create(&g, &error);
    t.user = user_create(SLICE("{\"id\":\"u\"}"));
    t.token = (struct token){.verified = true, .issuer = SLICE("iss"), .subject = SLICE("u"), .claims = SLICE("{}"),
                             .exp_s = INT64_MAX, .entry.tags = {11, 12}};
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    decisions_destroy(t.d);
    user_release(t.user);
    grant_destroy(t.grant);
    shape_destroy(t.whole);
    fetch_destroy(t.fetch, NULL, NULL);
    arena_reset(&t.arena);
    loop_close(t.loop);
    loop_run(t.loop);
    loop_destroy(t.loop);
    metric_finish();
    return 0;
}

/* --- questions -------------------------------------------------------------------------------------------------- */

static struct decision_question question(void)
{
    return (struct decision_question){
        .use = DECISION_GRANT,
        .user = t.user,
        .token = &t.token,
        .user_json = t.user->json,
        .resource = SLICE("timeseries"),
        .action = SLICE("read"),
        .method = SLICE("GET"),
        .path = SLICE("/cwms-data/timeseries"),
        .host = SLICE("api.example"),
        .request_id = SLICE("req-1"),
    };
}

struct call {
    struct decision_call call;
    int told;
};

static void on_done(struct decision_call *c)
{
    ((struct call *)c)->told++;
}

static enum op find(struct call *c, const struct decision_question *q)
{
    memset(c, 0, sizeof *c);
    c->call.on_done = on_done;
    enum op op = decision_find(t.d, q, &t.arena, &c->call);
    arena_reset(&t.arena); /* used only inside the call */
    return op;
}

static void drop(struct call *c)
{
    if (c->call.decision) decision_release(c->call.decision);
    c->call.decision = NULL;
}

static void answer(const char *body)
{
    fake_fetch_answer(fake_fetch_oldest(t.fetch), 200, body);
}

/* Asks, answers with body, forgets. */
static void decide(const struct decision_question *q, const char *body)
{
    struct call c;
    assert_int_equal(find(&c, q), OP_PENDING);
    answer(body);
    assert_int_equal(c.told, 1);
    drop(&c);
}

static bool remembered(const struct decision_question *q)
{
    struct call c;
    bool found = find(&c, q) == OP_DONE && c.call.source == FOUND_MEMORY;
    decision_cancel(&c.call);
    drop(&c);
    while (fake_fetch_open(t.fetch)) fake_fetch_fail(fake_fetch_oldest(t.fetch), FETCH_BROKEN);
    return found;
}

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
    const struct named lifted[] = {{SLICE("office_id"), SLICE("SWT")}, {SLICE("path"), SLICE("/public")},
                                   {SLICE("method"), SLICE("GET")},    {SLICE("query"), SLICE("x")},
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
    body = asked(&q);
    assert_string_equal(
        body, "{\"input\":{\"user\":{\"id\":\"u\"},\"resource\":\"timeseries\",\"action\":\"read\","
              "\"token\":{\"scope\":\"s\"},\"source\":{\"ip\":\"10.0.0.1\"},\"context\":{"
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

/* --- what is answered ------------------------------------------------------------------------------------------- */

static void test_answers(void **state)
{
    (void)state;
    static const struct {
        enum fetch_outcome outcome;
        int status;
        const char *body;
        enum reason reason;
        bool kept;
    } rows[] = {
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
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct decision_question q = question();
        struct call c;
        open_with(base_config());
        assert_int_equal(find(&c, &q), OP_PENDING);
        struct fetch_call *f = fake_fetch_oldest(t.fetch);
        if (rows[i].outcome == FETCH_ANSWERED) fake_fetch_answer(f, rows[i].status, rows[i].body);
        else fake_fetch_fail(f, rows[i].outcome);
        assert_int_equal(c.told, 1);
        if (c.call.reason != rows[i].reason) fail_msg("row %zu: %s", i, reason_code(c.call.reason));
        bool spoke = rows[i].reason == REASON_FORWARDED || rows[i].reason == REASON_POLICY_DENIED;
        assert_int_equal(c.call.decision != NULL, spoke);
        if (spoke) assert_int_equal(c.call.decision->allow, rows[i].reason == REASON_FORWARDED);
        else assert_non_null(c.call.detail);
        drop(&c);
        if (remembered(&q) != rows[i].kept) fail_msg("row %zu: kept or not", i);
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
    answer("{\"result\":{\"allow\":true,\"reason\":\"Zo\xc3\xab\",\"headers\":{\"z\":1,\"b\":2},\"filters\":{\"f\":[]}}}");
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

/* --- how long --------------------------------------------------------------------------------------------------- */

static void test_lifetime(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        int64_t route_ttl_ms, token_ms, context_ms; /* 0: none */
        int64_t lives_ms;
    } rows[] = {
        {"{\"result\":true}", 0, 0, 0, 300000},
        {"{\"result\":false}", 0, 0, 0, 30000},
        {"{\"result\":{\"allow\":true}}", 0, 0, 0, 300000},
        {"{\"result\":{\"allow\":true,\"ttl\":7}}", 0, 0, 0, 7000},
        {"{\"result\":{\"allow\":false,\"ttl\":7}}", 0, 0, 0, 7000},
        {"{\"result\":{\"allow\":true,\"ttl\":1.5}}", 0, 0, 0, 1500},
        {"{\"result\":{\"allow\":true,\"ttl\":1000}}", 0, 0, 0, 1000000},
        {"{\"result\":true}", 5000, 0, 0, 5000},
        {"{\"result\":false}", 5000, 0, 0, 5000},
        {"{\"result\":{\"allow\":true,\"ttl\":7}}", 5000, 0, 0, 7000},
        {"{\"result\":true}", 0, 20000, 0, 20000},
        {"{\"result\":true}", 0, 0, 4000, 4000},
        {"{\"result\":true}", 0, 20000, 4000, 4000},
        {"{\"result\":{\"allow\":true,\"ttl\":1e9}}", 0, 20000, 90000, 20000},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct decision_question q = question();
        struct token token = t.token;
        struct call c;
        q.token = &token;
        q.route_ttl_ms = rows[i].route_ttl_ms;
        t.user->end_ms = rows[i].context_ms ? loop_now_ms(t.loop) + rows[i].context_ms : INT64_MAX;
        /* exp is in whole seconds: bring the clock to one */
        if (rows[i].token_ms) loop_advance(t.loop, 1000 - loop_wall_ms(t.loop) % 1000);
        if (rows[i].token_ms) token.exp_s = (loop_wall_ms(t.loop) + rows[i].token_ms) / 1000;
        if (rows[i].context_ms) t.user->end_ms = loop_now_ms(t.loop) + rows[i].context_ms;
        open_with(base_config());
        find(&c, &q);
        answer(rows[i].body);
        int64_t lives = c.call.decision->entry.expires_ms - loop_now_ms(t.loop);
        if (lives > rows[i].lives_ms || lives < rows[i].lives_ms - 2) fail_msg("row %zu: %lld", i, (long long)lives);
        drop(&c);
        assert_true(remembered(&q));
        loop_advance(t.loop, rows[i].lives_ms);
        if (remembered(&q)) fail_msg("row %zu lives on", i);
    }
}

static void test_expired_token_keeps_nothing(void **state)
{
    (void)state;
    struct decision_question q = question();
    t.token.exp_s = loop_wall_ms(t.loop) / 1000 - 5; /* within the leeway of tokens */
    open_with(base_config());
    decide(&q, "{\"result\":true}");
    assert_false(remembered(&q));
}

static void test_jitter_shortens(void **state)
{
    (void)state;
    struct decisions_config config = base_config();
    int64_t least = INT64_MAX, most = 0;
    config.jitter = 0.1;
    open_with(config);
    for (int i = 0; i < 200; i++) {
        struct decision_question q = question();
        struct call c;
        char path[16];
        snprintf(path, sizeof path, "/%d", i);
        q.path = slice_str(path);
        find(&c, &q);
        answer("{\"result\":true}");
        int64_t lives = c.call.decision->entry.expires_ms - loop_now_ms(t.loop);
        if (lives < least) least = lives;
        if (lives > most) most = lives;
        drop(&c);
    }
    assert_true(most <= 300000 && most > 297000);
    assert_true(least >= 270000 && least < 273000);
}

static void test_bounds(void **state)
{
    (void)state;
    struct decisions_config config = base_config();
    struct cache_stats stats;
    config.max_entries = 10;
    open_with(config);
    for (int i = 0; i < 50; i++) {
        struct decision_question q = question();
        char path[16];
        snprintf(path, sizeof path, "/%d", i);
        q.path = slice_str(path);
        decide(&q, "{\"result\":true}");
    }
    decisions_stats(t.d, &stats);
    assert_int_equal(stats.entries, 10);
    assert_int_equal(stats.evictions, 40);
    assert_true(stats.bytes > 10 * (sizeof(struct decision) + 100));
}

#define OF_REVISION(rev) "{\"result\":true,\"provenance\":{\"bundles\":{\"b\":{\"revision\":\"" rev "\"}}}}"

static void test_revisions(void **state)
{
    (void)state;
    struct decision_question q[4] = {question(), question(), question(), question()};
    q[1].path = SLICE("/1");
    q[2].path = SLICE("/2");
    q[3].path = SLICE("/3");
    open_with(base_config());
    decide(&q[0], OF_REVISION("one"));
    decide(&q[3], "{\"result\":true}");
    loop_advance(t.loop, 60000);
    assert_true(remembered(&q[0])); /* no newer one was seen */
    decide(&q[1], OF_REVISION("two"));
    loop_advance(t.loop, 9000);
    assert_true(remembered(&q[0])); /* within the grace */
    decide(&q[2], OF_REVISION("one")); /* an engine that still has the old one */
    loop_advance(t.loop, 9000);
    assert_true(remembered(&q[0]));
    q[0].action = SLICE("update");
    decide(&q[0], OF_REVISION("two"));
    q[0].action = SLICE("read");
    loop_advance(t.loop, 1001);
    assert_false(remembered(&q[0])); /* 10 s after it was last seen */
    assert_false(remembered(&q[2]));
    assert_true(remembered(&q[1]));
    assert_true(remembered(&q[3])); /* no revision: its time alone */
}

/* One step a row, on one table. */
static void test_revision_table(void **state)
{
    (void)state;
    static const struct {
        int64_t at_ms;
        uint64_t seen;                /* 0: nothing */
        bool one, two;                /* current afterwards */
    } rows[] = {
        {0, 1, true, false},      {5000, 0, true, false},
        {500000, 0, true, false},                            /* alone, it never ends */
        {500000, 2, true, true},  {509999, 0, true, true},   {510000, 0, false, true},
        {511000, 1, true, true},                             /* rolled back to it: new once more */
        {520999, 0, true, true},  {521000, 0, true, false},
        {522000, 2, true, true},  {523000, 1, true, true},   /* both, in turn */
        {531000, 2, true, true},  {532000, 1, true, true},
    };
    struct revisions r = {.grace_ms = 10000};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        revisions_see(&r, rows[i].seen, rows[i].at_ms);
        if (revisions_current(&r, 1, rows[i].at_ms) != rows[i].one) fail_msg("row %zu: one", i);
        if (revisions_current(&r, 2, rows[i].at_ms) != rows[i].two) fail_msg("row %zu: two", i);
        assert_true(revisions_current(&r, 0, rows[i].at_ms));
    }
    for (uint64_t id = 3; id < 20; id++) revisions_see(&r, id, 533000);
    assert_false(revisions_current(&r, 1, 533000)); /* pushed out */
    assert_true(revisions_current(&r, 19, 533000));
}

static void test_revision_of_an_answer(void **state)
{
    (void)state;
    static const char *const same[] = {
        "{\"result\":true,\"provenance\":{\"bundles\":{\"a\":{\"revision\":\"1\"},\"b\":{\"revision\":\"2\"}}}}",
        "{\"result\":true,\"provenance\":{\"version\":\"x\",\"bundles\":{\"b\":{\"revision\":\"2\"},\"a\":{\"revision\":\"1\"}}}}",
    };
    static const char *const others[] = {
        "{\"result\":true,\"provenance\":{\"bundles\":{\"a\":{\"revision\":\"2\"},\"b\":{\"revision\":\"1\"}}}}",
        "{\"result\":true,\"provenance\":{\"bundles\":{\"a\":{\"revision\":\"1\"}}}}",
        "{\"result\":true,\"provenance\":{\"revision\":\"1\"}}",
    };
    static const char *const none[] = {
        "{\"result\":true}",
        "{\"result\":true,\"provenance\":{}}",
        "{\"result\":true,\"provenance\":{\"bundles\":{\"a\":{\"revision\":\"\"},\"b\":{}}}}",
        "{\"result\":true,\"provenance\":{\"bundles\":{\"a\":5},\"revision\":7}}",
        "{\"result\":true,\"provenance\":[]}",
    };
    const char *all[10];
    uint64_t revision[10];
    size_t n = 0;
    for (size_t i = 0; i < 2; i++) all[n++] = same[i];
    for (size_t i = 0; i < 3; i++) all[n++] = others[i];
    for (size_t i = 0; i < 5; i++) all[n++] = none[i];
    for (size_t i = 0; i < n; i++) {
        struct decision_question q = question();
        struct call c;
        open_with(base_config());
        find(&c, &q);
        answer(all[i]);
        revision[i] = c.call.decision->revision;
        drop(&c);
    }
    assert_int_equal(revision[0], revision[1]);
    for (size_t i = 1; i < 5; i++) {
        assert_int_not_equal(revision[i], 0);
        for (size_t k = i + 1; k < 5; k++) assert_int_not_equal(revision[i], revision[k]);
    }
    for (size_t i = 5; i < 10; i++) assert_int_equal(revision[i], 0);
}

/* --- who waits -------------------------------------------------------------------------------------------------- */

static void wait_many(const char *body)
{
    static struct call calls[MANY];
    struct decision_question q = question();
    size_t before = fake_fetch_started(t.fetch);
    for (size_t i = 0; i < MANY; i++) assert_int_equal(find(&calls[i], &q), OP_PENDING);
    for (size_t i = 0; i < MANY; i += 3) decision_cancel(&calls[i].call); /* the first one too */
    assert_int_equal(fake_fetch_started(t.fetch) - before, 1);
    assert_int_equal(decisions_inflight(t.d), 1);
    answer(body);
    assert_int_equal(decisions_inflight(t.d), 0);
    for (size_t i = 0; i < MANY; i++) {
        assert_int_equal(calls[i].told, i % 3 ? 1 : 0);
        if (i % 3) assert_ptr_equal(calls[i].call.decision, calls[1].call.decision);
    }
    for (size_t i = 0; i < MANY; i++) drop(&calls[i]);
}

static void test_many_wait_for_one_call(void **state)
{
    (void)state;
    struct decision_question q = question();
    open_with(base_config());
    wait_many("{\"result\":{\"allow\":true,\"ttl\":0}}"); /* one that is not kept serves all who wait */
    assert_false(remembered(&q));
    wait_many("{\"result\":{\"allow\":false,\"ttl\":0}}");
    wait_many("{}");
    wait_many("{\"result\":true}");
    assert_true(remembered(&q));
    struct slice labels[] = {SLICE("allow"), SLICE("timeseries")};
    assert_int_equal(metric_value(METRIC_DECISIONS, labels), 200 + 200 + 1); /* per request, not per call */
}

static void test_caps(void **state)
{
    (void)state;
    struct call calls[8], more;
    struct decision_question q[8];
    char paths[8][16];
    open_with(base_config());
    for (int i = 0; i < 8; i++) {
        q[i] = question();
        snprintf(paths[i], sizeof paths[i], "/%d", i);
        q[i].path = slice_str(paths[i]);
        assert_int_equal(find(&calls[i], &q[i]), i < 4 ? OP_PENDING : OP_DONE);
        if (i >= 4) assert_int_equal(calls[i].call.reason, REASON_POLICY_OVERLOADED);
        if (i >= 4) assert_null(calls[i].call.decision);
    }
    assert_int_equal(find(&more, &q[0]), OP_PENDING); /* who waits for a call that is out counts for nothing */
    struct decision_question what_if = question();
    what_if.uncached = true;
    struct call w[3];
    for (int i = 0; i < 3; i++) assert_int_equal(find(&w[i], &what_if), i < 2 ? OP_PENDING : OP_DONE);
    assert_int_equal(w[2].call.reason, REASON_POLICY_OVERLOADED);
    while (fake_fetch_open(t.fetch)) answer("{\"result\":true}");
    for (int i = 0; i < 4; i++) drop(&calls[i]);
    drop(&more);
    drop(&w[0]);
    drop(&w[1]);
    decide(&q[7], "{\"result\":true}"); /* a refusal is not remembered */
}

static void test_what_if(void **state)
{
    (void)state;
    struct decision_question q = question(), real;
    struct call a, b;
    real = q;
    q.use = real.use = DECISION_AUTHORIZE;
    q.uncached = true;
    open_with(base_config());
    decide(&real, "{\"result\":true}");
    assert_int_equal(find(&a, &q), OP_PENDING); /* not read */
    assert_int_equal(find(&b, &q), OP_PENDING); /* nor joined */
    assert_int_equal(fake_fetch_open(t.fetch), 2);
    answer("{\"result\":false}");
    assert_int_equal(a.call.reason, REASON_POLICY_DENIED);
    answer("{\"result\":false}");
    drop(&a);
    drop(&b);
    find(&a, &real); /* not written */
    assert_int_equal(a.call.reason, REASON_FORWARDED);
    drop(&a);
    q.user = NULL;
    q.token = NULL;
    decide(&q, "{\"result\":true}");
}

/* --- on_error --------------------------------------------------------------------------------------------------- */

static void test_on_error(void **state)
{
    (void)state;
    static const struct {
        bool on, what_if;
        enum fetch_outcome outcome;
        int status;
        bool allowed;
    } rows[] = {
        {true, false, FETCH_UNREACHABLE, 0, true},   {false, false, FETCH_UNREACHABLE, 0, false},
        {true, true, FETCH_UNREACHABLE, 0, false},   {true, false, FETCH_TIMEOUT, 0, false},
        {true, false, FETCH_TOO_LARGE, 0, false},    {true, false, FETCH_BROKEN, 0, false},
        {true, false, FETCH_ANSWERED, 500, false},   {true, false, FETCH_ANSWERED, 200, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct decisions_config config = base_config();
        struct decision_question q = question();
        struct call c[2];
        double before = metric_value(METRIC_BYPASSED, NULL);
        config.on_error_allow = rows[i].on;
        open_with(config);
        q.uncached = rows[i].what_if;
        find(&c[0], &q);
        find(&c[1], &q);
        while (fake_fetch_open(t.fetch)) {
            struct fetch_call *f = fake_fetch_oldest(t.fetch);
            if (rows[i].outcome == FETCH_ANSWERED) fake_fetch_answer(f, rows[i].status, "{}");
            else fake_fetch_fail(f, rows[i].outcome);
        }
        for (int k = 0; k < 2; k++) {
            assert_int_equal(c[k].call.decision != NULL, rows[i].allowed);
            if (rows[i].allowed) {
                assert_int_equal(c[k].call.reason, REASON_FORWARDED);
                assert_true(c[k].call.decision->allow && c[k].call.decision->bypassed);
                assert_non_null(strstr(c[k].call.decision->rendered.p, "\"bypassed\":true"));
            }
            drop(&c[k]);
        }
        assert_int_equal(metric_value(METRIC_BYPASSED, NULL) - before, rows[i].allowed ? 2 : 0); /* once per request */
        q.uncached = false;
        assert_false(remembered(&q));
    }
    struct decisions_config config = base_config(); /* nor to our own cap */
    struct decision_question q = question();
    struct call c;
    config.on_error_allow = true;
    config.max_inflight = 0;
    open_with(config);
    assert_int_equal(find(&c, &q), OP_DONE);
    assert_int_equal(c.call.reason, REASON_POLICY_OVERLOADED);
}

/* --- flushes ---------------------------------------------------------------------------------------------------- */

static void test_flush(void **state)
{
    (void)state;
    static const struct {
        uint64_t tag;
        bool kept;
    } rows[] = {{0, false}, {11, false}, {12, false}, {13, true}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct decision_question q = question();
        open_with(base_config());
        decide(&q, "{\"result\":true}");
        loop_advance(t.loop, 1);
        decisions_flush(t.d, rows[i].tag);
        assert_int_equal(remembered(&q), rows[i].kept);
    }
}

/* Asked before the flush, answered after it: handed to those who waited, not kept, joined by nobody. */
static void test_flush_during_a_flight(void **state)
{
    (void)state;
    static const uint64_t tags[] = {0, 11, 12};
    for (size_t i = 0; i < 3; i++) {
        struct decision_question q = question();
        struct call before, after;
        open_with(base_config());
        find(&before, &q);
        decisions_flush(t.d, tags[i]);
        loop_advance(t.loop, 1);
        assert_int_equal(find(&after, &q), OP_PENDING);
        assert_int_equal(fake_fetch_open(t.fetch), 2);
        answer("{\"result\":true}");
        assert_int_equal(before.told, 1);
        assert_int_equal(after.told, 0);
        drop(&before);
        answer("{\"result\":false}");
        assert_int_equal(after.call.reason, REASON_POLICY_DENIED);
        drop(&after);
        find(&after, &q);
        assert_int_equal(after.call.reason, REASON_POLICY_DENIED);
        assert_int_equal(after.call.source, FOUND_MEMORY);
        drop(&after);
    }
}

static void test_destroy_with_calls_out(void **state)
{
    (void)state;
    struct decision_question q = question(), what_if = question();
    struct call a, b;
    what_if.uncached = true;
    open_with(base_config());
    find(&a, &q);
    find(&b, &what_if);
    decisions_destroy(t.d);
    t.d = NULL;
    assert_int_equal(a.told + b.told, 2);
    assert_null(a.call.decision);
    assert_int_equal(a.call.reason, REASON_SHUTTING_DOWN);
    assert_int_equal(fake_fetch_open(t.fetch), 0);
}

/* A decision that is held outlives its cache. */
static void test_held_decision(void **state)
{
    (void)state;
    struct decision_question q = question();
    struct call c;
    open_with(base_config());
    find(&c, &q);
    answer("{\"result\":true}");
    decision_hold(c.call.decision);
    decision_release(c.call.decision);
    decisions_destroy(t.d);
    t.d = NULL;
    assert_true(c.call.decision->allow);
    drop(&c);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_input),
        TEST(test_the_call),
        TEST(test_key),
        TEST(test_answers),
        TEST(test_what_is_handed_on),
        TEST(test_user_only),
        TEST(test_grants_that_fail),
        TEST(test_lifetime),
        TEST(test_expired_token_keeps_nothing),
        TEST(test_jitter_shortens),
        TEST(test_bounds),
        TEST(test_revisions),
        TEST(test_revision_table),
        TEST(test_revision_of_an_answer),
        TEST(test_many_wait_for_one_call),
        TEST(test_caps),
        TEST(test_what_if),
        TEST(test_on_error),
        TEST(test_flush),
        TEST(test_flush_during_a_flight),
        TEST(test_destroy_with_calls_out),
        TEST(test_held_decision),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
