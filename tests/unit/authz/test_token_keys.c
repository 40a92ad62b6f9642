/* Tokens over time: the cache, keys that come and go, calls that wait for keys, and many issuers. */
#include "authz/token.h"

#include "token_fixture.h"

static EVP_PKEY *one, *two, *three;

static int make_keys(void **state)
{
    (void)state;
    one = maker_ed("ED25519");
    two = maker_ed("ED25519");
    three = maker_ec("P-256");
    return 0;
}

static int free_keys(void **state)
{
    (void)state;
    EVP_PKEY_free(one);
    EVP_PKEY_free(two);
    EVP_PKEY_free(three);
    return 0;
}

struct waiter {
    struct token_call call;
    int done;
    struct waiter *cancels; /* from inside the callback */
};

static void on_done(struct token_call *c)
{
    struct waiter *w = container_of(c, struct waiter, call);
    w->done++;
    if (w->cancels) tokens_cancel(&w->cancels->call);
}

static enum op start(struct fixture *x, struct waiter *w, const char *authorization)
{
    w->call.on_done = on_done;
    char *copy = xstrdup(authorization); /* not the caller's any more once the starter has returned */
    enum op op = tokens_check(x->tokens, slice_str(copy), &w->call);
    free(copy);
    return op;
}

static const char *set_of(struct fixture *x, EVP_PKEY *a, const char *a_kid, EVP_PKEY *b, const char *b_kid)
{
    return maker_jwks(&x->arena, maker_kid_jwk(&x->arena, a, a_kid), b ? maker_kid_jwk(&x->arena, b, b_kid) : NULL,
                      NULL);
}

static const char *signed_by(struct fixture *x, EVP_PKEY *key, const char *kid, const char *more)
{
    const char *header = arena_printf(&x->arena, "{\"alg\":\"EdDSA\",\"kid\":\"%s\"}", kid).p;
    return maker_bearer(&x->arena, header, fixture_payload(x, more), "EdDSA", key);
}

static void test_key_gone_takes_its_tokens(void **state)
{
    (void)state;
    struct fixture x;
    fixture_init(&x);
    fixture_open_url(&x, set_of(&x, one, "1", two, "2"));
    const char *old = signed_by(&x, one, "1", ""), *kept = signed_by(&x, two, "2", "");
    fixture_accepted(&x, old, false);
    fixture_accepted(&x, kept, false);
    fixture_accepted(&x, old, true);
    fixture_pass(&x, 601000 - 400000); /* tokens are good for 300 s */
    fixture_pass(&x, 0);
    struct waiter w = {0};
    assert_int_equal(start(&x, &w, signed_by(&x, three, "3", "")), OP_PENDING); /* makes a refetch */
    fake_fetch_fail(fake_fetch_oldest(x.fetch), FETCH_TIMEOUT);                 /* a bad refresh takes nothing along */
    assert_int_equal(w.done, 1);
    fixture_accepted(&x, old, true);
    fixture_pass(&x, 300);
    fake_fetch_answer(fake_fetch_oldest(x.fetch), 200, "{\"keys\":[]}"); /* nor an empty one */
    fixture_accepted(&x, old, true);
    fixture_pass(&x, 600);
    fake_fetch_answer(fake_fetch_oldest(x.fetch), 200, set_of(&x, two, "2", NULL, NULL));
    fixture_refused(&x, old, REASON_TOKEN_KEY);
    fixture_accepted(&x, kept, true); /* its key is still there: not even verified again */
    fixture_finish(&x);
}

static void test_held_token_survives(void **state)
{
    (void)state;
    struct fixture x;
    fixture_init(&x);
    fixture_open_file(&x, set_of(&x, one, "1", NULL, NULL));
    struct token_call c = fixture_check(&x, signed_by(&x, one, "1", ""));
    tokens_destroy(x.tokens);
    x.tokens = NULL;
    assert_true(slice_eq(c.token->subject, SLICE("alice")));
    token_release(c.token);
    fixture_finish(&x);
}

