/* Unit tests of base/buf. */
#include "base/buf.h"

#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "dies.h"

static void fill(struct buf *b)
{
    for (int i = 0; i < 20000; i++) {
        buf_add_int(b, i);
        buf_add_char(b, ' ');
        buf_add_lit(b, "x");
        buf_add_slice(b, slice_make(NULL, 0));
        buf_printf(b, "%d;", i);
        assert_true(b->n <= b->cap);
    }
    const char *p = b->p;
    for (int i = 0; i < 20000; i++) {
        char want[32];
        int n = snprintf(want, sizeof(want), "%d x%d;", i, i);
        assert_memory_equal(p, want, (size_t)n);
        p += n;
    }
    assert_ptr_equal(p, b->p + b->n);
}

static void test_grows_on_the_heap(void **state)
{
    struct buf b;
    (void)state;
    buf_init(&b, NULL);
    assert_int_equal(buf_slice(&b).n, 0);
    fill(&b);
    buf_free(&b);
    assert_null(b.p);
    assert_int_equal(b.n + b.cap, 0);
    buf_free(&b);
}

static void test_grows_in_an_arena(void **state)
{
    struct arena a;
    struct buf b;
    (void)state;
    arena_init(&a);
    buf_init(&b, &a);
    fill(&b);
    buf_free(&b);
    assert_ptr_equal(b.arena, &a);
    buf_add_lit(&b, "again");
    assert_memory_equal(b.p, "again", 5);
    arena_reset(&a);
    arena_trim();
    assert_int_equal(arena_chunks_out(), 0);
}

static void test_reserve(void **state)
{
    struct buf b;
    (void)state;
    buf_init(&b, NULL);
    buf_add_lit(&b, "abc");
    buf_reserve(&b, 100000);
    assert_int_equal(b.n, 3);
    assert_true(b.cap >= 100003);
    const char *p = b.p;
    for (int i = 0; i < 100000; i++) buf_add_char(&b, 'y');
    assert_ptr_equal(b.p, p);
    assert_memory_equal(b.p, "abcyy", 5);
    buf_free(&b);
}

static void test_integers(void **state)
{
    static const long long rows[] = {0, 1, -1, 9, 10, -10, 1234567890123, LLONG_MAX, LLONG_MIN};
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        char want[32];
        struct buf b;
        buf_init(&b, NULL);
        buf_add_int(&b, rows[i]);
        buf_add_char(&b, '\0');
        snprintf(want, sizeof(want), "%lld", rows[i]);
        assert_string_equal(b.p, want);
        buf_free(&b);
    }
}

static void test_doubles(void **state)
{
    static const struct {
        double value;
        const char *text;
    } rows[] = {{0, "0"},       {-0.0, "0"},     {1, "1"},          {-3, "-3"},
                {0.1, "0.1"},   {0.25, "0.25"},  {1e-9, "1e-09"},   {1.0 / 3, "0.3333333333333333"},
                {2e15, "2000000000000000"}, {1e300, "1e+300"}, {0.1 + 0.2, "0.30000000000000004"}, {NAN, NULL}};
    (void)state;
    for (size_t i = 0; rows[i].text; i++) {
        struct buf b;
        buf_init(&b, NULL);
        buf_add_double(&b, rows[i].value);
        buf_add_char(&b, '\0');
        assert_string_equal(b.p, rows[i].text);
        buf_free(&b);
    }
}

static void test_doubles_read_back(void **state)
{
    uint64_t x = 88172645463325252ULL;
    struct buf b;
    (void)state;
    buf_init(&b, NULL);
    for (int i = 0; i < 20000; i++) {
        double value;
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        memcpy(&value, &x, sizeof(value));
        if (!isfinite(value)) continue;
        b.n = 0;
        buf_add_double(&b, value);
        buf_add_char(&b, '\0');
        assert_true(strtod(b.p, NULL) == value);
    }
    buf_free(&b);
}

static void add_nan(void *arg)
{
    buf_add_double(arg, NAN);
}

static void reserve_all(void *arg)
{
    buf_reserve(arg, SIZE_MAX);
}

static void test_refusals(void **state)
{
    struct buf b;
    (void)state;
    buf_init(&b, NULL);
    assert_true(dies(add_nan, &b));
    assert_true(dies(reserve_all, &b));
}

static void test_thousandths(void **state)
{
    static const struct {
        uint64_t value;
        const char *text;
    } rows[] = {{0, "0"},       {1, "0.001"},    {10, "0.01"},    {100, "0.1"},       {999, "0.999"},
                {1000, "1"},    {1001, "1.001"}, {1010, "1.01"},  {1500, "1.5"},      {123456, "123.456"},
                {90000, "90"},  {UINT64_C(18446744073709551615), "18446744073709551.615"}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct buf b;
        buf_init(&b, NULL);
        buf_add_thousandths(&b, rows[i].value);
        buf_add_char(&b, '\0');
        assert_string_equal(b.p, rows[i].text);
        buf_free(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grows_on_the_heap), cmocka_unit_test(test_grows_in_an_arena),
        cmocka_unit_test(test_reserve),           cmocka_unit_test(test_integers),
        cmocka_unit_test(test_doubles),           cmocka_unit_test(test_doubles_read_back),
        cmocka_unit_test(test_refusals),          cmocka_unit_test(test_thousandths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
