/* The shapes of drop-in mode against the tables that describe the proxy it replaces, and the shape for claims. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "authz/grant.h"

static struct buf read_file(const char *name)
{
    char path[512], chunk[4096];
    struct buf b;
    snprintf(path, sizeof path, "%s/config/%s", SOURCE_DIR, name);
    FILE *f = fopen(path, "r");
    if (!f) fail_msg("%s is not there", path);
    buf_init(&b, NULL);
    for (size_t n; (n = fread(chunk, 1, sizeof chunk, f)) > 0;)
        buf_add(&b, chunk, n);
    fclose(f);
    return b;
}

static struct shape *load(const char *name)
{
    char *error = NULL;
    struct buf text = read_file(name);
    struct shape *s = shape_compile(name, buf_slice(&text), &error);
    if (!s) fail_msg("%s", error);
    buf_free(&text);
    return s;
}

static struct {
    struct shape *context, *grant, *authorize, *claims;
} shapes;

static int load_all(void **state)
{
    (void)state;
    shapes.context = load("cwms/context.jq");
    shapes.grant = load("cwms/grant.jq");
    shapes.authorize = load("cwms/authorize.jq");
    shapes.claims = load("shapes/claims.jq");
    return 0;
}

static int free_all(void **state)
{
    (void)state;
    shape_destroy(shapes.context);
    shape_destroy(shapes.grant);
    shape_destroy(shapes.authorize);
    shape_destroy(shapes.claims);
    return 0;
}

static char *run(struct shape *s, const char *input)
{
    struct buf out;
    char *error = NULL;
    buf_init(&out, NULL);
    if (!shape_run(s, slice_str(input), &out, &error)) {
        free(error);
        buf_free(&out);
        return NULL;
    }
    buf_add_char(&out, '\0');
    return out.p;
}

struct row {
    const char *input, *output; /* output NULL: the shape fails */
};

static void check_rows(struct shape *s, const struct row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char *out = run(s, rows[i].input);
        if (!rows[i].output && out) fail_msg("row %zu gave %s", i, out);
        if (rows[i].output && !out) fail_msg("row %zu failed", i);
        if (out) assert_string_equal(out, rows[i].output);
        free(out);
    }
}

static void test_context(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"{\"user-name\":\"JANE.1\",\"principal\":\"p\",\"cac-auth\":true,\"email\":\"j@x.mil\","
         "\"roles\":{\"SWT\":[\"b\",\"a\"],\"HQ\":[\"a\",\"c\",\"b\"]},\"ts-group-privileges\":["
         "{\"ts-group-code\":\"7\",\"ts-group-id\":\"G 1\",\"privilege\":\"read\",\"embargo-hours\":72}]}",
         "{\"id\":\"JANE.1\",\"username\":\"JANE.1\",\"email\":\"j@x.mil\",\"roles\":[\"b\",\"a\",\"c\"],"
         "\"offices\":[\"SWT\",\"HQ\"],\"primary_office\":\"SWT\",\"authenticated\":true,\"ts_privileges\":["
         "{\"ts_group_code\":\"7\",\"ts_group_id\":\"G 1\",\"privilege\":\"read\",\"embargo_hours\":72}]}"},
        /* no email, no roles, an empty list of groups */
        {"{\"user-name\":\"JANE.1\",\"ts-group-privileges\":[]}",
         "{\"id\":\"JANE.1\",\"username\":\"JANE.1\",\"email\":\"jane.1@usace.mil\",\"roles\":[],\"offices\":[],"
         "\"authenticated\":true}"},
        /* what only some profiles have */
        {"{\"user-name\":\"u\",\"email\":\"e\",\"roles\":{},\"persona\":\"dam_operator\",\"shift-start\":0,"
         "\"shift-end\":8,\"timezone\":\"UTC\",\"region\":\"SWD\",\"allowed-parameters\":[\"Flow\"],"
         "\"partnership-expiry-ns\":5}",
         "{\"id\":\"u\",\"username\":\"u\",\"email\":\"e\",\"roles\":[],\"offices\":[],"
         "\"authenticated\":true,\"persona\":\"dam_operator\",\"shift_start\":0,\"shift_end\":8,\"timezone\":\"UTC\","
         "\"region\":\"SWD\",\"allowed_parameters\":[\"Flow\"],\"partnership_expiry_ns\":5}"},
        /* a role's name twice in one office; an office without roles is an office */
        {"{\"user-name\":\"u\",\"email\":\"e\",\"roles\":{\"B\":[\"x\",\"x\"],\"A\":[]}}",
         "{\"id\":\"u\",\"username\":\"u\",\"email\":\"e\",\"roles\":[\"x\"],\"offices\":[\"B\",\"A\"],"
         "\"primary_office\":\"B\",\"authenticated\":true}"},
        {"{}", NULL},
        {"{\"user-name\":\"\"}", NULL},
        {"{\"user-name\":5}", NULL},
        {"{\"user-name\":\"u\",\"roles\":[\"system_admin\"]}", NULL},
        {"{\"user-name\":\"u\",\"roles\":{\"A\":\"system_admin\"}}", NULL},
        {"[]", NULL},
    };
    check_rows(shapes.context, rows, sizeof rows / sizeof rows[0]);
}

