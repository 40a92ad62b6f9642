/* The Authorization value to scheme and credential (RFC 6750 2.1, RFC 9110 11.4): one credential or none. */
#include "authz/credential.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void test_accepts(void **state)
{
    (void)state;
    static const struct {
        const char *value;
        enum credential_scheme scheme;
        const char *text;
    } rows[] = {
        {"Bearer abc", CREDENTIAL_BEARER, "abc"},
        {"bearer abc", CREDENTIAL_BEARER, "abc"},
        {"BEARER abc", CREDENTIAL_BEARER, "abc"},
        {"bEaReR    abc", CREDENTIAL_BEARER, "abc"},
        {"Bearer a.b-c_d~e+f/g==", CREDENTIAL_BEARER, "a.b-c_d~e+f/g=="},
        {"apikey k3y", CREDENTIAL_API_KEY, "k3y"},
        {"ApiKey k3y", CREDENTIAL_API_KEY, "k3y"},
        {"Bearer abc ", CREDENTIAL_BEARER, "abc"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        enum credential_scheme scheme = CREDENTIAL_NONE;
        struct slice text = {0};
        struct refusal r = {0};
        if (!credential_read(slice_str(rows[i].value), true, &scheme, &text, &r)) fail_msg("%s", rows[i].value);
        assert_int_equal(scheme, rows[i].scheme);
        assert_true(slice_eq(text, slice_str(rows[i].text)));
    }
}

static void test_refuses(void **state)
{
    (void)state;
    static const struct {
        const char *value;
        enum reason reason;
    } rows[] = {
        {"Basic YTpi", REASON_CREDENTIAL_SCHEME},
        {"Negotiate abc==", REASON_CREDENTIAL_SCHEME},
        {"Digest username=\"a\", realm=\"b\"", REASON_CREDENTIAL_SCHEME},
        {"abc", REASON_CREDENTIAL_SCHEME},
        {"BearerX abc", REASON_CREDENTIAL_SCHEME},
        {"Bearer\tabc", REASON_CREDENTIAL_SCHEME},
        {"Bearer", REASON_TOKEN_MALFORMED},
        {"Bearer ", REASON_TOKEN_MALFORMED},
        {"Bearer \"abc\"", REASON_TOKEN_MALFORMED},
        {"Bearer a=b", REASON_TOKEN_MALFORMED},
        {"Bearer =", REASON_TOKEN_MALFORMED},
        {"Bearer a\tb", REASON_TOKEN_MALFORMED},
        {"Bearer \tabc", REASON_TOKEN_MALFORMED},
        {"Bearer abc\x7f", REASON_TOKEN_MALFORMED},
        {"Bearer \xc3\xa9", REASON_TOKEN_MALFORMED},
        {"apikey a;b", REASON_TOKEN_MALFORMED},
        {"Bearer a,Bearer b", REASON_CREDENTIAL_MULTIPLE},
        {"Bearer a, Basic b", REASON_CREDENTIAL_MULTIPLE},
        {"Bearer a,", REASON_CREDENTIAL_MULTIPLE},
        {"Bearer ,a", REASON_CREDENTIAL_MULTIPLE},
        {"Bearer a b", REASON_CREDENTIAL_MULTIPLE},
        {"Bearer a Bearer b", REASON_CREDENTIAL_MULTIPLE},
        {"Basic YTpi, Bearer b", REASON_CREDENTIAL_MULTIPLE},
        {"Basic YTpi,apikey b", REASON_CREDENTIAL_MULTIPLE},
        {"apikey a, Bearer b", REASON_CREDENTIAL_MULTIPLE},
        {"Bearer a, apikey b", REASON_CREDENTIAL_MULTIPLE},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        enum credential_scheme scheme;
        struct slice text;
        struct refusal r = {0};
        bool ok = credential_read(slice_str(rows[i].value), true, &scheme, &text, &r);
        if (ok || r.reason != rows[i].reason) fail_msg("%s: %s", rows[i].value, ok ? "taken" : reason_code(r.reason));
        assert_non_null(r.detail);
    }
    struct refusal r = {0};
    enum credential_scheme scheme;
    struct slice text;
    assert_false(credential_read(slice_make("Bearer a\0b", 10), true, &scheme, &text, &r));
    assert_int_equal(r.reason, REASON_TOKEN_MALFORMED);
}

static void test_api_keys_only_where_they_are_on(void **state)
{
    (void)state;
    enum credential_scheme scheme;
    struct slice text;
    struct refusal r = {0};
    assert_false(credential_read(SLICE("apikey k3y"), false, &scheme, &text, &r));
    assert_int_equal(r.reason, REASON_CREDENTIAL_SCHEME);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accepts),
        cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_api_keys_only_where_they_are_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
