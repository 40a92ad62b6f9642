/* io/resolve and io/address: the system's resolver off the loop, told once, cancelled at any time; addresses as values. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <unistd.h>

#include "io/address.h"
#include "io/resolve.h"

static struct {
    struct loop *loop;
    size_t told, n;
    int status;
    struct sockaddr_storage v[64];
} t;

typedef int getaddrinfo_fn(const char *, const char *, const struct addrinfo *, struct addrinfo **);

static atomic_int hanging;
static atomic_bool let_go;

/* The resolver of this program, also libuv's: hangs.test takes as long as we want. */
int getaddrinfo(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **out)
{
    getaddrinfo_fn *real = (getaddrinfo_fn *)(uintptr_t)dlsym(RTLD_NEXT, "getaddrinfo");
    if (!host || strcmp(host, "hangs.test") != 0) return real(host, port, hints, out);
    hanging++;
    while (!let_go) usleep(1000);
    hanging--;
    return real("192.0.2.9", port, hints, out);
}

static void on_resolved(int status, const struct sockaddr_storage *v, size_t n, void *arg)
{
    assert_ptr_equal(arg, &t);
    t.told++;
    t.status = status;
    t.n = n;
    for (size_t i = 0; i < n && i < 64; i++) t.v[i] = v[i];
    assert_true(status ? n == 0 : n > 0);
    loop_stop(t.loop);
}

static void start(void)
{
    memset(&t, 0, sizeof t);
    t.loop = loop_create();
}

static void end(void)
{
    loop_close(t.loop);
    loop_run(t.loop);
    loop_destroy(t.loop);
}

static struct resolve *ask(const char *name)
{
    return resolve_start(t.loop, name, 8080, on_resolved, &t);
}

static void names(void **state)
{
    (void)state;
    start();
    ask("localhost");
    assert_int_equal(t.told, 0);
    loop_serve(t.loop);
    assert_int_equal(t.told, 1);
    assert_int_equal(t.status, 0);
    for (size_t i = 0; i < t.n; i++) {
        char text[ADDRESS_TEXT_BYTES];
        address_text(&t.v[i], text);
        assert_true(strcmp(text, "127.0.0.1:8080") == 0 || strcmp(text, "[::1]:8080") == 0);
        for (size_t k = 0; k < i; k++) assert_false(address_same(&t.v[i], &t.v[k]));
    }
    ask("192.0.2.7"); /* a literal is a name like any */
    loop_serve(t.loop);
    assert_int_equal(t.n, 1);
    end();
}

static void no_such_name(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "no such name", "a..b"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        start();
        ask(bad[i]);
        loop_serve(t.loop);
        assert_int_equal(t.told, 1);
        assert_true(t.status < 0);
        end();
    }
    start();
    char *endless = calloc(1, 5001); /* libuv does not begin with it */
    memset(endless, 'a', 5000);
    ask(endless);
    free(endless);
    assert_int_equal(t.told, 0);
    loop_serve(t.loop);
    assert_int_equal(t.told, 1);
    assert_true(t.status < 0);
    end();
}

static void cancelled(void **state)
{
    (void)state;
    for (int turns = 0; turns < 3; turns++) {
        start();
        struct resolve *r = ask("localhost");
        if (turns == 2) { /* at once, one that could not begin */
            resolve_cancel(r);
            char *endless = calloc(1, 5001);
            memset(endless, 'a', 5000);
            r = ask(endless);
            free(endless);
        }
        for (int i = 0; i < turns && !t.told; i++) loop_turn(t.loop);
        if (!t.told) resolve_cancel(r);
        size_t told = t.told;
        end(); /* runs until the thread is back */
        assert_int_equal(t.told, told);
    }
}

static void on_one(int status, const struct sockaddr_storage *v, size_t n, void *arg)
{
    char text[ADDRESS_TEXT_BYTES] = "";
    if (status == 0 && n == 1) address_text(&v[0], text);
    snprintf(arg, ADDRESS_TEXT_BYTES, "%s", text);
}

/* However often it is asked for and given up, it takes one thread: other names find one. */
static void one_that_hangs(void **state)
{
    char first[ADDRESS_TEXT_BYTES] = "", second[ADDRESS_TEXT_BYTES] = "";
    (void)state;
    let_go = false;
    start();
    for (int i = 0; i < 20; i++) {
        struct resolve *r = ask("hangs.test");
        for (int k = 0; k < 1000 && !hanging; k++) usleep(1000);
        loop_turn(t.loop);
        resolve_cancel(r);
    }
    ask("localhost");
    for (int i = 0; i < 5000 && !t.told; i++) {
        loop_turn(t.loop);
        usleep(1000);
    }
    assert_int_equal(t.told, 1);
    assert_int_equal(t.status, 0);
    assert_int_equal(hanging, 1);
    resolve_start(t.loop, "hangs.test", 1, on_one, first); /* each with its port, from the one answer */
    resolve_start(t.loop, "hangs.test", 65535, on_one, second);
    let_go = true;
    end();
    assert_string_equal(first, "192.0.2.9:1");
    assert_string_equal(second, "192.0.2.9:65535");
}

/* Nor does the end wait for it. */
static void ends_without_it(void **state)
{
    (void)state;
    let_go = false;
    start();
    struct resolve *r = ask("hangs.test");
    for (int k = 0; k < 1000 && !hanging; k++) usleep(1000);
    resolve_cancel(r);
    loop_close(t.loop);
    assert_false(loop_end(t.loop));
    let_go = true;
    while (!loop_end(t.loop)) continue;
    loop_destroy(t.loop);
    assert_int_equal(t.told, 0);
}

static void addresses(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"192.0.2.1", "192.0.2.1:80"}, {"::1", "[::1]:80"}, {"2001:DB8::0:1", "[2001:db8::1]:80"}, {"localhost", NULL},
        {"192.0.2", NULL},             {"[::1]", NULL},     {"", NULL},                             {"256.1.1.1", NULL},
    };
    struct sockaddr_storage a, b;
    char text[ADDRESS_TEXT_BYTES];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(address_literal(rows[i][0], 80, &a), rows[i][1] != NULL);
        if (!rows[i][1]) continue;
        address_text(&a, text);
        assert_string_equal(text, rows[i][1]);
        assert_true(address_literal(rows[i][0], 80, &b) && address_same(&a, &b));
        assert_true(address_literal(rows[i][0], 81, &b));
        assert_false(address_same(&a, &b));
        assert_true(address_literal(i ? "::2" : "192.0.2.2", 80, &b));
        assert_false(address_same(&a, &b));
    }
    assert_true(address_literal("::ffff:192.0.2.1", 80, &a) && address_literal("192.0.2.1", 80, &b));
    assert_false(address_same(&a, &b)); /* another family */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(no_such_name),
        cmocka_unit_test(cancelled),
        cmocka_unit_test(one_that_hangs),
        cmocka_unit_test(ends_without_it),
        cmocka_unit_test(addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
