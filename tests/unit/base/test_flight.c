/* Unit tests of base/flight. */
#include "base/flight.h"

#include <string.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "dies.h"

struct guest {
    struct flight_waiter waiter;
    char name;
    void (*also)(struct guest *g); /* what it does when told */
    struct guest *other;
};

static struct flights *table;
static char told[64];
static int outcome;

static void on_landed(struct flight_waiter *w, void *arg)
{
    struct guest *g = container_of(w, struct guest, waiter);
    assert_ptr_equal(arg, &outcome);
    assert_true(list_empty(&w->link));
    told[strlen(told)] = g->name;
    if (g->also) g->also(g);
}

static void key_of(uint64_t n, uint8_t key[32])
{
    memset(key, 0, 32);
    memcpy(key + 16, &n, sizeof(n));
}

static void guest_init(struct guest *g, char name)
{
    *g = (struct guest){.name = name, .waiter.on_landed = on_landed};
    list_init(&g->waiter.link);
}

static struct flight *join(struct guest *g, uint64_t n, bool want_opened)
{
    uint8_t key[32];
    bool opened = !want_opened;
    key_of(n, key);
    struct flight *f = flight_join(table, key, &g->waiter, &opened);
    assert_non_null(f);
    assert_int_equal(opened, want_opened);
    return f;
}

static int start(void **state)
{
    (void)state;
    memset(told, 0, sizeof(told));
    table = flights_create();
    return 0;
}

static int stop(void **state)
{
    (void)state;
    flights_destroy(table);
    return 0;
}

static void test_all_are_told_in_order(void **state)
{
    struct guest g[5];
    struct flight *f = NULL;
    (void)state;
    for (int i = 0; i < 5; i++) {
        guest_init(&g[i], (char)('a' + i));
        struct flight *joined = join(&g[i], 7, i == 0);
        if (f) assert_ptr_equal(joined, f);
        f = joined;
    }
    assert_int_equal(flights_out(table), 1);
    flight_land(table, f, &outcome);
    assert_string_equal(told, "abcde");
    assert_int_equal(flights_out(table), 0);
}

static void test_keys_are_apart(void **state)
{
    struct guest a, b;
    (void)state;
    guest_init(&a, 'a');
    guest_init(&b, 'b');
    struct flight *fa = join(&a, 1, true), *fb = join(&b, 2, true);
    assert_int_equal(flights_out(table), 2);
    flight_land(table, fb, &outcome);
    assert_string_equal(told, "b");
    flight_land(table, fa, &outcome);
    assert_string_equal(told, "ba");
}

static void test_who_leaves_cancels_nobody(void **state)
{
    struct guest a, b, c;
    (void)state;
    guest_init(&a, 'a');
    guest_init(&b, 'b');
    guest_init(&c, 'c');
    flight_leave(&c.waiter); /* never joined */
    struct flight *f = join(&a, 1, true);
    join(&b, 1, false);
    flight_leave(&a.waiter); /* the leader itself */
    flight_leave(&a.waiter);
    join(&c, 1, false);
    flight_land(table, f, &outcome);
    assert_string_equal(told, "bc");
    flight_leave(&b.waiter); /* told already */
}

static void test_all_left_but_it_still_lands(void **state)
{
    struct guest a, b;
    (void)state;
    guest_init(&a, 'a');
    guest_init(&b, 'b');
    struct flight *f = join(&a, 1, true);
    flight_leave(&a.waiter);
    assert_int_equal(flights_out(table), 1);
    assert_ptr_equal(join(&b, 1, false), f); /* the call is out: nobody starts another */
    flight_leave(&b.waiter);
    flight_land(table, f, &outcome);
    assert_string_equal(told, "");
}

static void test_closed_is_joined_by_nobody(void **state)
{
    struct guest a, b;
    int owner;
    (void)state;
    guest_init(&a, 'a');
    guest_init(&b, 'b');
    struct flight *old = join(&a, 1, true);
    flight_set_owner(old, &owner);
    uint8_t key[32];
    key_of(2, key);
    assert_null(flight_close(table, key)); /* nothing is out for that one */
    key_of(1, key);
    assert_ptr_equal(flight_close(table, key), &owner);
    assert_null(flight_close(table, key));
    struct flight *young = join(&b, 1, true);
    assert_int_equal(flights_out(table), 2);
    flight_land(table, old, &outcome);
    assert_string_equal(told, "a");
    assert_int_equal(flights_out(table), 1);
    flight_land(table, young, &outcome);
    assert_string_equal(told, "ab");
}

static void let_other_leave(struct guest *g)
{
    flight_leave(&g->other->waiter);
}

