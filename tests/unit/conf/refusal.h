/* Inputs that are refused, with their exact messages; what the tests of refusals share. */
#ifndef TEST_CONF_REFUSAL_H
#define TEST_CONF_REFUSAL_H

#include "fixture.h"

struct refusal {
    const char *yaml;
    const char *errors;
};

static int failed; /* all wrong rows are shown in one run */

static void check_refusal(const char *text, const char *expected)
{
    struct loaded l = load_text_with(text, NULL);
    if (l.conf || strcmp(l.errors.p, expected) != 0 || *l.warnings.p) {
        print_error("--- input\n%s\n--- expected\n%s--- got\n%s%s", text, expected, l.errors.p, l.warnings.p);
        failed++;
    }
    unload(&l);
}

#define EACH(table, check) \
    failed = 0; \
    for (size_t i = 0; i < sizeof(table) / sizeof((table)[0]); i++) check; \
    assert_int_equal(failed, 0)

#endif