/* Order of the document with more members than any small table has. */
static void test_context_keeps_order(void **state)
{
    (void)state;
    struct buf in, offices, roles;
    buf_init(&in, NULL);
    buf_init(&offices, NULL);
    buf_init(&roles, NULL);
    buf_add_lit(&in, "{\"user-name\":\"u\",\"email\":\"e\",\"roles\":{");
    for (int i = 0; i < 30; i++) {
        const char *comma = i ? "," : "";
        int office = i * 37 % 101, role = i * 53 % 97;
        buf_printf(&in, "%s\"O%d\":[\"r%d\",\"same\"]", comma, office, role);
        buf_printf(&offices, "%s\"O%d\"", comma, office);
        buf_printf(&roles, i ? ",\"r%d\"" : "\"r%d\",\"same\"", role);
    }
    buf_add(&in, "}}\0", 3);
    buf_add_char(&offices, '\0');
    buf_add_char(&roles, '\0');
    char expected[4096];
    snprintf(
        expected, sizeof expected,
        "{\"id\":\"u\",\"username\":\"u\",\"email\":\"e\",\"roles\":[%s],\"offices\":[%s],\"primary_office\":\"O0\","
        "\"authenticated\":true}",
        roles.p, offices.p);
    char *out = run(shapes.context, in.p);
    assert_string_equal(out, expected);
    free(out);
    buf_free(&in);
    buf_free(&offices);
    buf_free(&roles);
}

#define GROUPS(hours_a, hours_b)                                                                                       \
    "\"ts_privileges\":[{\"ts_group_id\":\"a\",\"embargo_hours\":" hours_a                                             \
    "},{\"ts_group_id\":\"b\",\"embargo_hours\":" hours_b "}]"
#define ALL_CLASSES "[\"public\",\"internal\",\"restricted\",\"sensitive\"]"

