/* io/loop: deadlines fire in order and never early, survive what their callbacks do, follow the turned clock; signals.
 */
#include "io/loop.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

struct probe {
    struct deadline deadline;
    struct loop *loop;
    int fired;
    int64_t fired_ms;
    int order;
    struct probe *stops;         /* stopped from inside this one's callback */
    struct deadline_list *again; /* started again from inside */
    bool frees;
};

static int fired_count;

static void on_due(struct deadline *d)
{
    struct probe *p = container_of(d, struct probe, deadline);
    assert_false(deadline_running(d));
    p->fired++;
    p->fired_ms = loop_now_ms(p->loop);
    p->order = ++fired_count;
    if (p->stops) deadline_stop(&p->stops->deadline);
    if (p->again) deadline_start(p->again, d);
    if (p->frees) free(p);
}

static void probe_init(struct probe *p, struct loop *l)
{
    *p = (struct probe){.loop = l};
    deadline_init(&p->deadline, on_due);
}

static int setup(void **state)
{
    fired_count = 0;
    *state = loop_create();
    return 0;
}

static int teardown(void **state)
{
    struct loop *l = *state;
    loop_close(l);
    loop_run(l);
    loop_destroy(l);
    return 0;
}

static void fires_once_at_its_time(void **state)
{
    struct loop *l = *state;
    struct deadline_list list;
    struct probe p;
    deadline_list_init(&list, l, 1000);
    probe_init(&p, l);
    assert_false(deadline_running(&p.deadline));
    deadline_start(&list, &p.deadline);
    assert_true(deadline_running(&p.deadline));
    loop_advance(l, 900);
    loop_turn(l);
    assert_int_equal(p.fired, 0);
    loop_advance(l, 100);
    loop_turn(l);
    assert_int_equal(p.fired, 1);
    loop_advance(l, 100000);
    loop_turn(l);
    assert_int_equal(p.fired, 1);
}

static void restart_moves_it_to_the_end(void **state)
{
    struct loop *l = *state;
    struct deadline_list list;
    struct probe a, b;
    deadline_list_init(&list, l, 1000);
    probe_init(&a, l);
    probe_init(&b, l);
    deadline_start(&list, &a.deadline);
    deadline_start(&list, &b.deadline);
    loop_advance(l, 500);
    deadline_start(&list, &a.deadline);
    loop_advance(l, 500);
    loop_turn(l);
    assert_int_equal(a.fired, 0);
    assert_int_equal(b.fired, 1);
    loop_advance(l, 500);
    loop_turn(l);
    assert_int_equal(a.fired, 1);
}

static void uneven_times_fire_in_order_of_due_time(void **state)
{
    static const int after_ms[] = {500, 100, 900, 100, 0, -5, 300};
    static const int order[] = {6, 3, 7, 4, 1, 2, 5};
    struct loop *l = *state;
    struct probe p[7];
    for (int i = 0; i < 7; i++) {
        probe_init(&p[i], l);
        deadline_after(l, &p[i].deadline, after_ms[i]);
    }
    loop_advance(l, 901);
    loop_turn(l);
    for (int i = 0; i < 7; i++)
        assert_int_equal(p[i].order, order[i]);
}

/* In the next turn, whatever else waits for the clock; not inside the call. */
static void due_at_once(void **state)
{
    struct loop *l = *state;
    struct probe later, now;
    probe_init(&later, l);
    probe_init(&now, l);
    deadline_after(l, &later.deadline, 5);
    deadline_now(l, &now.deadline);
    assert_int_equal(now.fired, 0);
    loop_turn(l);
    assert_int_equal(now.fired, 1);
    assert_int_equal(later.fired, 0);
    deadline_now(l, &now.deadline);
    deadline_stop(&now.deadline);
    loop_turn(l);
    assert_int_equal(now.fired, 1);
    deadline_stop(&later.deadline);
}

