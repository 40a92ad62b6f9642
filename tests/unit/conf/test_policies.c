/* policy.path: which files are read of a file, a folder, a bundle; what is refused; that others get the same bytes. */
#include <sys/stat.h>

#include "conf/policies.h"
#include "fixture.h"

#define RULE "policy: {path: p, rule: data.a.allow}" PUBLIC_ROUTE
#define A "package a\nallow := true\n"

static void run(const char *command)
{
    assert_int_equal(system(command), 0);
}

static int begin(void **state)
{
    (void)state;
    return system("rm -rf p && mkdir -p p") == 0 ? 0 : -1;
}

static int leave(void **state)
{
    return system("rm -rf p ..data") == 0 ? leave_folder(state) : -1;
}

/* The names that were read, with spaces between. */
static const char *names_of(const struct conf *c)
{
    static char text[1000];
    text[0] = '\0';
    for (size_t i = 0; i < c->policy.files_n; i++) {
        strncat(text, i ? " " : "", sizeof text - strlen(text) - 1);
        strncat(text, c->policy.files[i].name.p, sizeof text - strlen(text) - 1);
    }
    return text;
}

static void assert_read(const char *yaml, const char *names)
{
    struct loaded l = load_text_with(yaml, NULL);
    assert_string_equal(l.errors.p, "");
    assert_string_equal(l.warnings.p, "");
    assert_string_equal(names_of(l.conf), names);
    assert_slice(l.conf->policy.rule, "data.a.allow");
    unload(&l);
}

static void assert_refused(const char *yaml, const char *errors)
{
    struct loaded l = load_text_with(yaml, NULL);
    assert_string_equal(l.errors.p, errors);
    assert_null(l.conf);
    unload(&l);
}

static void test_one_file(void **state)
{
    (void)state;
    write_file("p/a.rego", A);
    struct loaded l = load_text_with("policy: {path: p/a.rego, rule: data.a.allow}" PUBLIC_ROUTE, NULL);
    assert_string_equal(l.errors.p, "");
    assert_string_equal(names_of(l.conf), "a.rego");
    assert_slice(l.conf->policy.files[0].bytes, A);
    assert_slice(l.conf->policy.path, "p/a.rego");
    unload(&l);
}

static void test_url_names_a_file(void **state)
{
    (void)state;
    char yaml[300];
    write_file("p/a.rego", A);
    assert_read("policy: {url: 'file:p/a.rego', rule: data.a.allow}" PUBLIC_ROUTE, "a.rego");
    assert_read("policy: {url: 'file:p', rule: data.a.allow}" PUBLIC_ROUTE, "a.rego");
    snprintf(yaml, sizeof yaml, "policy: {url: 'file://%s/p', rule: data.a.allow}" PUBLIC_ROUTE, folder);
    assert_read(yaml, "a.rego");
    snprintf(yaml, sizeof yaml, "policy: {url: 'file:%s/p', rule: data.a.allow}" PUBLIC_ROUTE, folder);
    assert_read(yaml, "a.rego");
    assert_refused("policy: {url: 'file:q', rule: data.a.allow}" PUBLIC_ROUTE,
                   "c.yaml:1: policy.path: \"q\": no such file or folder\n");
}

static void test_a_bundle_may_have_any_bytes(void **state)
{
    (void)state;
    FILE *f = fopen("p/b.tar.gz", "w");
    assert_non_null(f);
    assert_int_equal(fwrite("a\0b", 1, 3, f), 3);
    assert_int_equal(fclose(f), 0);
    struct loaded l = load_text_with("policy: {path: p/b.tar.gz, rule: data.a.allow}" PUBLIC_ROUTE, NULL);
    assert_string_equal(l.errors.p, "");
    assert_string_equal(names_of(l.conf), "b.tar.gz");
    assert_int_equal(l.conf->policy.files[0].bytes.n, 3);
    unload(&l);
}

static void test_a_folder_in_order_without_what_is_none(void **state)
{
    (void)state;
    static const char *const others[] = {"p/.hidden.rego", "p/.#a.rego", "p/a.rego~",  "p/#a.rego#",  "p/a_test.rego",
                                         "p/README.md",    "p/x.json",   "p/.git/c.rego", "p/b.tar.gz"};
    run("mkdir -p p/b/c p/.git p/empty");
    write_file("p/b.rego", A);
    write_file("p/a.rego", A);
    write_file("p/b/z.rego", A);
    write_file("p/b/c/data.json", "{}");
    write_file("p/data.yaml", "{}");
    write_file("p/.manifest", "{}");
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) write_file(others[i], "");
    run("ln -s nobody@host.1 'p/.#b.rego'"); /* a lock of Emacs leads nowhere */
    assert_read(RULE, ".manifest a.rego b/c/data.json b/z.rego b.rego data.yaml");
}

