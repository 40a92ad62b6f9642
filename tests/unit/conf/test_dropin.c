/* Drop-in mode: the reference proxy's variables and defaults, and the routes that follow from its list. */
#include "fixture.h"

#include "conf/routes.h"

static struct loaded load_drop_in(const char *const *env)
{
    return load_source(NULL, true, env);
}

static void test_defaults(void **state)
{
    (void)state;
    struct loaded l = load_drop_in(NULL);
    assert_string_equal(l.errors.p, "");
    const struct conf *c = l.conf;
    assert_true(c->drop_in);
    assert_slice(c->listen.host, "0.0.0.0");
    assert_int_equal(c->listen.port, 3001);
    assert_slice(c->upstreams[0].endpoints[0].authority, "localhost:7001");
    assert_slice(c->upstreams[0].base_path, "/cwms-data");
    assert_int_equal(c->upstreams[0].response_timeout_ms, 30000);
    assert_int_equal(c->tokens.anonymous, ANONYMOUS_JUDGE);
    assert_int_equal(c->tokens.verify, VERIFY_UPSTREAM);
    assert_true(c->tokens.api_keys);
    assert_slice(c->tokens.name_claim, "preferred_username");
    assert_slice(c->context.url, "http://localhost:7001/cwms-data/user/profile");
    assert_slice(c->context.service_url, "");
    assert_slice(c->context.service_authorization, "");
    assert_slice(c->context.shape_name, "builtin:cwms/context.jq");
    assert_true(c->context.shape.n > 0);
    assert_int_equal(c->context.ttl_s, 1800);
    assert_slice(c->redis.url, "redis://localhost:6379");
    assert_slice(c->redis.key_prefix, "doorward:cwms:");
    assert_slice(c->policy.url, "http://localhost:8181/v1/data/cwms/authz/allow");
    assert_int_equal(c->policy.timeout_ms, 5000);
    assert_false(c->policy.on_error_allow);
    assert_slice(c->policy.query.v[0], "office_id|office");
    assert_int_equal(c->decisions.ttl_s, 300);
    assert_int_equal(c->decisions.deny_ttl_s, 30);
    assert_int_equal(c->decisions.max_entries, 1000);
    assert_slice(c->grant.header, "x-cwms-auth-context");
    assert_slice(c->grant.shape_name, "builtin:cwms/grant.jq");
    assert_slice(c->authorize.shape_name, "builtin:cwms/authorize.jq");
    assert_true(c->authorize.what_if);
    assert_slice(c->authorize.path_prefix, "/cwms-data/");
    assert_true(c->cors.on);
    assert_slice(c->cors.origins.v[0], "*");
    assert_false(c->cors.credentials);
    assert_int_equal(c->cors.methods.n, 6);
    assert_int_equal(c->log.level, LOG_INFO);
    assert_slice(c->serve.service, "authorizer-proxy");
    assert_slice(c->serve.metrics_prefix, "authorizer_proxy_");
    assert_true(c->serve.public_endpoints);
    unload(&l);
}

static void test_variables(void **state)
{
    (void)state;
    const char *env[] = {"PORT=3100", "HOST=127.0.0.1", "LOG_LEVEL=trace", "CWMS_API_URL=http://api:7000/cwms-data/",
                         "CWMS_API_TIMEOUT=1234", "CWMS_API_KEY=abc", "OPA_URL=http://opa:8181/",
                         "OPA_POLICY_PATH=/v1/data/x/y", "REDIS_URL=redis://:pw@redis:6380/1", "BYPASS_AUTH=true",
                         "CACHE_TTL_SECONDS=20", "CACHE_MAX_SIZE=50", NULL};
    struct loaded l = load_drop_in(env);
    assert_string_equal(l.errors.p, "");
    assert_string_equal(l.warnings.p, "");
    const struct conf *c = l.conf;
    assert_slice(c->listen.host, "127.0.0.1");
    assert_int_equal(c->listen.port, 3100);
    assert_int_equal(c->log.level, LOG_DEBUG);
    assert_slice(c->upstreams[0].endpoints[0].authority, "api:7000");
    assert_slice(c->upstreams[0].base_path, "/cwms-data");
    assert_int_equal(c->upstreams[0].response_timeout_ms, 1234);
    assert_slice(c->context.url, "http://api:7000/cwms-data/user/profile");
    assert_slice(c->context.service_url, "http://api:7000/cwms-data/users/{name}?include-roles=true");
    assert_slice(c->context.service_authorization, "apikey abc");
    assert_slice(c->policy.url, "http://opa:8181/v1/data/x/y");
    assert_slice(c->redis.url, "redis://:pw@redis:6380/1");
    assert_true(c->policy.on_error_allow);
    assert_int_equal(c->decisions.ttl_s, 20);
    assert_int_equal(c->decisions.deny_ttl_s, 20);
    assert_int_equal(c->decisions.max_entries, 50);
    unload(&l);
}

