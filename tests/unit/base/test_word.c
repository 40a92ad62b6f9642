/* Unit tests of base/word: a short text's number tells it from every other of its length, and has no byte of its own. */
#include "base/word.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

/* Exactly as many bytes, so that the sanitizer sees a read beyond them. */
static uint64_t exact(const char *text, size_t from, size_t n)
{
    char *p = malloc(n + 1);
    assert_non_null(p);
    memcpy(p + 1, text, n);
    uint64_t w = word_last(p + 1, from, n);
    free(p);
    return w;
}

static void test_every_byte_counts(void **state)
{
    (void)state;
    for (size_t n = 1; n <= 20; n++) {
        char a[20], b[20];
        size_t from = n / 8 * 8;
        memset(a, 'x', sizeof a);
        if (from == n) from -= 8;
        for (size_t i = from; i < n; i++)
            for (int bit = 0; bit < 8; bit++) {
                memcpy(b, a, sizeof b);
                b[i] = (char)(b[i] ^ (1 << bit));
                assert_int_not_equal(exact(a, from, n), exact(b, from, n));
            }
    }
}

static void test_no_other_byte(void **state)
{
    (void)state;
    for (size_t n = 1; n < 8; n++) {
        assert_true(word_short("\xff\xff\xff\xff\xff\xff\xff", n) == UINT64_MAX);
        assert_true(word_short("AAAAAAA", n) == UINT64_C(0x4141414141414141));
    }
    assert_true(word_short("", 0) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_byte_counts), cmocka_unit_test(test_no_other_byte)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