/* What a mounted ConfigMap looks like. */
static void test_a_mounted_map(void **state)
{
    (void)state;
    run("mkdir -p p/..2026_1/sub && ln -s ..2026_1 p/..data && ln -s ..data/a.rego p/a.rego && ln -s ..data/sub p/sub");
    write_file("p/..2026_1/a.rego", A);
    write_file("p/..2026_1/sub/b.rego", A);
    assert_read(RULE, "a.rego sub/b.rego");
    uint64_t before = policies_mark("p");
    assert_int_equal(policies_mark("p"), before);
    run("cp -r p/..2026_1 p/..2026_2 && ln -sfn ..2026_2 p/..tmp && mv -T p/..tmp p/..data && rm -r p/..2026_1");
    assert_int_not_equal(policies_mark("p"), before);
    assert_read(RULE, "a.rego sub/b.rego");
}

static void test_refusals(void **state)
{
    (void)state;
    assert_refused(RULE, "c.yaml:1: policy.path: \"p\": no .rego file in it, expected a folder of policies\n");
    write_file("p/a.txt", "");
    assert_refused("policy: {path: p/a.txt, rule: data.a.allow}" PUBLIC_ROUTE,
                   "c.yaml:1: policy.path: \"p/a.txt\": neither a .rego file nor a bundle (.tar.gz), expected one of these "
                   "or a folder\n");
    run("mkfifo p/f.rego");
    assert_refused(RULE, "c.yaml:1: policy.path: \"p\": f.rego: not a regular file, expected one\n");
    run("rm p/f.rego && ln -s nowhere p/l.rego");
    assert_refused(RULE, "c.yaml:1: policy.path: \"p\": l.rego: no such file\n");
    run("rm p/l.rego && ln -s . p/again");
    write_file("p/a.rego", A);
    struct loaded l = load_text_with(RULE, NULL);
    assert_non_null(strstr(l.errors.p, "more than 16 folders deep, expected no link into itself"));
    unload(&l);
    run("rm p/again && truncate -s 17M p/a.rego");
    assert_refused(RULE, "c.yaml:1: policy.path: \"p\": a.rego: the file is too long\n");
    run("for i in 1 2 3 4 5; do truncate -s 15M p/$i.rego; done; rm p/a.rego");
    assert_refused(RULE, "c.yaml:1: policy.path: \"p\": more than 64 MiB in it, expected a folder of policies\n");
    run("cd p && rm *.rego && seq -f %g.rego 4097 | xargs touch");
    assert_refused(RULE, "c.yaml:1: policy.path: \"p\": more than 4096 files in it, expected a folder of policies\n");
}

static void test_what_belongs_together(void **state)
{
    (void)state;
    write_file("p/a.rego", A);
    assert_refused("policy: {path: p, url: 'http://a', rule: data.a.b}" PUBLIC_ROUTE,
                   "c.yaml:1: policy.path: given together with policy.url, expected one of the two\n");
    assert_refused("policy: {path: p}" PUBLIC_ROUTE, "c.yaml:1: policy.rule: none, but policy.path is given, expected the "
                                                     "rule to ask, as data.example.authz.allow\n");
    assert_refused("policy: {rule: data.a.b, url: 'http://a'}" PUBLIC_ROUTE,
                   "c.yaml:1: policy.rule: given without policy.path, expected both or none\n");
    static const char *const rules[] = {"data", "a.b", "data.", "data.a-b", "data..a", "data.a.", "data.1a", "data.a b"};
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        char yaml[200], errors[300];
        snprintf(yaml, sizeof yaml, "policy: {path: p, rule: '%s'}" PUBLIC_ROUTE, rules[i]);
        snprintf(errors, sizeof errors, "c.yaml:1: policy.rule: \"%s\" is no rule, expected data and its packages and name with "
                                        "dots between, as data.example.authz.allow\n", rules[i]);
        assert_refused(yaml, errors);
    }
}

static void test_what_is_not_used(void **state)
{
    (void)state;
    write_file("p/a.rego", A);
    struct loaded l = load_text_with("policy: {path: p, rule: data.a.b, authorization: Bearer x, on_error: allow}"
                                     PUBLIC_ROUTE, NULL);
    assert_string_equal(l.warnings.p,
                        "policy.authorization: given, but not used: policy.path is evaluated in this process\n"
                        "policy.on_error: given, but not used: policy.path is evaluated in this process\n");
    unload(&l);
    l = load_text_with("policy: {path: p, rule: data.a.b, on_error: deny}" PUBLIC_ROUTE, NULL);
    assert_string_equal(l.warnings.p, "");
    unload(&l);
}

