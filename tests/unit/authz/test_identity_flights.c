/* Identity: who waits for whom, the cap, and what a flush reaches. */
#include "identify.h"

/* --- flights ---------------------------------------------------------------------------------------------------- */

static void test_many_wait_for_one_call(void **state)
{
    (void)state;
    static struct call calls[MANY];
    struct token k = token_of("iss", "jane", "a");
    open_with(base_config(), true);
    for (size_t i = 0; i < MANY; i++) {
        assert_int_equal(find(&calls[i], &k, "Bearer x"), OP_PENDING);
        if (i == MANY / 2) deliver(); /* some come while Redis is asked, some later */
    }
    deliver();
    for (size_t i = 0; i < MANY; i += 3)
        identity_cancel(&calls[i].call); /* the first one too */
    assert_int_equal(fake_fetch_started(t.fetch), 1);
    fake_fetch_answer(fake_fetch_oldest(t.fetch), 200, profile_of("jane"));
    struct user *user = calls[1].call.user;
    for (size_t i = 0; i < MANY; i++) {
        assert_int_equal(calls[i].told, i % 3 ? 1 : 0);
        if (i % 3) assert_ptr_equal(calls[i].call.user, user);
        drop(&calls[i]);
    }
    assert_int_equal(whence(&k), FOUND_MEMORY);
}

static void test_nobody_waits_any_more(void **state)
{
    (void)state;
    struct token k = token_of("iss", "jane", "a");
    struct call c;
    open_with(base_config(), false);
    find(&c, &k, "Bearer x");
    identity_cancel(&c.call);
    fake_fetch_answer(fake_fetch_oldest(t.fetch), 200, profile_of("jane"));
    assert_int_equal(c.told, 0);
    assert_int_equal(whence(&k), FOUND_MEMORY);
}

static void test_cap(void **state)
{
    (void)state;
    struct call calls[8];
    char names[8][16];
    for (int with_redis = 0; with_redis < 2; with_redis++) {
        size_t before = fake_fetch_started(t.fetch);
        open_with(base_config(), with_redis);
        for (int i = 0; i < 8; i++) {
            snprintf(names[i], sizeof names[i], "u%d", i);
            struct token k = token_of("iss", names[i], names[i]);
            enum op op = find(&calls[i], &k, "Bearer x");
            if (with_redis) deliver();
            bool refused = i >= 4;
            assert_int_equal(op, refused && !with_redis ? OP_DONE : OP_PENDING);
            assert_int_equal(calls[i].told, refused && with_redis ? 1 : 0);
            if (refused) assert_int_equal(calls[i].call.reason, REASON_CONTEXT_OVERLOADED);
        }
        assert_int_equal(fake_fetch_started(t.fetch) - before, 4);
        /* who waits for a call that is out counts for nothing */
        struct token first = token_of("iss", "u0", "u0");
        struct call more;
        assert_int_equal(find(&more, &first, "Bearer x"), OP_PENDING);
        identity_cancel(&more.call);
        while (fake_fetch_open(t.fetch))
            fake_fetch_answer(fake_fetch_oldest(t.fetch), 200, profile_of("u"));
        for (int i = 0; i < 4; i++)
            drop(&calls[i]);
        struct token late = token_of("iss", "u7", "u7");
        fetch_one(&late, "u7"); /* a refusal is not remembered */
        identities_destroy(t.ids);
        t.ids = NULL;
    }
    struct slice labels[] = {SLICE("context"), SLICE("overloaded")};
    assert_int_equal(metric_value(METRIC_DEPENDENCY_FAILURES, labels), 8);
}

/* --- flushes ---------------------------------------------------------------------------------------------------- */

enum flush { FLUSH_ALL, FLUSH_ISSUER, FLUSH_SUBJECT };

static void flush(enum flush what)
{
    if (what == FLUSH_ALL) identities_flush(t.ids, 0, NULL);
    if (what == FLUSH_ISSUER) identities_flush(t.ids, token_issuer_tag(SLICE("iss")), NULL);
    if (what == FLUSH_SUBJECT) flush_subject(SLICE("iss"), SLICE("jane"));
}

static void test_flush_reaches_memory_and_redis(void **state)
{
    (void)state;
    static const struct {
        enum flush what;
        enum found_in jane, same_issuer, other_issuer; /* afterwards, in memory or Redis */
    } rows[] = {
        {FLUSH_ALL, FOUND_NONE, FOUND_NONE, FOUND_NONE},
        {FLUSH_ISSUER, FOUND_NONE, FOUND_NONE, FOUND_MEMORY}, /* the others' Redis entries go too, by the generation */
        {FLUSH_SUBJECT, FOUND_NONE, FOUND_MEMORY, FOUND_MEMORY},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (int unread = 0; unread < 2; unread++) { /* the generation was not read lately */
            struct token jane = token_of("iss", "jane", "a"), kim = token_of("iss", "kim", "b");
            struct token pat = token_of("iss2", "pat", "c");
            open_with(base_config(), true);
            fetch_one(&jane, "jane");
            fetch_one(&kim, "kim");
            fetch_one(&pat, "pat");
            loop_advance(t.loop, unread ? 15000 : 1);
            flush(rows[i].what);
            assert_int_equal(whence(&jane), rows[i].jane);
            assert_int_equal(whence(&kim), rows[i].same_issuer);
            assert_int_equal(whence(&pat), rows[i].other_issuer);
            identities_destroy(t.ids);
            redis_destroy(t.redis, NULL, NULL);
            t.ids = NULL;
            t.redis = NULL;
        }
    }
}