static void test_unknown_kid_one_fetch_for_all(void **state)
{
    (void)state;
    enum { WAITERS = 100 };
    static struct waiter w[WAITERS];
    memset(w, 0, sizeof w);
    struct fixture x;
    fixture_init(&x);
    fixture_open_url(&x, set_of(&x, one, "1", NULL, NULL));
    const char *fresh = signed_by(&x, two, "2", ""), *unknown = signed_by(&x, two, "never", "");
    for (int i = 0; i < WAITERS; i++)
        assert_int_equal(start(&x, &w[i], i % 2 ? unknown : fresh), OP_PENDING);
    assert_int_equal(fake_fetch_started(x.fetch), 2);
    for (int i = 0; i < WAITERS; i++)
        assert_int_equal(w[i].done, 0);
    w[4].cancels = &w[7];
    tokens_cancel(&w[2].call);
    fake_fetch_answer(fake_fetch_oldest(x.fetch), 200, set_of(&x, one, "1", two, "2"));
    for (int i = 0; i < WAITERS; i++) {
        assert_int_equal(w[i].done, i != 2 && i != 7);
        if (!w[i].done) continue;
        if (i % 2) {
            assert_null(w[i].call.token);
            assert_int_equal(w[i].call.reason, REASON_TOKEN_KEY);
        } else {
            assert_int_equal(w[i].call.reason, REASON_FORWARDED);
            assert_int_equal(w[i].call.cached, i != 0); /* the first to be told verified it for the others */
            token_release(w[i].call.token);
        }
    }
    /* within 30 s no other fetch, and no waiting */
    fixture_refused(&x, unknown, REASON_TOKEN_KEY);
    fixture_pass(&x, 29000);
    fixture_refused(&x, signed_by(&x, two, "another", ""), REASON_TOKEN_KEY);
    assert_int_equal(fake_fetch_started(x.fetch), 2);
    fixture_pass(&x, 1500);
    struct waiter late = {0};
    assert_int_equal(start(&x, &late, unknown), OP_PENDING);
    assert_int_equal(fake_fetch_started(x.fetch), 3);
    tokens_cancel(&late.call);
    tokens_cancel(&late.call); /* harmless */
    fake_fetch_answer(fake_fetch_oldest(x.fetch), 200, set_of(&x, one, "1", two, "2"));
    assert_int_equal(late.done, 0);
    fixture_finish(&x);
}

/* What is refused anyway makes no fetch. */
static void test_cheap_refusals_ask_nobody(void **state)
{
    (void)state;
    struct fixture x;
    fixture_init(&x);
    fixture_open_url(&x, set_of(&x, one, "1", NULL, NULL));
    const char *headers[] = {"{\"alg\":\"HS256\",\"kid\":\"z\"}",
                             "{\"alg\":\"EdDSA\",\"kid\":\"z\",\"jku\":\"https://e.test\"}"};
    for (size_t i = 0; i < 2; i++) {
        struct token_call c =
            fixture_check(&x, maker_bearer(&x.arena, headers[i], fixture_payload(&x, ""), "EdDSA", two));
        assert_null(c.token);
    }
    const char *payloads[] = {"{\"iss\":\"" ISSUER "\",\"aud\":\"api\",\"sub\":\"a\",\"exp\":5}",
                              "{\"iss\":\"" ISSUER "\",\"aud\":\"x\",\"sub\":\"a\",\"exp\":99999999999}",
                              "{\"iss\":\"" ISSUER "\",\"aud\":\"api\",\"exp\":99999999999}",
                              "{\"iss\":\"https://e.test\",\"aud\":\"api\",\"sub\":\"a\",\"exp\":99999999999}"};
    for (size_t i = 0; i < 4; i++) {
        struct token_call c =
            fixture_check(&x, maker_bearer(&x.arena, "{\"alg\":\"EdDSA\",\"kid\":\"z\"}", payloads[i], "EdDSA", two));
        assert_null(c.token);
    }
    assert_int_equal(fake_fetch_started(x.fetch), 1);
    fixture_finish(&x);
}

