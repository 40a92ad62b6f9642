/* The environment: variables over options, ${...} in values, secrets taken out, unknown names. */
#include "fixture.h"

extern char **environ;

static const char *errors_of(struct loaded *l)
{
    return l->errors.p;
}

static void test_variables_win(void **state)
{
    (void)state;
    const char *env[] = {"DOORWARD_LISTEN_ADDRESS=127.0.0.1:4000",
                         "DOORWARD_POLICY_TIMEOUT_MS=77",
                         "DOORWARD_TOKENS_API_KEYS=false",
                         "DOORWARD_DECISIONS_JITTER=0.25",
                         "DOORWARD_LISTEN_HOSTS=a.example, B.example:81",
                         "DOORWARD_CORS_ORIGINS=[\"https://a.example\",\"https://b.example\"]",
                         "DOORWARD_POLICY_QUERY=",
                         "DOORWARD_UPSTREAM_URL=http://other:9000/base",
                         "DOORWARD_UPSTREAM_MAX_IDLE=3",
                         "DOORWARD_UPSTREAMS={\"two\":{\"url\":\"http://two\",\"max_idle\":4}}",
                         "DOORWARD_TOKENS_ISSUERS=[{\"issuer\":\"i\",\"jwks_url\":\"http://i/k\",\"audiences\":[\"a\"]}]",
                         "DOORWARD_ROUTES=[{\"prefix\":\"/x\",\"upstream\":\"two\",\"decision_ttl_s\":9,\"source_ip\":true}]",
                         "DOORWARD_POLICY_URL=http://opa/v1/data/a",
                         "DOORWARD_STRIP_HEADERS=x-a,x-b",
                         "UNRELATED=1",
                         NULL};
    struct loaded l = load_text_with("listen: { address: 0.0.0.0:1, hosts: [c] }\n"
                                     "policy: { timeout_ms: 50, query: [a] }\n"
                                     "upstream: { url: http://file, max_idle: 9, idle_timeout_ms: 8 }\n"
                                     "upstreams: { one: { url: http://one } }\n"
                                     "decisions: ~\n" PUBLIC_ROUTE, env);
    assert_string_equal(errors_of(&l), "");
    assert_string_equal(l.warnings.p, "");
    const struct conf *c = l.conf;
    assert_slice(c->listen.host, "127.0.0.1");
    assert_int_equal(c->listen.port, 4000);
    assert_int_equal(c->policy.timeout_ms, 77);
    assert_true(c->decisions.jitter > 0.2499 && c->decisions.jitter < 0.2501);
    assert_int_equal(c->listen.hosts.n, 2);
    assert_slice(c->listen.hosts.v[1], "b.example:81");
    assert_int_equal(c->cors.origins.n, 2);
    assert_slice(c->cors.origins.v[1], "https://b.example");
    assert_int_equal(c->policy.query.n, 0);
    assert_slice(c->upstreams[0].endpoints[0].host, "other");
    assert_int_equal(c->upstreams[0].max_idle, 3);
    assert_int_equal(c->upstreams[0].idle_timeout_ms, 8);
    assert_int_equal(c->upstreams_n, 2);
    assert_slice(c->upstreams[1].name, "two");
    assert_int_equal(c->routes_n, 1);
    assert_slice(c->routes[0].path, "/x");
    assert_int_equal(c->routes[0].access, ACCESS_AUTHORIZED);
    assert_int_equal(c->routes[0].decision_ttl_s, 9);
    assert_true(c->routes[0].source_ip);
    assert_ptr_equal(c->routes[0].upstream, &c->upstreams[1]);
    assert_slice(c->tokens.issuers[0].issuer, "i");
    assert_slice(c->strip_headers.v[1], "x-b");
    unload(&l);
}

static void test_variables_alone(void **state)
{
    (void)state;
    const char *env[] = {"DOORWARD_ROUTES=[{\"path\":\"/x\",\"access\":\"public\"}]", NULL};
    struct loaded l = load_source(NULL, false, env);
    assert_string_equal(errors_of(&l), "");
    assert_int_equal(l.conf->routes_n, 1);
    unload(&l);
}