/* Asked before the flush, answered after it: handed to those who waited, kept nowhere, joined by nobody. */
static void test_flush_during_a_flight(void **state)
{
    (void)state;
    for (int what = FLUSH_ALL; what <= FLUSH_SUBJECT; what++) {
        for (int stage = 0; stage < 3; stage++) { /* while the generation, the context, the profile is asked for */
            struct token k = token_of("iss", "jane", "a");
            struct call before, after;
            open_with(base_config(), true);
            find(&before, &k, "Bearer x");
            for (int i = 0; i < stage; i++)
                fake_redis_deliver(t.redis);
            flush((enum flush)what);
            loop_advance(t.loop, 1);
            assert_int_equal(find(&after, &k, "Bearer x"), OP_PENDING);
            deliver();
            assert_int_equal(fake_fetch_open(t.fetch), 2);
            fake_fetch_answer(fake_fetch_oldest(t.fetch), 200, profile_of("old"));
            assert_int_equal(before.told, 1);
            assert_int_equal(after.told, 0);
            assert_int_equal(t.redis->sets, 0);
            fake_fetch_answer(fake_fetch_oldest(t.fetch), 200, profile_of("new"));
            assert_int_equal(after.told, 1);
            /* a raise of a number that was never read is made sure of first */
            bool unsure = stage == 0 && what != FLUSH_SUBJECT;
            assert_int_equal(t.redis->sets, unsure ? 0 : 1);
            drop(&before);
            drop(&after);
            find(&after, &k, "Bearer x");
            assert_true(slice_eq(after.call.user->id, SLICE("new")));
            drop(&after);
            identities_destroy(t.ids);
            redis_destroy(t.redis, NULL, NULL);
            t.ids = NULL;
            t.redis = NULL;
        }
    }
}

/* A flush that Redis does not hear of is made up for when it is back. */
static void test_flush_while_redis_is_away(void **state)
{
    (void)state;
    for (int what = FLUSH_ALL; what <= FLUSH_SUBJECT; what++) {
        for (int unread = 0; unread < 2; unread++) {
            struct token k = token_of("iss", "jane", "a");
            open_with(base_config(), true);
            fetch_one(&k, "jane");
            if (unread) { /* as after a start of the process */
                struct identity_config c = base_config();
                identities_destroy(t.ids);
                t.ids = identities_create(t.loop, t.fetch, t.redis, &c);
            }
            t.redis->unavailable = true;
            flush((enum flush)what);
            deliver();
            loop_advance(t.loop, 1);
            t.redis->unavailable = false;
            assert_int_equal(whence(&k), FOUND_NONE);
            fake_fetch_answer(fake_fetch_oldest(t.fetch), 200, profile_of("new"));
            loop_advance(t.loop, 30001);
            struct call c;
            if (find(&c, &k, "Bearer x") == OP_PENDING) deliver();
            if (fake_fetch_open(t.fetch)) fake_fetch_answer(fake_fetch_oldest(t.fetch), 200, profile_of("new"));
            assert_true(slice_eq(c.call.user->id, SLICE("new")));
            drop(&c);
            loop_advance(t.loop, 30001);
            assert_int_equal(whence(&k), FOUND_REDIS); /* and then Redis is used again */
            identities_destroy(t.ids);
            redis_destroy(t.redis, NULL, NULL);
            t.ids = NULL;
            t.redis = NULL;
        }
    }
}

static void test_destroy_with_all_kinds_out(void **state)
{
    (void)state;
    struct call calls[3];
    struct token a = token_of("iss", "a", "a"), b = token_of("iss", "b", "b"), c = token_of("iss", "c", "c");
    open_with(base_config(), true);
    find(&calls[0], &a, "Bearer x");
    deliver();
    find(&calls[1], &b, "Bearer x");
    flush_subject(SLICE("iss"), SLICE("d"));
    find(&calls[2], &c, "Bearer x");
    identities_destroy(t.ids);
    t.ids = NULL;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(calls[i].told, 1);
        assert_null(calls[i].call.user);
        assert_int_equal(calls[i].call.reason, REASON_SHUTTING_DOWN);
    }
    deliver(); /* nothing comes back to what is gone */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_many_wait_for_one_call),
        TEST(test_nobody_waits_any_more),
        TEST(test_cap),
        TEST(test_flush_reaches_memory_and_redis),
        TEST(test_flush_during_a_flight),
        TEST(test_flush_while_redis_is_away),
        TEST(test_destroy_with_all_kinds_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
