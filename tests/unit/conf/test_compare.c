/* Two configurations side by side: what differs, by its path, and what does not. */
#include "conf/compare.h"
#include "fixture.h"

#define BASE                                                                                                           \
    "upstream: {url: \"http://127.0.0.1:1\"}\n"                                                                        \
    "upstreams: {files: {url: \"http://127.0.0.1:2\"}, old: {url: \"http://127.0.0.1:3\"}}\n"                          \
    "tokens: {issuers: [{issuer: a, secret: 0123456789abcdef0123456789abcdef, algorithms: [HS256], audiences: [x]}]}\n" \
    "policy: {url: \"http://127.0.0.1:8181/v1/data/a\"}\n"                                                             \
    "routes: [{prefix: /, access: public}, {path: /b, upstream: files}]\n"

static struct buf told;

static void on_difference(const char *path, void *arg)
{
    (void)arg;
    buf_printf(&told, "%s ", path);
}

static const char *differences(const struct conf *a, const struct conf *b)
{
    told.n = 0;
    conf_differences(a, b, on_difference, NULL);
    buf_add_char(&told, '\0');
    return told.p;
}

static struct loaded load(const char *yaml)
{
    struct loaded l = load_text_with(yaml, NULL);
    if (!l.conf) print_error("%s", l.errors.p);
    assert_non_null(l.conf);
    return l;
}

static void test_nothing_differs(void **state)
{
    (void)state;
    struct loaded a = load(BASE), b = load("# another text\n" BASE);
    struct buf one, two;
    buf_init(&one, NULL);
    buf_init(&two, NULL);
    assert_string_equal(differences(a.conf, b.conf), "");
    assert_true(conf_same(a.conf, b.conf, ""));
    conf_canonical(a.conf, &one);
    conf_canonical(b.conf, &two);
    assert_true(one.n > 100 && slice_eq(buf_slice(&one), buf_slice(&two)));
    assert_null(memmem(one.p, one.n, "0123456789abcdef", 16));
    buf_free(&one);
    buf_free(&two);
    unload(&a);
    unload(&b);
}

static void test_each_kind(void **state)
{
    (void)state;
    static const struct {
        const char *more, *told;
    } rows[] = {
        {"listen: {address: \"127.0.0.1:3002\"}", "listen.address "},
        {"listen: {address: \"0.0.0.0:3002\"}", "listen.address "},
        {"listen: {trusted_proxies: [10.0.0.0/8]}", "listen.trusted_proxies "},
        {"listen: {hosts: [a.test]}", "listen.hosts "},
        {"listen: {header_timeout_ms: 500}", "listen.header_timeout_ms "},
        {"context: {jitter: 0.5}", "context.jitter "},
        {"authorize: {what_if: true}", "authorize.what_if "},
        {"log: {level: debug}", "log.level "},
        {"context: {shape: shape.jq}", "context.shape "},
        {"redis: {url: \"redis://:password@h\"}", "redis.url "},
        {"admin: {token: 0123456789abcdef}", "admin.token "},
        {"strip_headers: [x-a]", "strip_headers "},
        {"cors: {origins: [\"https://a.test\"]}", "cors.origins "},
    };
    write_file("shape.jq", ".");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char yaml[2048];
        snprintf(yaml, sizeof yaml, "%s%s\n", BASE, rows[i].more);
        struct loaded a = load(BASE), b = load(yaml);
        assert_string_equal(differences(a.conf, b.conf), rows[i].told);
        assert_string_equal(differences(b.conf, a.conf), rows[i].told);
        assert_false(conf_same(a.conf, b.conf, ""));
        unload(&a);
        unload(&b);
    }
}

static void test_entries(void **state)
{
    (void)state;
    struct loaded a = load(BASE);
    struct loaded b = load("upstream: {url: \"http://127.0.0.1:1\", max_idle: 3}\n"
                           "upstreams: {new: {url: \"http://127.0.0.1:3\"}, files: {urls: [\"http://127.0.0.1:2\"]}}\n"
                           "tokens: {issuers: [{issuer: a, secret: 0123456789abcdef0123456789abcdeX, algorithms: [HS256], "
                           "audiences: [x, y]}]}\n"
                           "policy: {url: \"http://127.0.0.1:8181/v1/data/a\"}\n"
                           "routes: [{path: /, access: public}, {path: /b}, {path: /c}]\n");
    assert_string_equal(differences(a.conf, b.conf),
                        "upstream.max_idle upstreams.files.url upstreams.files.urls upstreams.old upstreams.new "
                        "tokens.issuers[0].secret tokens.issuers[0].audiences "
                        "routes[0].prefix routes[1].upstream routes[2] ");
    assert_true(conf_same(a.conf, b.conf, "policy."));
    unload(&a);
    unload(&b);
}

