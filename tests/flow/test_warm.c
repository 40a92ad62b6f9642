/* The warm path: an authorized request whose token, context and decision are in memory asks nobody but the upstream and
   takes nothing from the heap: its memory is the arena's recycled chunks. */
#include "flow/flow.h"

#include "base/metric.h"

#define ROUNDS 50

/* Linked with --wrap: every allocation of the proxy's own code comes here. */
void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);

static bool counting;
static size_t allocations;

void *__wrap_malloc(size_t n)
{
    allocations += counting;
    return __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    allocations += counting;
    return __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
    allocations += counting;
    return __real_realloc(p, n);
}

#ifdef ARENA_TWIN
#define COUNTED false /* each arena allocation is a malloc there */
#else
#define COUNTED true
#endif

/* The pieces are made outside of the count: they are the kernel's, not the proxy's. */
static void count_turn(void)
{
    counting = true;
    flow_turn();
    counting = false;
}

static void exchange(struct memory *c, const char *request, const char *answer)
{
    memory_send(c, request, strlen(request));
    count_turn();
    struct memory *up = flow_up(0);
    assert_non_null(memmem(up->got.p, up->got.n, "x-auth-context: ", 16));
    up->got.n = 0;
    memory_send(up, answer, strlen(answer));
    count_turn();
    assert_true(c->got.n > 0 && memcmp(c->got.p, "HTTP/1.1 200 OK\r\n", 17) == 0);
    c->got.n = 0;
}

static void check(const char *request, const char *answer)
{
    flow_start(&(struct flow_config){.more = "redis: {url: \"redis://127.0.0.1:6379\"}"});
    struct memory *c = flow_client();
    allocations = 0;
    for (int i = 0; i < 5; i++)
        exchange(c, request, answer);
    assert_true(allocations > 0); /* the first ones are made of something */
    size_t fetched = fake_fetch_started(flow.proxy.fetch), asked = flow.proxy.redis->gets;
    size_t stored = flow.proxy.redis->sets;
    allocations = 0;
    for (int i = 0; i < ROUNDS; i++)
        exchange(c, request, answer);
    if (COUNTED && allocations) fail_msg("%zu allocations in %d warm requests: %.40s", allocations, ROUNDS, request);
    assert_int_equal(fake_fetch_started(flow.proxy.fetch), fetched);
    assert_int_equal(flow.proxy.redis->gets, asked);
    assert_int_equal(flow.proxy.redis->sets, stored);
    assert_int_equal(flow.ups_n, 1);
    assert_string_equal(flow_logged("context_from"), "memory");
    assert_string_equal(flow_logged("decision_from"), "memory");
    flow_end();
}

static const char small[] = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 5\r\n\r\nhello";
static const char chunked[] = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";

/* Bearers need a clock, which a flow has: the token is made before the flow that uses it, on the same machine's clock.
 */
static char *request_of(const char *format)
{
    flow_start(NULL);
    char *text;
    int n = asprintf(&text, format, flow_bearer("alice"));
    flow_end();
    return n < 0 ? NULL : text;
}

static void get(void **state)
{
    (void)state;
    char *request = request_of("GET /offices/7?page=2 HTTP/1.1\r\nHost: front.test\r\nAccept: */*\r\n%s\r\n");
    check(request, small);
    check(request, chunked);
    free(request);
}

static void post(void **state)
{
    (void)state;
    char *request = request_of("POST /offices HTTP/1.1\r\nHost: front.test\r\n%sContent-Length: 11\r\n\r\nhello world");
    check(request, small);
    free(request);
}

/* A denial is as cheap, and needs no upstream. */
static void denial(void **state)
{
    (void)state;
    char *request = request_of("GET /offices/7 HTTP/1.1\r\nHost: front.test\r\n%s\r\n");
    flow_start(NULL);
    flow.policy.body = "{\"result\":false}";
    struct memory *c = flow_client();
    allocations = 0;
    for (int i = 0; i < ROUNDS; i++) {
        if (i == 5) allocations = 0;
        memory_send(c, request, strlen(request));
        count_turn();
        assert_true(c->got.n > 0 && memcmp(c->got.p, "HTTP/1.1 403 ", 13) == 0);
        c->got.n = 0;
    }
    if (COUNTED && allocations) fail_msg("%zu allocations", allocations);
    assert_int_equal(flow.policy_calls, 1);
    flow_end();
    free(request);
}

static void expect_refused(struct memory *c, const char *request, const char *reason)
{
    flow_send(c, "%s", request);
    assert_true(c->got.n > 0 && memcmp(c->got.p, "HTTP/1.1 401 ", 13) == 0);
    assert_string_equal(flow_logged("reason"), reason);
    c->got.n = 0;
}

/* What is warm on a connection is asked for anew at each request all the same: a flush, another configuration and the
   token's end are seen by the very next one. */
static void what_ends_it(void **state)
{
    (void)state;
    static const struct slice tokens = {"token", 5};
    struct flow_config config = {.idle_ms = 3600000}, other = config;
    other.issuers = "[{issuer: \"" FLOW_ISSUER "\", secret: \"another-secret-of-32-bytes-or-more\", audiences: [api], "
                    "algorithms: [HS256]}]";
    flow_start(&config);
    struct memory *c = flow_client();
    const char *payload = flow_printf("{\"iss\":\"" FLOW_ISSUER "\",\"aud\":\"api\",\"sub\":\"alice\",\"exp\":%lld}",
                                      (long long)loop_wall_ms(flow.loop) / 1000 + 300);
    const char *request = flow_printf("GET /offices/7 HTTP/1.1\r\nHost: front.test\r\n%s\r\n",
                                      flow_bearer_of("{\"alg\":\"HS256\"}", payload));
    for (int i = 0; i < 5; i++) exchange(c, request, small);
    double misses = metric_value(METRIC_CACHE_MISSES, &tokens);
    tokens_flush(flow.proxy.tokens, 0);
    flow_pass(1);
    for (int i = 0; i < 5; i++) exchange(c, request, small);
    assert_int_equal(metric_value(METRIC_CACHE_MISSES, &tokens) - misses, 1);
    assert_true(flow_reload(&other));
    for (int i = 0; i < 2; i++) expect_refused(c, request, reason_code(REASON_TOKEN_SIGNATURE));
    assert_true(flow_reload(&config));
    for (int i = 0; i < 5; i++) exchange(c, request, small);
    flow_pass(400 * 1000);
    for (int i = 0; i < 2; i++) expect_refused(c, request, reason_code(REASON_TOKEN_EXPIRED));
    flow_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(get),
        cmocka_unit_test(post),
        cmocka_unit_test(denial),
        cmocka_unit_test(what_ends_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