/* The table of constraints, one rule a row. */
static void test_constraints(void **state)
{
    (void)state;
    static const struct {
        const char *user, *decision, *mentions;
    } rows[] = {
        {"\"offices\":[\"SWT\",\"SPK\"]", "", "\"allowed_offices\":[\"SWT\",\"SPK\"]"},
        {"\"id\":\"u\"", "", "\"allowed_offices\":[]"},
        {"\"offices\":[\"SWT\"],\"persona\":\"automated_processor\"", "", "\"allowed_offices\":[\"*\"]"},
        {"\"offices\":[\"SWT\"],\"roles\":[\"x\",\"system_admin\"]", "", "\"allowed_offices\":[\"*\"]"},
        {"\"offices\":[\"SWT\"],\"roles\":[\"hec_employee\"]", "", "\"allowed_offices\":[\"SWT\"]"},
        {"\"offices\":[\"SWT\"],\"persona\":\"system_admin\"", "", "\"allowed_offices\":[\"SWT\"]"},

        {"\"persona\":\"data_manager\"", "", "\"embargo_exempt\":true"},
        {"\"persona\":\"water_manager\"", "", "\"embargo_exempt\":true"},
        {"\"persona\":\"system_admin\"", "", "\"embargo_exempt\":true"},
        {"\"persona\":\"hec_employee\"", "", "\"embargo_exempt\":false"},
        {"\"roles\":[\"system_admin\"]", "", "\"embargo_exempt\":true"},
        {"\"roles\":[\"hec_employee\"]", "", "\"embargo_exempt\":true"},
        {"\"roles\":[\"data_manager\"]", "", "\"embargo_exempt\":true"},
        {"\"roles\":[\"y\",\"water_manager\"]", "", "\"embargo_exempt\":true"},
        {"\"roles\":[\"dam_operator\"]", "", "\"embargo_exempt\":false"},
        {"\"roles\":[]", "", "\"embargo_exempt\":false"},

        {GROUPS("72", "24"), "", "\"ts_group_embargo\":{\"a\":72,\"b\":24}"},
        {"\"ts_privileges\":[]", "", "\"ts_group_embargo\":null"},
        {"\"id\":\"u\"", "", "\"ts_group_embargo\":null"},

        {GROUPS("24", "72"), "", "\"embargo_rules\":{\"default\":72}"},
        {GROUPS("0", "0"), "", "\"embargo_rules\":{}"},
        {GROUPS("24", "72") ",\"roles\":[\"hec_employee\"]", "", "\"embargo_rules\":{}"},
        {"\"id\":\"u\"", "", "\"embargo_rules\":{}"},
        {GROUPS("24", "72"), ",\"filters\":{\"embargo_rules\":{\"SWT\":4}}", "\"embargo_rules\":{\"SWT\":4}"},
        {GROUPS("24", "72"), ",\"constraints\":{\"embargo_rules\":{\"SWT\":5}}", "\"embargo_rules\":{\"SWT\":5}"},
        {"\"id\":\"u\"", ",\"filters\":{\"limit\":3}", "\"limit\":3"},

        {"\"persona\":\"dam_operator\"", "", "\"time_window\":{\"restrict_hours\":8}"},
        {"\"roles\":[\"dam_operator\"]", "", "\"time_window\":null"},

        {"\"roles\":[\"system_admin\"]", "", "\"data_classification\":" ALL_CLASSES},
        {"\"roles\":[\"hec_employee\"]", "", "\"data_classification\":" ALL_CLASSES},
        {"\"roles\":[\"water_manager\"]", "", "\"data_classification\":" ALL_CLASSES},
        {"\"persona\":\"data_manager\"", "", "\"data_classification\":" ALL_CLASSES},
        {"\"persona\":\"water_manager\",\"authenticated\":false", "", "\"data_classification\":[\"public\"]"},
        {"\"roles\":[\"data_manager\"],\"authenticated\":true", "",
         "\"data_classification\":[\"public\",\"internal\"]"},
        {"\"authenticated\":true", "", "\"data_classification\":[\"public\",\"internal\"]"},
        {"\"authenticated\":false", "", "\"data_classification\":[\"public\"]"},
        {"\"authenticated\":\"true\"", "", "\"data_classification\":[\"public\"]"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char input[1024];
        snprintf(input, sizeof input,
                 "{\"user\":{%s},\"decision\":{\"allow\":true,\"id\":\"d\"%s},\"request\":{},\"timestamp\":\"t\"}",
                 rows[i].user, rows[i].decision);
        struct shape *both[] = {shapes.grant, shapes.authorize};
        for (size_t k = 0; k < 2; k++) {
            char *out = run(both[k], input);
            if (!out || !strstr(out, rows[i].mentions)) fail_msg("row %zu of %zu: %s", i, k, out ? out : "failed");
            free(out);
        }
    }
}

#define USER                                                                                                           \
    "{\"id\":\"u\",\"username\":\"n\",\"email\":\"e\",\"roles\":[\"r\"],\"offices\":[\"SWT\"],\"primary_office\":"     \
    "\"SWT\","                                                                                                         \
    "\"authenticated\":true,\"persona\":\"p\",\"ts_privileges\":[{\"ts_group_id\":\"g\",\"embargo_hours\":1}]}"
#define ANONYMOUS                                                                                                      \
    "{\"id\":\"anonymous\",\"username\":\"anonymous\",\"roles\":[],\"offices\":[],\"authenticated\":false}"
#define PLAIN                                                                                                          \
    "{\"allowed_offices\":[],\"embargo_rules\":{},\"embargo_exempt\":false,\"ts_group_embargo\":null,"                 \
    "\"time_window\":null,\"data_classification\":[\"public\"]}"
#define OF_USER                                                                                                        \
    "{\"allowed_offices\":[\"SWT\"],\"embargo_rules\":{\"default\":1},\"embargo_exempt\":false,"                       \
    "\"ts_group_embargo\":{\"g\":1},\"time_window\":null,\"data_classification\":[\"public\",\"internal\"]}"
#define NOBODY "{\"id\":\"anonymous\",\"username\":\"anonymous\",\"roles\":[],\"offices\":[],\"primary_office\":\"HQ\"}"

static void test_grant(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"{\"user\":" USER ",\"decision\":{\"allow\":true,\"id\":\"d1\",\"reason\":\"ok\",\"headers\":{\"h\":1}},"
         "\"request\":{},\"timestamp\":\"T\"}",
         "{\"policy\":{\"allow\":true,\"decision_id\":\"d1\"},\"user\":{\"id\":\"u\",\"username\":\"n\",\"email\":"
         "\"e\","
         "\"roles\":[\"r\"],\"offices\":[\"SWT\"],\"primary_office\":\"SWT\",\"persona\":\"p\","
         "\"ts_privileges\":[{\"ts_group_id\":\"g\",\"embargo_hours\":1}]},\"constraints\":" OF_USER
         ",\"context\":{\"h\":1},\"timestamp\":\"T\"}"},
        {"{\"user\":" ANONYMOUS ",\"decision\":null,\"request\":{},\"timestamp\":\"T\"}",
         "{\"policy\":null,\"user\":" NOBODY ",\"constraints\":" PLAIN ",\"context\":{},\"timestamp\":\"T\"}"},
        {"{\"user\":" ANONYMOUS ",\"decision\":{\"allow\":true,\"id\":\"d\",\"bypassed\":true},\"request\":{},"
         "\"timestamp\":\"T\"}",
         "{\"policy\":{\"allow\":true,\"decision_id\":\"d\",\"bypassed\":true},\"user\":" NOBODY
         ",\"constraints\":" PLAIN ",\"context\":{},\"timestamp\":\"T\"}"},
        {"{\"user\":{\"id\":\"u\",\"offices\":[\"SPK\",\"SWT\"]},\"decision\":null,\"request\":{},\"timestamp\":\"T\"}",
         "{\"policy\":null,\"user\":{\"id\":\"u\",\"username\":\"u\",\"roles\":[],\"offices\":[\"SPK\",\"SWT\"],"
         "\"primary_office\":\"SPK\"},"
         "\"constraints\":{\"allowed_offices\":[\"SPK\",\"SWT\"],\"embargo_rules\":{},\"embargo_exempt\":false,"
         "\"ts_group_embargo\":null,\"time_window\":null,\"data_classification\":[\"public\"]},\"context\":{},"
         "\"timestamp\":\"T\"}"},
    };
    check_rows(shapes.grant, rows, sizeof rows / sizeof rows[0]);
}

