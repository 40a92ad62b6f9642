/* Which route a path takes: exactness, then length; whole segments only. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "conf/routes.h"

#define EXACT(text) {.name = {"=" text, sizeof text}, .path = {text, sizeof text - 1}}
#define PREFIX(text) {.name = {"^" text, sizeof text}, .path = {text, sizeof text - 1}, .prefix = true}

static const struct conf_route table[] = {
    EXACT("/api"), PREFIX("/api"), PREFIX("/api/users"), EXACT("/api/users/me"), PREFIX("/api/users/me/keys"),
    EXACT("/health"), PREFIX("/a/b/c"), EXACT(""), PREFIX("/docs"), EXACT("/x/y"),
};

static const struct {
    const char *path;
    const char *route; /* NULL: none */
} rows[] = {
    {"/api", "=/api"},
    {"/api/", "=/api"},
    {"/apix", NULL},
    {"/ap", NULL},
    {"/api/x", "^/api"},
    {"/api/x/", "^/api"},
    {"/api/usersx", "^/api"},
    {"/api/users", "^/api/users"},
    {"/api/users/", "^/api/users"},
    {"/api/users/you", "^/api/users"},
    {"/api/users/me", "=/api/users/me"},
    {"/api/users/me/", "=/api/users/me"},
    {"/api/users/me/x", "^/api/users"},
    {"/api/users/me/keys", "^/api/users/me/keys"},
    {"/api/users/me/keys/1/2/3", "^/api/users/me/keys"},
    {"/health", "=/health"},
    {"/health/", "=/health"},
    {"/health/x", NULL},
    {"/healthx", NULL},
    {"/a", NULL},
    {"/a/b", NULL},
    {"/a/b/c", "^/a/b/c"},
    {"/a/b/cd", NULL},
    {"/a/b/c/d", "^/a/b/c"},
    {"/", "="},
    {"", NULL},
    {"*", NULL},
    {"api", NULL},
    {"/API", NULL},
    {"/docs-v3", NULL},
    {"/x/y", "=/x/y"},
    {"/x", NULL},
    {"/x/y/z", NULL},
};

static void check(const struct routes *r, const char *path, const char *expected)
{
    const struct conf_route *found = routes_find(r, slice_str(path));
    const char *name = found ? found->name.p : NULL;
    if ((!name != !expected) || (name && strcmp(name, expected) != 0)) {
        print_error("%s: %s, expected %s\n", path, name ? name : "nothing", expected ? expected : "nothing");
        fail();
    }
}

static void test_table(void **state)
{
    (void)state;
    struct routes *r = routes_create(table, sizeof table / sizeof table[0]);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) check(r, rows[i].path, rows[i].route);
    routes_destroy(r);
}

static void test_order_does_not_matter(void **state)
{
    (void)state;
    struct conf_route back[sizeof table / sizeof table[0]];
    size_t n = sizeof table / sizeof table[0];
    for (size_t i = 0; i < n; i++) back[i] = table[n - 1 - i];
    struct routes *r = routes_create(back, n);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) check(r, rows[i].path, rows[i].route);
    routes_destroy(r);
}

/* The prefix / takes whatever nothing else does; the longest prefix wins against it. */
static void test_root_prefix(void **state)
{
    (void)state;
    static const struct conf_route v[] = {PREFIX(""), PREFIX("/api")};
    struct routes *r = routes_create(v, 2);
    check(r, "/", "^");
    check(r, "/x", "^");
    check(r, "/apix", "^");
    check(r, "/api", "^/api");
    check(r, "/api/x", "^/api");
    check(r, "*", NULL);
    routes_destroy(r);
}

static void test_none(void **state)
{
    (void)state;
    struct routes *r = routes_create(NULL, 0);
    check(r, "/", NULL);
    check(r, "/a/b", NULL);
    routes_destroy(r);
    routes_destroy(NULL);
}

static void test_ten_thousand(void **state)
{
    (void)state;
    enum { N = 10000 };
    static struct conf_route v[N];
    static char text[N][32];
    for (int i = 0; i < N; i++) {
        int n = snprintf(text[i], sizeof text[i], "/api/v%d/r%d", i % 10, i);
        v[i] = (struct conf_route){.path = slice_make(text[i], (size_t)n), .prefix = i % 2 == 0};
        v[i].name = v[i].path;
    }
    struct routes *r = routes_create(v, N);
    for (int i = 0; i < N; i++) {
        char path[64];
        assert_ptr_equal(routes_find(r, v[i].path), &v[i]);
        snprintf(path, sizeof path, "%s/below", text[i]);
        assert_ptr_equal(routes_find(r, slice_str(path)), i % 2 == 0 ? &v[i] : NULL);
        snprintf(path, sizeof path, "%sx", text[i]);
        assert_null(routes_find(r, slice_str(path)));
    }
    routes_destroy(r);
}

/* Longer than any route: nothing beyond the longest one is looked at. */
static void test_long_path(void **state)
{
    (void)state;
    struct routes *r = routes_create(table, sizeof table / sizeof table[0]);
    char path[8193];
    memcpy(path, "/api", 4);
    for (size_t i = 4; i < sizeof path - 1; i++) path[i] = i % 2 ? 'a' : '/';
    path[sizeof path - 1] = '\0';
    check(r, path, "^/api");
    routes_destroy(r);
}

static void test_methods(void **state)
{
    (void)state;
    struct slice get[] = {SLICE("GET"), SLICE("POST")}, put[] = {SLICE("PUT")};
    struct conf_route any = {.prefix = true}, some = {.methods = {get, 2}}, one = {.methods = {put, 1}};
    assert_true(route_allows(&any, SLICE("GET")));
    assert_true(route_allows(&any, SLICE("BREW")));
    assert_true(route_allows(&some, SLICE("GET")));
    assert_true(route_allows(&some, SLICE("HEAD")));
    assert_true(route_allows(&some, SLICE("POST")));
    assert_false(route_allows(&some, SLICE("PUT")));
    assert_false(route_allows(&some, SLICE("get")));
    assert_false(route_allows(&some, SLICE("OPTIONS")));
    assert_true(route_allows(&one, SLICE("PUT")));
    assert_false(route_allows(&one, SLICE("HEAD")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),         cmocka_unit_test(test_order_does_not_matter),
        cmocka_unit_test(test_root_prefix),   cmocka_unit_test(test_none),
        cmocka_unit_test(test_ten_thousand),  cmocka_unit_test(test_long_path),
        cmocka_unit_test(test_methods),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
