/* Which claims make a token good, here and now; what verify: upstream leaves of that; what is a start-up error. */
#include "authz/token.h"

#include "token_fixture.h"

static EVP_PKEY *ed;

static int make_key(void **state)
{
    (void)state;
    ed = maker_ed("ED25519");
    return 0;
}

static int free_key(void **state)
{
    (void)state;
    EVP_PKEY_free(ed);
    return 0;
}

static const char *bearer(struct fixture *x, const char *payload)
{
    return maker_bearer(&x->arena, HEADER("EdDSA"), payload, "EdDSA", ed);
}

static void open_plain(struct fixture *x)
{
    fixture_open_file(x, maker_jwks(&x->arena, maker_jwk(&x->arena, ed, ""), NULL, NULL));
}

struct row {
    const char *text;   /* %lld: now */
    enum reason reason; /* FORWARDED: good */
};

/* form: a payload with one %s for the row's text. */
static void check_rows(struct fixture *x, const char *form, const struct row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char *text = arena_printf(&x->arena, rows[i].text, fixture_now_s(x)).p;
        const char *payload = arena_printf(&x->arena, form, text).p;
        struct token_call c = fixture_check(x, bearer(x, payload));
        if (c.reason != rows[i].reason)
            fail_msg("%s, not %s (%s): %s", reason_code(c.reason), reason_code(rows[i].reason), c.detail, payload);
        if (c.token) token_release(c.token);
    }
}

#define CHECK_ROWS(x, form, rows) check_rows((x), (form), (rows), sizeof(rows) / sizeof *(rows))

static void test_exp(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"\"exp\":%lld5", REASON_FORWARDED}, /* ten times now */
        {"\"exp\":%lld.5e1", REASON_FORWARDED},
        {"\"exp\":9223372036854775807", REASON_FORWARDED},
        {"\"exp\":253402300799", REASON_FORWARDED},
        {"\"exp\":1e300", REASON_FORWARDED},
        {"\"exp\":1e18", REASON_FORWARDED},
        {"\"exp\":9.3e18", REASON_FORWARDED},
        {"\"exp\":9223372036854775808", REASON_TOKEN_MALFORMED}, /* not a number that can be held */
        {"\"exp\":1e999", REASON_TOKEN_MALFORMED},
        {"\"exp\":NaN", REASON_TOKEN_MALFORMED},
        {"\"exp\":Infinity", REASON_TOKEN_MALFORMED},
        {"\"exp\":+5", REASON_TOKEN_MALFORMED},
        {"\"exp\":0x7fffffff", REASON_TOKEN_MALFORMED},
        {"\"exp\":0", REASON_TOKEN_EXPIRED},
        {"\"exp\":-1", REASON_TOKEN_EXPIRED},
        {"\"exp\":-9223372036854775808", REASON_TOKEN_EXPIRED},
        {"\"exp\":-1e300", REASON_TOKEN_EXPIRED},
        {"\"exp\":1e-300", REASON_TOKEN_EXPIRED},
        {"\"exp\":1.5", REASON_TOKEN_EXPIRED},
        {"\"exp\":\"%lld5\"", REASON_TOKEN_CLAIMS},
        {"\"exp\":null", REASON_TOKEN_CLAIMS},
        {"\"exp\":true", REASON_TOKEN_CLAIMS},
        {"\"exp\":[%lld5]", REASON_TOKEN_CLAIMS},
        {"\"exp\":{}", REASON_TOKEN_CLAIMS},
        {"\"EXP\":%lld5", REASON_TOKEN_CLAIMS},
        {"\"x\":1", REASON_TOKEN_CLAIMS},
        {"\"exp\":%lld5,\"exp\":%lld5", REASON_TOKEN_MALFORMED},
        {"\"exp\":%lld5,\"\\u0065xp\":1", REASON_TOKEN_MALFORMED},
        {"\"exp\":%lld5,\"a\":[{\"b\":1,\"b\":1}]", REASON_TOKEN_MALFORMED},
        {"\"exp\":%lld5,\"a\":\"\\u0000\"", REASON_TOKEN_MALFORMED},
        {"\"exp\":%lld5,\"a\\u0000\":1", REASON_TOKEN_MALFORMED},
        {"\"exp\":%lld5,\"a\":\"\xc0\xaf\"", REASON_TOKEN_MALFORMED},
    };
    struct fixture x;
    fixture_init(&x);
    open_plain(&x);
    CHECK_ROWS(&x, "{\"iss\":\"" ISSUER "\",\"aud\":\"api\",\"sub\":\"a\",%s}", rows);
    fixture_finish(&x);
}

