/* remote/redis_url: what is read out of a URL, and what is refused without a word of it in the message. */
#include "remote/redis_url.h"

#include "harness.h"
#include "remote/redis.h"

static void urls(void **state)
{
    static const struct {
        const char *url, *host, *path, *user, *password;
        int port, db;
    } good[] = {
        {"redis://a", "a", NULL, NULL, NULL, 6379, 0},
        {"REDIS://a.b:1/", "a.b", NULL, NULL, NULL, 1, 0},
        {"redis://[::1]:7000/15", "::1", NULL, NULL, NULL, 7000, 15},
        {"redis://:p%40%3A%2f@a:1/2", "a", NULL, NULL, "p@:/", 1, 2},
        {"redis://u%20v:p:q@r@a?db=9", "a", NULL, "u v", "p:q@r", 6379, 9},
        {"unix:/run/r.sock", NULL, "/run/r.sock", NULL, NULL, 0, 0},
        {"unix:///run/r%20.sock?db=3", NULL, "/run/r .sock", NULL, NULL, 0, 3},
        {"redis+unix:///run/r.sock", NULL, "/run/r.sock", NULL, NULL, 0, 0},
        {"rediss://u:p@a/1", "a", NULL, "u", "p", 6379, 1},
        {"redis+unix://:pw@/r?db=1", NULL, "/r", NULL, "pw", 0, 1},
    };
    static const char *const bad[] = {
        "",
        "redis:",
        "redis://",
        "redis://:6379",
        "http://a",
        "rediss:a",
        "redissss://a",
        "redis://hunter2@a",
        "redis://u:@a",
        "redis://:hunter2@",
        "redis://:hunter%2@a",
        "redis://:hunter2%zz@a",
        "redis://:hunter2%00@a",
        "redis://a:0",
        "redis://a:65536",
        "redis://a:-1",
        "redis://a:x",
        "redis://a/x",
        "redis://a/1/2",
        "redis://a/-1",
        "redis://a/99999999999",
        "redis://[::1",
        "redis://[::1]x",
        "redis://a?x=1",
        "redis://a?db=",
        "redis://a b",
        "unix:",
        "unix:/",
        "unix:r.sock",
        "unix:/r?timeout=1",
        "redis+unix://host/r",
        "redis+unix://hunter2@/r",
        "redis://:hunter2/x@a",
        "unix:/"
        "123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678",
    };
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct redis_url u;
        const char *wrong = redis_url_parse(slice_str(good[i].url), &u);
        if (wrong) fail_msg("%s: %s", good[i].url, wrong);
#define SAME(field) assert_true(good[i].field ? u.field &&strcmp(u.field, good[i].field) == 0 : !u.field)
        SAME(host);
        SAME(path);
        SAME(user);
        SAME(password);
        assert_int_equal(u.port, good[i].port);
        assert_int_equal(u.db, good[i].db);
        redis_url_finish(&u);
    }
    struct harness h;
    harness_open(&h);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char *error = NULL;
        struct redis_config c = {.url = slice_str(bad[i]), .timeout_ms = 100};
        if (redis_create(h.loop, &c, &error)) fail_msg("taken: %s", bad[i]);
        assert_non_null(error);
        assert_null(strstr(error, "hunter"));
        free(error);
    }
    harness_close(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(urls),
    };
    return cmocka_run_group_tests_name("remote/redis_url", tests, NULL, NULL);
}
