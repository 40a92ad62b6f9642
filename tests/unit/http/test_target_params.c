/* http/target, the query: names and values of a form, and which of them cannot be decoded. WHATWG URL 5.1, less its
   leniency: what is not UTF-8 is marked, not replaced. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/buf.h"
#include "base/check.h"
#include "http/target.h"

#define GOOD REASON_FORWARDED

/* Heap copies of exactly the bytes, so that the sanitizer sees a read past the end. */
static struct slice tight(const char *s, size_t n)
{
    char *p = xmalloc(n ? n : 1);
    memcpy(p, s, n);
    return slice_make(p, n);
}

static void expect_text(const char *raw, const char *what, struct slice got, const char *want)
{
    if (slice_eq(got, slice_str(want))) return;
    fail_msg("%s: %s is \"%.*s\", not \"%s\"", raw, what, (int)got.n, got.p ? got.p : "", want);
}

struct params_case {
    const char *query;
    const char *want; /* [name]=[value], '!' behind what is undecodable, joined with '&' */
};

static const struct params_case params_cases[] = {
    {"", ""},
    {"a", "[a]=[]"},
    {"a=", "[a]=[]"},
    {"a=b", "[a]=[b]"},
    {"a=b=c", "[a]=[b=c]"},
    {"=b", "[]=[b]"},
    {"=", "[]=[]"},
    {"==", "[]=[=]"},
    {"a=1&a=2", "[a]=[1]&[a]=[2]"},
    {"a=1&A=2", "[a]=[1]&[A]=[2]"},
    {"a=1&%61=2", "[a]=[1]&[a]=[2]"},
    {"&", ""},
    {"&&a=1&&b&", "[a]=[1]&[b]=[]"},
    {"a+b=c+d", "[a b]=[c d]"},
    {"a=%2b%2B", "[a]=[++]"},
    {"a=%20+", "[a]=[  ]"},
    {"a=b%26c%3Dd", "[a]=[b&c=d]"},
    {"a%3db=c", "[a=b]=[c]"},
    {"a=%252B", "[a]=[%2B]"},
    {"a=b;c=d", "[a]=[b;c=d]"},
    {"a=b?c/d", "[a]=[b?c/d]"},
    {"a[]=1&a[]=2", "[a[]]=[1]&[a[]]=[2]"},
    {"a=%c3%a9", "[a]=[\xc3\xa9]"},
    {"a=%f0%9f%98%80", "[a]=[\xf0\x9f\x98\x80]"},
    {"a=%0a", "[a]=[\n]"},
    {"a=%", "[a]=[%]!"},
    {"a=%4", "[a]=[%4]!"},
    {"a=%zz", "[a]=[%zz]!"},
    {"a=+%zz", "[a]=[+%zz]!"},
    {"%61=%zz", "[a]=[%zz]!"},
    {"%zz=%61", "[%zz]=[a]!"},
    {"a=%c0%ae", "[a]=[%c0%ae]!"},
    {"%c1%a1=1", "[%c1%a1]=[1]!"},
    {"a=%ed%a0%80", "[a]=[%ed%a0%80]!"},
    {"a=%ff", "[a]=[%ff]!"},
    {"a=%c3", "[a]=[%c3]!"},
    {"a=x%00", "[a]=[x%00]!"},
    {"a=1&b=%zz&c=3", "[a]=[1]&[b]=[%zz]!&[c]=[3]"},
    {"office=SWT&office_id=SPK", "[office]=[SWT]&[office_id]=[SPK]"},
};

static void test_params(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof params_cases / sizeof params_cases[0]; i++) {
        const struct params_case *c = &params_cases[i];
        struct slice query = tight(c->query, strlen(c->query));
        struct target t = {.query = query, .has_query = true};
        struct arena a;
        struct buf b;

        arena_init(&a);
        buf_init(&b, &a);
        assert_int_equal(target_params(&t, &a), GOOD);
        for (size_t k = 0; k < t.params_n; k++) {
            if (k) buf_add_char(&b, '&');
            buf_add_char(&b, '[');
            buf_add_slice(&b, t.params[k].name);
            buf_add_lit(&b, "]=[");
            buf_add_slice(&b, t.params[k].value);
            buf_add_lit(&b, "]");
            if (t.params[k].undecodable) buf_add_char(&b, '!');
        }
        expect_text(c->query, "list", buf_slice(&b), c->want);
        arena_reset(&a);
        free((void *)query.p);
    }
}

static void test_params_bound(void **state)
{
    struct arena a;
    struct buf b;
    struct target t = {0};

    (void)state;
    arena_init(&a);
    buf_init(&b, &a);
    buf_add_lit(&b, "a");
    for (int i = 1; i < 256; i++) buf_add_lit(&b, "&a");
    t.query = buf_slice(&b);
    assert_int_equal(target_params(&t, &a), GOOD);
    assert_int_equal(t.params_n, 256);
    buf_add_lit(&b, "&");
    t.query = buf_slice(&b);
    assert_int_equal(target_params(&t, &a), REASON_QUERY_AMBIGUOUS);
    assert_int_equal(t.params_n, 0);
    arena_reset(&a);
}

/* Clean names and values are the caller's bytes. */
static void test_params_no_copy(void **state)
{
    static const char query[] = "name=value";
    struct target t = {.query = slice_str(query), .has_query = true};
    struct arena a;

    (void)state;
    arena_init(&a);
    assert_int_equal(target_params(&t, &a), GOOD);
    assert_ptr_equal(t.params[0].name.p, query);
    assert_ptr_equal(t.params[0].value.p, query + 5);
    arena_reset(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_params),
        cmocka_unit_test(test_params_bound),
        cmocka_unit_test(test_params_no_copy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
