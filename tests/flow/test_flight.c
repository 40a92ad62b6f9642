/* Single flight: however many ask the same at once, each dependency is asked once and all are answered. */
#include "flow/flow.h"

#define MANY 512

static struct memory *clients[MANY];

/* Nobody is answered before the engine was; then all at once. */
static void cold_cache(void **state)
{
    (void)state;
    flow_start(NULL);
    flow.manual = true;
    const char *get = flow_get("/offices/7", "alice");
    for (size_t i = 0; i < MANY; i++) {
        clients[i] = flow_client();
        memory_send(clients[i], get, strlen(get));
    }
    flow_turn();
    size_t probes = flow.probe_calls;
    assert_int_equal(fake_fetch_open(flow.proxy.fetch), 1);
    assert_string_equal(fake_fetch_oldest(flow.proxy.fetch)->url, "http://api.test:7001/profile");
    fake_fetch_answer(fake_fetch_oldest(flow.proxy.fetch), 200, "{\"id\":\"alice\"}");
    flow_turn();
    assert_int_equal(fake_fetch_open(flow.proxy.fetch), 1);
    assert_non_null(strstr(fake_fetch_oldest(flow.proxy.fetch)->url, "/v1/data/policy?provenance=true"));
    assert_int_equal(flow.ups_n, 0);
    fake_fetch_answer(fake_fetch_oldest(flow.proxy.fetch), 200, "{\"result\":true}");
    flow_turn();
    assert_int_equal(fake_fetch_started(flow.proxy.fetch), probes + 2);
    assert_int_equal(flow.ups_n, MANY);
    for (size_t i = 0; i < MANY; i++)
        flow_serve(flow_up(i), "GET /offices/7 HTTP/1.1", flow_printf("%zu", i));
    for (size_t i = 0; i < MANY; i++)
        flow_expect(clients[i], 200, flow_printf("%zu", i));
    assert_int_equal(flow_lines(), MANY);
    flow_end();
}

/* A failure is one failure for all who waited, and the next one asks anew. */
static void shared_failure(void **state)
{
    (void)state;
    flow_start(NULL);
    flow.manual = true;
    const char *get = flow_get("/offices/7", "alice");
    for (size_t i = 0; i < 20; i++) {
        clients[i] = flow_client();
        memory_send(clients[i], get, strlen(get));
    }
    flow_turn();
    fake_fetch_fail(fake_fetch_oldest(flow.proxy.fetch), FETCH_TIMEOUT);
    flow_turn();
    for (size_t i = 0; i < 20; i++)
        flow_expect_reason(clients[i], REASON_CONTEXT_UNAVAILABLE);
    assert_int_equal(fake_fetch_open(flow.proxy.fetch), 0);
    flow.manual = false;
    flow_send(clients[0], "%s", get);
    flow_serve(flow_up(0), "GET /offices/7 HTTP/1.1", "again");
    flow_expect(clients[0], 200, "again");
    flow_end();
}

/* Who waits is told even when the one who asked first is gone, and so are those in between. */
static void leavers_harm_nobody(void **state)
{
    (void)state;
    for (int stage = 0; stage < 2; stage++) {
        flow_start(NULL);
        flow.manual = true;
        const char *get = flow_get("/offices/7", "alice");
        for (size_t i = 0; i < 9; i++) {
            clients[i] = flow_client();
            memory_send(clients[i], get, strlen(get));
        }
        flow_turn();
        if (stage) {
            fake_fetch_answer(fake_fetch_oldest(flow.proxy.fetch), 200, "{\"id\":\"alice\"}");
            flow_turn();
        }
        for (size_t i = 0; i < 9; i += 2)
            flow_stop(clients[i], UV_ECONNRESET);
        assert_int_equal(flow_lines(), 5);
        flow_expect_line(REASON_CLIENT_GONE, stage ? "decide" : "identify");
        assert_int_equal(fake_fetch_open(flow.proxy.fetch), 1);
        flow.manual = false;
        flow_turn();
        assert_int_equal(flow.ups_n, 4);
        for (size_t i = 0; i < 4; i++)
            flow_serve(flow_up(i), "GET /offices/7 HTTP/1.1", "ok");
        for (size_t i = 1; i < 9; i += 2)
            flow_expect(clients[i], 200, "ok");
        flow_end();
    }
}

/* All of them gone: the answer that comes is kept for the next. */
static void nobody_left(void **state)
{
    (void)state;
    flow_start(NULL);
    flow.manual = true;
    const char *get = flow_get("/offices/7", "alice");
    struct memory *c = flow_client();
    flow_send(c, "%s", get);
    flow_stop(c, UV_ECONNRESET);
    assert_true(c->closed);
    flow.manual = false;
    flow_turn();
    assert_int_equal(flow.profile_calls, 1);
    c = flow_client();
    flow_send(c, "%s", get);
    flow_serve(flow_up(0), "GET /offices/7 HTTP/1.1", "ok");
    flow_expect(c, 200, "ok");
    assert_int_equal(flow.profile_calls, 1);
    flow_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cold_cache),
        cmocka_unit_test(shared_failure),
        cmocka_unit_test(leavers_harm_nobody),
        cmocka_unit_test(nobody_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