static const struct {
    const char *variable;
    const char *errors;
} bad[] = {
    {"DOORWARD_POLICY_TIMEOUT_MS=", "environment: DOORWARD_POLICY_TIMEOUT_MS: \"\" given, expected a whole number from 10 to "
                                    "600000\n"},
    {"DOORWARD_POLICY_TIMEOUT_MS=5s", "environment: DOORWARD_POLICY_TIMEOUT_MS: \"5s\" given, expected a whole number from "
                                      "10 to 600000\n"},
    {"DOORWARD_LOG_ACCESS=1", "environment: DOORWARD_LOG_ACCESS: \"1\" given, expected true or false\n"},
    {"DOORWARD_LOG_LEVEL=loud",
     "environment: DOORWARD_LOG_LEVEL: \"loud\" given, expected debug, info, warn, error or off\n"},
    {"DOORWARD_LISTEN_HOSTS=a,,b",
     "environment: DOORWARD_LISTEN_HOSTS: an empty text given, expected an entry of a list of hosts\n"},
    {"DOORWARD_LISTEN_HOSTS=a,b c", "environment: DOORWARD_LISTEN_HOSTS: \"b c\" is no host, expected host or host:port\n"},
    {"DOORWARD_LISTEN_HOSTS=[\"a\"", "environment: DOORWARD_LISTEN_HOSTS: not JSON at byte 4, expected JSON\n"},
    {"DOORWARD_LISTEN_HOSTS=[\"b c\"]", "environment: DOORWARD_LISTEN_HOSTS: listen.hosts[0]: \"b c\" is no host, expected "
                                        "host or host:port\n"},
    {"DOORWARD_LISTEN_HOSTS=[[]]", "environment: DOORWARD_LISTEN_HOSTS: listen.hosts[0]: a list given, expected an entry of "
                                   "a list of hosts\n"},
    {"DOORWARD_ROUTES=/api", "environment: DOORWARD_ROUTES: not JSON at byte 1, expected JSON\n"
                             },
    {"DOORWARD_ROUTES=\"/api\"", "environment: DOORWARD_ROUTES: a text given, expected a list\n"},
    {"DOORWARD_ROUTES=[]", "environment: DOORWARD_ROUTES: none, expected at least one\n"},
    {"DOORWARD_ROUTES=[{\"path\":\"/a\",\"access\":\"open\"}]", "environment: DOORWARD_ROUTES: routes[0].access: \"open\" "
                                                                "given, expected authorized, authenticated or public\n"},
    {"DOORWARD_ROUTES=[{\"path\":\"/a\",\"path\":\"/b\"}]",
     "environment: DOORWARD_ROUTES: a key given twice at byte 20, expected JSON\n"},
    {"DOORWARD_ROUTES=[{\"path\":\"/a\",\"access\":\"public\",\"decision_ttl_s\":\"5\"}]",
     "environment: DOORWARD_ROUTES: routes[0].decision_ttl_s: the text \"5\" given, expected a whole number from 0 to "
     "86400\n"},
    {"DOORWARD_ROUTES=[{\"path\":\"/a\",\"access\":\"public\",\"source_ip\":1}]",
     "environment: DOORWARD_ROUTES: routes[0].source_ip: \"1\" given, expected true or false\n"},
    {"DOORWARD_TOKENS_ISSUERS=[{\"issuer\":\"i\",\"secret\":\"hunter2\",\"audiences\":[\"a\"]}]",
     "environment: DOORWARD_TOKENS_ISSUERS: tokens.issuers[0].secret: 7 bytes long, expected 32 to 4096\n"},
    {"DOORWARD_TOKENS_ISSUERS=[{\"issuer\":\"i\"}]",
     "environment: DOORWARD_TOKENS_ISSUERS: tokens.issuers[0]: no keys, expected one of jwks_url, jwks_file, secret_file\n"
     "environment: DOORWARD_TOKENS_ISSUERS: tokens.issuers[0]: no audiences, expected some, or any_audience: true\n"},
    {"DOORWARD_UPSTREAMS={\"a\":{}}", "environment: DOORWARD_UPSTREAMS: upstreams.a: no url, expected one\n"},
    {"DOORWARD_UPSTREAM_URL=", "environment: DOORWARD_UPSTREAM_URL: empty, expected the URL of the API\n"},
    {"DOORWARD_ADMIN_ADDRESS=0.0.0.0:9901", "environment: DOORWARD_ADMIN_ADDRESS: not a loopback address and no "
                                            "admin.token_file, expected 127.0.0.1 or a token\n"},
    {"DOORWARD_ADMIN_TOKEN=hunter2", "environment: DOORWARD_ADMIN_TOKEN: 7 bytes long, expected 16 to 1024\n"},
    {"DOORWARD_ADMIN_TOKEN_FILE=missing",
     "environment: DOORWARD_ADMIN_TOKEN_FILE: \"missing\": no such file, expected a file that can be read\n"},
    {"DOORWARD_REDIS_URL=http://hunter2", "environment: DOORWARD_REDIS_URL: no Redis URL, expected redis:// or rediss://[user:password@]"
                                          "host[:port][/db], or unix:/path[?db=N]\n"},
    {"DOORWARD_DROP_IN=maybe", "environment: DOORWARD_DROP_IN: \"maybe\" given, expected 1 or 0\n"},
};