static void test_doorward_variables_win(void **state)
{
    (void)state;
    const char *env[] = {"PORT=3100", "DOORWARD_LISTEN_ADDRESS=[::1]:4000", "DOORWARD_REDIS_URL=", "DOORWARD_DROP_IN=1",
                         "OPA_URL=http://opa", "DOORWARD_POLICY_URL=http://other/v1/data/z", "LOG_LEVEL=error",
                         "DOORWARD_LOG_LEVEL=off", NULL};
    struct loaded l = load_drop_in(env);
    assert_string_equal(l.errors.p, "");
    assert_slice(l.conf->listen.host, "::1");
    assert_int_equal(l.conf->listen.port, 4000);
    assert_slice(l.conf->redis.url, "");
    assert_slice(l.conf->policy.url, "http://other/v1/data/z");
    assert_int_equal(l.conf->log.level, LOG_OFF);
    unload(&l);
}

static void test_issuers_mean_keys(void **state)
{
    (void)state;
#define ISSUERS "DOORWARD_TOKENS_ISSUERS=[{\"issuer\":\"i\",\"jwks_url\":\"http://i/k\",\"audiences\":[\"a\"]}]"
    const char *env[] = {ISSUERS, NULL}, *against[] = {ISSUERS, "DOORWARD_TOKENS_VERIFY=upstream", NULL};
    struct loaded l = load_drop_in(env);
    assert_string_equal(l.errors.p, "");
    assert_int_equal(l.conf->tokens.verify, VERIFY_KEYS);
    assert_int_equal(l.conf->tokens.issuers_n, 1);
    assert_true(l.conf->tokens.api_keys);
    unload(&l);
    l = load_drop_in(against);
    assert_string_equal(l.errors.p, "environment: DOORWARD_TOKENS_VERIFY: upstream together with tokens.issuers, expected "
                                    "keys\n");
    unload(&l);
}

static void test_when_it_is_meant(void **state)
{
    (void)state;
    const char *urls[] = {"CWMS_API_URL=http://a/cwms-data", "OPA_URL=http://o", NULL};
    const char *off[] = {"CWMS_API_URL=http://a/cwms-data", "OPA_URL=http://o", "DOORWARD_DROP_IN=0", NULL};
    const char *on[] = {"DOORWARD_DROP_IN=true", NULL}, *one[] = {"OPA_URL=http://o", NULL};
    const char *both[] = {"DOORWARD_DROP_IN=1", "DOORWARD_CONFIG=c.yaml", NULL};
    struct loaded l = load_source(NULL, false, urls);
    assert_string_equal(l.errors.p, "");
    assert_true(l.conf->drop_in);
    unload(&l);
    l = load_source(NULL, false, on);
    assert_string_equal(l.errors.p, "");
    assert_true(l.conf->drop_in);
    unload(&l);
    l = load_source(NULL, false, off);
    assert_null(l.conf);
    unload(&l);
    l = load_source(NULL, false, one);
    assert_null(l.conf);
    unload(&l);
    write_file("c.yaml", PUBLIC_ROUTE);
    l = load_source("c.yaml", false, urls);
    assert_string_equal(l.errors.p, "");
    assert_false(l.conf->drop_in);
    unload(&l);
    l = load_source(NULL, false, both);
    assert_string_equal(l.errors.p, "drop-in mode takes no file, but c.yaml is named, expected one of the two\n");
    unload(&l);
    l = load_source("c.yaml", true, NULL);
    assert_string_equal(l.errors.p, "drop-in mode takes no file, but c.yaml is named, expected one of the two\n");
    unload(&l);
}

