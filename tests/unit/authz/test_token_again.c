/* A credential that comes again and again, whose digest is remembered: whatever ends it, ends it at once. */
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

static const char *set_of(struct fixture *x, EVP_PKEY *key, const char *kid)
{
    return maker_jwks(&x->arena, maker_kid_jwk(&x->arena, key, kid), NULL, NULL);
}

static const char *token_of(struct fixture *x)
{
    return maker_bearer(&x->arena, HEADER_KID("EdDSA", "1"), fixture_payload(x, ""), "EdDSA", one);
}

/* Seen often enough that all that is remembered is used. */
static void use(struct fixture *x, const char *token)
{
    fixture_accepted(x, token, false);
    for (int i = 0; i < 3; i++) fixture_accepted(x, token, true);
}

static const char *open_and_use(struct fixture *x)
{
    fixture_init(x);
    fixture_open_file(x, set_of(x, one, "1"));
    const char *token = token_of(x);
    use(x, token);
    return token;
}

static void test_its_end(void **state)
{
    (void)state;
    struct fixture x;
    const char *token = open_and_use(&x);
    fixture_pass(&x, 308000); /* 300 s, and 10 of leeway; in whole seconds, and what the test itself takes */
    fixture_accepted(&x, token, true);
    fixture_pass(&x, 3000);
    fixture_refused(&x, token, REASON_TOKEN_EXPIRED);
    fixture_refused(&x, token, REASON_TOKEN_EXPIRED);
    fixture_finish(&x);
}

static void test_flushes(void **state)
{
    (void)state;
    struct fixture x;
    const char *token = open_and_use(&x);
    const uint64_t tags[] = {0, token_issuer_tag(SLICE(ISSUER)), token_subject_tag(SLICE(ISSUER), SLICE("alice"))};
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) {
        tokens_flush(x.tokens, tags[i]);
        fixture_pass(&x, 1);
        use(&x, token); /* which begins with one that is not from the cache */
    }
    fixture_finish(&x);
}

static void test_another_configuration(void **state)
{
    (void)state;
    static const struct slice other[] = {{"other-api", 9}};
    struct fixture x;
    char *error = NULL;
    const char *token = open_and_use(&x);
    x.issuer.audiences = (struct texts){other, 1};
    assert_true(tokens_reconfigure(x.tokens, &x.config, &error));
    fixture_refused(&x, token, REASON_TOKEN_AUDIENCE);
    x.config.issuers_n = 0;
    assert_true(tokens_reconfigure(x.tokens, &x.config, &error));
    fixture_refused(&x, token, REASON_TOKEN_ISSUER);
    fixture_finish(&x);
}

static void test_its_key_is_gone(void **state)
{
    (void)state;
    struct fixture x;
    struct token_call waits = {.on_done = NULL};
    fixture_init(&x);
    fixture_open_url(&x, set_of(&x, one, "1"));
    const char *token = token_of(&x);
    use(&x, token);
    fixture_pass(&x, 201000);
    const char *unknown =
        maker_bearer(&x.arena, HEADER_KID("EdDSA", "2"), fixture_payload(&x, ""), "EdDSA", two);
    assert_int_equal(tokens_check(x.tokens, slice_str(unknown), &waits), OP_PENDING); /* makes a refetch */
    fixture_accepted(&x, token, true);
    tokens_cancel(&waits);
    fake_fetch_answer(fake_fetch_oldest(x.fetch), 200, set_of(&x, two, "2"));
    fixture_refused(&x, token, REASON_TOKEN_KEY);
    fixture_refused(&x, token, REASON_TOKEN_KEY);
    fixture_finish(&x);
}

/* The same bytes but for the signature's end, the payload or the scheme are another credential. */
static void test_nearly_the_same(void **state)
{
    (void)state;
    struct fixture x;
    const char *token = open_and_use(&x);
    size_t n = strlen(token);
    for (size_t i = 7; i < n; i++) {
        char *other = (char *)arena_copy(&x.arena, slice_str(token)).p;
        other[i] = other[i] == 'A' ? 'B' : 'A';
        struct token_call c = fixture_check(&x, other);
        assert_null(c.token);
    }
    fixture_accepted(&x, token, true);
    fixture_finish(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_its_end),         cmocka_unit_test(test_flushes),
        cmocka_unit_test(test_another_configuration), cmocka_unit_test(test_its_key_is_gone),
        cmocka_unit_test(test_nearly_the_same),
    };
    return cmocka_run_group_tests(tests, make_keys, free_keys);
}