static void test_leaving_inside_a_callback(void **state)
{
    struct guest g[4];
    struct flight *f = NULL;
    (void)state;
    for (int i = 0; i < 4; i++) {
        guest_init(&g[i], (char)('a' + i));
        f = join(&g[i], 1, i == 0);
    }
    g[0].also = g[1].also = let_other_leave;
    g[0].other = &g[2]; /* one that waits still */
    g[1].other = &g[0]; /* one that was told */
    g[3].also = let_other_leave;
    g[3].other = &g[3]; /* itself */
    flight_land(table, f, &outcome);
    assert_string_equal(told, "abd");
}

static struct flight *again;

static void join_again(struct guest *g)
{
    g->also = NULL;
    again = join(g, 1, again == NULL);
}

static void test_joining_inside_a_callback_opens_a_new_flight(void **state)
{
    struct guest a, b;
    (void)state;
    guest_init(&a, 'a');
    guest_init(&b, 'b');
    a.also = b.also = join_again;
    again = NULL;
    struct flight *f = join(&a, 1, true);
    join(&b, 1, false);
    flight_land(table, f, &outcome);
    assert_string_equal(told, "ab");
    assert_int_equal(flights_out(table), 1);
    flight_land(table, again, &outcome);
    assert_string_equal(told, "abab");
    assert_int_equal(flights_out(table), 0);
}

static void land_other(struct guest *g)
{
    g->also = NULL;
    flight_land(table, again, &outcome);
}

static void test_landing_inside_a_callback(void **state)
{
    struct guest a, b, c;
    (void)state;
    guest_init(&a, 'a');
    guest_init(&b, 'b');
    guest_init(&c, 'c');
    struct flight *f = join(&a, 1, true);
    join(&c, 1, false);
    again = join(&b, 2, true);
    a.also = land_other;
    flight_land(table, f, &outcome);
    assert_string_equal(told, "abc");
}

static void destroy_table(struct guest *g)
{
    (void)g;
    flights_destroy(table);
    table = NULL;
}

static void test_the_last_one_told_may_end_it_all(void **state)
{
    struct guest a;
    (void)state;
    guest_init(&a, 'a');
    a.also = destroy_table;
    flight_land(table, join(&a, 1, true), &outcome);
    assert_null(table);
}

static void test_thousands_of_keys(void **state)
{
    enum { COUNT = 20000 };
    static struct guest guests[COUNT], late[COUNT];
    static struct flight *out[COUNT];
    (void)state;
    for (uint64_t i = 0; i < COUNT; i++) {
        guest_init(&guests[i], 'x');
        guest_init(&late[i], 'y');
        out[i] = join(&guests[i], i * 64, true);
    }
    assert_int_equal(flights_out(table), COUNT);
    for (uint64_t i = 0; i < COUNT; i++) assert_ptr_equal(join(&late[i], i * 64, false), out[i]);
    for (uint64_t i = 0; i < COUNT; i++) {
        uint64_t at = i * 7919 % COUNT; /* not in the order they came */
        flight_land(table, out[at], &outcome);
        assert_string_equal(told, "xy");
        memset(told, 0, 2);
    }
    assert_int_equal(flights_out(table), 0);
}

static void destroy_with_one_out(void *arg)
{
    struct guest g;
    guest_init(&g, 'a');
    join(&g, 1, true);
    flights_destroy(arg);
}

static void test_refuses_to_end_with_a_flight_out(void **state)
{
    (void)state;
    assert_true(dies(destroy_with_one_out, table));
    flights_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_all_are_told_in_order, start, stop),
        cmocka_unit_test_setup_teardown(test_keys_are_apart, start, stop),
        cmocka_unit_test_setup_teardown(test_who_leaves_cancels_nobody, start, stop),
        cmocka_unit_test_setup_teardown(test_all_left_but_it_still_lands, start, stop),
        cmocka_unit_test_setup_teardown(test_closed_is_joined_by_nobody, start, stop),
        cmocka_unit_test_setup_teardown(test_leaving_inside_a_callback, start, stop),
        cmocka_unit_test_setup_teardown(test_joining_inside_a_callback_opens_a_new_flight, start, stop),
        cmocka_unit_test_setup_teardown(test_landing_inside_a_callback, start, stop),
        cmocka_unit_test_setup_teardown(test_the_last_one_told_may_end_it_all, start, stop),
        cmocka_unit_test_setup_teardown(test_thousands_of_keys, start, stop),
        cmocka_unit_test_setup_teardown(test_refuses_to_end_with_a_flight_out, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