static const struct {
    const char *variable, *errors;
} bad[] = {
    {"PORT=http", "environment: PORT: \"http\" given, expected a port from 0 to 65535\n"},
    {"PORT=70000", "environment: PORT: \"70000\" given, expected a port from 0 to 65535\n"},
    {"HOST=proxy.example", "environment: HOST: \"proxy.example\" given, expected an IP address\n"},
    {"LOG_LEVEL=loud", "environment: LOG_LEVEL: \"loud\" given, expected trace, debug, info, warn, error, fatal or silent\n"},
    {"CWMS_API_URL=api:7000", "environment: CWMS_API_URL: no URL with a host, expected http://host[:port][/path] or "
                              "https://...\nenvironment: CWMS_API_URL: no URL with a host, expected http://host[:port]"
                              "[/path] or https://...\n"},
    {"CWMS_API_TIMEOUT=30s",
     "environment: CWMS_API_TIMEOUT: \"30s\" given, expected a whole number from 1 to 3600000\n"},
    {"CWMS_API_KEY=a\x01", "environment: CWMS_API_KEY: not printable ASCII in one line, expected that\n"},
    {"OPA_URL=opa:8181", "environment: OPA_URL: no URL with a host, expected http://host[:port][/path] or https://...\n"},
    {"OPA_POLICY_PATH=/a b",
     "environment: OPA_POLICY_PATH: a character in the URL that must be escaped, expected RFC 3986\n"},
    {"REDIS_URL=http://redis", "environment: REDIS_URL: no Redis URL, expected redis:// or rediss://[user:password@]host[:port][/db], or "
                               "unix:/path[?db=N]\n"},
    {"BYPASS_AUTH=yes", "environment: BYPASS_AUTH: \"yes\" given, expected true or false\n"},
    {"BYPASS_AUTH=1", "environment: BYPASS_AUTH: \"1\" given, expected true or false\n"},
    {"CACHE_TTL_SECONDS=x", "environment: CACHE_TTL_SECONDS: \"x\" given, expected a whole number from 0 to 86400\n"},
    {"CACHE_MAX_SIZE=0", "environment: CACHE_MAX_SIZE: \"0\" given, expected a whole number from 1 to 100000000\n"},
    {"OPA_WHITELIST_ENDPOINTS=/cwms-data/timeseries",
     "environment: OPA_WHITELIST_ENDPOINTS: not JSON at byte 1, expected JSON\n"},
    {"OPA_WHITELIST_ENDPOINTS={}", "environment: OPA_WHITELIST_ENDPOINTS: \"{}\" given, expected a JSON list of paths\n"},
    {"OPA_WHITELIST_ENDPOINTS=[1]",
     "environment: OPA_WHITELIST_ENDPOINTS: \"1\" is not below /cwms-data, expected a path that is proxied\n"},
    {"OPA_WHITELIST_ENDPOINTS=[[]]",
     "environment: OPA_WHITELIST_ENDPOINTS: an entry that is no path, expected a JSON list of paths\n"},
    {"OPA_WHITELIST_ENDPOINTS=[\"\"]",
     "environment: OPA_WHITELIST_ENDPOINTS: an entry that is no path, expected a JSON list of paths\n"},
    {"OPA_WHITELIST_ENDPOINTS=[\"/timeseries\"]",
     "environment: OPA_WHITELIST_ENDPOINTS: \"/timeseries\" is not below /cwms-data, expected a path that is proxied\n"},
    {"OPA_WHITELIST_ENDPOINTS=[\"/cwms-datax\"]",
     "environment: OPA_WHITELIST_ENDPOINTS: \"/cwms-datax\" is not below /cwms-data, expected a path that is proxied\n"},
    {"OPA_WHITELIST_ENDPOINTS=[\"/cwms-data/timeseries/*\"]",
     "environment: OPA_WHITELIST_ENDPOINTS: \"/cwms-data/timeseries/*\" has a *, expected a plain path; prefix covers "
     "everything below\n"},
    {"OPA_WHITELIST_ENDPOINTS=[\"/cwms-data/a?b=c\"]",
     "environment: OPA_WHITELIST_ENDPOINTS: \"/cwms-data/a?b=c\" has a character that may not stand in a path, expected "
     "RFC 3986\n"},
};