/* The edges, to the second: leeway is 10. The loop's clock stands still during the test. */
static void test_leeway(void **state)
{
    (void)state;
    static const struct {
        const char *claim;
        int from_now;
        const char *fraction;
        enum reason reason;
    } rows[] = {
        {"exp", -9, "", REASON_FORWARDED},     {"exp", -10, "", REASON_TOKEN_EXPIRED},
        {"exp", -9, ".5", REASON_FORWARDED},   {"exp", -10, ".5", REASON_TOKEN_EXPIRED},
        {"nbf", 10, "", REASON_FORWARDED},     {"nbf", 11, "", REASON_TOKEN_NOT_YET},
        {"nbf", 9, ".5", REASON_FORWARDED},    {"nbf", 10, ".5", REASON_TOKEN_NOT_YET},
        {"iat", 10, "", REASON_FORWARDED},     {"iat", 11, "", REASON_TOKEN_NOT_YET},
        {"nbf", -99999, "", REASON_FORWARDED}, {"iat", -99999, "", REASON_FORWARDED},
    };
    struct fixture x;
    fixture_init(&x);
    open_plain(&x);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bool is_exp = strcmp(rows[i].claim, "exp") == 0;
        const char *payload =
            arena_printf(&x.arena, "{\"iss\":\"" ISSUER "\",\"aud\":\"api\",\"sub\":\"a\"%s,\"%s\":%lld%s}",
                         is_exp ? "" : ",\"exp\":99999999999", rows[i].claim, fixture_now_s(&x) + rows[i].from_now,
                         rows[i].fraction)
                .p;
        struct token_call c = fixture_check(&x, bearer(&x, payload));
        if (c.reason != rows[i].reason) fail_msg("%s: %s", payload, reason_code(c.reason));
        if (c.token) token_release(c.token);
    }
    fixture_finish(&x);
}

static void test_nbf_iat_types(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"\"nbf\":\"%lld\"", REASON_TOKEN_CLAIMS}, {"\"iat\":\"%lld\"", REASON_TOKEN_CLAIMS},
        {"\"nbf\":null", REASON_TOKEN_CLAIMS},     {"\"iat\":null", REASON_TOKEN_CLAIMS},
        {"\"nbf\":1e300", REASON_TOKEN_NOT_YET},   {"\"iat\":9223372036854775807", REASON_TOKEN_NOT_YET},
        {"\"nbf\":-1e300", REASON_FORWARDED},      {"\"iat\":0", REASON_FORWARDED},
    };
    struct fixture x;
    fixture_init(&x);
    open_plain(&x);
    CHECK_ROWS(&x, "{\"iss\":\"" ISSUER "\",\"aud\":\"api\",\"sub\":\"a\",\"exp\":99999999999,%s}", rows);
    fixture_finish(&x);
}

static void test_issuer(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"\"iss\":\"" ISSUER "\"", REASON_FORWARDED},
        {"\"iss\":\"https:\\/\\/issuer.test\"", REASON_FORWARDED}, /* the same text */
        {"\"iss\":\"" ISSUER "/\"", REASON_TOKEN_ISSUER},
        {"\"iss\":\"https://ISSUER.test\"", REASON_TOKEN_ISSUER},
        {"\"iss\":\" " ISSUER "\"", REASON_TOKEN_ISSUER},
        {"\"iss\":\"https://issuer.tes\"", REASON_TOKEN_ISSUER},
        {"\"iss\":\"\"", REASON_TOKEN_ISSUER},
        {"\"iss\":[\"" ISSUER "\"]", REASON_TOKEN_ISSUER},
        {"\"iss\":null", REASON_TOKEN_ISSUER},
        {"\"x\":1", REASON_TOKEN_ISSUER},
    };
    struct fixture x;
    fixture_init(&x);
    open_plain(&x);
    CHECK_ROWS(&x, "{\"aud\":\"api\",\"sub\":\"a\",\"exp\":99999999999,%s}", rows);
    fixture_finish(&x);
}

