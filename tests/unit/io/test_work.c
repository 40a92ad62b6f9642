/* io/work: run on another thread, told on the loop once, whatever happens. */
#include "io/work.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <pthread.h>
#include <semaphore.h>

#include "base/check.h"

#define MANY 200

struct piece {
    struct work work;
    pthread_t thread;
    int runs, told;
    bool ran;
    sem_t *waits_for; /* or NULL */
    struct piece *next; /* started when this one is told; or NULL */
};

static struct loop *l;

static void run(void *arg)
{
    struct piece *p = arg;
    p->thread = pthread_self();
    p->runs++;
    if (p->waits_for) CHECK(sem_wait(p->waits_for) == 0, "the gate opens");
}

static void on_done(bool ran, void *arg)
{
    struct piece *p = arg;
    p->told++;
    p->ran = ran;
    if (p->next) work_start(l, &p->next->work, run, on_done, p->next);
}

static void on_done_free(bool ran, void *arg)
{
    struct piece *p = arg;
    assert_true(ran);
    assert_int_equal(p->runs, 1);
    free(p);
}

static void start(struct piece *p)
{
    work_start(l, &p->work, run, on_done, p);
}

static int set_up(void **state)
{
    (void)state;
    l = loop_create();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    loop_close(l);
    assert_true(loop_end(l));
    loop_destroy(l);
    return 0;
}

static void many(void **state)
{
    static struct piece v[MANY];
    (void)state;
    for (int i = 0; i < MANY; i++) start(&v[i]);
    for (int i = 0; i < MANY; i++) assert_int_equal(v[i].told, 0); /* never inside the call */
    loop_run(l);
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(v[i].runs, 1);
        assert_int_equal(v[i].told, 1);
        assert_true(v[i].ran);
        assert_false(pthread_equal(v[i].thread, pthread_self()));
    }
}

static void starts_another_when_told(void **state)
{
    struct piece second = {.told = 0}, first = {.next = &second};
    (void)state;
    start(&first);
    loop_run(l);
    assert_int_equal(first.told + second.told, 2);
    first.next = NULL;
    start(&first); /* and again */
    loop_run(l);
    assert_int_equal(first.told, 2);
}

static void may_be_freed_when_told(void **state)
{
    (void)state;
    for (int i = 0; i < 10; i++) {
        struct piece *p = xzalloc(sizeof *p);
        work_start(l, &p->work, run, on_done_free, p);
    }
    loop_run(l);
}

/* What no thread has begun never runs; what one is at goes on; both are told. */
static void cancelled(void **state)
{
    static struct piece v[MANY];
    sem_t gate;
    int ran = 0;
    (void)state;
    sem_init(&gate, 0, 0);
    for (int i = 0; i < MANY; i++) {
        v[i] = (struct piece){.waits_for = &gate};
        start(&v[i]);
    }
    for (int i = 0; i < MANY; i++) work_cancel(&v[i].work);
    for (int i = 0; i < MANY; i++) sem_post(&gate);
    loop_run(l);
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(v[i].told, 1);
        assert_int_equal(v[i].runs, v[i].ran);
        ran += v[i].ran;
    }
    assert_in_range(ran, 0, 128); /* libuv has no more threads than that */
    sem_destroy(&gate);
}

static void counted(void **state)
{
    struct piece p = {.told = 0};
    size_t before = loop_handles(l);
    (void)state;
    start(&p);
    assert_int_equal(loop_handles(l), before + 1);
    loop_run(l);
    assert_int_equal(loop_handles(l), before);
}

/* The loop is not to be destroyed while a thread is at it; when it is through all is as it should be. */
static void the_end_does_not_wait_for_ever(void **state)
{
    sem_t gate;
    struct piece p = {.waits_for = &gate};
    (void)state;
    sem_init(&gate, 0, 0);
    start(&p);
    loop_close(l);
    assert_false(loop_end(l));
    assert_int_equal(p.told, 0);
    sem_post(&gate);
    while (!loop_end(l)) continue;
    assert_int_equal(p.told, 1);
    loop_destroy(l);
    l = loop_create();
    sem_destroy(&gate);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(many),
        TEST(starts_another_when_told),
        TEST(may_be_freed_when_told),
        TEST(cancelled),
        TEST(counted),
        TEST(the_end_does_not_wait_for_ever),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
