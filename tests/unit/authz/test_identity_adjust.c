/* Contexts under a configuration that changes: what stays, and what another way of making them leaves alone in Redis. */
#include "identify.h"

static int freed;

static void on_gone(struct held *h)
{
    (void)h;
    freed++;
}

/* Limits change, what is known stays; the old texts are let go of. */
static void test_limits(void **state)
{
    (void)state;
    struct held first, second;
    struct token jane = token_of("iss", "jane", "a"), john = token_of("iss", "john", "b"), k = token_of("iss", "k", "c");
    struct call a, b;
    freed = 0;
    held_init(&first, on_gone);
    held_init(&second, on_gone);
    struct identity_config c = base_config();
    c.owner = &first;
    open_with(c, false);
    held_release(&first);
    fetch_one(&jane, "jane");
    assert_int_equal(freed, 0);
    c.owner = &second;
    c.max_inflight = 1;
    c.service_authorization = SLICE("Bearer other");
    identities_adjust(t.ids, &c);
    assert_int_equal(freed, 1);
    held_release(&second);
    assert_int_equal(whence(&jane), FOUND_MEMORY);
    assert_int_equal(find(&a, &john, "Bearer x"), OP_PENDING);
    assert_int_equal(find(&b, &k, "Bearer x"), OP_DONE);
    assert_int_equal(b.call.reason, REASON_CONTEXT_OVERLOADED);
    c.max_inflight = 2;
    identities_adjust(t.ids, &c);
    assert_int_equal(find(&b, &k, "Bearer x"), OP_PENDING);
    identity_cancel(&a.call);
    identity_cancel(&b.call);
    identities_destroy(t.ids);
    t.ids = NULL;
    assert_int_equal(freed, 2);
}

/* In Redis only what was made in the same way is taken; a flush reaches it, however it was made. */
static void test_made_by(void **state)
{
    (void)state;
    struct token k = token_of("iss", "jane", "a");
    struct identity_config c = base_config();
    c.made_by = SLICE("one");
    open_with(c, true);
    fetch_one(&k, "jane");
    char *key = xstrdup(fake_redis_nth(t.redis, 0)->key);
    assert_non_null(strstr(fake_redis_find(t.redis, key)->value, "\"by\":\"one\""));
    loop_advance(t.loop, 30001);
    assert_int_equal(whence(&k), FOUND_REDIS);
    identities_destroy(t.ids);
    c.made_by = SLICE("two");
    t.ids = identities_create(t.loop, t.fetch, t.redis, &c);
    fetch_one(&k, "jane"); /* not taken, replaced under the same key */
    assert_non_null(strstr(fake_redis_find(t.redis, key)->value, "\"by\":\"two\""));
    identities_destroy(t.ids);
    c.made_by = SLICE("one");
    t.ids = identities_create(t.loop, t.fetch, t.redis, &c);
    flush_subject(SLICE("iss"), SLICE("jane"));
    deliver();
    assert_null(fake_redis_find(t.redis, key));
    free(key);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(test_limits), TEST(test_made_by)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
