/* Unit tests of base/arena; with ARENA_TWIN chunk counts are those of single allocations. */
#include "base/arena.h"

#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static void test_unused_costs_nothing(void **state)
{
    struct arena a;
    (void)state;
    arena_init(&a);
    assert_int_equal(arena_chunks_out(), 0);
    arena_reset(&a);
    arena_reset(&a);
    assert_int_equal(arena_chunks_out(), 0);
}

static void test_allocations_are_apart_and_aligned(void **state)
{
    enum { COUNT = 2000 };
    static unsigned char *p[COUNT];
    struct arena a;
    (void)state;
    arena_init(&a);
    for (size_t i = 0; i < COUNT; i++) {
        size_t size = i * 7 % 300; /* 0 is among them */
        p[i] = arena_alloc(&a, size);
        assert_non_null(p[i]);
        assert_int_equal((uintptr_t)p[i] % _Alignof(max_align_t), 0);
        memset(p[i], (int)(i & 0xff), size);
        if (i) assert_ptr_not_equal(p[i], p[i - 1]);
    }
    for (size_t i = 0; i < COUNT; i++) {
        for (size_t k = 0; k < i * 7 % 300; k++) assert_int_equal(p[i][k], i & 0xff);
    }
    assert_true(arena_chunks_out() > 0);
    arena_reset(&a);
    assert_int_equal(arena_chunks_out(), 0);
}

static void test_zalloc_is_zero_in_used_chunks(void **state)
{
    (void)state;
    for (int round = 0; round < 3; round++) {
        struct arena a;
        arena_init(&a);
        unsigned char *p = arena_zalloc(&a, 1000);
        for (size_t i = 0; i < 1000; i++) assert_int_equal(p[i], 0);
        memset(p, 0xaa, 1000);
        arena_reset(&a);
    }
}

#ifndef ARENA_TWIN
static void test_chunks(void **state)
{
    struct arena a;
    (void)state;
    arena_init(&a);
    char *first = arena_alloc(&a, 1);
    assert_int_equal(arena_chunks_out(), 1);
    char *second = arena_alloc(&a, 1);
    assert_int_equal(arena_chunks_out(), 1);

    memset(arena_alloc(&a, 100000), 1, 100000); /* a chunk of its own … */
    assert_int_equal(arena_chunks_out(), 2);
    char *third = arena_alloc(&a, 1); /* … that does not end the current one */
    assert_int_equal(arena_chunks_out(), 2);
    assert_int_equal(third - second, second - first);

    for (int i = 0; i < 4; i++) arena_alloc(&a, 1024); /* 4 KiB less the header do not hold these as well */
    assert_int_equal(arena_chunks_out(), 3);
    arena_reset(&a);
    assert_int_equal(arena_chunks_out(), 0);

    assert_ptr_equal(a.chunks, NULL);
    char *again = arena_alloc(&a, 1); /* from the free list: one of the two standard chunks */
    assert_int_equal(arena_chunks_out(), 1);
    (void)again;
    arena_reset(&a);
    arena_trim();
}

/* 300 chunks come back, 256 stay; trim lets them go too. */
static void test_free_list_is_bounded(void **state)
{
    struct arena a;
    (void)state;
    arena_trim();
    size_t before = mallinfo2().uordblks;
    arena_init(&a);
    for (int i = 0; i < 300; i++) arena_alloc(&a, 4000);
    assert_int_equal(arena_chunks_out(), 300);
    assert_true(mallinfo2().uordblks - before >= 300 * 4096);
    arena_reset(&a);
    size_t kept = mallinfo2().uordblks - before;
    assert_in_range(kept, 256 * 4096, 256 * (4096 + 32));
    arena_trim();
    assert_in_range(mallinfo2().uordblks - before, 0, 4096);
}
#else
static void test_chunks(void **state)
{
    struct arena a;
    (void)state;
    arena_init(&a);
    for (int i = 0; i < 10; i++) arena_alloc(&a, (size_t)i * 1000);
    assert_int_equal(arena_chunks_out(), 10);
    arena_reset(&a);
    assert_int_equal(arena_chunks_out(), 0);
}

static void test_free_list_is_bounded(void **state)
{
    (void)state;
    skip(); /* there is none */
}
#endif

static void test_copy_and_printf(void **state)
{
    struct arena a;
    (void)state;
    arena_init(&a);
    struct slice c = arena_copy(&a, SLICE("a\0b"));
    assert_int_equal(c.n, 3);
    assert_memory_equal(c.p, "a\0b\0", 4);
    c = arena_copy(&a, slice_make(NULL, 0));
    assert_int_equal(c.n, 0);
    assert_string_equal(c.p, "");
    c = arena_printf(&a, "%s-%05d", "x", 42);
    assert_string_equal(c.p, "x-00042");
    assert_int_equal(c.n, 7);
    c = arena_printf(&a, "%9000d", 1);
    assert_int_equal(c.n, 9000);
    assert_int_equal(c.p[9000], 0);
    arena_reset(&a);
    assert_int_equal(arena_chunks_out(), 0);
}

static int done(void **state)
{
    (void)state;
    arena_trim();
    return arena_chunks_out() != 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unused_costs_nothing),
        cmocka_unit_test(test_allocations_are_apart_and_aligned),
        cmocka_unit_test(test_zalloc_is_zero_in_used_chunks),
        cmocka_unit_test(test_chunks),
        cmocka_unit_test(test_free_list_is_bounded),
        cmocka_unit_test(test_copy_and_printf),
    };
    return cmocka_run_group_tests(tests, NULL, done);
}
