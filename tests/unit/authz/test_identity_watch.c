/* Contexts in memory, kept right by what Redis and other instances tell. */
#include "identify.h"

static int raised;

static void on_raised(void *arg)
{
    assert_ptr_equal(arg, &raised);
    raised++;
}

static struct identity_config watching(void)
{
    struct identity_config c = base_config();
    c.on_raised = on_raised;
    c.raised_arg = &raised;
    return c;
}

static void fresh_start(void)
{
    identities_destroy(t.ids);
    t.ids = NULL;
    if (t.redis) redis_destroy(t.redis, NULL, NULL);
    t.redis = NULL;
    raised = 0;
    open_with(watching(), true);
}

static char *key_of_subject(const char *subject, char out[80])
{
    uint8_t digest[32];
    char hex[DIGEST_HEX_BYTES];
    identities_context(SLICE("iss"), slice_str(subject), digest);
    digest_hex(digest, hex);
    snprintf(out, 80, "p:v1:0:%s", hex);
    return out;
}

static void told(const char *key)
{
    identities_invalidated(t.ids, slice_str(key));
}

static void test_a_changed_key_is_gone_at_once(void **state)
{
    (void)state;
    struct token jane = token_of("iss", "jane", "a"), kim = token_of("iss", "kim", "b");
    char key[80];
    fresh_start();
    fetch_one(&jane, "jane");
    fetch_one(&kim, "kim");
    told(key_of_subject("jane", key));
    assert_non_null(fake_redis_find(t.redis, key));
    assert_int_equal(whence(&kim), FOUND_MEMORY);
    assert_int_equal(whence(&jane), FOUND_REDIS);
    assert_int_equal(whence(&jane), FOUND_MEMORY);
    key[5] = '7'; /* of another generation: the same context all the same */
    told(key);
    assert_int_equal(whence(&jane), FOUND_REDIS);
    assert_int_equal(raised, 0);
}

static void test_what_is_no_key_of_a_context(void **state)
{
    (void)state;
    struct token jane = token_of("iss", "jane", "a");
    char key[80];
    fresh_start();
    fetch_one(&jane, "jane");
    key_of_subject("jane", key);
    told("p:flushes");
    told("p:");
    told("p:v1:0");
    told("x");
    told(key + 1);
    key[0] = 'q';
    told(key);
    key[0] = 'p';
    key[3] = '2';
    told(key);
    key[3] = '1';
    key[strlen(key) - 1] = 'x';
    told(key);
    assert_int_equal(whence(&jane), FOUND_MEMORY);
    assert_int_equal(fake_redis_waiting(t.redis), 0);
}

/* Asked before, answered after: handed to those who wait, kept nowhere, joined by nobody. */
static void test_a_lookup_that_is_out(void **state)
{
    (void)state;
    for (int stage = 0; stage < 3; stage++) {
        struct token k = token_of("iss", "jane", "a");
        struct call before, after;
        char key[80];
        fresh_start();
        find(&before, &k, "Bearer x");
        for (int i = 0; i < stage; i++)
            fake_redis_deliver(t.redis);
        told(key_of_subject("jane", key));
        loop_advance(t.loop, 1);
        assert_int_equal(find(&after, &k, "Bearer x"), OP_PENDING);
        deliver();
        assert_int_equal(fake_fetch_open(t.fetch), 2);
        fake_fetch_answer(fake_fetch_oldest(t.fetch), 200, profile_of("old"));
        assert_int_equal(before.told, 1);
        assert_int_equal(after.told, 0);
        assert_int_equal(t.redis->sets, 0);
        assert_int_equal(whence(&k), FOUND_NONE); /* joins the second */
        fake_fetch_answer(fake_fetch_oldest(t.fetch), 200, profile_of("new"));
        assert_int_equal(after.told, 1);
        assert_int_equal(t.redis->sets, 1);
        drop(&before);
        drop(&after);
        find(&after, &k, "Bearer x");
        assert_true(slice_eq(after.call.user->id, SLICE("new")));
        drop(&after);
    }
}