static void test_before_the_first_keys(void **state)
{
    (void)state;
    struct fixture x;
    fixture_init(&x);
    fixture_open_url(&x, NULL);
    struct issuer_state s;
    tokens_issuer_state(x.tokens, 0, &s);
    assert_true(!s.usable && s.keys == 0 && s.age_ms == -1 && !s.error);
    const char *good = signed_by(&x, one, "1", "");
    struct waiter a = {0}, b = {0}, c = {0};
    assert_int_equal(start(&x, &a, good), OP_PENDING);
    assert_int_equal(fake_fetch_started(x.fetch), 1);
    fake_fetch_fail(fake_fetch_oldest(x.fetch), FETCH_UNREACHABLE);
    assert_int_equal(a.done, 1);
    assert_int_equal(a.call.reason, REASON_KEYS_UNAVAILABLE);
    /* between two attempts nobody waits */
    assert_int_equal(start(&x, &b, good), OP_DONE);
    assert_int_equal(b.call.reason, REASON_KEYS_UNAVAILABLE);
    tokens_issuer_state(x.tokens, 0, &s);
    assert_non_null(s.error);
    fixture_pass(&x, 250);
    assert_int_equal(start(&x, &c, good), OP_PENDING);
    fake_fetch_answer(fake_fetch_oldest(x.fetch), 200, set_of(&x, one, "1", NULL, NULL));
    assert_int_equal(c.done, 1);
    assert_non_null(c.call.token);
    token_release(c.call.token);
    tokens_issuer_state(x.tokens, 0, &s);
    assert_true(s.usable && s.keys == 1 && s.age_ms >= 0 && !s.error && slice_eq(s.issuer, SLICE(ISSUER)));
    fixture_finish(&x);
}

static void test_stale_keys(void **state)
{
    (void)state;
    struct fixture x;
    fixture_init(&x);
    x.issuer.max_stale_s = 100;
    fixture_open_url(&x, set_of(&x, one, "1", NULL, NULL));
    const char *good = signed_by(&x, one, "1", ""), *other = signed_by(&x, one, "1", ",\"x\":1");
    fixture_accepted(&x, good, false);
    fixture_pass(&x, 51000);
    fake_fetch_fail(fake_fetch_oldest(x.fetch), FETCH_TIMEOUT);
    fixture_pass(&x, 48000);
    fixture_accepted(&x, good, true);
    fixture_pass(&x, 2000);
    fixture_refused(&x, other, REASON_KEYS_UNAVAILABLE);
    fixture_refused(&x, good, REASON_KEYS_UNAVAILABLE); /* what was verified before is in doubt too */
    fake_fetch_answer(fake_fetch_oldest(x.fetch), 200, set_of(&x, one, "1", NULL, NULL));
    fixture_accepted(&x, good, false);
    fixture_finish(&x);
}

static void test_exp_at_every_use(void **state)
{
    (void)state;
    struct fixture x;
    fixture_init(&x);
    fixture_open_file(&x, set_of(&x, one, "1", NULL, NULL));
    const char *good = signed_by(&x, one, "1", "");
    fixture_accepted(&x, good, false);
    fixture_pass(&x, 305000);
    fixture_accepted(&x, good, true); /* leeway */
    fixture_pass(&x, 6000);
    fixture_refused(&x, good, REASON_TOKEN_EXPIRED);
    struct cache_stats s;
    tokens_stats(x.tokens, &s);
    assert_int_equal(s.entries, 0);
    fixture_finish(&x);
}

static void test_flush_and_metrics(void **state)
{
    (void)state;
    struct fixture x;
    fixture_init(&x);
    fixture_open_file(&x, set_of(&x, one, "1", NULL, NULL));
    const char *good = signed_by(&x, one, "1", "");
    const struct slice label = SLICE("token");
    const uint64_t tags[] = {0, token_issuer_tag(SLICE(ISSUER)), token_subject_tag(SLICE(ISSUER), SLICE("alice"))};
    fixture_accepted(&x, good, false);
    for (size_t i = 0; i < 3; i++) {
        fixture_accepted(&x, good, true);
        fixture_pass(&x, 5);
        tokens_flush(x.tokens, tags[i]);
        fixture_pass(&x, 5);
        fixture_accepted(&x, good, false);
    }
    tokens_flush(x.tokens, token_subject_tag(SLICE(ISSUER), SLICE("bob")));
    fixture_accepted(&x, good, true);
    assert_int_equal((int)metric_value(METRIC_CACHE_HITS, &label), 4);
    assert_int_equal((int)metric_value(METRIC_CACHE_MISSES, &label), 4);
    fixture_finish(&x);
}