static void a_callback_may_stop_restart_and_free(void **state)
{
    struct loop *l = *state;
    struct deadline_list list;
    struct probe *heap = malloc(sizeof *heap), stopper, victim, again;
    deadline_list_init(&list, l, 50);
    probe_init(heap, l);
    probe_init(&stopper, l);
    probe_init(&victim, l);
    probe_init(&again, l);
    heap->frees = true;
    stopper.stops = &victim;
    again.again = &list;
    deadline_start(&list, &heap->deadline);
    deadline_start(&list, &stopper.deadline);
    deadline_start(&list, &victim.deadline);
    deadline_start(&list, &again.deadline);
    loop_advance(l, 60);
    loop_turn(l);
    assert_int_equal(stopper.fired, 1);
    assert_int_equal(victim.fired, 0);
    assert_int_equal(again.fired, 1);
    assert_true(deadline_running(&again.deadline));
    loop_advance(l, 60);
    loop_turn(l);
    assert_int_equal(again.fired, 2);
    deadline_stop(&again.deadline);
    deadline_stop(&again.deadline);
    deadline_list_finish(&list);
}

static void on_idle(uv_timer_t *t)
{
    uv_close((uv_handle_t *)t, NULL);
}

/* The real clock: a short deadline started after a long one still comes at its time, late by the tick at most. */
static void real_time_is_never_early(void **state)
{
    struct loop *l = *state;
    struct deadline_list slow, quick;
    struct probe a, b, c;
    uv_timer_t keep;
    deadline_list_init(&slow, l, 10000);
    deadline_list_init(&quick, l, 35);
    probe_init(&a, l);
    probe_init(&b, l);
    probe_init(&c, l);
    uv_update_time(loop_uv(l));
    int64_t start_ms = loop_now_ms(l);
    deadline_start(&slow, &a.deadline);
    deadline_start(&quick, &b.deadline);
    deadline_after(l, &c.deadline, 71);
    uv_timer_init(loop_uv(l), &keep);
    uv_timer_start(&keep, on_idle, 400, 0);
    loop_run(l);
    assert_int_equal(a.fired, 0);
    assert_int_equal(b.fired, 1);
    assert_int_equal(c.fired, 1);
    assert_in_range(b.fired_ms - start_ms, 35, 180);
    assert_in_range(c.fired_ms - start_ms, 71, 210);
    deadline_stop(&a.deadline);
}

/* Nothing but a deadline: loop_run must come back at once. */
static void the_tick_keeps_nothing_alive(void **state)
{
    struct loop *l = *state;
    struct probe p;
    probe_init(&p, l);
    deadline_after(l, &p.deadline, 60000);
    loop_run(l);
    assert_int_equal(p.fired, 0);
    deadline_stop(&p.deadline);
}

static void on_block(uv_timer_t *t)
{
    usleep(120000);
    uv_close((uv_handle_t *)t, NULL);
}

static void on_stop(struct deadline *d)
{
    loop_stop(container_of(d, struct probe, deadline)->loop);
}

static void serving_waits_for_a_deadline(void **state)
{
    struct probe p;
    probe_init(&p, *state);
    deadline_init(&p.deadline, on_stop);
    int64_t from_ms = loop_now_ms(*state);
    deadline_after(*state, &p.deadline, 30);
    loop_serve(*state);
    assert_true(loop_now_ms(*state) - from_ms >= 30);
    assert_false(deadline_running(&p.deadline));
}

static void lag_shows_a_blocked_loop(void **state)
{
    struct loop *l = *state;
    struct probe p;
    uv_timer_t block, keep;
    assert_int_equal(loop_lag_ms(l), 0);
    probe_init(&p, l);
    uv_update_time(loop_uv(l));
    deadline_after(l, &p.deadline, 40);
    uv_timer_init(loop_uv(l), &block);
    uv_timer_start(&block, on_block, 1, 0);
    uv_timer_init(loop_uv(l), &keep);
    uv_timer_start(&keep, on_idle, 200, 0);
    loop_run(l);
    assert_int_equal(p.fired, 1);
    assert_in_range(loop_lag_ms(l), 40, 1000);
}

static void on_handle_gone(uv_handle_t *handle)
{
    (void)handle;
}