static void test_bad_variables(void **state)
{
    (void)state;
    int failed = 0;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *env[] = {bad[i].variable, NULL};
        struct loaded l = load_text_with(PUBLIC_ROUTE, env);
        if (l.conf || strcmp(l.errors.p, bad[i].errors) != 0 || strstr(l.errors.p, "hunter2")) {
            print_error("--- %s\n--- expected\n%s--- got\n%s", bad[i].variable, bad[i].errors, l.errors.p);
            failed++;
        }
        unload(&l);
    }
    assert_int_equal(failed, 0);
}

/* Kubernetes sets DOORWARD_PORT for a service of that name. */
static void test_unknown_variables_are_named_not_shown(void **state)
{
    (void)state;
    const char *env[] = {"DOORWARD_PORT=tcp://10.0.0.1:3001", "DOORWARD_POLICY_TIMEOUT=hunter2", "DOORWARD_CONFIG=",
                         "DOORWARD_DROP_IN=0", "XDOORWARD_A=1", "DOORWARD_", "DOORWARD_LOG=x", NULL};
    struct loaded l = load_text_with(PUBLIC_ROUTE, env);
    assert_string_equal(errors_of(&l), "");
    assert_string_equal(l.warnings.p, "environment: DOORWARD_PORT: no option has this variable, ignored\n"
                                      "environment: DOORWARD_POLICY_TIMEOUT: no option has this variable, ignored\n"
                                      "environment: DOORWARD_LOG: no option has this variable, ignored\n");
    assert_int_equal(l.conf->listen.port, 3001);
    unload(&l);
}

static void test_expansion(void **state)
{
    (void)state;
    static const struct {
        const char *yaml, *service;
    } rows[] = {
        {"${NAME}", "world"},
        {"a ${NAME} b", "a world b"},
        {"${NAME:-x}", "world"},
        {"${NOT_SET:-x}", "x"},
        {"${EMPTY:-x}", "x"},
        {"a${EMPTY}b", "ab"},
        {"${NOT_SET:-}a", "a"},
        {"${NAME}${NAME}", "worldworld"},
        {"$${NAME}", "${NAME}"},
        {"$NAME", "$NAME"},
        {"a$", "a$"},
        {"${NOT_SET:-a:-b}", "a:-b"},
        {"${INNER}", "${NAME}"},
        {"${NOT_SET:-${NAME}", "${NAME"},
        {"${_A1}", "under"},
    };
    const char *env[] = {"NAME=world", "EMPTY=", "INNER=${NAME}", "_A1=under", NULL};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[256];
        snprintf(text, sizeof text, "serve: { service: '%s' }%s", rows[i].yaml, PUBLIC_ROUTE);
        struct loaded l = load_text_with(text, env);
        assert_string_equal(errors_of(&l), "");
        assert_slice(l.conf->serve.service, rows[i].service);
        unload(&l);
    }
}

/* A variable gives the text of one value: never more YAML, but a number, a bool, or a list with commas. */
static void test_expansion_gives_values_not_yaml(void **state)
{
    (void)state;
    const char *env[] = {"TTL=12", "HOSTS=a,b", "YAML={service: x}", "ON=true", NULL};
    struct loaded l = load_text_with("decisions: { ttl_s: \"${TTL}\" }\nlisten: { hosts: \"${HOSTS}\" }\n"
                                     "log: { query: \"${ON}\" }\nserve: { service: \"${YAML}\" }" PUBLIC_ROUTE, env);
    assert_string_equal(errors_of(&l), "");
    assert_int_equal(l.conf->decisions.ttl_s, 12);
    assert_int_equal(l.conf->listen.hosts.n, 2);
    assert_true(l.conf->log.query);
    assert_slice(l.conf->serve.service, "{service: x}");
    unload(&l);
}

static void test_a_variable_spares_the_names_it_replaces(void **state)
{
    (void)state;
    const char *env[] = {"DOORWARD_SERVE_SERVICE=given ${NOT_SET}", NULL};
    struct loaded l = load_text_with("serve: { service: \"${NOT_SET}\" }" PUBLIC_ROUTE, env);
    assert_string_equal(errors_of(&l), "");
    assert_slice(l.conf->serve.service, "given ${NOT_SET}");
    unload(&l);
}