static void test_audience(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"\"aud\":\"api\"", REASON_FORWARDED},
        {"\"aud\":\"other-api\"", REASON_FORWARDED},
        {"\"aud\":[\"x\",\"other-api\"]", REASON_FORWARDED},
        {"\"aud\":[\"x\",\"y\"]", REASON_TOKEN_AUDIENCE},
        {"\"aud\":[\"api\",5]", REASON_TOKEN_AUDIENCE},
        {"\"aud\":[[\"api\"]]", REASON_TOKEN_AUDIENCE},
        {"\"aud\":[]", REASON_TOKEN_AUDIENCE},
        {"\"aud\":\"\"", REASON_TOKEN_AUDIENCE},
        {"\"aud\":\"API\"", REASON_TOKEN_AUDIENCE},
        {"\"aud\":\"api other-api\"", REASON_TOKEN_AUDIENCE},
        {"\"aud\":{\"api\":1}", REASON_TOKEN_AUDIENCE},
        {"\"aud\":null", REASON_TOKEN_AUDIENCE},
        {"\"x\":1", REASON_TOKEN_AUDIENCE},
    };
    struct fixture x;
    fixture_init(&x);
    open_plain(&x);
    CHECK_ROWS(&x, "{\"iss\":\"" ISSUER "\",\"sub\":\"a\",\"exp\":99999999999,%s}", rows);
    fixture_finish(&x);
    fixture_init(&x);
    x.issuer.audiences.n = 0;
    x.issuer.any_audience = true;
    open_plain(&x);
    fixture_accepted(&x, bearer(&x, "{\"iss\":\"" ISSUER "\",\"sub\":\"a\",\"exp\":99999999999}"), false);
    fixture_finish(&x);
}

static void test_type(void **state)
{
    (void)state;
    static const struct slice types[] = {{"at+jwt", 6}, {"application/JWT", 15}};
    static const struct {
        const char *header;
        enum reason reason;
    } rows[] = {
        {"{\"alg\":\"EdDSA\",\"typ\":\"at+jwt\"}", REASON_FORWARDED},
        {"{\"alg\":\"EdDSA\",\"typ\":\"AT+JWT\"}", REASON_FORWARDED},
        {"{\"alg\":\"EdDSA\",\"typ\":\"application/at+jwt\"}", REASON_FORWARDED},
        {"{\"alg\":\"EdDSA\",\"typ\":\"Application/AT+jwt\"}", REASON_FORWARDED},
        {"{\"alg\":\"EdDSA\",\"typ\":\"jwt\"}", REASON_FORWARDED},
        {"{\"alg\":\"EdDSA\",\"typ\":\"id+jwt\"}", REASON_TOKEN_TYPE},
        {"{\"alg\":\"EdDSA\",\"typ\":\"text/at+jwt\"}", REASON_TOKEN_TYPE},
        {"{\"alg\":\"EdDSA\",\"typ\":\"\"}", REASON_TOKEN_TYPE},
        {"{\"alg\":\"EdDSA\"}", REASON_TOKEN_TYPE},
    };
    struct fixture x;
    fixture_init(&x);
    x.issuer.types = (struct texts){types, 2};
    open_plain(&x);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *text = maker_bearer(&x.arena, rows[i].header, fixture_payload(&x, ""), "EdDSA", ed);
        if (rows[i].reason == REASON_FORWARDED)
            fixture_accepted(&x, text, false);
        else
            fixture_refused(&x, text, rows[i].reason);
    }
    fixture_finish(&x);
}

