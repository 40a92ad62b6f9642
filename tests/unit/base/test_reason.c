/* Unit tests of base/reason: the table makes sense as a whole. */
#include "base/reason.h"

#include <ctype.h>
#include <string.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static void test_every_row(void **state)
{
    static const int statuses[] = {200, 400, 401, 403, 404, 405, 408, 413, 414, 417, 421, 429,
                                   431, 499, 500, 501, 502, 503, 504, 505};
    (void)state;
    for (int r = 0; r < REASON_COUNT; r++) {
        const char *code = reason_code((enum reason)r), *text = reason_text((enum reason)r);
        int status = reason_status((enum reason)r);
        size_t known = 0;
        while (known < sizeof(statuses) / sizeof(*statuses) && statuses[known] != status) known++;
        /* only what the API itself answered has no status of ours */
        assert_true(known < sizeof(statuses) / sizeof(*statuses) || (status == 0 && r == REASON_FORWARDED));
        assert_in_range(strlen(code), 3, 40);
        for (const char *c = code; *c; c++) assert_true(islower((unsigned char)*c) || *c == '_');
        assert_true(isupper((unsigned char)text[0]));
        assert_int_equal(text[strlen(text) - 1], '.');
        for (const char *c = text; *c; c++) assert_true(isprint((unsigned char)*c) && *c != '"' && *c != '\\');
        for (int other = 0; other < r; other++) assert_string_not_equal(code, reason_code((enum reason)other));
    }
}

static void test_zeroed_memory_refuses(void **state)
{
    enum reason r;
    (void)state;
    memset(&r, 0, sizeof(r));
    assert_int_equal(r, REASON_UNSET);
    assert_int_equal(reason_status(r), 500);
    assert_true(reason_alarm(r));
}

static void test_no_such_row_refuses(void **state)
{
    static const int rows[] = {REASON_COUNT, REASON_COUNT + 1, -1, 1 << 20};
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        assert_int_equal(reason_status((enum reason)rows[i]), 500);
        assert_string_equal(reason_code((enum reason)rows[i]), reason_code(REASON_UNSET));
    }
}

/* Who asks without a good credential learns nothing of why; 403 is the policy's or the API's word alone; a fault
   of ours or of a dependency is never the caller's. */
static void test_classes(void **state)
{
    (void)state;
    for (int r = 0; r < REASON_COUNT; r++) {
        const char *code = reason_code((enum reason)r);
        int status = reason_status((enum reason)r);
        if (strncmp(code, "token_", 6) == 0) {
            assert_int_equal(status, 401);
            assert_string_equal(reason_text((enum reason)r), "The access token is not valid.");
        }
        if (status == 403) assert_true(strncmp(code, "policy_", 7) == 0 || r == REASON_CONTEXT_UNKNOWN);
        if (status == 500) assert_true(reason_alarm((enum reason)r));
        if (status == 401 || status == 404 || status == 400) assert_false(reason_alarm((enum reason)r));
    }
    assert_int_equal(reason_status(REASON_POLICY_UNAVAILABLE), 503);
    assert_int_equal(reason_status(REASON_POLICY_TIMEOUT), 504);
    assert_int_equal(reason_status(REASON_UPSTREAM_TIMEOUT), 504);
    assert_int_equal(reason_status(REASON_CLIENT_GONE), 499);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_row),
        cmocka_unit_test(test_zeroed_memory_refuses),
        cmocka_unit_test(test_no_such_row_refuses),
        cmocka_unit_test(test_classes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