static void test_everything_in_doubt(void **state)
{
    (void)state;
    struct token jane = token_of("iss", "jane", "a"), kim = token_of("iss", "kim", "b");
    struct call c;
    fresh_start();
    fetch_one(&jane, "jane");
    find(&c, &kim, "Bearer x");
    deliver();
    told("");
    fake_fetch_answer(fake_fetch_oldest(t.fetch), 200, profile_of("kim"));
    assert_int_equal(c.told, 1);
    drop(&c);
    assert_int_equal(t.redis->sets, 1);
    loop_advance(t.loop, 1);
    assert_int_equal(whence(&jane), FOUND_REDIS); /* dropped from memory only */
    assert_int_equal(whence(&kim), FOUND_NONE);
    assert_int_equal(raised, 0); /* the same generation */
}

/* Others raised it: told of, or read now and then. */
static void test_a_raised_generation(void **state)
{
    (void)state;
    enum { TOLD, BROKEN, READ, WAYS };
    for (int way = 0; way < WAYS; way++) {
        struct token jane = token_of("iss", "jane", "a"), kim = token_of("iss", "kim", "b");
        fresh_start();
        fetch_one(&jane, "jane");
        fake_redis_put(t.redis, GENERATION, "1", 0);
        loop_advance(t.loop, way == READ ? 10000 : 1);
        if (way == TOLD) told(GENERATION);
        if (way == BROKEN) told("");
        if (way == READ) whence(&kim);
        deliver();
        assert_int_equal(raised, 1);
        loop_advance(t.loop, 1);
        assert_int_equal(whence(&jane), FOUND_NONE); /* neither in memory nor in Redis */
        assert_int_equal(raised, 1);
    }
}

static void test_the_same_generation_is_no_news(void **state)
{
    (void)state;
    struct token jane = token_of("iss", "jane", "a");
    fresh_start();
    fetch_one(&jane, "jane");
    told(GENERATION);
    told(GENERATION); /* while it is read */
    assert_int_equal(fake_redis_deliver(t.redis), 1);
    assert_int_equal(raised, 0);
    assert_int_equal(whence(&jane), FOUND_MEMORY);
}

static void test_a_changed_generation_that_cannot_be_read(void **state)
{
    (void)state;
    struct token jane = token_of("iss", "jane", "a");
    for (int garbage = 0; garbage < 2; garbage++) {
        fresh_start();
        fetch_one(&jane, "jane");
        if (garbage) fake_redis_put(t.redis, GENERATION, "x", 0);
        t.redis->unavailable = !garbage;
        told(GENERATION);
        deliver();
        assert_int_equal(raised, 1);
        loop_advance(t.loop, 1);
        assert_int_equal(whence(&jane), FOUND_NONE);
    }
}

static void test_our_own_raise_is_no_news(void **state)
{
    (void)state;
    struct token jane = token_of("iss", "jane", "a"), pat = token_of("iss2", "pat", "b");
    fresh_start();
    fetch_one(&jane, "jane");
    fetch_one(&pat, "pat");
    loop_advance(t.loop, 1);
    identities_flush(t.ids, token_issuer_tag(SLICE("iss")), NULL);
    identities_flush(t.ids, token_issuer_tag(SLICE("iss")), NULL);
    deliver();
    loop_advance(t.loop, 1);
    assert_int_equal(whence(&jane), FOUND_NONE);
    assert_int_equal(raised, 0);
    assert_int_equal(whence(&pat), FOUND_MEMORY);
    /* that of another at the same time is */
    loop_advance(t.loop, 1);
    fake_redis_put(t.redis, GENERATION, "3", 0);
    identities_flush(t.ids, token_issuer_tag(SLICE("iss")), NULL);
    deliver();
    struct token kim = token_of("iss", "kim", "b");
    whence(&kim);
    deliver();
    assert_int_equal(raised, 1);
}

/* A raise that is owed is made up for as soon as Redis is back, not at the next lookup. */
static void test_owed_is_paid_when_redis_is_back(void **state)
{
    (void)state;
    struct token jane = token_of("iss", "jane", "a");
    fresh_start();
    fetch_one(&jane, "jane");
    t.redis->unavailable = true;
    flush_subject(SLICE("iss"), SLICE("jane"));
    deliver();
    t.redis->unavailable = false;
    assert_null(fake_redis_find(t.redis, GENERATION));
    told("");
    deliver();
    assert_string_equal(fake_redis_find(t.redis, GENERATION)->value, "1");
    assert_int_equal(raised, 0);
}