/* Workers read what their supervisor read, whatever became of it. */
static void test_others_get_the_same(void **state)
{
    (void)state;
    static const char *const yamls[] = {RULE, "policy: {path: p/b.rego, rule: data.a.allow}" PUBLIC_ROUTE};
    static const char *const names[] = {"a.rego b.rego", "b.rego"};
    for (size_t i = 0; i < 2; i++) {
        struct buf packed, errors, warnings;
        run("mkdir -p p");
        write_file("p/a.rego", A);
        write_file("p/b.rego", A);
        write_file("c.yaml", yamls[i]);
        buf_init(&packed, NULL);
        buf_init(&errors, NULL);
        buf_init(&warnings, NULL);
        struct conf_source src = {.file = "c.yaml", .files = conf_files_create()};
        conf_destroy(conf_load(&src, &errors, &warnings));
        conf_files_pack(src.files, &packed);
        conf_files_destroy(src.files);
        run("rm -r p");
        src.files = conf_files_unpack(buf_slice(&packed));
        struct conf *c = conf_load(&src, &errors, &warnings);
        assert_non_null(c);
        assert_string_equal(names_of(c), names[i]);
        assert_slice(c->policy.files[0].bytes, A);
        conf_destroy(c);
        conf_files_destroy(src.files);
        buf_free(&packed);
        buf_free(&errors);
        buf_free(&warnings);
    }
}

/* Only the policies anew: the configuration as it was read, whatever became of its file; and that again for others. */
static void test_policies_alone(void **state)
{
    (void)state;
    struct buf packed, errors, warnings;
    write_file("p/a.rego", A);
    write_file("p/gone.rego", A);
    struct loaded l = load_text_with(RULE, NULL);
    assert_non_null(l.conf);
    assert_true(l.conf->policy.mark == policies_mark("p"));
    write_file("c.yaml", "not yaml: [");
    run("rm p/gone.rego");
    write_file("p/b.rego", "package b\n");
    buf_init(&packed, NULL);
    buf_init(&errors, NULL);
    buf_init(&warnings, NULL);
    struct conf_source src = {.file = "c.yaml", .files = conf_files_again(l.conf, l.conf->policy.path.p)};
    struct conf *c = conf_load(&src, &errors, &warnings);
    assert_non_null(c);
    assert_string_equal(names_of(c), "a.rego b.rego");
    assert_true(c->policy.mark == policies_mark("p"));
    conf_files_pack(src.files, &packed);
    conf_files_destroy(src.files);
    run("rm -r p");
    src.files = conf_files_unpack(buf_slice(&packed));
    struct conf *other = conf_load(&src, &errors, &warnings);
    assert_non_null(other);
    assert_string_equal(names_of(other), "a.rego b.rego");
    assert_slice(other->policy.files[1].bytes, "package b\n");
    conf_files_destroy(src.files);
    src.files = conf_files_again(c, c->policy.path.p);
    assert_null(conf_load(&src, &errors, &warnings)); /* nothing is there now */
    conf_files_destroy(src.files);
    conf_destroy(other);
    conf_destroy(c);
    buf_free(&packed);
    buf_free(&errors);
    buf_free(&warnings);
    unload(&l);
}

static void test_marks(void **state)
{
    (void)state;
    static const char *const changes[] = {"echo x >> p/a.rego",          "touch -d 2020-01-01 p/a.rego", "touch p/c.rego",
                                          "rm p/c.rego",                 "mv p/a.rego p/d.rego",         "cp p/d.rego p/n && mv p/n p/d.rego",
                                          "mkdir p/s; echo > p/s/x.rego"};
    write_file("p/a.rego", A);
    uint64_t before = policies_mark("p");
    assert_int_not_equal(before, 0);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        run(changes[i]);
        uint64_t now = policies_mark("p");
        assert_int_not_equal(now, before);
        before = now;
    }
    run("touch p/README p/x_test.rego p/.y.rego");
    assert_int_equal(policies_mark("p"), before);
    assert_int_equal(policies_mark("q"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_one_file, begin),
        cmocka_unit_test_setup(test_url_names_a_file, begin),
        cmocka_unit_test_setup(test_a_bundle_may_have_any_bytes, begin),
        cmocka_unit_test_setup(test_a_folder_in_order_without_what_is_none, begin),
        cmocka_unit_test_setup(test_a_mounted_map, begin),
        cmocka_unit_test_setup(test_refusals, begin),
        cmocka_unit_test_setup(test_what_belongs_together, begin),
        cmocka_unit_test_setup(test_what_is_not_used, begin),
        cmocka_unit_test_setup(test_others_get_the_same, begin),
        cmocka_unit_test_setup(test_policies_alone, begin),
        cmocka_unit_test_setup(test_marks, begin),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave);
}
