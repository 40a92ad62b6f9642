/* Back-pressure: whatever the size of a body and however slow either side, what is queued stays bounded, nothing is
   lost and nothing comes twice. */
#include "flow/flow.h"

#include "proxy/conn.h"
#include "proxy/relay.h"

#define H "HTTP/1.1\r\nHost: a\r\n"
#define BIG ((size_t)4 << 20)
#define ONE_READ 65536
#define OVERHEAD 1024 /* heads and chunk lines */

static void expect_bounded(const struct memory *m)
{
    if (m->most_queued > RELAY_HIGH_BYTES + ONE_READ + OVERHEAD) fail_msg("%zu bytes queued", m->most_queued);
}

/* The proxy's own copy of what a client sent and nobody took yet. */
static size_t saved(const struct memory *client)
{
    return container_of(client->stream, struct conn, stream)->saved_cap;
}

/* Takes step bytes at a time until nothing comes any more. */
static void trickle(struct memory *m, size_t step, size_t most)
{
    size_t before;
    do {
        before = m->got.n;
        m->room = step;
        flow_turn();
    } while (m->got.n > before && m->got.n < most);
}

static void slow_reader(void **state)
{
    (void)state;
    static const struct {
        const char *head;
        bool chunked, until_close;
        size_t step;
    } rows[] = {
        {"HTTP/1.1 200 OK\r\nContent-Length: 4194304\r\n\r\n", false, false, 50000},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", true, false, 65536},
        {"HTTP/1.1 200 OK\r\n\r\n", false, true, 70001},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        flow_start(NULL);
        struct memory *c = flow_client();
        char *body = flow_bytes(BIG);
        c->room = 0;
        flow_send(c, "GET /public " H "\r\n");
        flow_send_bytes(flow_up(0), rows[i].head, strlen(rows[i].head));
        for (size_t at = 0; at < BIG; at += BIG / 8) {
            if (rows[i].chunked) flow_send(flow_up(0), "%zx\r\n", BIG / 8);
            memory_send(flow_up(0), body + at, BIG / 8);
            if (rows[i].chunked) memory_send(flow_up(0), "\r\n", 2);
        }
        if (rows[i].chunked) memory_send(flow_up(0), "0\r\n\r\n", 5);
        if (rows[i].until_close) memory_end(flow_up(0), 0);
        flow_turn();
        assert_false(flow_up(0)->reading);
        assert_int_equal(c->got.n, 0);
        trickle(c, rows[i].step, SIZE_MAX);
        expect_bounded(c);
        struct message a = flow_take(c);
        assert_int_equal(a.body_n, BIG);
        assert_memory_equal(a.body, body, BIG);
        assert_string_equal(flow_logged("bytes_out"), "4194304");
        assert_false(c->closed);
        flow_end();
    }
}

static void slow_upstream(void **state)
{
    (void)state;
    for (int chunked = 0; chunked < 2; chunked++) {
        flow_start(NULL);
        struct memory *c = flow_client();
        char *body = flow_bytes(BIG);
        fake_dial_open = false;
        flow_send(c, "POST /public " H "%s\r\n\r\n",
                  chunked ? "Transfer-Encoding: chunked" : "Content-Length: 4194304");
        if (chunked) flow_send(c, "%zx\r\n", BIG);
        memory_send(c, body, BIG);
        if (chunked) memory_send(c, "\r\n0\r\n\r\n", 7);
        fake_dial_open = true;
        fake_dial_pump();
        flow_up(0)->room = 0;
        flow_turn();
        assert_false(c->reading);
        assert_true(saved(c) <= 4 * ONE_READ);
        trickle(flow_up(0), 60000, SIZE_MAX);
        expect_bounded(flow_up(0));
        struct message m = flow_take(flow_up(0));
        assert_int_equal(m.body_n, BIG);
        assert_memory_equal(m.body, body, BIG);
        flow_send(flow_up(0), "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        flow_expect(c, 200, "");
        assert_string_equal(flow_logged("bytes_in"), "4194304");
        flow_end();
    }
}

/* An API that answers while it reads, both sides slow in turn. */
static void both_ways(void **state)
{
    (void)state;
    flow_start(NULL);
    struct memory *c = flow_client();
    char *body = flow_bytes(BIG);
    flow_send(c, "POST /public " H "Content-Length: 4194304\r\n\r\n");
    struct memory *up = flow_up(0);
    flow_send(up, "HTTP/1.1 200 OK\r\nContent-Length: 4194304\r\n\r\n");
    c->room = up->room = 0;
    memory_send(c, body, BIG);
    memory_send(up, body, BIG);
    flow_turn();
    for (size_t i = 0; i < 2 * BIG / 40000; i++) {
        c->room += 40000 * (i % 3);
        up->room += 40000 * ((i + 1) % 3);
        flow_turn();
    }
    c->room = up->room = MEMORY_ALL;
    flow_turn();
    expect_bounded(c);
    expect_bounded(up);
    struct message m = flow_take(up);
    assert_memory_equal(m.body, body, BIG);
    m = flow_take(c);
    assert_memory_equal(m.body, body, BIG);
    flow_end();
}

/* Requests without end from a client that reads nothing: they wait, in the client's own memory. */
static void pipeline_without_reading(void **state)
{
    (void)state;
    flow_start(NULL);
    struct memory *c = flow_client();
    c->room = 0;
    const char *two = "GET /health " H "\r\nGET /no " H "\r\n";
    struct buf all;
    buf_init(&all, &flow.arena);
    for (int i = 0; i < 3000; i++)
        buf_add(&all, two, strlen(two));
    memory_send(c, all.p, all.n); /* hundreds of them in one read */
    flow_turn();
    assert_false(c->reading);
    expect_bounded(c);
    assert_true(saved(c) <= 4 * ONE_READ);
    for (int i = 0; i < 100 && !c->closed; i++) {
        c->room = 100000;
        flow_turn();
    }
    c->room = MEMORY_ALL;
    flow_turn();
    for (int i = 0; i < 3000; i++) {
        flow_expect(c, 200, NULL);
        flow_expect(c, 401, NULL);
    }
    assert_false(flow_has_message(c));
    flow_end();
}

/* Interim answers count too. */
static void interims_to_a_slow_reader(void **state)
{
    (void)state;
    flow_start(NULL);
    struct memory *c = flow_client();
    c->room = 0;
    flow_send(c, "GET /public " H "\r\n");
    char *link = flow_bytes(8000);
    for (int i = 0; i < 50; i++)
        flow_send(flow_up(0), "HTTP/1.1 103 Early Hints\r\nLink: %s\r\n\r\n", link);
    expect_bounded(c);
    assert_false(flow_up(0)->reading);
    flow_end();
}

/* An endpoint of our own takes a body of 64 KiB at most and holds no more. */
static void own_body(void **state)
{
    (void)state;
    flow_start(&(struct flow_config){.serve = "public_endpoints: true"});
    struct memory *c = flow_client();
    flow_send(c, "POST /authorize " H "Content-Length: 4194304\r\n\r\n");
    memory_send(c, flow_bytes(BIG), BIG);
    flow_turn();
    flow_expect_reason(c, REASON_BODY_TOO_LARGE);
    assert_true(c->shut);
    flow_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slow_reader),
        cmocka_unit_test(slow_upstream),
        cmocka_unit_test(both_ways),
        cmocka_unit_test(pipeline_without_reading),
        cmocka_unit_test(interims_to_a_slow_reader),
        cmocka_unit_test(own_body),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
