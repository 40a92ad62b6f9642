/* Another configuration in place of the first: keys stay where their source does, tokens where their rules do. */
#include "authz/token.h"

#include "token_fixture.h"

static EVP_PKEY *one, *two;

static int make_keys(void **state)
{
    (void)state;
    one = maker_ed("ED25519");
    two = maker_ed("ED25519");
    return 0;
}

static int free_keys(void **state)
{
    (void)state;
    EVP_PKEY_free(one);
    EVP_PKEY_free(two);
    return 0;
}

static const char *set_of(struct fixture *x, EVP_PKEY *key)
{
    return maker_jwks(&x->arena, maker_kid_jwk(&x->arena, key, "1"), NULL, NULL);
}

static const char *signed_by(struct fixture *x, EVP_PKEY *key)
{
    return maker_bearer(&x->arena, HEADER_KID("EdDSA", "1"), fixture_payload(x, ""), "EdDSA", key);
}

static void reconfigure(struct fixture *x)
{
    char *error = NULL;
    if (!tokens_reconfigure(x->tokens, &x->config, &error)) fail_msg("%s", error);
    fixture_pass(x, 20);
}

static void on_done(struct token_call *c)
{
    c->issuer = &one; /* told */
}

static enum op start(struct fixture *x, struct token_call *c, const char *authorization)
{
    *c = (struct token_call){.on_done = on_done};
    return tokens_check(x->tokens, slice_str(authorization), c);
}

static void test_the_same_keeps_all(void **state)
{
    (void)state;
    struct fixture x;
    struct issuer_state s;
    fixture_init(&x);
    fixture_open_url(&x, set_of(&x, one));
    const char *token = signed_by(&x, one);
    fixture_accepted(&x, token, false);
    fixture_pass(&x, 5000);
    x.issuer.issuer = slice_str(arena_copy(&x.arena, SLICE(ISSUER)).p); /* other texts, the same words */
    x.issuer.jwks_url = slice_str(arena_copy(&x.arena, SLICE(JWKS_URL)).p);
    x.issuer.max_stale_s = 60;
    x.config.max_bytes = 8192;
    reconfigure(&x);
    assert_int_equal(fake_fetch_started(x.fetch), 1);
    fixture_accepted(&x, token, true);
    tokens_issuer_state(x.tokens, 0, &s);
    assert_true(s.usable && s.age_ms >= 5000);
    fixture_pass(&x, 31000); /* fetched again within the new time, not the old one */
    assert_int_equal(fake_fetch_started(x.fetch), 2);
    fixture_finish(&x);
}

static void test_other_rules_drop_tokens(void **state)
{
    (void)state;
    static const struct slice rs[] = {{"RS256", 5}}, other[] = {{"other-api", 9}}, type[] = {{"at+jwt", 6}};
    struct fixture x;
    fixture_init(&x);
    fixture_open_url(&x, set_of(&x, one));
    const char *token = signed_by(&x, one);
    struct issuer_config first = x.issuer;
    struct {
        struct issuer_config c;
        enum reason reason;
    } rows[3] = {{first, REASON_TOKEN_AUDIENCE}, {first, REASON_TOKEN_ALGORITHM}, {first, REASON_TOKEN_TYPE}};
    rows[0].c.audiences = (struct texts){other, 1};
    rows[1].c.algorithms = (struct texts){rs, 1};
    rows[2].c.types = (struct texts){type, 1};
    for (size_t i = 0; i < 3; i++) {
        x.issuer = first;
        reconfigure(&x);
        fixture_pass(&x, 10);
        fixture_accepted(&x, token, false);
        fixture_accepted(&x, token, true);
        x.issuer = rows[i].c;
        reconfigure(&x);
        fixture_refused(&x, token, rows[i].reason);
    }
    x.issuer = first;
    reconfigure(&x);
    fixture_pass(&x, 10);
    fixture_accepted(&x, token, false);
    x.config.leeway_s = 20; /* a rule for all */
    reconfigure(&x);
    fixture_accepted(&x, token, false);
    assert_int_equal(fake_fetch_started(x.fetch), 1); /* the keys stayed through all of it */
    fixture_finish(&x);
}

static void test_issuers_come_and_go(void **state)
{
    (void)state;
    struct fixture x;
    fixture_init(&x);
    fixture_open_url(&x, set_of(&x, one));
    const char *first = signed_by(&x, one);
    const char *payload = "{\"iss\":\"https://second.test\",\"aud\":\"api\",\"sub\":\"a\",\"exp\":99999999999}";
    const char *second = maker_bearer(&x.arena, HEADER_KID("EdDSA", "1"), payload, "EdDSA", two);
    fixture_accepted(&x, first, false);
    struct issuer_config both[2] = {x.issuer, x.issuer};
    both[0].issuer = SLICE("https://second.test"); /* the one that stays has another place in the list */
    both[0].jwks_url = slice_make(NULL, 0);
    both[0].jwks = slice_str(set_of(&x, two));
    x.config.issuers = both;
    x.config.issuers_n = 2;
    reconfigure(&x);
    fixture_accepted(&x, first, true);
    fixture_accepted(&x, second, false);
    x.config.issuers_n = 1;
    reconfigure(&x);
    assert_int_equal(tokens_issuers(x.tokens), 1);
    fixture_refused(&x, first, REASON_TOKEN_ISSUER); /* also out of the cache */
    fixture_accepted(&x, second, true);
    fixture_finish(&x);
}