/* A wrong value is named by the variable that the operator knows. */
static void test_bad_variables(void **state)
{
    (void)state;
    int failed = 0;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *env[] = {bad[i].variable, NULL};
        struct loaded l = load_drop_in(env);
        if (l.conf || strcmp(l.errors.p, bad[i].errors) != 0) {
            print_error("--- %s\n--- expected\n%s--- got\n%s", bad[i].variable, bad[i].errors, l.errors.p);
            failed++;
        }
        unload(&l);
    }
    assert_int_equal(failed, 0);
}

/* Set to nothing is not set, but for REDIS_URL, where it means none. */
static void test_empty_variables(void **state)
{
    (void)state;
    const char *env[] = {"PORT=", "HOST=", "LOG_LEVEL=", "CWMS_API_URL=", "CWMS_API_TIMEOUT=", "CWMS_API_KEY=", "OPA_URL=",
                         "OPA_POLICY_PATH=", "REDIS_URL=", "BYPASS_AUTH=", "CACHE_TTL_SECONDS=", "CACHE_MAX_SIZE=",
                         "OPA_WHITELIST_ENDPOINTS=", NULL};
    struct loaded l = load_drop_in(env);
    assert_string_equal(l.errors.p, "");
    const struct conf *c = l.conf;
    assert_slice(c->listen.host, "0.0.0.0");
    assert_int_equal(c->listen.port, 3001);
    assert_slice(c->upstreams[0].endpoints[0].authority, "localhost:7001");
    assert_slice(c->policy.url, "http://localhost:8181/v1/data/cwms/authz/allow");
    assert_slice(c->redis.url, "");
    assert_false(c->policy.on_error_allow);
    assert_int_equal(c->decisions.ttl_s, 300);
    assert_int_equal(c->routes_n, 7);
    unload(&l);
}

static void test_log_levels(void **state)
{
    (void)state;
    static const struct {
        const char *variable;
        enum log_level level;
    } rows[] = {{"LOG_LEVEL=trace", LOG_DEBUG}, {"LOG_LEVEL=debug", LOG_DEBUG}, {"LOG_LEVEL=info", LOG_INFO},
                {"LOG_LEVEL=warn", LOG_WARN},   {"LOG_LEVEL=error", LOG_ERROR}, {"LOG_LEVEL=fatal", LOG_ERROR},
                {"LOG_LEVEL=silent", LOG_OFF}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *env[] = {rows[i].variable, NULL};
        struct loaded l = load_drop_in(env);
        assert_string_equal(l.errors.p, "");
        assert_int_equal(l.conf->log.level, rows[i].level);
        unload(&l);
    }
}

struct taken {
    const char *path;
    int access; /* -1: no route */
};

static void check_routes_of(const char *list, const struct taken *rows, size_t n)
{
    char variable[256];
    snprintf(variable, sizeof variable, "OPA_WHITELIST_ENDPOINTS=%s", list);
    const char *env[] = {variable, NULL};
    struct loaded l = load_drop_in(env);
    assert_string_equal(l.errors.p, "");
    struct routes *r = routes_create(l.conf->routes, l.conf->routes_n);
    for (size_t i = 0; i < n; i++) {
        const struct conf_route *found = routes_find(r, slice_str(rows[i].path));
        int access = found ? (int)found->access : -1;
        if (access != rows[i].access) print_error("%s: %s: %d, expected %d\n", list, rows[i].path, access, rows[i].access);
        assert_int_equal(access, rows[i].access);
        if (!found) continue;
        assert_slice(found->strip_prefix, "/cwms-data");
        assert_slice(found->resource, "$2");
        assert_true(found->keep_path_parameters);
        assert_false(found->keep_encoded_slashes);
    }
    routes_destroy(r);
    unload(&l);
}