static void test_a_variable_wins_over_the_other_way_to_give_a_secret(void **state)
{
    (void)state;
    write_file("token", "0123456789abcdef\n");
    const char *env[] = {"DOORWARD_ADMIN_TOKEN=fedcba9876543210", NULL};
    struct loaded l = load_text_with("admin: { token_file: missing }" PUBLIC_ROUTE, env);
    assert_string_equal(errors_of(&l), "");
    assert_slice(l.conf->admin.token, "fedcba9876543210");
    unload(&l);
    const char *file_env[] = {"DOORWARD_ADMIN_TOKEN_FILE=token", NULL};
    l = load_text_with("admin: { token: fedcba9876543210 }" PUBLIC_ROUTE, file_env);
    assert_string_equal(errors_of(&l), "");
    assert_slice(l.conf->admin.token, "0123456789abcdef");
    unload(&l);
    const char *both[] = {"DOORWARD_ADMIN_TOKEN_FILE=token", "DOORWARD_ADMIN_TOKEN=fedcba9876543210", NULL};
    l = load_text_with(PUBLIC_ROUTE, both);
    assert_string_equal(errors_of(&l), "environment: DOORWARD_ADMIN_TOKEN_FILE: given together with admin.token, expected "
                                       "one of the two\n");
    unload(&l);
}

static void test_secrets_leave_the_environment(void **state)
{
    (void)state;
    setenv("DOORWARD_ADMIN_TOKEN", "0123456789abcdef", 1);
    setenv("DOORWARD_REDIS_URL", "redis://:hunter2@localhost", 1);
    setenv("DOORWARD_TOKENS_ISSUERS",
           "[{\"issuer\":\"i\",\"secret\":\"0123456789abcdef0123456789abcdef\",\"audiences\":[\"a\"]}]", 1);
    setenv("KEY_OF_OURS", "abc", 1);
    setenv("NO_SECRET", "doorward", 1);
    setenv("DOORWARD_LOG_LEVEL", "warn", 1);
    const char *where = getenv("KEY_OF_OURS");
    write_file("c.yaml", "context: { service_url: \"http://a/{name}\", service_authorization: \"apikey ${KEY_OF_OURS}\" }\n"
                         "serve: { service: \"${NO_SECRET}\" }" PUBLIC_ROUTE);
    struct loaded l = load_source("c.yaml", false, (const char *const *)environ);
    assert_string_equal(errors_of(&l), "");
    assert_slice(l.conf->admin.token, "0123456789abcdef");
    assert_slice(l.conf->redis.url, "redis://:hunter2@localhost");
    assert_slice(l.conf->context.service_authorization, "apikey abc");
    assert_slice(l.conf->tokens.issuers[0].secret, "0123456789abcdef0123456789abcdef");
    assert_null(getenv("DOORWARD_ADMIN_TOKEN"));
    assert_null(getenv("DOORWARD_REDIS_URL"));
    assert_null(getenv("DOORWARD_TOKENS_ISSUERS"));
    assert_null(getenv("KEY_OF_OURS"));
    assert_string_equal(where, ""); /* its bytes too */
    assert_non_null(getenv("NO_SECRET"));
    assert_non_null(getenv("DOORWARD_LOG_LEVEL"));
    unload(&l);
    unsetenv("NO_SECRET");
    unsetenv("DOORWARD_LOG_LEVEL");
}

static void test_they_leave_it_when_the_configuration_is_refused(void **state)
{
    (void)state;
    setenv("DOORWARD_ADMIN_TOKEN", "hunter2", 1);
    write_file("c.yaml", PUBLIC_ROUTE);
    struct loaded l = load_source("c.yaml", false, (const char *const *)environ);
    assert_null(l.conf);
    assert_null(getenv("DOORWARD_ADMIN_TOKEN"));
    unload(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_variables_win),
        cmocka_unit_test(test_variables_alone),
        cmocka_unit_test(test_bad_variables),
        cmocka_unit_test(test_unknown_variables_are_named_not_shown),
        cmocka_unit_test(test_expansion),
        cmocka_unit_test(test_expansion_gives_values_not_yaml),
        cmocka_unit_test(test_a_variable_spares_the_names_it_replaces),
        cmocka_unit_test(test_a_variable_wins_over_the_other_way_to_give_a_secret),
        cmocka_unit_test(test_secrets_leave_the_environment),
        cmocka_unit_test(test_they_leave_it_when_the_configuration_is_refused),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