static void test_subject(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"\"sub\":\"a\"", REASON_FORWARDED},
        {"\"sub\":\"\xf0\x9f\x90\x9f\"", REASON_FORWARDED},
        {"\"sub\":\"a\",\"name\":\"b\"", REASON_FORWARDED},
        {"\"name\":\"b\"", REASON_FORWARDED},
        {"\"x\":1", REASON_TOKEN_SUBJECT},
        {"\"sub\":\"\"", REASON_TOKEN_SUBJECT},
        {"\"sub\":5", REASON_TOKEN_SUBJECT},
        {"\"sub\":null", REASON_TOKEN_SUBJECT},
        {"\"sub\":\"a\",\"name\":\"\"", REASON_TOKEN_SUBJECT}, /* there, and no name: sub does not stand in */
        {"\"sub\":\"a\",\"name\":null", REASON_TOKEN_SUBJECT},
        {"\"sub\":\"a\",\"name\":[\"b\"]", REASON_TOKEN_SUBJECT},
        {"\"sub\":\"a\\n\"", REASON_TOKEN_SUBJECT},
        {"\"sub\":\"a\\u001b[2J\"", REASON_TOKEN_SUBJECT},
        {"\"sub\":\"a\\u007f\"", REASON_TOKEN_SUBJECT},
        {"\"sub\":\"a\\u0085\"", REASON_TOKEN_SUBJECT},
        {"\"sub\":\"a\\u00a0b\"", REASON_FORWARDED},
        {"\"sub\":\"a\\u0000\"", REASON_TOKEN_MALFORMED},
    };
    struct fixture x;
    fixture_init(&x);
    x.config.name_claim = SLICE("name");
    open_plain(&x);
    CHECK_ROWS(&x, "{\"iss\":\"" ISSUER "\",\"aud\":\"api\",\"exp\":99999999999,%s}", rows);
    for (int n = 512; n <= 513; n++) {
        char name[514] = {0};
        memset(name, 'n', (size_t)n);
        const char *p =
            arena_printf(&x.arena, "{\"iss\":\"" ISSUER "\",\"aud\":\"api\",\"exp\":99999999999,\"sub\":\"%s\"}", name)
                .p;
        if (n == 512)
            fixture_accepted(&x, bearer(&x, p), false);
        else
            fixture_refused(&x, bearer(&x, p), REASON_TOKEN_SUBJECT);
    }
    fixture_finish(&x);
}

