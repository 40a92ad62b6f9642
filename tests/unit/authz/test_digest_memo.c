/* Unit tests of authz/digest_memo: the digest of exactly this text, or none. */
#include "authz/digest_memo.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static struct digest_memo *memo;

static int start(void **state)
{
    (void)state;
    memo = digest_memo_create();
    return 0;
}

static int end(void **state)
{
    (void)state;
    digest_memo_destroy(memo);
    return 0;
}

static bool found(struct slice text)
{
    uint8_t out[DIGEST_BYTES] = {0}, want[DIGEST_BYTES];
    char *exact = malloc(text.n + 1); /* the sanitizer sees a read beyond it */
    assert_non_null(exact);
    memcpy(exact + 1, text.p, text.n);
    bool is = digest_memo_find(memo, slice_make(exact + 1, text.n), out);
    free(exact);
    digest_parts(&text, 1, want);
    if (is) assert_memory_equal(out, want, DIGEST_BYTES);
    return is;
}

static void keep(struct slice text)
{
    uint8_t digest[DIGEST_BYTES];
    digest_parts(&text, 1, digest);
    digest_memo_keep(memo, text, digest);
}

static void test_only_the_same_bytes(void **state)
{
    (void)state;
    char text[70], other[70];
    for (size_t n = 1; n < sizeof text; n++) {
        memset(text, 'a', sizeof text);
        assert_false(found(slice_make(text, n)));
        keep(slice_make(text, n));
        assert_true(found(slice_make(text, n)));
        for (size_t i = 0; i < n; i++) { /* also where the end, by which places are found, is the same */
            memcpy(other, text, sizeof other);
            other[i] = 'b';
            assert_false(found(slice_make(other, n)));
        }
        assert_false(found(slice_make(text, n - 1)));
        assert_false(found(slice_make(text, n + 1)));
        digest_memo_forget(memo, slice_make(text, n));
        assert_false(found(slice_make(text, n)));
    }
}

static void test_one_place_for_one_end(void **state)
{
    (void)state;
    struct slice a = SLICE("Bearer aaaa.same-end"), b = SLICE("Bearer bbbb.same-end");
    keep(a);
    keep(b);
    assert_false(found(a));
    assert_true(found(b));
    digest_memo_forget(memo, a); /* which is not there: b stays */
    assert_true(found(b));
    keep(a);
    assert_true(found(a));
    digest_memo_clear(memo);
    assert_false(found(a));
    keep(b);
    assert_true(found(b));
}

static void test_bounds(void **state)
{
    (void)state;
    static char text[5000];
    memset(text, 'a', sizeof text);
    keep(slice_make(text, 4096));
    assert_true(found(slice_make(text, 4096)));
    keep(slice_make(text, 4097));
    assert_false(found(slice_make(text, 4097)));
    keep(slice_make("", 0));
    assert_false(found(slice_make("", 0)));
    for (int i = 0; i < 10000; i++) { /* however many come, each of the last is found or is not, and none is wrong */
        memcpy(text, &i, sizeof i);
        memcpy(text + 96, &i, sizeof i);
        keep(slice_make(text, 100));
        assert_true(found(slice_make(text, 100)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_only_the_same_bytes, start, end),
        cmocka_unit_test_setup_teardown(test_one_place_for_one_end, start, end),
        cmocka_unit_test_setup_teardown(test_bounds, start, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
