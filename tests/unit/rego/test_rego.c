/* The policy engine through its C header: what is made is freed, every outcome, and what it says of bad files. */
#include <rego.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct rego_file file(const char *name, const char *text) {
    return (struct rego_file){.name = name, .name_n = strlen(name), .bytes = text, .n = strlen(text)};
}

static const char policy[] = "package p\n"
                             "default allow := false\n"
                             "allow if input.user in data.friends\n"
                             "maybe := input.x\n"
                             "long := [x | some x in numbers.range(1, 100)]\n"
                             "endless := count([1 | some x in numbers.range(1, 2000); some y in numbers.range(1, 2000)\n"
                             "\tx * y == 0])\n";

static struct rego *make(const char *rule) {
    struct rego_file files[] = {file("p.rego", policy), file("data.json", "{\"friends\": [\"ann\"]}")};
    struct rego_text error = {0};
    struct rego *r = rego_create(files, 2, rule, strlen(rule), &error);
    if (!r) {
        print_error("%s\n", error.p);
    }
    assert_non_null(r);
    assert_null(error.p);
    return r;
}

static void expect(struct rego *r, const char *input, const struct rego_limits *limits, enum rego_outcome outcome,
                   const char *text) {
    struct rego_text said = {0};
    assert_int_equal(rego_eval(r, input, strlen(input), limits, &said), outcome);
    assert_non_null(said.p);
    assert_int_equal(strlen(said.p), said.n);
    if (text) {
        assert_string_equal(said.p, text);
    }
    rego_text_free(&said);
    assert_null(said.p);
    rego_text_free(&said);
}

static void test_outcomes(void **state) {
    (void)state;
    struct rego *r = make("data.p.allow");
    expect(r, "{\"user\": \"ann\"}", NULL, REGO_ANSWERED, "true");
    expect(r, "{\"user\": \"bob\"}", NULL, REGO_ANSWERED, "false");
    expect(r, "{", NULL, REGO_FAILED, NULL);
    expect(r, "", NULL, REGO_FAILED, NULL);
    expect(r, "\"\xff\"", NULL, REGO_FAILED, "the input is no UTF-8");
    rego_free(r);
    r = make("data.p.maybe");
    expect(r, "{}", NULL, REGO_UNDEFINED, "");
    expect(r, "{\"x\": {\"b\": [1, \"\\u00e9\"], \"a\": null}}", NULL, REGO_ANSWERED, "{\"a\":null,\"b\":[1,\"\xc3\xa9\"]}");
    rego_free(r);
    rego_free(NULL);
}

