/* Unit tests of base/check. */
#include "base/check.h"

#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "dies.h"

static void check_value(void *arg)
{
    CHECK(arg != NULL, "no argument");
}

static void alloc_too_much(void *arg)
{
    (void)arg;
    volatile unsigned long most = PTRDIFF_MAX;
    free(xmalloc(most));
}

static void test_check(void **state)
{
    int x;
    (void)state;
    assert_true(dies(check_value, NULL));
    assert_false(dies(check_value, &x));
}

static void test_says_where(void **state)
{
    int pipe_fds[2], status;
    char out[600] = {0};
    (void)state;
    assert_int_equal(pipe(pipe_fds), 0);
    pid_t child = fork();
    if (child == 0) {
        char text[900];
        dup2(pipe_fds[1], STDERR_FILENO);
        memset(text, 't', sizeof(text) - 1);
        text[sizeof(text) - 1] = '\0'; /* longer than the line may be: cut */
        check_failed("room/file.c", 17, "a == b", text);
    }
    close(pipe_fds[1]);
    ssize_t n = read(pipe_fds[0], out, sizeof(out) - 1);
    close(pipe_fds[0]);
    waitpid(child, &status, 0);
    assert_in_range(n, 400, 512);
    assert_non_null(strstr(out, "room/file.c:17: a == b"));
}

static void test_memory(void **state)
{
    (void)state;
    char *p = xzalloc(100);
    for (int i = 0; i < 100; i++) assert_int_equal(p[i], 0);
    strcpy(p, "kept");
    p = xrealloc(p, 100000);
    assert_string_equal(p, "kept");
    free(p);
    p = xmalloc(0);
    assert_non_null(p);
    p = xrealloc(p, 0);
    assert_non_null(p);
    free(p);
    p = xstrdup("text");
    assert_string_equal(p, "text");
    free(p);
    p = xstrndup("text", 2);
    assert_string_equal(p, "te");
    free(p);
    p = xstrndup("te", 20);
    assert_string_equal(p, "te");
    free(p);
}

static void test_out_of_memory_aborts(void **state)
{
    (void)state;
#ifdef ARENA_TWIN
    skip(); /* a sanitizer build: its own allocator ends the process first */
#endif
    assert_true(dies(alloc_too_much, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_check),
        cmocka_unit_test(test_says_where),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_out_of_memory_aborts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