/* Who waits for keys: of an issuer that goes, of one whose keys are elsewhere now, of one that stays. */
static void test_who_waits(void **state)
{
    (void)state;
    struct fixture x;
    struct token_call c;
    fixture_init(&x);
    fixture_open_url(&x, NULL);
    assert_int_equal(start(&x, &c, signed_by(&x, one)), OP_PENDING);
    reconfigure(&x);
    assert_non_null(c.tokens);
    x.issuer.jwks_url = SLICE("https://issuer.test/elsewhere");
    reconfigure(&x);
    assert_non_null(c.tokens);
    assert_int_equal(fake_fetch_open(x.fetch), 1);
    fake_fetch_answer(fake_fetch_oldest(x.fetch), 200, set_of(&x, one));
    assert_ptr_equal(c.issuer, &one);
    assert_int_equal(c.reason, REASON_FORWARDED);
    token_release(c.token);

    const char *unknown = maker_bearer(&x.arena, HEADER_KID("EdDSA", "9"), fixture_payload(&x, ""), "EdDSA", two);
    struct token_call gone, cancelled;
    assert_int_equal(start(&x, &gone, unknown), OP_PENDING);
    assert_int_equal(start(&x, &cancelled, unknown), OP_PENDING);
    char *error = NULL;
    x.config.issuers_n = 0;
    assert_true(tokens_reconfigure(x.tokens, &x.config, &error));
    assert_non_null(gone.tokens); /* told later */
    tokens_cancel(&cancelled);
    fixture_pass(&x, 20);
    assert_ptr_equal(gone.issuer, &one);
    assert_int_equal(gone.reason, REASON_TOKEN_ISSUER);
    assert_int_equal(fake_fetch_open(x.fetch), 0);

    x.config.issuers_n = 1; /* ended before the farewell */
    reconfigure(&x);
    x.config.issuers_n = 0;
    assert_true(tokens_reconfigure(x.tokens, &x.config, &error));
    fixture_finish(&x);
}

static void test_a_bad_one_changes_nothing(void **state)
{
    (void)state;
    struct fixture x;
    char *error = NULL;
    fixture_init(&x);
    fixture_open_url(&x, set_of(&x, one));
    const char *token = signed_by(&x, one);
    fixture_accepted(&x, token, false);
    struct issuer_config bad[2] = {x.issuer, x.issuer};
    struct tokens_config c = x.config;
    c.issuers = bad;
    c.issuers_n = 2;
    assert_false(tokens_reconfigure(x.tokens, &c, &error));
    assert_string_equal(error, "issuer \"" ISSUER "\": the issuer is configured twice");
    free(error);
    bad[0].jwks_url = slice_make(NULL, 0);
    bad[0].jwks = SLICE("{\"keys\":7}");
    c.issuers_n = 1;
    assert_false(tokens_reconfigure(x.tokens, &c, &error));
    assert_string_equal(error, "issuer \"" ISSUER "\": the key set has no array `keys`");
    free(error);
    fixture_accepted(&x, token, true);
    fixture_finish(&x);
}

/* From keys to the API's own word, and back. */
static void test_upstream_mode(void **state)
{
    (void)state;
    struct fixture x;
    fixture_init(&x);
    fixture_open_file(&x, set_of(&x, one));
    const char *good = signed_by(&x, one), *bad = signed_by(&x, two);
    fixture_accepted(&x, good, false);
    x.config.upstream = true;
    reconfigure(&x);
    fixture_accepted(&x, bad, false);
    struct token_call c = fixture_check(&x, good);
    assert_false(c.token->verified);
    token_release(c.token);
    x.config.upstream = false;
    reconfigure(&x);
    fixture_refused(&x, bad, REASON_TOKEN_SIGNATURE);
    fixture_accepted(&x, good, false);
    fixture_finish(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_same_keeps_all),  cmocka_unit_test(test_other_rules_drop_tokens),
        cmocka_unit_test(test_issuers_come_and_go), cmocka_unit_test(test_who_waits),
        cmocka_unit_test(test_a_bad_one_changes_nothing), cmocka_unit_test(test_upstream_mode),
    };
    return cmocka_run_group_tests(tests, make_keys, free_keys);
}
