/* token_fixture: a loop, a fake fetch and tokens of one issuer, for tests of authz/token and authz/jwks. */
#ifndef UNIT_AUTHZ_TOKEN_FIXTURE_H
#define UNIT_AUTHZ_TOKEN_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "authz/digest.h"
#include "authz/token.h"
#include "base/metric.h"
#include "fakes/fake_fetch.h"
#include "token_maker.h"

#define ISSUER "https://issuer.test"
#define JWKS_URL "https://issuer.test/keys"
#define HEADER(alg) "{\"alg\":\"" alg "\"}"
#define HEADER_KID(alg, kid) "{\"alg\":\"" alg "\",\"kid\":\"" kid "\"}"

struct fixture {
    struct arena arena;
    struct loop *loop;
    struct fetch *fetch;
    struct tokens *tokens;
    struct issuer_config issuer;
    struct tokens_config config;
};

static const struct slice fixture_audiences[] = {{"api", 3}, {"other-api", 9}};
static const struct slice fixture_algorithms[] = {{"RS256", 5}, {"RS384", 5}, {"RS512", 5}, {"PS256", 5}, {"PS384", 5},
                                                  {"PS512", 5}, {"ES256", 5}, {"ES384", 5}, {"ES512", 5}, {"EdDSA", 5}};

/* No tokens yet: the test may change config and issuer, then calls fixture_open. */
static inline void fixture_init(struct fixture *x)
{
    *x = (struct fixture){0};
    arena_init(&x->arena);
    metric_init("doorward_");
    x->loop = loop_create();
    x->fetch = fetch_create(x->loop);
    x->issuer = (struct issuer_config){.issuer = SLICE(ISSUER),
                                       .audiences = {fixture_audiences, 2},
                                       .algorithms = {fixture_algorithms, 10},
                                       .max_stale_s = 86400};
    x->config = (struct tokens_config){
        .issuers = &x->issuer, .issuers_n = 1, .leeway_s = 10, .max_entries = 1000, .max_bytes = 16384};
}

static inline void fixture_open(struct fixture *x)
{
    char *error = NULL;
    x->tokens = tokens_create(x->loop, x->fetch, &x->config, &error);
    if (!x->tokens) fail_msg("%s", error);
}

static inline void fixture_open_file(struct fixture *x, const char *jwks)
{
    x->issuer.jwks = slice_str(jwks);
    fixture_open(x);
}

/* With the first keys answered, unless jwks is NULL. */
static inline void fixture_open_url(struct fixture *x, const char *jwks)
{
    x->issuer.jwks_url = SLICE(JWKS_URL);
    fixture_open(x);
    if (jwks) fake_fetch_answer(fake_fetch_oldest(x->fetch), 200, jwks);
}

static inline void fixture_finish(struct fixture *x)
{
    if (x->tokens) tokens_destroy(x->tokens);
    fetch_destroy(x->fetch, NULL, NULL);
    loop_close(x->loop);
    loop_run(x->loop);
    loop_destroy(x->loop);
    metric_finish();
    arena_reset(&x->arena);
    assert_int_equal(arena_chunks_out(), 0);
    arena_trim();
}

static inline long long fixture_now_s(const struct fixture *x)
{
    return loop_wall_ms(x->loop) / 1000;
}

/* Turns the clock and lets what is due happen. */
static inline void fixture_pass(struct fixture *x, int64_t ms)
{
    loop_advance(x->loop, ms);
    for (int i = 0; i < 2; i++)
        loop_turn(x->loop);
}

/* A payload that is good for five minutes, with more members (each after a comma). */
static inline const char *fixture_payload(struct fixture *x, const char *more)
{
    return arena_printf(&x->arena, "{\"iss\":\"" ISSUER "\",\"aud\":\"api\",\"sub\":\"alice\",\"exp\":%lld%s}",
                        fixture_now_s(x) + 300, more)
        .p;
}

/* DONE, whatever the outcome. The caller releases the token. */
static inline struct token_call fixture_check(struct fixture *x, const char *authorization)
{
    struct token_call c = {0};
    char *exact = xmalloc(strlen(authorization)); /* no NUL behind it: the sanitizer sees a read beyond the value */
    memcpy(exact, authorization, strlen(authorization));
    assert_int_equal(tokens_check(x->tokens, slice_make(exact, strlen(authorization)), &c), OP_DONE);
    free(exact);
    if (c.token)
        assert_int_equal(c.reason, REASON_FORWARDED);
    else
        assert_non_null(c.detail);
    return c;
}

static inline void fixture_refused(struct fixture *x, const char *authorization, enum reason reason)
{
    struct token_call c = fixture_check(x, authorization);
    if (c.token || c.reason != reason)
        fail_msg("%s (%s), not %s: %s", reason_code(c.reason), c.detail, reason_code(reason), authorization);
}

static inline void fixture_accepted(struct fixture *x, const char *authorization, bool cached)
{
    struct token_call c = fixture_check(x, authorization);
    if (!c.token) fail_msg("%s (%s): %s", reason_code(c.reason), c.detail, authorization);
    assert_int_equal(c.cached, cached);
    token_release(c.token);
}

#endif
