/* Shapes: what a jq program is given, what it is not, and that its output may stand in a header. */
#include "authz/shape.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct shape *compiled(const char *program)
{
    char *error = NULL;
    struct shape *s = shape_compile("test", slice_str(program), &error);
    if (!s) fail_msg("%s: %s", program, error);
    return s;
}

static char *run(const char *program, const char *input, char **error)
{
    struct shape *s = compiled(program);
    struct buf out;
    buf_init(&out, NULL);
    bool good = shape_run(s, slice_str(input), &out, error);
    shape_destroy(s);
    if (!good) assert_int_equal(out.n, 0);
    if (good) buf_add_char(&out, '\0');
    return out.p;
}

static void test_outputs(void **state)
{
    (void)state;
    static const struct {
        const char *program, *input, *output;
    } rows[] = {
        {".", "{\"z\":1,\"b\":[true,null,\"x\"],\"a\":{}}", "{\"z\":1,\"b\":[true,null,\"x\"],\"a\":{}}"},
        {".", " { \"a\" : 1 } ", "{\"a\":1}"},
        {".", "{\"name\":\"Zo\xc3\xab \xf0\x9f\x8c\x8a\"}", "{\"name\":\"Zo\\u00eb \\ud83c\\udf0a\"}"},
        {".", "{\"del\":\"a\x7f\x7f z\"}", "{\"del\":\"a\\u007f\\u007f z\"}"},
        {".", "\"line\\r\\nbreak\"", "\"line\\r\\nbreak\""},
        {".a, .b", "{\"a\":1,\"b\":2}", "1"},
        {"repeat(1)", "null", "1"},
        {"range(1; 1e9)", "null", "1"},
        {"def f: 3; # a comment\nf", "null", "3"},
        {"to_entries | map(.key)", "{\"z\":1,\"b\":2,\"a\":3}", "[\"z\",\"b\",\"a\"]"},
        {"keys_unsorted", "{\"z\":1,\"b\":2,\"a\":3}", "[\"z\",\"b\",\"a\"]"},
        {"debug", "1", "1"},
        {"stderr", "1", "1"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *error = NULL;
        char *out = run(rows[i].program, rows[i].input, &error);
        if (!out) fail_msg("%s: %s", rows[i].program, error);
        assert_string_equal(out, rows[i].output);
        assert_null(error);
        free(out);
    }
}

static void test_failures(void **state)
{
    (void)state;
    static const struct {
        const char *program, *input, *error;
    } rows[] = {
        {"empty", "1", "no output"},
        {"error(null)", "1", "no output"},
        {"error(\"nobody\")", "1", "nobody"},
        {".", "{\"a\":", ""},
        {".", "1 2", ""},
        {".", "", ""},
        {"env", "1", "a shape has no env"},
        {"[1, env.PATH]", "1", "a shape has no env"},
        {"\"\\(env | length)\"", "1", "a shape has no env"},
        {"input", "1", "a shape has no input"},
        {"[inputs]", "1", "a shape has no inputs"},
        {"input_filename", "1", "a shape has no input_filename"},
        {"halt", "1", "a shape has no halt"},
        {"halt_error", "1", "a shape has no halt_error"},
        {"halt_error(3)", "1", "a shape has no halt_error"},
        {"\"x\" | modulemeta", "1", "a shape has no modulemeta"},
        {"get_search_list", "1", "a shape has no get_search_list"},
        {"now", "1", "a shape has no now"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *error = NULL;
        char *out = run(rows[i].program, rows[i].input, &error);
        if (out) fail_msg("%s gave %s", rows[i].program, out);
        assert_non_null(error);
        if (rows[i].error[0]) assert_string_equal(error, rows[i].error);
        free(error);
    }
}

static void test_refused_programs(void **state)
{
    (void)state;
    static const struct {
        const char *program, *mentions;
    } rows[] = {
        {"import \"a\" as a; .", "import"},
        {"include \"a\"; .", "include"},
        {"module {}; .", "module"},
        {"import \"data\" as $d; $d", "import"},
        {"", ""},
        {"{a: 1", "line 1"},
        {"1\n|\n(2", "line 3"},
        {"$__prog_args", "not defined"},
        {"nothing_of_that_name", "not defined"},
        {". ) | ( .", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *error = NULL;
        struct shape *s = shape_compile("dir/some.jq", slice_str(rows[i].program), &error);
        if (s) fail_msg("%s was taken", rows[i].program);
        assert_non_null(strstr(error, "dir/some.jq: "));
        assert_non_null(strstr(error, rows[i].mentions));
        assert_null(strstr(error, "a shape has no")); /* the text put before the program is not shown */
        free(error);
    }
    char *error = NULL;
    assert_null(shape_compile("nul", slice_make(".\0.", 3), &error));
    assert_non_null(strstr(error, "NUL"));
    free(error);
}

static void test_environment_is_not_there(void **state)
{
    (void)state;
    char dir[] = "/tmp/shape.XXXXXX", path[64], *out, *error = NULL;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/.jq", dir);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("def length: \"taken over\"; def mine: 1;", f);
    fclose(f);
    setenv("HOME", dir, 1);
    setenv("SECRET_OF_THE_PROCESS", "shown", 1);

    out = run("[$ENV.SECRET_OF_THE_PROCESS, ($ENV | length)]", "null", &error);
    assert_string_equal(out, "[null,0]");
    free(out);
    out = run("length", "[1,2]", &error);
    assert_string_equal(out, "2");
    free(out);
    assert_null(shape_compile("t", SLICE("mine"), &error));
    free(error);
    assert_string_equal(getenv("SECRET_OF_THE_PROCESS"), "shown");
    unlink(path);
    rmdir(dir);
}

/* Messages go to the log; what they quote is out of a profile. */
static void test_messages_quote_nothing(void **state)
{
    (void)state;
    static const char *const programs[] = {".email + 1", ".email | .[.]",     ".email | keys",     ".[.email] | .[0]",
                                           "{(.n): 1}",  ".email | tonumber", "[.email] | implode"};
    for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++) {
        char *error = NULL;
        char *out = run(programs[i], "{\"email\":\"jane)(\\\"@x\",\"n\":5}", &error);
        if (out) {
            free(out);
            continue;
        }
        assert_non_null(error);
        if (strstr(error, "jane") || strstr(error, "@x")) fail_msg("%s: %s", programs[i], error);
        free(error);
    }
}

static void test_error_may_be_null(void **state)
{
    (void)state;
    assert_null(run("error(\"x\")", "1", NULL));
    assert_null(run(".", "{", NULL));
}

static void test_runs_are_apart(void **state)
{
    (void)state;
    struct shape *s = compiled("if .fail then error(\"x\") else {n: .n} end");
    for (int i = 0; i < 50; i++) {
        char input[64], expected[32], *error = NULL;
        struct buf out;
        buf_init(&out, NULL);
        snprintf(input, sizeof input, "{\"n\":%d,\"fail\":%s}", i, i % 3 ? "false" : "true");
        snprintf(expected, sizeof expected, "x{\"n\":%d}", i);
        buf_add_char(&out, 'x'); /* appended to, not replaced */
        assert_int_equal(shape_run(s, slice_str(input), &out, &error), i % 3 != 0);
        if (i % 3)
            assert_true(slice_eq(buf_slice(&out), slice_str(expected)));
        else
            assert_int_equal(out.n, 1);
        free(error);
        buf_free(&out);
    }
    shape_destroy(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_outputs),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_refused_programs),
        cmocka_unit_test(test_environment_is_not_there),
        cmocka_unit_test(test_messages_quote_nothing),
        cmocka_unit_test(test_error_may_be_null),
        cmocka_unit_test(test_runs_are_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