static void test_depth(void **state)
{
    (void)state;
    struct fixture x;
    fixture_init(&x);
    open_plain(&x);
    static const struct {
        size_t depth; /* of arrays in the payload's object */
        bool good;
    } rows[] = {{31, true}, {32, false}, {3000, false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct buf b;
        buf_init(&b, &x.arena);
        buf_add_lit(&b, ",\"a\":");
        for (size_t n = 0; n < rows[i].depth; n++)
            buf_add_char(&b, '[');
        for (size_t n = 0; n < rows[i].depth; n++)
            buf_add_char(&b, ']');
        buf_add_lit(&b, "\0");
        const char *text = bearer(&x, fixture_payload(&x, b.p));
        if (rows[i].good)
            fixture_accepted(&x, text, false);
        else
            fixture_refused(&x, text, REASON_TOKEN_MALFORMED);
    }
    /* brackets in a text are no depth */
    fixture_accepted(&x, bearer(&x, fixture_payload(&x, ",\"a\":\"[[[[[[\\\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\"")),
                     false);
    fixture_finish(&x);
}

static void test_upstream_mode(void **state)
{
    (void)state;
    struct fixture x;
    fixture_init(&x);
    x.config.upstream = true;
    x.config.api_keys = true;
    x.config.issuers_n = 0;
    fixture_open(&x);
    struct slice forged = SLICE("0123456789abcdef0123456789abcdef");
    const char *header = "{\"alg\":\"HS256\",\"kid\":\"x\"}";
    const char *text = maker_bearer_mac(&x.arena, header, "{\"sub\":\"admin\",\"exp\":99999999999}", "HS256", forged);
    for (int round = 0; round < 2; round++) {
        struct token_call c = fixture_check(&x, text);
        assert_non_null(c.token);
        assert_int_equal(c.cached, round);
        assert_false(c.token->verified);
        assert_int_equal(c.token->issuer.n + c.token->subject.n + c.token->claims.n + c.token->payload.n, 0);
        assert_int_equal(c.token->entry.tags[0] | c.token->entry.tags[1], 0);
        assert_int_equal(c.token->exp_s, 99999999999);
        token_release(c.token);
    }
    static const struct row rows[] = {
        {"{\"sub\":\"a\"}", REASON_TOKEN_CLAIMS},
        {"{\"exp\":5}", REASON_TOKEN_EXPIRED},
        {"{\"exp\":99999999999,\"nbf\":99999999998}", REASON_TOKEN_NOT_YET},
        {"{\"exp\":99999999999,\"exp\":99999999999}", REASON_TOKEN_MALFORMED},
        {"[]", REASON_TOKEN_MALFORMED},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        fixture_refused(&x, maker_bearer_mac(&x.arena, header, rows[i].text, "HS256", forged), rows[i].reason);
    fixture_refused(&x, "Bearer opaque-token", REASON_TOKEN_MALFORMED);
    fixture_refused(
        &x, maker_join(&x.arena, maker_input(&x.arena, "{\"alg\":\"none\"}", "{\"exp\":99999999999}"), SLICE("")),
        REASON_TOKEN_ALGORITHM);
    fixture_finish(&x);
}

static void test_api_key(void **state)
{
    (void)state;
    struct fixture x;
    fixture_init(&x);
    x.config.api_keys = true;
    open_plain(&x);
    for (int round = 0; round < 2; round++) {
        struct token_call c = fixture_check(&x, "apikey s3cret");
        assert_non_null(c.token);
        assert_false(c.token->verified);
        assert_true(c.token->exp_s == INT64_MAX);
        assert_int_equal(c.token->subject.n + c.token->claims.n, 0);
        uint8_t digest[DIGEST_BYTES];
        digest_parts(&(struct slice){"apikey s3cret", 13}, 1, digest);
        assert_memory_equal(c.token->entry.key, digest, DIGEST_BYTES);
        token_release(c.token);
    }
    fixture_refused(&x, "apikey a, apikey b", REASON_CREDENTIAL_MULTIPLE);
    fixture_accepted(&x, bearer(&x, fixture_payload(&x, "")), false);
    fixture_finish(&x);
}

static void expect_start_error(struct fixture *x, const struct issuer_config *issuers, size_t n, const char *text)
{
    x->config.issuers = issuers;
    x->config.issuers_n = n;
    char *error = NULL;
    struct tokens *t = tokens_create(x->loop, x->fetch, &x->config, &error);
    if (t) fail_msg("no error, but %s was expected", text);
    assert_non_null(error);
    if (!strstr(error, text)) fail_msg("\"%s\", not \"%s\"", error, text);
    assert_non_null(strstr(error, "issuer \""));
    free(error);
    assert_int_equal(fake_fetch_open(x->fetch), 0);
}

static void test_start_errors(void **state)
{
    (void)state;
    static const struct slice hs[] = {{"HS512", 5}}, unknown[] = {{"none", 4}};
    struct fixture x;
    fixture_init(&x);
    struct issuer_config good = x.issuer;
    good.jwks_url = SLICE(JWKS_URL);
    struct issuer_config c = good;
    c.audiences.n = 0;
    expect_start_error(&x, &c, 1, "any_audience");
    c = good;
    c.jwks_url = SLICE("ftp://x/keys");
    expect_start_error(&x, &c, 1, "http");
    c = good;
    c.algorithms.n = 0;
    expect_start_error(&x, &c, 1, "no algorithms");
    c = good;
    c.algorithms = (struct texts){unknown, 1};
    expect_start_error(&x, &c, 1, "not known");
    c.algorithms = (struct texts){hs, 1};
    expect_start_error(&x, &c, 1, "need a secret");
    c.secret = SLICE("0123456789abcdef0123456789abcdef");
    expect_start_error(&x, &c, 1, "exactly one");
    c.jwks_url = SLICE("");
    expect_start_error(&x, &c, 1, "64 for HS512");
    c.algorithms = good.algorithms;
    expect_start_error(&x, &c, 1, "go with a secret");
    c = good;
    c.jwks_url = SLICE("");
    expect_start_error(&x, &c, 1, "exactly one");
    c.jwks = SLICE("{\"keys\":[{\"kty\":\"RSA\"}]}");
    expect_start_error(&x, &c, 1, "no usable key");
    struct issuer_config twice[] = {good, good};
    expect_start_error(&x, twice, 2, "twice");
    fixture_finish(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exp),     cmocka_unit_test(test_leeway),       cmocka_unit_test(test_nbf_iat_types),
        cmocka_unit_test(test_issuer),  cmocka_unit_test(test_audience),     cmocka_unit_test(test_type),
        cmocka_unit_test(test_subject), cmocka_unit_test(test_depth),        cmocka_unit_test(test_upstream_mode),
        cmocka_unit_test(test_api_key), cmocka_unit_test(test_start_errors),
    };
    return cmocka_run_group_tests(tests, make_key, free_key);
}
