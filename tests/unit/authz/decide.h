/* What the tests of decision share: one decisions over a fake of fetch, and questions in short words. */
#ifndef DECIDE_H
#define DECIDE_H

#include "authz/decision.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

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

static inline struct decisions_config base_config(void)
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

static inline void open_with(struct decisions_config c)
{
    decisions_destroy(t.d);
    t.d = decisions_create(t.loop, t.fetch, &c);
}

static inline int set_up(void **state)
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
    t.token = (struct token){.verified = true,
                             .issuer = SLICE("iss"),
                             .subject = SLICE("u"),
                             .claims = SLICE("{}"),
                             .exp_s = INT64_MAX,
                             .entry.tags = {11, 12}};
    return 0;
}

static inline int tear_down(void **state)
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

static inline struct decision_question question(void)
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

static inline void on_done(struct decision_call *c)
{
    ((struct call *)c)->told++;
}

static inline enum op find(struct call *c, const struct decision_question *q)
{
    memset(c, 0, sizeof *c);
    c->call.on_done = on_done;
    enum op op = decision_find(t.d, q, &t.arena, &c->call);
    arena_reset(&t.arena); /* used only inside the call */
    return op;
}

static inline void drop(struct call *c)
{
    if (c->call.decision) decision_release(c->call.decision);
    c->call.decision = NULL;
}

static inline void answer(const char *body)
{
    fake_fetch_answer(fake_fetch_oldest(t.fetch), 200, body);
}

/* Asks, answers with body, forgets. */
static inline void decide(const struct decision_question *q, const char *body)
{
    struct call c;
    assert_int_equal(find(&c, q), OP_PENDING);
    answer(body);
    assert_int_equal(c.told, 1);
    drop(&c);
}

static inline bool remembered(const struct decision_question *q)
{
    struct call c;
    bool found = find(&c, q) == OP_DONE && c.call.source == FOUND_MEMORY;
    decision_cancel(&c.call);
    drop(&c);
    while (fake_fetch_open(t.fetch))
        fake_fetch_fail(fake_fetch_oldest(t.fetch), FETCH_BROKEN);
    return found;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

#endif