static void test_authorize(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"{\"user\":" USER ",\"decision\":{\"allow\":true,\"id\":\"d1\",\"reason\":\"because\"},\"request\":{},"
         "\"timestamp\":\"T\"}",
         "{\"decision\":{\"allow\":true,\"decision_id\":\"d1\",\"reason\":\"because\"},\"user\":{\"id\":\"u\","
         "\"username\":\"n\",\"email\":\"e\",\"roles\":[\"r\"],\"offices\":[\"SWT\"],\"primary_office\":\"SWT\","
         "\"persona\":\"p\"},\"constraints\":" OF_USER ",\"timestamp\":\"T\"}"},
        {"{\"user\":" ANONYMOUS ",\"decision\":{\"allow\":false,\"id\":\"d\"},\"request\":{},\"timestamp\":\"T\"}",
         "{\"decision\":{\"allow\":false,\"decision_id\":\"d\",\"reason\":\"Access denied by "
         "policy.\"},\"user\":" NOBODY ",\"constraints\":" PLAIN ",\"timestamp\":\"T\"}"},
    };
    check_rows(shapes.authorize, rows, sizeof rows / sizeof rows[0]);
    /* a what-if user that does not say is one who is known; in a grant it never is */
    static const char what_if[] = "{\"user\":{\"id\":\"w\"},\"decision\":{\"allow\":true,\"id\":\"d\"},\"request\":{},"
                                  "\"timestamp\":\"T\"}";
    char *answer = run(shapes.authorize, what_if), *grant = run(shapes.grant, what_if);
    assert_non_null(strstr(answer, "\"data_classification\":[\"public\",\"internal\"]"));
    assert_non_null(strstr(grant, "\"data_classification\":[\"public\"]"));
    free(answer);
    free(grant);
}