static void test_what_others_flushed(void **state)
{
    (void)state;
    enum { ALL, ISSUER, SUBJECT, KINDS };
    for (int kind = 0; kind < KINDS; kind++) {
        struct token jane = token_of("iss", "jane", "a"), kim = token_of("iss", "kim", "b");
        struct token pat = token_of("iss2", "pat", "c");
        uint64_t tags[] = {0, token_issuer_tag(SLICE("iss")), token_subject_tag(SLICE("iss"), SLICE("jane"))};
        uint8_t context[32];
        char key[80];
        fresh_start();
        fetch_one(&jane, "jane");
        fetch_one(&kim, "kim");
        fetch_one(&pat, "pat");
        loop_advance(t.loop, 1);
        identities_context(SLICE("iss"), SLICE("jane"), context);
        identities_flush_told(t.ids, tags[kind], kind == SUBJECT ? context : NULL);
        deliver();
        loop_advance(t.loop, 1);
        assert_int_equal(whence(&pat), kind == ALL ? FOUND_REDIS : FOUND_MEMORY);
        assert_int_equal(whence(&kim), kind == SUBJECT ? FOUND_MEMORY : FOUND_REDIS);
        /* of one subject also what we may have stored behind the other's DEL */
        assert_int_equal(whence(&jane), kind == SUBJECT ? FOUND_NONE : FOUND_REDIS);
        assert_int_equal(fake_redis_find(t.redis, key_of_subject("jane", key)) == NULL, kind == SUBJECT);
        assert_null(fake_redis_find(t.redis, GENERATION)); /* nobody raises it twice */
        assert_int_equal(raised, 0);
    }
}

static void test_ten_thousand_keys_are_no_stall(void **state)
{
    (void)state;
    struct identity_config c = watching();
    char key[80], name[16];
    c.memory_entries = 20000;
    open_with(c, true);
    for (int i = 0; i < 10000; i++) {
        snprintf(name, sizeof name, "u%d", i);
        struct token k = token_of("iss", name, name);
        struct call call;
        assert_int_equal(find(&call, &k, "Bearer x"), OP_PENDING); /* all of them out: in Redis */
        identity_cancel(&call.call);
    }
    uint64_t began = loop_clock_ns();
    for (int i = 0; i < 10000; i++) {
        snprintf(name, sizeof name, "u%d", i);
        told(key_of_subject(name, key));
    }
    assert_true(loop_clock_ns() - began < 500 * 1000000ull);
}

static void test_end_with_a_read_out(void **state)
{
    (void)state;
    fresh_start();
    told(GENERATION);
    identities_flush(t.ids, 0, NULL);
    identities_destroy(t.ids);
    t.ids = NULL;
    deliver(); /* nothing comes back to what is gone */
    assert_int_equal(raised, 0);
}

static void test_without_redis(void **state)
{
    (void)state;
    struct token jane = token_of("iss", "jane", "a");
    open_with(watching(), false);
    fetch_one(&jane, "jane");
    told("");
    loop_advance(t.loop, 1);
    assert_int_equal(whence(&jane), FOUND_NONE);
    identities_flush_told(t.ids, 0, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_changed_key_is_gone_at_once),
        TEST(test_what_is_no_key_of_a_context),
        TEST(test_a_lookup_that_is_out),
        TEST(test_everything_in_doubt),
        TEST(test_a_raised_generation),
        TEST(test_the_same_generation_is_no_news),
        TEST(test_a_changed_generation_that_cannot_be_read),
        TEST(test_our_own_raise_is_no_news),
        TEST(test_owed_is_paid_when_redis_is_back),
        TEST(test_what_others_flushed),
        TEST(test_ten_thousand_keys_are_no_stall),
        TEST(test_end_with_a_read_out),
        TEST(test_without_redis),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
