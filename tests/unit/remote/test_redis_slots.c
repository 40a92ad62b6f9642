/* remote/redis_slots: the slot of a key, and what servers say of servers: whole, or nothing. */
#include "remote/redis_slots.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/check.h"

static void slots_of_keys(void **state)
{
    static const struct {
        const char *key;
        unsigned slot;
    } table[] = {
        {"123456789", 0x31C3}, /* the check value of CRC-16/XMODEM */
        {"", 0},
        {"foo", 12182},
        {"bar", 5061},
        {"hello", 866},
        {"{foo}bar", 12182},
        {"x{foo}", 12182},
        {"x{foo}{bar}", 12182},
        {"{{bar}}", 4015}, /* of "{bar" */
    };
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (redis_slot(slice_str(table[i].key)) != table[i].slot)
            fail_msg("%s: %u", table[i].key, redis_slot(slice_str(table[i].key)));
    /* No tag: nothing between the braces, or no end. */
    assert_int_not_equal(redis_slot(SLICE("foo{}{bar}")), redis_slot(SLICE("bar")));
    assert_int_not_equal(redis_slot(SLICE("foo{bar")), redis_slot(SLICE("bar")));
    assert_int_not_equal(redis_slot(SLICE("}foo{")), redis_slot(SLICE("foo")));
}

/* --- replies by hand -------------------------------------------------------------------------------------------- */

static struct redis_reply pool[20000];
static size_t used;

static struct redis_reply number(long long n)
{
    return (struct redis_reply){.kind = REDIS_KIND_INTEGER, .integer = n};
}

static struct redis_reply text(const char *s)
{
    return (struct redis_reply){.kind = s ? REDIS_KIND_STRING : REDIS_KIND_NIL, .text = slice_str(s)};
}

static struct redis_reply array(const struct redis_reply *items, size_t n)
{
    struct redis_reply *copy = pool + used;
    assert_true(used + n <= sizeof pool / sizeof *pool);
    used += n;
    if (n) memcpy(copy, items, n * sizeof *items);
    return (struct redis_reply){.kind = REDIS_KIND_ARRAY, .items = copy, .n = n};
}

#define ARRAY(...)                                                                                                     \
    array((struct redis_reply[]){__VA_ARGS__}, sizeof((struct redis_reply[]){__VA_ARGS__}) / sizeof(struct redis_reply))
#define NODE(host, port) ARRAY(text(host), number(port), text("0123456789abcdef"))
#define RANGE(first, last, ...) ARRAY(number(first), number(last), __VA_ARGS__)

static struct redis_slots *read_map(struct redis_reply reply)
{
    return redis_slots_read(&reply, "asked.test");
}

static void a_map_is_read(void **state)
{
    (void)state;
    used = 0;
    struct redis_slots *s = read_map(ARRAY(RANGE(0, 5460, NODE("10.0.0.1", 7000), NODE("10.0.0.4", 7003)),
                                           RANGE(5461, 5461, NODE("10.0.0.1", 7001)),
                                           RANGE(5463, 16383, NODE("10.0.0.1", 7000), NODE("bad host", 1))));
    assert_non_null(s);
    assert_int_equal(s->masters_n, 2);
    assert_string_equal(s->masters[1].host, "10.0.0.1");
    assert_int_equal(s->masters[1].port, 7001);
    assert_int_equal(s->replicas_n, 1);
    assert_int_equal(s->owner[0], 0);
    assert_int_equal(s->owner[5460], 0);
    assert_int_equal(s->owner[5461], 1);
    assert_int_equal(s->owner[5462], REDIS_NOBODY);
    assert_int_equal(s->owner[16383], 0);
    redis_slots_free(s);
}

/* It may not know its own address, or not tell it. */
static void a_place_without_a_host_is_where_was_asked(void **state)
{
    static const char *const hosts[] = {NULL, "", "?"};
    (void)state;
    used = 0;
    for (size_t i = 0; i < 3; i++) {
        struct redis_slots *s = read_map(ARRAY(RANGE(0, 16383, NODE(hosts[i], 7000))));
        assert_non_null(s);
        assert_string_equal(s->masters[0].host, "asked.test");
        redis_slots_free(s);
    }
}

