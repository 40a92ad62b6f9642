/* What the tests of identity share: one identities over fakes of fetch and Redis, and lookups in short words. */
#ifndef IDENTIFY_H
#define IDENTIFY_H

#include "authz/identity.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "authz/digest.h"
#include "base/check.h"
#include "base/metric.h"
#include "fakes/fake_fetch.h"
#include "fakes/fake_redis.h"

#define ANONYMOUS                                                                                                      \
    "{\"id\":\"anonymous\",\"username\":\"anonymous\",\"roles\":[],\"offices\":[],\"authenticated\":false}"
#define GENERATION "p:generation"
#define MANY 300

static struct {
    struct loop *loop;
    struct fetch *fetch;
    struct redis *redis;
    struct shape *shape;
    struct identities *ids;
} t;

static inline struct identity_config base_config(void)
{
    return (struct identity_config){
        .url = SLICE("http://api/user/profile"),
        .shape = t.shape,
        .key_prefix = SLICE("p:"),
        .ttl_s = 1800,
        .memory_ttl_s = 30,
        .memory_entries = 1000,
        .timeout_ms = 5000,
        .max_inflight = 4,
        .max_bytes = 65536,
    };
}

static inline void open_with(struct identity_config c, bool redis)
{
    if (redis) t.redis = redis_create(t.loop, NULL, NULL);
    t.ids = identities_create(t.loop, t.fetch, t.redis, &c);
}

static inline int set_up(void **state)
{
    char *error = NULL;
    (void)state;
    memset(&t, 0, sizeof t);
    metric_init("t_");
    t.loop = loop_create();
    t.fetch = fetch_create(t.loop);
    t.shape = shape_compile("t", SLICE("{id: .name, extra: .extra}"), &error);
    return t.shape ? 0 : -1;
}

static inline int tear_down(void **state)
{
    (void)state;
    identities_destroy(t.ids);
    if (t.redis) redis_destroy(t.redis, NULL, NULL);
    fetch_destroy(t.fetch, NULL, NULL);
    shape_destroy(t.shape);
    loop_close(t.loop);
    loop_run(t.loop);
    loop_destroy(t.loop);
    metric_finish();
    return 0;
}

/* --- tokens and calls ------------------------------------------------------------------------------------------- */

static inline struct token token_of(const char *issuer, const char *subject, const char *credential)
{
    struct token k = {.verified = issuer != NULL, .exp_s = INT64_MAX};
    struct slice text = slice_str(credential);
    digest_parts(&text, 1, k.entry.key);
    if (!issuer) return k;
    k.issuer = slice_str(issuer);
    k.subject = slice_str(subject);
    k.entry.tags[0] = token_issuer_tag(k.issuer);
    k.entry.tags[1] = token_subject_tag(k.issuer, k.subject);
    return k;
}

struct call {
    struct identity_call call;
    int told;
};

static inline void on_done(struct identity_call *c)
{
    struct call *call = (struct call *)c;
    call->told++;
}

static inline enum op find(struct call *c, const struct token *k, const char *authorization)
{
    memset(c, 0, sizeof *c);
    c->call.on_done = on_done;
    return identity_find(t.ids, k, slice_str(authorization), &c->call);
}

static inline void drop(struct call *c)
{
    if (c->call.user) user_release(c->call.user);
    c->call.user = NULL;
}

static inline void flush_subject(struct slice issuer, struct slice subject)
{
    uint8_t context[CACHE_KEY_BYTES];
    identities_context(issuer, subject, context);
    identities_flush(t.ids, token_subject_tag(issuer, subject), context);
}

/* Answers whatever Redis is asked until nothing more comes. */
static inline void deliver(void)
{
    while (fake_redis_deliver(t.redis))
        continue;
}

static inline const char *profile_of(const char *name)
{
    static char text[128];
    snprintf(text, sizeof text, "{\"name\":\"%s\",\"extra\":1.5}", name);
    return text;
}

/* A whole lookup that ends at the API. */
static inline void fetch_one(const struct token *k, const char *name)
{
    struct call c;
    assert_int_equal(find(&c, k, "Bearer x"), OP_PENDING);
    if (t.redis) deliver();
    assert_int_equal(fake_fetch_open(t.fetch), 1);
    fake_fetch_answer(fake_fetch_oldest(t.fetch), 200, profile_of(name));
    assert_int_equal(c.told, 1);
    assert_int_equal(c.call.reason, REASON_FORWARDED);
    assert_int_equal(c.call.source, FOUND_REMOTE);
    assert_true(slice_eq(c.call.user->id, slice_str(name)));
    drop(&c);
}

/* Where a context is found now; FOUND_NONE: the API is asked (and the call left to itself). */
static inline enum found_in whence(const struct token *k)
{
    struct call c;
    enum found_in source = FOUND_NONE;
    if (find(&c, k, "Bearer x") == OP_PENDING && t.redis) deliver();
    if (c.call.user) source = c.call.source;
    identity_cancel(&c.call);
    drop(&c);
    return source;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

#endif
