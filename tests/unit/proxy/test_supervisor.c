/* Unit tests of proxy/supervisor: how many workers, and what the share of one is. */
#include "proxy/supervisor.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static void test_how_many(void **state)
{
    (void)state;
    struct conf c = {.workers = 7};
    cpu_set_t all, one;
    assert_int_equal(workers_of(&c), 7);
    c.workers = 0;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    assert_int_equal(workers_of(&c), CPU_COUNT(&all));
    CPU_ZERO(&one);
    for (size_t i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
        if (CPU_ISSET(i, &all)) CPU_SET(i, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(workers_of(&c), 1); /* then there is no supervisor */
}

/* Together at least what was asked for. */
static void test_share(void **state)
{
    (void)state;
    struct conf c = {.listen.max_connections = 10};
    workers_share(&c, 1);
    assert_int_equal(c.listen.max_connections, 10);
    workers_share(&c, 3);
    assert_int_equal(c.listen.max_connections, 4);
    c.listen.max_connections = 1;
    workers_share(&c, 256);
    assert_int_equal(c.listen.max_connections, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_how_many), cmocka_unit_test(test_share)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