static void what_is_no_map_is_none(void **state)
{
    char long_host[300];
    memset(long_host, 'a', sizeof long_host - 1);
    long_host[sizeof long_host - 1] = '\0';
    (void)state;
    used = 0;
    struct redis_reply good = NODE("a", 1), wrong = text("a"), error = {.kind = REDIS_KIND_ERROR, .text = SLICE("ERR")};
    struct redis_reply nul_host = text("a");
    nul_host.text = slice_make("a\0b", 3);
    struct redis_reply bad[] = {
        error,
        text(NULL),
        number(1),
        array(NULL, 0),
        ARRAY(wrong),
        ARRAY(array(NULL, 0)),
        ARRAY(ARRAY(number(0), number(1))),
        ARRAY(RANGE(-1, 5, good)),
        ARRAY(RANGE(0, 16384, good)),
        ARRAY(RANGE(5, 4, good)),
        ARRAY(RANGE(0, INT64_MAX, good)),
        ARRAY(RANGE(INT64_MIN, INT64_MAX, good)),
        ARRAY(ARRAY(text("0"), number(1), good)),
        ARRAY(RANGE(0, 1, wrong)),
        ARRAY(RANGE(0, 1, array(NULL, 0))),
        ARRAY(RANGE(0, 1, ARRAY(text("a")))),
        ARRAY(RANGE(0, 1, ARRAY(number(1), number(1)))),
        ARRAY(RANGE(0, 1, ARRAY(text("a"), text("1")))),
        ARRAY(RANGE(0, 1, ARRAY(nul_host, number(1)))),
        ARRAY(RANGE(0, 1, NODE("a", 0))),
        ARRAY(RANGE(0, 1, NODE("a", 65536))),
        ARRAY(RANGE(0, 1, NODE("a", -1))),
        ARRAY(RANGE(0, 1, NODE("a", 4294967297))),
        ARRAY(RANGE(0, 1, NODE("a b", 1))),
        ARRAY(RANGE(0, 1, NODE("a\r\nb", 1))),
        ARRAY(RANGE(0, 1, NODE("a/b", 1))),
        ARRAY(RANGE(0, 1, NODE(long_host, 1))),
        ARRAY(RANGE(0, 10, good), RANGE(10, 20, good)),
        ARRAY(RANGE(0, 10, good), RANGE(11, 20, wrong)),
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (redis_slots_read(&bad[i], "asked.test")) fail_msg("taken: %zu", i);
}

static void a_map_of_too_many_is_none(void **state)
{
    (void)state;
    static struct redis_reply ranges[REDIS_MASTERS_MOST + 1];
    used = 0;
    for (int i = 0; i <= REDIS_MASTERS_MOST; i++)
        ranges[i] = RANGE(i, i, NODE("a", 1000 + i));
    struct redis_reply most = array(ranges, REDIS_MASTERS_MOST), over = array(ranges, REDIS_MASTERS_MOST + 1);
    struct redis_slots *s = redis_slots_read(&most, "x");
    assert_non_null(s);
    assert_int_equal(s->masters_n, REDIS_MASTERS_MOST);
    redis_slots_free(s);
    assert_null(redis_slots_read(&over, "x"));
}

static void redirections(void **state)
{
    static const struct {
        const char *error;
        enum redis_redirection kind;
        unsigned slot;
        const char *host;
        int port;
    } table[] = {
        {"MOVED 3999 127.0.0.1:6381", REDIS_MOVED, 3999, "127.0.0.1", 6381},
        {"ASK 0 node-1.test:1", REDIS_ASK, 0, "node-1.test", 1},
        {"MOVED 16383 ::1:7000", REDIS_MOVED, 16383, "::1", 7000},
        {"MOVED 1 :7000", REDIS_MOVED, 1, "asked.test", 7000},
        {.error = ""},
        {.error = "MOVED"},
        {.error = "MOVED 1"},
        {.error = "MOVED 1 "},
        {.error = "MOVED 1 a"},
        {.error = "MOVED 16384 a:1"},
        {.error = "MOVED -1 a:1"},
        {.error = "MOVED x a:1"},
        {.error = "MOVED 1 a:0"},
        {.error = "MOVED 1 a:65536"},
        {.error = "MOVED 1 a:1 b"},
        {.error = "MOVED 1 a b:1"},
        {.error = "MOVED  1 a:1"},
        {.error = "moved 1 a:1"},
        {.error = "MOVEDX 1 a:1"},
        {.error = "ERR MOVED 1 a:1"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct redis_place to;
        unsigned slot;
        enum redis_redirection kind = redis_redirection_read(slice_str(table[i].error), "asked.test", &slot, &to);
        if (kind != table[i].kind) fail_msg("%s: %d", table[i].error, kind);
        if (kind == REDIS_STAYS) continue;
        assert_int_equal(slot, table[i].slot);
        assert_string_equal(to.host, table[i].host);
        assert_int_equal(to.port, table[i].port);
    }
    struct redis_place to;
    unsigned slot;
    assert_int_equal(redis_redirection_read(SLICE("MOVED 1 :7000"), NULL, &slot, &to), REDIS_STAYS);
}

static void masters_that_sentinels_name(void **state)
{
    struct redis_place p;
    (void)state;
    used = 0;
    struct redis_reply good = ARRAY(text("10.0.0.1"), text("6379"));
    assert_true(redis_master_read(&good, &p));
    assert_string_equal(p.host, "10.0.0.1");
    assert_int_equal(p.port, 6379);
    struct redis_reply bad[] = {
        text(NULL),
        text("10.0.0.1:6379"),
        array(NULL, 0),
        ARRAY(text("10.0.0.1")),
        ARRAY(text("10.0.0.1"), number(6379)),
        ARRAY(text("10.0.0.1"), text("6379"), text("x")),
        ARRAY(text(NULL), text("6379")),
        ARRAY(text(""), text("6379")),
        ARRAY(text("?"), text("6379")),
        ARRAY(text("a@b"), text("6379")),
        ARRAY(text("a"), text("0")),
        ARRAY(text("a"), text("65536")),
        ARRAY(text("a"), text("-1")),
        ARRAY(text("a"), text("")),
        ARRAY(text("a"), text("1 ")),
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (redis_master_read(&bad[i], &p)) fail_msg("taken: %zu", i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_of_keys),
        cmocka_unit_test(a_map_is_read),
        cmocka_unit_test(a_place_without_a_host_is_where_was_asked),
        cmocka_unit_test(what_is_no_map_is_none),
        cmocka_unit_test(a_map_of_too_many_is_none),
        cmocka_unit_test(redirections),
        cmocka_unit_test(masters_that_sentinels_name),
    };
    return cmocka_run_group_tests_name("remote/redis_slots", tests, NULL, NULL);
}