static void test_claims(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"{\"iss\":\"i\",\"sub\":\"s1\",\"exp\":1,\"preferred_username\":\"jane\",\"email\":\"j@x\","
         "\"email_verified\":false,\"groups\":[\"g\"],\"scope\":\"a b\",\"realm_access\":{\"roles\":[\"r\"]}}",
         "{\"id\":\"s1\",\"username\":\"jane\",\"authenticated\":true,\"issuer\":\"i\",\"email\":\"j@x\","
         "\"email_verified\":false,\"roles\":[\"r\"],\"groups\":[\"g\"],\"scope\":\"a b\"}"},
        {"{\"sub\":\"s1\",\"realm_access\":\"x\",\"azp\":\"app\"}",
         "{\"id\":\"s1\",\"username\":\"s1\",\"authenticated\":true,\"client_id\":\"app\"}"},
        {"{\"preferred_username\":\"jane\",\"roles\":[\"a\"]}",
         "{\"id\":\"jane\",\"username\":\"jane\",\"authenticated\":true,\"roles\":[\"a\"]}"},
        {"{\"sub\":7,\"client_id\":\"robot\"}",
         "{\"id\":\"robot\",\"username\":\"robot\",\"authenticated\":true,\"client_id\":\"robot\"}"},
        {"{\"sub\":\"s\",\"authenticated\":false,\"id\":\"other\"}",
         "{\"id\":\"s\",\"username\":\"s\",\"authenticated\":true}"},
        {"{}", NULL},
        {"{\"sub\":\"\"}", NULL},
        {"{\"sub\":{}}", NULL},
    };
    check_rows(shapes.claims, rows, sizeof rows / sizeof rows[0]);
}

static void test_sample(void **state)
{
    (void)state;
    char *error = NULL;
    if (!grant_try(shapes.grant, "grant", &error) || !grant_try(shapes.authorize, "authorize", &error))
        fail_msg("%s", error);
}

/* A shape has no modules, so the rules stand in both files; they must not drift apart. */
static void test_common_text(void **state)
{
    (void)state;
    static const char *const names[] = {"cwms/grant.jq", "cwms/authorize.jq"};
    struct buf text[2];
    struct slice common[2];
    for (size_t i = 0; i < 2; i++) {
        text[i] = read_file(names[i]);
        buf_add_char(&text[i], '\0');
        const char *from = strstr(text[i].p, "# --- constraints");
        const char *to = strstr(text[i].p, "# --- end of the common text");
        assert_true(from && to && from < to);
        common[i] = slice_make(from, (size_t)(to - from));
    }
    assert_true(slice_eq(common[0], common[1]));
    buf_free(&text[0]);
    buf_free(&text[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_context), cmocka_unit_test(test_context_keeps_order), cmocka_unit_test(test_constraints),
        cmocka_unit_test(test_grant),   cmocka_unit_test(test_authorize),           cmocka_unit_test(test_claims),
        cmocka_unit_test(test_sample),  cmocka_unit_test(test_common_text),
    };
    return cmocka_run_group_tests(tests, load_all, free_all);
}