/* What makes the engine panic is an error that tells nothing of the input, and the next one is answered as before. */
static void test_panics(void **state) {
    (void)state;
    static const struct {
        const char *body, *bad, *fine, *answer;
    } cases[] = {
        {"numbers.range_step(1, 3, input.x)", "{\"x\": 0}", "{\"x\": 2}", "[1,3]"},
        {"object.subset([1, 2], input.x)", "{\"x\": []}", "{\"x\": [2]}", "true"},
        {"strings.count(\"abcb\", input.x)", "{\"x\": \"\"}", "{\"x\": \"b\"}", "2"},
        {"time.parse_ns(input.x, \"2026-01-02\")", "{\"x\": \"\u00e9\U0001f600\"}", "{\"x\": \"2006-01-02\"}", "1767312000000000000"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[200];
        snprintf(text, sizeof text, "package p\nn := 1 if { true }\nr := %s if n == 1\n", cases[i].body);
        struct rego_file files[] = {file("p.rego", text)};
        struct rego_text error = {0};
        struct rego *r = rego_create(files, 1, "data.p.r", 8, &error);
        assert_non_null(r);
        for (int n = 0; n < 3; n++) {
            struct rego_text said = {0};
            assert_int_equal(rego_eval(r, cases[i].bad, strlen(cases[i].bad), NULL, &said), REGO_FAILED);
            assert_ptr_equal(strstr(said.p, "the engine failed inside, at "), said.p);
            assert_null(strstr(said.p, "\u00e9"));
            rego_text_free(&said);
            expect(r, cases[i].fine, NULL, REGO_ANSWERED, cases[i].answer);
        }
        rego_free(r);
    }
}

static void test_limits(void **state) {
    (void)state;
    struct rego *r = make("data.p.long");
    expect(r, "{}", &(struct rego_limits){.answer_bytes = 100}, REGO_LIMIT, NULL);
    expect(r, "{}", &(struct rego_limits){.answer_bytes = 1000}, REGO_ANSWERED, NULL);
    rego_free(r);
    r = make("data.p.endless");
    expect(r, "{}", &(struct rego_limits){.time_us = 5000}, REGO_LIMIT, NULL);
    rego_free(r);
}

static void test_again(void **state) {
    (void)state;
    struct rego *r = make("data.p.allow");
    struct rego *other = rego_again(r);
    assert_non_null(other);
    assert_true(rego_revision(r) != 0 && rego_revision(r) == rego_revision(other));
    rego_free(r);
    expect(other, "{\"user\": \"ann\"}", NULL, REGO_ANSWERED, "true");
    rego_free(other);
}

static void test_errors(void **state) {
    (void)state;
    struct rego_file files[] = {file("a/bad.rego", "package p\nallow if crypto.sha256(input.x) == \"\"\n"),
                                file("worse.rego", "package q\n\nallow if nowhere(1)\n")};
    struct rego_text error = {0};
    assert_null(rego_create(files, 2, "data.p.allow", 12, &error));
    assert_non_null(strstr(error.p, "a/bad.rego:2:10: crypto.sha256"));
    assert_non_null(strstr(error.p, "\nworse.rego:3:10: nowhere"));
    rego_text_free(&error);
    assert_null(rego_create(files, 0, "data.p.allow", 12, &error));
    assert_non_null(strstr(error.p, "data.p.allow"));
    rego_text_free(&error);
}

struct seen {
    char text[1000];
};

static void note(const struct rego_test *t, void *arg) {
    struct seen *seen = arg;
    size_t n = strlen(seen->text);
    snprintf(seen->text + n, sizeof seen->text - n, "%s %s %s%s;", t->name, t->place,
             t->skipped ? "skipped" : t->passed ? "passed" : "failed: ", t->message);
    if (t->cases) snprintf(seen->text + strlen(seen->text), 40, "%zu of %zu;", t->failed_cases, t->cases);
}

static void test_tests(void **state) {
    (void)state;
    struct rego_file files[] = {
        file("p.rego", policy),
        file("p_test.rego", "package p_test\nimport data.p\n"
                            "test_ann if p.allow with input as {\"user\": \"ann\"} with data.friends as [\"ann\"]\n"
                            "test_bob if p.allow with input as {\"user\": \"bob\"} with data.friends as [\"ann\"]\n"
                            "todo_test_x if p.nothing\n"
                            "test_n[n] if {\n\tsome n in [1, 2, 3]\n\tn < 3\n}\n"),
    };
    struct seen seen = {0};
    struct rego_text error = {0};
    assert_true(rego_test(files, 2, NULL, note, &seen, &error));
    assert_string_equal(seen.text, "data.p_test.test_ann p_test.rego:3 passed;"
                                   "data.p_test.test_bob p_test.rego:4 failed: undefined;"
                                   "data.p_test.todo_test_x p_test.rego:5 skipped;"
                                   "data.p_test.test_n p_test.rego:6 failed: case [3];1 of 3;");
    files[0] = file("p.rego", "package p\nallow if");
    assert_false(rego_test(files, 2, NULL, note, &seen, &error));
    assert_non_null(strstr(error.p, "p.rego:2:"));
    rego_text_free(&error);
}

static void test_version(void **state) {
    (void)state;
    assert_string_equal(rego_version(), "regorus 0.14.1");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_outcomes), cmocka_unit_test(test_panics), cmocka_unit_test(test_limits),
        cmocka_unit_test(test_again),    cmocka_unit_test(test_errors), cmocka_unit_test(test_tests),
        cmocka_unit_test(test_version),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