static void test_listed_paths_and_below_are_judged(void **state)
{
    (void)state;
    static const struct taken usual[] = {
        {"/cwms-data/timeseries", ACCESS_AUTHORIZED}, {"/cwms-data/timeseries/", ACCESS_AUTHORIZED},
        {"/cwms-data/timeseries/recent", ACCESS_AUTHORIZED}, {"/cwms-data/timeseriesx", ACCESS_PUBLIC},
        {"/cwms-data/offices", ACCESS_AUTHORIZED}, {"/cwms-data/locations", ACCESS_PUBLIC},
        {"/cwms-data", ACCESS_PUBLIC}, {"/cwms-data/", ACCESS_PUBLIC}, {"/cwms-data/health", ACCESS_PUBLIC},
        {"/cwms-data/docs", ACCESS_PUBLIC}, {"/cwms-data/docs-v3", ACCESS_PUBLIC}, {"/cwms-data/swagger/x", ACCESS_PUBLIC},
        {"/", -1}, {"/cwms-datax", -1}, {"/metrics", -1}};
    static const struct taken all[] = {
        {"/cwms-data/locations", ACCESS_AUTHORIZED}, {"/cwms-data", ACCESS_AUTHORIZED}, {"/cwms-data/", ACCESS_AUTHORIZED},
        {"/cwms-data/health", ACCESS_PUBLIC}, {"/cwms-data/health/x", ACCESS_AUTHORIZED}, {"/cwms-data/docs/a", ACCESS_PUBLIC},
        {"/cwms-data/docs-v3", ACCESS_AUTHORIZED}, {"/cwms-data/swagger", ACCESS_PUBLIC}};
    static const struct taken exempt[] = {{"/cwms-data/health", ACCESS_AUTHORIZED}, {"/cwms-data/docs", ACCESS_AUTHORIZED},
                                          {"/cwms-data/swagger", ACCESS_PUBLIC}, {"/cwms-data/x", ACCESS_PUBLIC}};
    static const struct taken none[] = {{"/cwms-data/timeseries", ACCESS_PUBLIC}, {"/x", -1}};
    static const struct taken deep[] = {{"/cwms-data/a/b", ACCESS_AUTHORIZED}, {"/cwms-data/a", ACCESS_PUBLIC},
                                        {"/cwms-data/a/c", ACCESS_PUBLIC}};
#define ROUTES_OF(list, rows) check_routes_of((list), (rows), sizeof(rows) / sizeof((rows)[0]))
    ROUTES_OF("[\"/cwms-data/timeseries\",\"/cwms-data/offices\"]", usual);
    ROUTES_OF("[\"/cwms-data/timeseries/\",\"/cwms-data/offices\",\"/cwms-data/timeseries\"]", usual);
    ROUTES_OF("[\"/cwms-data\"]", all);
    ROUTES_OF("[\"/cwms-data/\"]", all);
    ROUTES_OF("[\"/cwms-data/health\",\"/cwms-data/docs\"]", exempt);
    ROUTES_OF("[]", none);
    ROUTES_OF("[\"/cwms-data/a/b\"]", deep);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_variables),
        cmocka_unit_test(test_doorward_variables_win),
        cmocka_unit_test(test_issuers_mean_keys),
        cmocka_unit_test(test_when_it_is_meant),
        cmocka_unit_test(test_bad_variables),
        cmocka_unit_test(test_empty_variables),
        cmocka_unit_test(test_log_levels),
        cmocka_unit_test(test_listed_paths_and_below_are_judged),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