static void test_bound(void **state)
{
    (void)state;
    struct fixture x;
    fixture_init(&x);
    x.config.max_entries = 10;
    fixture_open_file(&x, set_of(&x, one, "1", NULL, NULL));
    for (int i = 0; i < 50; i++)
        fixture_accepted(&x, signed_by(&x, one, "1", arena_printf(&x.arena, ",\"n\":%d", i).p), false);
    struct cache_stats s;
    tokens_stats(x.tokens, &s);
    assert_int_equal(s.entries, 10);
    assert_int_equal(s.evictions, 40);
    fixture_finish(&x);
}

/* Another issuer's key is no key here, and its trouble is not ours. */
static void test_issuers_apart(void **state)
{
    (void)state;
    struct fixture x;
    fixture_init(&x);
    struct issuer_config both[2] = {x.issuer, x.issuer};
    both[0].jwks_url = SLICE(JWKS_URL);
    both[1].issuer = SLICE("https://second.test");
    both[1].jwks = slice_str(set_of(&x, two, "1", NULL, NULL));
    x.config.issuers = both;
    x.config.issuers_n = 2;
    fixture_open(&x);
    assert_int_equal(tokens_issuers(x.tokens), 2);
    fake_fetch_fail(fake_fetch_oldest(x.fetch), FETCH_UNREACHABLE);
    const char *first = fixture_payload(&x, "");
    const char *second = "{\"iss\":\"https://second.test\",\"aud\":\"api\",\"sub\":\"a\",\"exp\":99999999999}";
    const char *header = HEADER_KID("EdDSA", "1");
    fixture_accepted(&x, maker_bearer(&x.arena, header, second, "EdDSA", two), false);
    fixture_refused(&x, maker_bearer(&x.arena, header, first, "EdDSA", two), REASON_KEYS_UNAVAILABLE);
    fixture_pass(&x, 300);
    fake_fetch_answer(fake_fetch_oldest(x.fetch), 200, set_of(&x, one, "1", NULL, NULL));
    fixture_accepted(&x, maker_bearer(&x.arena, header, first, "EdDSA", one), false);
    fixture_refused(&x, maker_bearer(&x.arena, header, first, "EdDSA", two), REASON_TOKEN_SIGNATURE);
    fixture_refused(&x, maker_bearer(&x.arena, header, second, "EdDSA", one), REASON_TOKEN_SIGNATURE);
    fixture_finish(&x);
}

#ifdef __SANITIZE_ADDRESS__
int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void *, size_t),
                                              void (*on_free)(const volatile void *));
static size_t mallocs;

static void count_malloc(const volatile void *p, size_t n)
{
    (void)p;
    (void)n;
    mallocs++;
}

static void ignore_free(const volatile void *p)
{
    (void)p;
}
#endif

static void test_hit_allocates_nothing(void **state)
{
    (void)state;
#ifdef __SANITIZE_ADDRESS__
    static bool hooked;
    if (!hooked) assert_true(__sanitizer_install_malloc_and_free_hooks(count_malloc, ignore_free) > 0);
    hooked = true;
    struct fixture x;
    fixture_init(&x);
    fixture_open_file(&x, set_of(&x, one, "1", NULL, NULL));
    const char *good = signed_by(&x, one, "1", "");
    fixture_accepted(&x, good, false);
    fixture_accepted(&x, good, true);
    struct token_call c = {0};
    size_t before = mallocs;
    for (int i = 0; i < 100; i++) {
        assert_int_equal(tokens_check(x.tokens, slice_str(good), &c), OP_DONE);
        token_release(c.token);
    }
    assert_int_equal(mallocs - before, 0);
    assert_true(c.cached);
    fixture_finish(&x);
#else
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_key_gone_takes_its_tokens),
        cmocka_unit_test(test_held_token_survives),
        cmocka_unit_test(test_unknown_kid_one_fetch_for_all),
        cmocka_unit_test(test_cheap_refusals_ask_nobody),
        cmocka_unit_test(test_before_the_first_keys),
        cmocka_unit_test(test_stale_keys),
        cmocka_unit_test(test_exp_at_every_use),
        cmocka_unit_test(test_flush_and_metrics),
        cmocka_unit_test(test_bound),
        cmocka_unit_test(test_issuers_apart),
        cmocka_unit_test(test_hit_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, make_keys, free_keys);
}