/* Of a file what stands in it counts. */
static void test_files(void **state)
{
    (void)state;
    write_file("shape.jq", ".");
    struct loaded a = load(BASE "context: {shape: shape.jq}\n");
    struct loaded same = load(BASE "context: {shape: ./shape.jq}\n");
    write_file("shape.jq", ".a");
    struct loaded b = load(BASE "context: {shape: shape.jq}\n");
    assert_string_equal(differences(a.conf, same.conf), "");
    assert_string_equal(differences(a.conf, b.conf), "context.shape ");
    assert_false(conf_same(a.conf, b.conf, "context."));
    assert_true(conf_same(a.conf, b.conf, "grant."));
    unload(&a);
    unload(&same);
    unload(&b);
}

/* A variable that held a secret is out of the environment after the first time, and there for the second. */
static void test_secrets_are_there_again(void **state)
{
    (void)state;
    char variable[] = "DOORWARD_ADMIN_TOKEN=0123456789abcdef", other[] = "PASS=hunter2hunter2";
    char *env[] = {variable, other, NULL}, *none[] = {NULL};
    struct conf_taken *taken = conf_taken_create();
    struct buf errors, warnings;
    buf_init(&errors, NULL);
    buf_init(&warnings, NULL);
    write_file("c.yaml", BASE "redis: {url: \"redis://:${PASS}@h\"}\n");
    struct conf_source src = {.file = "c.yaml", .environ = env, .taken = taken};
    struct conf *first = conf_load(&src, &errors, &warnings);
    assert_non_null(first);
    src.environ = none;
    for (int i = 0; i < 2; i++) {
        struct conf *again = conf_load(&src, &errors, &warnings);
        assert_non_null(again);
        assert_string_equal(differences(first, again), "");
        assert_slice(again->admin.token, "0123456789abcdef");
        conf_destroy(again);
    }
    src.taken = NULL;
    assert_null(conf_load(&src, &errors, &warnings));
    conf_destroy(first);
    conf_taken_destroy(taken);
    buf_free(&errors);
    buf_free(&warnings);
}

/* Files are read once; another process reads the same, whatever has become of them. */
static void test_files_are_given_on(void **state)
{
    (void)state;
    char *none[] = {NULL};
    struct buf errors, warnings, packed;
    buf_init(&errors, NULL);
    buf_init(&warnings, NULL);
    buf_init(&packed, NULL);
    write_file("token", "0123456789abcdef\n");
    write_file("c.yaml", BASE "workers: auto\nadmin: {token_file: token}\n");
    struct conf_source src = {.file = "c.yaml", .environ = none, .files = conf_files_create()};
    struct conf *first = conf_load(&src, &errors, &warnings);
    assert_non_null(first);
    conf_files_pack(src.files, &packed);
    conf_files_destroy(src.files);
    write_file("token", "another-token-0123\n");
    write_file("c.yaml", "broken: [");
    src.files = conf_files_unpack(buf_slice(&packed));
    struct conf *given = conf_load(&src, &errors, &warnings);
    assert_non_null(given);
    assert_string_equal(differences(first, given), "");
    assert_slice(given->admin.token, "0123456789abcdef");
    assert_int_equal(given->workers, 0);
    conf_destroy(given);
    conf_files_destroy(src.files);
    for (size_t n = 0; n < packed.n; n++) { /* what is not whole is not there */
        src.files = conf_files_unpack(slice_make(packed.p, n));
        assert_null(conf_load(&src, &errors, &warnings));
        conf_files_destroy(src.files);
    }
    conf_destroy(first);
    buf_free(&errors);
    buf_free(&warnings);
    buf_free(&packed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_differs), cmocka_unit_test(test_each_kind), cmocka_unit_test(test_entries),
        cmocka_unit_test(test_files),           cmocka_unit_test(test_secrets_are_there_again),
        cmocka_unit_test(test_files_are_given_on),
    };
    buf_init(&told, NULL);
    int failed = cmocka_run_group_tests(tests, enter_folder, leave_folder);
    buf_free(&told);
    return failed;
}
