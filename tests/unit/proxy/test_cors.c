/* proxy/cors: the Fetch standard's CORS protocol: which answers an origin may read, and what a preflight is told. */
#include "proxy/cors.h"
#include "requested.h"

static struct slice any[] = {{"*", 1}};
static struct slice listed[] = {{"https://app.test", 16}, {"https://other.test:8443", 23}};
static struct slice methods[] = {{"GET", 3}, {"PUT", 3}};
static struct slice headers[] = {{"authorization", 13}, {"x-a", 3}};
static struct slice expose[] = {{"x-request-id", 12}};

static void on(struct requested *q, struct slice *origins, size_t n)
{
    q->conf.cors.on = n > 0;
    q->conf.cors.origins = (struct conf_list){origins, n};
    q->conf.cors.methods = (struct conf_list){methods, 2};
    q->conf.cors.headers = (struct conf_list){headers, 2};
    q->conf.cors.expose = (struct conf_list){expose, 1};
    q->conf.cors.max_age_s = 600;
}

static const char *written(struct requested *q, bool preflight)
{
    cors_headers(&q->r, &q->out, preflight);
    buf_add_char(&q->out, '\0');
    return q->out.p;
}

static void preflights(void **state)
{
    (void)state;
    const struct {
        const char *method;
        const char *const *lines;
        bool on, preflight;
    } rows[] = {
        {"OPTIONS", LINES("Origin: https://app.test", "Access-Control-Request-Method: PUT"), true, true},
        {"OPTIONS", LINES("Origin: https://evil.test", "Access-Control-Request-Method: PUT"), true, true},
        {"OPTIONS", LINES("Origin: https://app.test"), true, false},
        {"OPTIONS", LINES("Access-Control-Request-Method: PUT"), true, false},
        {"GET", LINES("Origin: https://app.test", "Access-Control-Request-Method: PUT"), true, false},
        {"OPTIONS", LINES("Origin: https://app.test", "Access-Control-Request-Method: PUT"), false, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct requested q;
        requested_init(&q, rows[i].method, rows[i].lines);
        on(&q, listed, rows[i].on ? 2 : 0);
        if (cors_is_preflight(&q.r) != rows[i].preflight) fail_msg("row %zu", i);
        requested_finish(&q);
    }
}

/* An origin is compared whole and exactly: no prefix, no other scheme or port, no other case. */
static void origins(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        bool allowed;
    } rows[] = {
        {"Origin: https://app.test", true},
        {"Origin: https://other.test:8443", true},
        {"Origin: https://app.test:443", false},
        {"Origin: https://app.test.evil.test", false},
        {"Origin: http://app.test", false},
        {"Origin: https://evil.test", false},
        {"Origin: https://app.tes", false},
        {"Origin: null", false},
        {"Origin:", false},
        {"Origin: *", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct requested q;
        requested_init(&q, "GET", LINES(rows[i].line));
        on(&q, listed, 2);
        const char *out = written(&q, false);
        assert_int_equal(strncmp(out, "Vary: Origin\r\n", 14), 0); /* whoever asks: a cache must not mix them */
        if ((strstr(out, "Access-Control-Allow-Origin: ") != NULL) != rows[i].allowed) fail_msg("%s", rows[i].line);
        requested_finish(&q);
    }
}

static void answers(void **state)
{
    (void)state;
    struct requested q;
    requested_init(&q, "GET", LINES("Origin: https://app.test"));
    on(&q, listed, 2);
    q.conf.cors.credentials = true;
    assert_string_equal(written(&q, false), "Vary: Origin\r\nAccess-Control-Allow-Origin: https://app.test\r\n"
                                            "Access-Control-Allow-Credentials: true\r\n"
                                            "Access-Control-Expose-Headers: x-request-id\r\n");
    requested_finish(&q);
    requested_init(&q, "GET", LINES("Origin: https://anybody.test"));
    on(&q, any, 1);
    assert_string_equal(written(&q, false), "Vary: Origin\r\nAccess-Control-Allow-Origin: https://anybody.test\r\n"
                                            "Access-Control-Expose-Headers: x-request-id\r\n");
    requested_finish(&q);
    requested_init(&q, "GET", LINES("Origin: https://app.test"));
    on(&q, NULL, 0);
    assert_string_equal(written(&q, false), "");
    requested_finish(&q);
    requested_init(&q, "GET", LINES("Host: a"));
    on(&q, listed, 2);
    assert_string_equal(written(&q, false), "Vary: Origin\r\n");
    requested_finish(&q);
}

static void preflight_answers(void **state)
{
    (void)state;
    struct requested q;
    const char *const *asked = LINES("Origin: https://app.test", "Access-Control-Request-Method: PUT",
                                     "Access-Control-Request-Headers: x-b, x-c");
    requested_init(&q, "OPTIONS", asked);
    on(&q, listed, 2);
    assert_string_equal(written(&q, true), "Vary: Origin\r\nAccess-Control-Allow-Origin: https://app.test\r\n"
                                           "Access-Control-Allow-Methods: GET, PUT\r\n"
                                           "Access-Control-Allow-Headers: authorization, x-a\r\n"
                                           "Access-Control-Max-Age: 600\r\n");
    requested_finish(&q);
    requested_init(&q, "OPTIONS", asked);
    on(&q, listed, 2);
    q.conf.cors.headers.n = 0; /* none listed: those asked for */
    q.conf.cors.max_age_s = 0;
    assert_string_equal(written(&q, true), "Vary: Origin\r\nAccess-Control-Allow-Origin: https://app.test\r\n"
                                           "Access-Control-Allow-Methods: GET, PUT\r\n"
                                           "Access-Control-Allow-Headers: x-b, x-c\r\n");
    requested_finish(&q);
    requested_init(&q, "OPTIONS", LINES("Origin: https://evil.test", "Access-Control-Request-Method: PUT"));
    on(&q, listed, 2);
    assert_string_equal(written(&q, true), "Vary: Origin\r\n");
    requested_finish(&q);
}

/* Where cors is configured it replaces what the API says. */
static void the_apis_own(void **state)
{
    (void)state;
    for (int is_on = 0; is_on < 2; is_on++) {
        struct requested q;
        requested_init(&q, "GET",
                       LINES("Access-Control-Allow-Origin: *", "access-control-allow-credentials: true",
                             "Access-Control-Allow-Methods: *", "Access-Control-Allow-Headers: *",
                             "Access-Control-Expose-Headers: *", "Access-Control-Max-Age: 1", "Vary: Accept", "X: y"));
        on(&q, listed, is_on ? 2 : 0);
        cors_drop(&q.r, &q.head);
        for (size_t i = 0; i < 6; i++)
            assert_int_equal(q.v[i].drop, is_on);
        assert_false(q.v[6].drop || q.v[7].drop);
        requested_finish(&q);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(preflights),        cmocka_unit_test(origins),      cmocka_unit_test(answers),
        cmocka_unit_test(preflight_answers), cmocka_unit_test(the_apis_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