static void what_is_open_is_counted(void **state)
{
    struct loop *l = *state;
    struct deadline_list list;
    struct probe p[3];
    uv_timer_t timer;
    size_t handles = loop_handles(l);
    deadline_list_init(&list, l, 1000);
    for (int i = 0; i < 3; i++) probe_init(&p[i], l);
    deadline_start(&list, &p[0].deadline);
    deadline_start(&list, &p[1].deadline);
    deadline_after(l, &p[2].deadline, 5000);
    uv_timer_init(loop_uv(l), &timer);
    assert_int_equal(loop_deadlines(l), 3);
    assert_int_equal(loop_handles(l), handles + 1);
    deadline_stop(&p[1].deadline);
    loop_advance(l, 1000);
    loop_turn(l);
    assert_int_equal(loop_deadlines(l), 1);
    uv_close((uv_handle_t *)&timer, on_handle_gone);
    assert_int_equal(loop_handles(l), handles);
    deadline_stop(&p[2].deadline);
    loop_turn(l);
}

static void wall_clock_follows(void **state)
{
    struct loop *l = *state;
    uv_update_time(loop_uv(l));
    int64_t wall_ms = loop_wall_ms(l), mono_ms = loop_now_ms(l);
    assert_in_range(wall_ms / 1000 - time(NULL) + 5, 4, 6);
    loop_advance(l, 5000);
    assert_in_range(loop_wall_ms(l) - wall_ms, 5000, 5050);
    assert_in_range(loop_now_ms(l) - mono_ms, 5000, 5050);
}

static int got[2];

static void on_signal(int signum, void *arg)
{
    got[signum == SIGUSR2]++;
    if (got[0] && got[1]) loop_stop(arg);
}

static void signals_reach_their_callback(void **state)
{
    struct loop *l = *state;
    uv_timer_t keep;
    loop_on_signal(l, SIGUSR1, on_signal, l);
    loop_on_signal(l, SIGUSR2, on_signal, l);
    loop_run(l); /* signal handles alone do not keep it */
    uv_timer_init(loop_uv(l), &keep);
    uv_timer_start(&keep, on_idle, 5000, 0);
    kill(getpid(), SIGUSR1);
    kill(getpid(), SIGUSR2);
    loop_run(l);
    assert_int_equal(got[0], 1);
    assert_int_equal(got[1], 1);
    uv_close((uv_handle_t *)&keep, NULL);
    loop_turn(l); /* keep is on this stack */
}

static void a_closed_pipe_is_an_error_not_the_end(void **state)
{
    int fds[2];
    (void)state;
    assert_int_equal(pipe(fds), 0);
    close(fds[0]);
    assert_int_equal(write(fds[1], "x", 1), -1);
    close(fds[1]);
}

/* One list for each length, whoever asks; it lives as long as the loop, whatever was started in it. */
static void test_shared_timeouts(void **state)
{
    (void)state;
    struct loop *l = loop_create();
    struct deadline_list *one = loop_timeouts(l, 100), *two = loop_timeouts(l, 50);
    struct probe a, b;
    probe_init(&a, l);
    probe_init(&b, l);
    assert_ptr_equal(loop_timeouts(l, 100), one);
    assert_ptr_not_equal(one, two);
    deadline_start(one, &a.deadline);
    deadline_start(two, &b.deadline);
    loop_advance(l, 60);
    loop_turn(l);
    assert_true(b.fired == 1 && a.fired == 0);
    loop_advance(l, 60);
    loop_turn(l);
    assert_int_equal(a.fired, 1);
    loop_close(l);
    loop_run(l);
    loop_destroy(l);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shared_timeouts),
        T(fires_once_at_its_time),
        T(restart_moves_it_to_the_end),
        T(uneven_times_fire_in_order_of_due_time),
        T(due_at_once),
        T(a_callback_may_stop_restart_and_free),
        T(real_time_is_never_early),
        T(the_tick_keeps_nothing_alive),
        T(serving_waits_for_a_deadline),
        T(lag_shows_a_blocked_loop),
        T(what_is_open_is_counted),
        T(wall_clock_follows),
        T(signals_reach_their_callback),
        T(a_closed_pipe_is_an_error_not_the_end),
    };
    return cmocka_run_group_tests_name("io/loop", tests, NULL, NULL);
}
