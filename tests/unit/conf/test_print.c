/* What is printed: effective values with their places and without secrets; the pages in docs/ as the table makes them. */
#include "fixture.h"

#include "conf/table.h"
#include "conf/values.h"

static void check_page(const char *name, void (*print)(struct buf *out))
{
    char path[512];
    struct buf made, kept;
    buf_init(&made, NULL);
    buf_init(&kept, NULL);
    print(&made);
    buf_add_char(&made, '\0');
    snprintf(path, sizeof path, "%s/docs/%s", SOURCE_DIR, name);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    for (int c; (c = fgetc(f)) != EOF;) buf_add_char(&kept, (char)c);
    fclose(f);
    buf_add_char(&kept, '\0');
    if (strcmp(made.p, kept.p) != 0) print_error("docs/%s is not what the program prints: make it anew\n", name);
    assert_string_equal(made.p, kept.p);
    buf_free(&made);
    buf_free(&kept);
}

static void test_the_pages_are_in_step(void **state)
{
    (void)state;
    check_page("options.md", conf_print_options);
    check_page("sample.yaml", conf_print_sample);
}

static void check_in(const char *text, const char *part)
{
    if (!strstr(text, part)) print_error("\"%s\" is not in\n%s\n", part, text);
    assert_non_null(strstr(text, part));
}

static void test_every_option_is_in_both_pages(void **state)
{
    (void)state;
    const struct table *tables[] = {&table_options, &table_upstream, &table_issuer, &table_route};
    struct buf page, sample;
    struct arena arena;
    arena_init(&arena);
    buf_init(&page, NULL);
    buf_init(&sample, NULL);
    conf_print_options(&page);
    conf_print_sample(&sample);
    buf_add_char(&page, '\0');
    buf_add_char(&sample, '\0');
    for (size_t t = 0; t < 4; t++) {
        for (size_t i = 0; i < tables[t]->n; i++) {
            const struct option *o = &tables[t]->rows[i];
            const char *dot = strrchr(o->path, '.');
            check_in(page.p, arena_printf(&arena, "%s` | ", o->path).p);
            check_in(sample.p, arena_printf(&arena, "%s%s:", dot ? dot + 1 : o->path,
                                            value_is_secret(o->kind) && !*o->fallback ? "_file" : "").p);
            if (t == 0 && o->kind != KIND_UPSTREAM)
                check_in(page.p, arena_printf(&arena, "`%s` |", table_variable(&arena, "", o->path, "")).p);
        }
    }
    arena_reset(&arena);
    buf_free(&page);
    buf_free(&sample);
}

static void test_variables_are_different(void **state)
{
    (void)state;
    struct arena arena;
    arena_init(&arena);
    for (size_t i = 0; i < table_options.n; i++)
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(table_variable(&arena, "", table_options.rows[i].path, ""),
                                    table_variable(&arena, "", table_options.rows[j].path, ""));
    arena_reset(&arena);
}

static char *print_conf(const char *yaml, const char *const *env)
{
    struct loaded l = load_text_with(yaml, env);
    assert_string_equal(l.errors.p, "");
    struct buf out;
    buf_init(&out, NULL);
    conf_print(l.conf, &out);
    buf_add_char(&out, '\0');
    unload(&l);
    return out.p;
}

static void test_values_and_where_they_came_from(void **state)
{
    (void)state;
    const char *env[] = {"DOORWARD_LOG_LEVEL=warn", "NAME=mine", "DOORWARD_LISTEN_HOSTS=A.example,b", NULL};
    char *text = print_conf("policy:\n  timeout_ms: 50\nserve: { service: \"${NAME}\" }\n"
                            "upstreams: { two: { url: http://two/ } }\n" PUBLIC_ROUTE, env);
    check_in(text, "policy.timeout_ms: 50                           # c.yaml:2\n");
    check_in(text, "log.level: warn                                 # environment DOORWARD_LOG_LEVEL\n");
    check_in(text, "log.access: true                                # default\n");
    check_in(text, "serve.service: mine                             # c.yaml:3\n");
    check_in(text, "listen.hosts: [\"a.example\",\"b\"]                 # environment DOORWARD_LISTEN_HOSTS\n");
    check_in(text, "upstreams.two.url: \"http://two/\"                # c.yaml:4\n");
    check_in(text, "routes[0].prefix: /                             # c.yaml:6\n");
    check_in(text, "routes[0].access: public                        # c.yaml:6\n");
    check_in(text, "upstream.url: \"http://127.0.0.1:7001\"           # default\n");
    free(text);
    text = print_conf("upstream: { urls: [\"http://a\"] }\n" PUBLIC_ROUTE, NULL);
    check_in(text, "upstream.url: \"\"                                # urls is given\n");
    check_in(text, "upstream.urls: [\"http://a\"]                     # c.yaml:1\n");
    free(text);
}

static void test_secrets_are_masked(void **state)
{
    (void)state;
    write_file("token", "hunter2hunter2hunter2\n");
    const char *env[] = {"DOORWARD_REDIS_URL=redis://user:hunter2@redis:6379/1", "KEY=hunter2",
                         "DOORWARD_TOKENS_ISSUERS=[{\"issuer\":\"i\",\"audiences\":[\"a\"],"
                         "\"secret\":\"hunter2hunter2hunter2hunter2hunter2\"}]",
                         NULL};
    char *text = print_conf("admin: { token_file: token }\n"
                            "context: { service_url: \"http://a/{name}\", service_authorization: \"apikey ${KEY}\" }\n"
                            "policy: { authorization: Bearer hunter2 }\n"
                            "grant: { format: jws, key: \"-----BEGIN PRIVATE KEY-----hunter2\" }" PUBLIC_ROUTE, env);
    assert_null(strstr(text, "hunter2"));
    check_in(text, "admin.token_file: token                         # c.yaml:1\n");
    check_in(text, "context.service_authorization: \"********\"       # c.yaml:2\n");
    check_in(text, "policy.authorization: \"********\"                # c.yaml:3\n");
    check_in(text, "grant.key: \"********\"                           # c.yaml:4\n");
    check_in(text, "redis.url: \"redis://********@redis:6379/1\"      # environment DOORWARD_REDIS_URL\n");
    check_in(text, "tokens.issuers[0].secret: \"********\"            # environment DOORWARD_TOKENS_ISSUERS\n");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_pages_are_in_step),
        cmocka_unit_test(test_every_option_is_in_both_pages),
        cmocka_unit_test(test_variables_are_different),
        cmocka_unit_test(test_values_and_where_they_came_from),
        cmocka_unit_test(test_secrets_are_masked),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
