/* A configuration that is taken: defaults, values, what follows from them. */
#include "fixture.h"

static const char minimal[] = "routes: [ { prefix: /, access: public } ]\n";

/* The sketch of the contract, value by value. */
static void test_defaults(void **state)
{
    (void)state;
    struct loaded l = load_text_with(minimal, NULL);
    assert_string_equal(l.errors.p, "");
    const struct conf *c = l.conf;
    assert_false(c->drop_in);
    assert_slice(c->listen.host, "0.0.0.0");
    assert_int_equal(c->listen.port, 3001);
    assert_int_equal(c->listen.hosts.n, 0);
    assert_int_equal(c->listen.header_timeout_ms, 10000);
    assert_int_equal(c->listen.idle_timeout_ms, 60000);
    assert_int_equal(c->listen.body_idle_timeout_ms, 30000);
    assert_int_equal(c->listen.max_body_bytes, 0);
    assert_int_equal(c->listen.max_header_bytes, 32768);
    assert_int_equal(c->listen.max_headers, 100);
    assert_int_equal(c->listen.max_target_bytes, 8192);
    assert_int_equal(c->listen.max_connections, 10000);
    assert_int_equal(c->listen.max_connections_per_address, 0);
    assert_int_equal(c->listen.max_requests_per_connection, 0);
    assert_int_equal(c->listen.drain_timeout_ms, 30000);
    assert_int_equal(c->listen.trusted_n, 0);
    assert_slice(c->admin.host, "127.0.0.1");
    assert_int_equal(c->admin.port, 9901);
    assert_slice(c->admin.token, "");
    assert_int_equal(c->upstreams_n, 1);
    unload(&l);
}

static void test_defaults_behind_the_proxy(void **state)
{
    (void)state;
    struct loaded l = load_text_with(minimal, NULL);
    assert_string_equal(l.errors.p, "");
    const struct conf *c = l.conf;
    assert_slice(c->upstreams[0].name, "default");
    assert_slice(c->upstreams[0].endpoints[0].host, "127.0.0.1");
    assert_int_equal(c->upstreams[0].endpoints[0].port, 7001);
    assert_slice(c->upstreams[0].endpoints[0].authority, "127.0.0.1:7001");
    assert_slice(c->upstreams[0].base_path, "");
    assert_false(c->upstreams[0].preserve_host);
    assert_int_equal(c->upstreams[0].connect_timeout_ms, 2000);
    assert_int_equal(c->upstreams[0].response_timeout_ms, 30000);
    assert_int_equal(c->upstreams[0].idle_timeout_ms, 30000);
    assert_int_equal(c->upstreams[0].max_idle, 256);
    assert_int_equal(c->tokens.leeway_s, 10);
    assert_int_equal(c->tokens.anonymous, ANONYMOUS_REFUSE);
    assert_int_equal(c->tokens.verify, VERIFY_KEYS);
    assert_false(c->tokens.api_keys);
    assert_slice(c->tokens.name_claim, "sub");
    assert_int_equal(c->tokens.claims.n, 0);
    assert_int_equal(c->tokens.cache_entries, 10000);
    assert_int_equal(c->tokens.max_bytes, 16384);
    assert_int_equal(c->tokens.issuers_n, 0);
    assert_slice(c->context.url, "");
    assert_slice(c->context.shape_name, "builtin:shapes/claims.jq");
    assert_true(c->context.shape.n > 0);
    assert_int_equal(c->context.ttl_s, 1800);
    assert_int_equal(c->context.memory_entries, 10000);
    assert_int_equal(c->context.memory_ttl_s, 30);
    assert_int_equal(c->context.timeout_ms, 5000);
    assert_int_equal(c->context.max_inflight, 64);
    assert_int_equal(c->context.max_bytes, 1048576);
    assert_slice(c->redis.url, "");
    assert_int_equal(c->redis.timeout_ms, 100);
    assert_slice(c->redis.key_prefix, "doorward:");
    assert_slice(c->policy.url, "");
    assert_int_equal(c->policy.query.n, 3);
    assert_slice(c->policy.query.v[0], "office_id|office");
    assert_slice(c->policy.query.v[1], "data_source");
    assert_slice(c->policy.query.v[2], "classification");
    assert_int_equal(c->policy.timeout_ms, 2000);
    assert_int_equal(c->policy.max_inflight, 64);
    assert_int_equal(c->policy.max_response_bytes, 1048576);
    assert_false(c->policy.on_error_allow);
    assert_int_equal(c->decisions.ttl_s, 300);
    assert_int_equal(c->decisions.deny_ttl_s, 30);
    assert_int_equal(c->decisions.revision_grace_s, 10);
    assert_int_equal(c->decisions.max_entries, 100000);
    assert_int_equal(c->decisions.max_bytes, 268435456);
    assert_true(c->decisions.jitter > 0.099 && c->decisions.jitter < 0.101);
    assert_slice(c->grant.header, "x-auth-context");
    assert_int_equal(c->grant.format, CONF_GRANT_JSON);
    assert_slice(c->grant.shape, "");
    assert_slice(c->grant.issuer, "doorward");
    assert_int_equal(c->grant.max_bytes, 7168);
    assert_false(c->authorize.what_if);
    assert_slice(c->authorize.path_prefix, "/");
    assert_int_equal(c->authorize.max_inflight, 8);
    assert_int_equal(c->strip_headers.n, 0);
    assert_false(c->cors.on);
    assert_int_equal(c->log.level, LOG_INFO);
    assert_true(c->log.access);
    assert_false(c->log.query);
    assert_slice(c->serve.service, "doorward");
    assert_slice(c->serve.metrics_prefix, "doorward_");
    assert_false(c->serve.public_endpoints);
    assert_int_equal(c->serve.probe_interval_ms, 5000);
    unload(&l);
}

static void test_what_is_not_named_is_judged(void **state)
{
    (void)state;
    struct loaded l = load_text_with("routes: [ { prefix: /api/ } ]\npolicy: { url: http://127.0.0.1:8181/v1/data/a }\n"
                                     "tokens: { issuers: [ { issuer: i, jwks_url: http://i/k, audiences: [a] } ] }\n", NULL);
    assert_string_equal(l.errors.p, "");
    const struct conf_route *r = &l.conf->routes[0];
    assert_int_equal(l.conf->routes_n, 1);
    assert_int_equal(r->access, ACCESS_AUTHORIZED);
    assert_slice(r->path, "/api");
    assert_true(r->prefix);
    assert_slice(r->name, "/api");
    assert_ptr_equal(r->upstream, &l.conf->upstreams[0]);
    assert_slice(r->resource, "$1");
    assert_slice(r->strip_prefix, "");
    assert_int_equal(r->methods.n, 0);
    assert_int_equal(r->decision_ttl_s, 0);
    assert_false(r->source_ip);
    assert_false(r->keep_encoded_slashes);
    assert_false(r->keep_path_parameters);
    const struct conf_issuer *i = &l.conf->tokens.issuers[0];
    assert_int_equal(i->algorithms.n, 1);
    assert_slice(i->algorithms.v[0], "RS256");
    assert_int_equal(i->max_stale_s, 86400);
    assert_false(i->any_audience);
    unload(&l);
}

static void test_routes_in_full(void **state)
{
    (void)state;
    struct loaded l = load_text_with(
        "upstream: { url: \"http://[::1]:7001/base/path/\", host: preserve }\n"
        "upstreams:\n"
        "  other: { url: http://api.example, connect_timeout_ms: 5 }\n"
        "routes:\n"
        "  - { path: /, access: public }\n"
        "  - { path: /a/b/, access: public, upstream: other, name: ab, strip: true, methods: [GET, POST] }\n"
        "  - prefix: /a/b\n"
        "    access: authenticated\n"
        "    strip: /a\n"
        "    resource: $2\n"
        "    source_ip: true\n"
        "    decision_ttl_s: 7\n"
        "    upstream: default\n"
        "    path_policy: { encoded_slashes: keep, path_parameters: keep }\n"
        "  - { prefix: \"/x;y%2Fz\", access: public, path_policy: { encoded_slashes: keep, path_parameters: keep } }\n"
        "tokens: { issuers: [ { issuer: i, jwks_url: http://i/k, any_audience: true } ] }\n", NULL);
    assert_string_equal(l.errors.p, "");
    const struct conf *c = l.conf;
    assert_slice(c->upstreams[0].endpoints[0].host, "::1");
    assert_slice(c->upstreams[0].endpoints[0].authority, "[::1]:7001");
    assert_slice(c->upstreams[0].base_path, "/base/path");
    assert_true(c->upstreams[0].preserve_host);
    assert_int_equal(c->upstreams_n, 2);
    assert_slice(c->upstreams[1].name, "other");
    assert_slice(c->upstreams[1].endpoints[0].authority, "api.example");
    assert_int_equal(c->upstreams[1].endpoints[0].port, 80);
    assert_int_equal(c->upstreams[1].connect_timeout_ms, 5);
    assert_int_equal(c->upstreams[1].response_timeout_ms, 30000);
    assert_slice(c->routes[0].path, "");
    assert_false(c->routes[0].prefix);
    assert_slice(c->routes[0].name, "/");
    assert_slice(c->routes[1].path, "/a/b");
    assert_slice(c->routes[1].name, "ab");
    assert_slice(c->routes[1].strip_prefix, "/a/b");
    assert_ptr_equal(c->routes[1].upstream, &c->upstreams[1]);
    assert_int_equal(c->routes[1].methods.n, 2);
    assert_true(c->routes[2].prefix);
    assert_slice(c->routes[2].strip_prefix, "/a");
    assert_slice(c->routes[2].resource, "$2");
    assert_true(c->routes[2].source_ip);
    assert_int_equal(c->routes[2].decision_ttl_s, 7);
    assert_ptr_equal(c->routes[2].upstream, &c->upstreams[0]);
    assert_true(c->routes[2].keep_encoded_slashes);
    assert_true(c->routes[2].keep_path_parameters);
    assert_int_equal(c->routes[2].access, ACCESS_AUTHENTICATED);
    assert_slice(c->routes[3].path, "/x;y%2Fz");
    unload(&l);
}

static void test_values_in_their_normal_form(void **state)
{
    (void)state;
    struct loaded l = load_text_with(
        "listen: { address: \"[::]:0\", hosts: [API.Example, \"Api.Example:8080\", \"[::1]:80\", 10.0.0.1],\n"
        "          trusted_proxies: [10.0.0.0/8, 192.0.2.1, \"2001:db8::/32\"] }\n"
        "admin: { address: \"\" }\n"
        "grant: { header: X-My-Grant }\n"
        "strip_headers: [X-User, X_Role]\n"
        "cors: { origins: [\"HTTPS://App.Example:8443\"], credentials: true }\n" PUBLIC_ROUTE, NULL);
    /* A scheme in capitals is not known: written as it is sent. */
    assert_string_equal(l.errors.p, "c.yaml:6: cors.origins[0]: \"HTTPS://App.Example:8443\" is no origin, expected "
                                    "scheme://host[:port] without a path, or *\n");
    unload(&l);
    l = load_text_with(
        "listen: { address: \"[::]:0\", hosts: [API.Example, \"Api.Example:8080\", \"[::1]:80\", 10.0.0.1],\n"
        "          trusted_proxies: [10.0.0.0/8, 192.0.2.1, \"2001:db8::/32\"] }\n"
        "admin: { address: \"\" }\n"
        "grant: { header: X-My-Grant }\n"
        "strip_headers: [X-User, X_Role]\n"
        "log: { level: ~ }\n"
        "cors: { origins: [\"https://App.Example:8443\"], credentials: true }\n" PUBLIC_ROUTE, NULL);
    assert_string_equal(l.errors.p, "");
    const struct conf *c = l.conf;
    assert_slice(c->listen.host, "::");
    assert_int_equal(c->listen.port, 0);
    assert_slice(c->listen.hosts.v[0], "api.example");
    assert_slice(c->listen.hosts.v[1], "api.example:8080");
    assert_slice(c->listen.hosts.v[2], "[::1]:80");
    assert_slice(c->listen.hosts.v[3], "10.0.0.1");
    assert_int_equal(c->listen.trusted_n, 3);
    assert_int_equal(c->listen.trusted[0].family, 4);
    assert_int_equal(c->listen.trusted[0].bits, 8);
    assert_int_equal(c->listen.trusted[0].bytes[0], 10);
    assert_int_equal(c->listen.trusted[1].bits, 32);
    assert_int_equal(c->listen.trusted[2].family, 6);
    assert_int_equal(c->listen.trusted[2].bits, 32);
    assert_int_equal(c->listen.trusted[2].bytes[0], 0x20);
    assert_slice(c->admin.host, "");
    assert_slice(c->grant.header, "x-my-grant");
    assert_slice(c->strip_headers.v[0], "x-user");
    assert_slice(c->strip_headers.v[1], "x_role");
    assert_slice(c->cors.origins.v[0], "https://app.example:8443");
    assert_true(c->cors.on);
    assert_int_equal(c->log.level, LOG_INFO);
    unload(&l);
}

static void test_office_and_its_synonym_are_one(void **state)
{
    (void)state;
    static const struct {
        const char *yaml;
        const char *first, *second;
        size_t n;
    } rows[] = {
        {"[office, office_id, data_source]", "office_id|office", "data_source", 2},
        {"[data_source, office_id, office]", "data_source", "office_id|office", 2},
        {"[office, data_source]", "office", "data_source", 2},
        {"[\"office|office_id\", data_source]", "office|office_id", "data_source", 2},
        {"[office, data_source, office_id]", "office_id|office", "data_source", 2},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[256];
        snprintf(text, sizeof text, "policy: { query: %s }%s", rows[i].yaml, PUBLIC_ROUTE);
        struct loaded l = load_text_with(text, NULL);
        assert_string_equal(l.errors.p, "");
        assert_int_equal(l.conf->policy.query.n, rows[i].n);
        assert_slice(l.conf->policy.query.v[0], rows[i].first);
        assert_slice(l.conf->policy.query.v[1], rows[i].second);
        unload(&l);
    }
}

static void test_files(void **state)
{
    (void)state;
    write_file("secret", "0123456789abcdef0123456789abcdef\r\n");
    write_file("token", "0123456789abcdef");
    write_file("jwks.json", "{\"keys\":[]}\n");
    write_file("shape.jq", ".\n");
    write_file("key.pem", "-----BEGIN EC PRIVATE KEY-----\nAA==\n-----END EC PRIVATE KEY-----\n");
    write_file("c.yaml", "admin: { token_file: token }\n"
                         "tokens:\n"
                         "  issuers:\n"
                         "    - { issuer: a, secret_file: secret, audiences: [x] }\n"
                         "    - { issuer: b, jwks_file: jwks.json, audiences: [x], types: [at+jwt] }\n"
                         "grant: { format: jws, key_file: key.pem, shape: shape.jq }\n" PUBLIC_ROUTE);
    /* Names are relative to the file's folder, wherever the process stands. */
    char path[64];
    snprintf(path, sizeof path, "%s/c.yaml", folder);
    assert_int_equal(chdir("/"), 0);
    struct loaded l = load_source(path, false, NULL);
    assert_int_equal(chdir(folder), 0);
    assert_string_equal(l.errors.p, "");
    const struct conf *c = l.conf;
    assert_slice(c->admin.token, "0123456789abcdef");
    assert_slice(c->tokens.issuers[0].secret, "0123456789abcdef0123456789abcdef");
    assert_slice(c->tokens.issuers[0].algorithms.v[0], "HS256");
    assert_slice(c->tokens.issuers[1].jwks, "{\"keys\":[]}\n");
    assert_slice(c->tokens.issuers[1].types.v[0], "at+jwt");
    assert_slice(c->grant.shape, ".\n");
    assert_slice(c->grant.shape_name, "shape.jq");
    assert_int_equal(c->grant.format, CONF_GRANT_JWS);
    assert_slice(c->grant.key, "-----BEGIN EC PRIVATE KEY-----\nAA==\n-----END EC PRIVATE KEY-----");
    unload(&l);
}

static void test_urls_that_are_taken(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "policy: { url: \"unix:/run/opa.sock:/v1/data/a/allow\" }",
        "policy: { url: https://opa.example:8443/v1/data/a?x=y }",
        "redis: { url: redis://localhost }",
        "redis: { url: \"redis://user:p%40ss@r.example:6380/3\" }",
        "redis: { url: \"redis://:pass@[::1]:6380\" }",
        "redis: { url: \"unix:/run/redis.sock?db=2\" }",
        "redis: { url: \"redis+unix:///run/redis.sock\" }",
        "context: { service_url: \"https://a.example/users/{name}?x=1\", service_authorization: apikey abc }",
        "context: { url: http://a.example/user/profile?full=true }",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        char text[512];
        snprintf(text, sizeof text, "%s%s", texts[i], PUBLIC_ROUTE);
        struct loaded l = load_text_with(text, NULL);
        if (!l.conf) print_error("%s\n%s", texts[i], l.errors.p);
        assert_non_null(l.conf);
        unload(&l);
    }
}

/* A profile as it is, without a shape, is what no shape with a url means. */
static void test_a_profile_has_no_default_shape(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "context: { url: http://a/p }" PUBLIC_ROUTE,
        "context: { service_url: \"http://a/{name}\", service_authorization: x }" PUBLIC_ROUTE,
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct loaded l = load_text_with(texts[i], NULL);
        assert_string_equal(l.errors.p, "");
        assert_slice(l.conf->context.shape, "");
        unload(&l);
    }
}

/* The service is asked by a name alone: whoever may issue "ann" is given the context of everybody's ann. */
static void test_one_name_of_two_issuers_is_told(void **state)
{
    (void)state;
#define ISSUER(name) "{ issuer: " name ", jwks_url: http://a/k, audiences: [x] }"
#define SERVICE "context: { service_url: \"http://a/{name}\", service_authorization: x }" PUBLIC_ROUTE
    static const struct {
        const char *text;
        bool told;
    } rows[] = {
        {"tokens: { issuers: [" ISSUER("one") "] }\n" SERVICE, false},
        {"tokens: { issuers: [" ISSUER("one") ", " ISSUER("two") "] }\n" SERVICE, true},
        {"tokens: { issuers: [" ISSUER("one") ", " ISSUER("two") "] }" PUBLIC_ROUTE, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct loaded l = load_text_with(rows[i].text, NULL);
        assert_string_equal(l.errors.p, "");
        assert_int_equal(strstr(l.warnings.p, "context.service_url") != NULL, rows[i].told);
        unload(&l);
    }
}

static void test_a_budget_below_an_answers_time_is_told(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool told;
    } rows[] = {
        {"upstream: { response_timeout_ms: 40000 }" PUBLIC_ROUTE, false},
        {"upstream: { response_timeout_ms: 40001 }" PUBLIC_ROUTE, true},
        {"listen: { budget_ms: 0 }\nupstream: { response_timeout_ms: 40001 }" PUBLIC_ROUTE, false},
        {"listen: { budget_ms: 1000 }" PUBLIC_ROUTE, true},
        {"upstreams: { slow: { url: http://a, response_timeout_ms: 90000 } }" PUBLIC_ROUTE, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct loaded l = load_text_with(rows[i].text, NULL);
        assert_string_equal(l.errors.p, "");
        assert_int_equal(strstr(l.warnings.p, "listen.budget_ms") != NULL, rows[i].told);
        unload(&l);
    }
}

static void test_certificates_for_a_plain_url_are_told(void **state)
{
    (void)state;
#define CA "tls: { ca_file: " SOURCE_DIR "/README.md }"
    static const struct {
        const char *text, *told;
    } rows[] = {
        {"upstream: { url: http://a, " CA " }" PUBLIC_ROUTE, "upstream.tls: given, but not used: the URL is of plain http, not https\n"},
        {"upstream: { url: https://a, " CA " }" PUBLIC_ROUTE, ""},
        {"upstreams: { b: { url: http://a, " CA " } }" PUBLIC_ROUTE,
         "upstreams.b.tls: given, but not used: the URL is of plain http, not https\n"},
        {"redis: { url: redis://a, " CA " }" PUBLIC_ROUTE, "redis.tls: given, but not used: the URL is of plain redis, not rediss\n"},
        {"redis: { url: rediss://a, " CA " }" PUBLIC_ROUTE, ""},
        {"context: { url: http://a, " CA " }" PUBLIC_ROUTE, "context.tls: given, but not used: the URL is of plain http, not https\n"},
        {"context: { url: http://a, service_url: \"https://a/{name}\", service_authorization: x, " CA " }" PUBLIC_ROUTE, ""},
        {"policy: { url: http://a, " CA " }" PUBLIC_ROUTE, "policy.tls: given, but not used: the URL is of plain http, not https\n"},
        {"tokens: { issuers: [{ issuer: a, jwks_url: http://a/k, audiences: [x], " CA " }] }" PUBLIC_ROUTE,
         "tokens.issuers[0].tls: given, but not used: the URL is of plain http, not https\n"},
        {"tokens: { issuers: [{ issuer: a, jwks_url: https://a/k, audiences: [x], " CA " }] }" PUBLIC_ROUTE, ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct loaded l = load_text_with(rows[i].text, NULL);
        assert_string_equal(l.errors.p, "");
        assert_string_equal(l.warnings.p, rows[i].told);
        unload(&l);
    }
}

static void check_file(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", SOURCE_DIR, name);
    struct loaded l = load_source(path, false, NULL);
    assert_string_equal(l.errors.p, "");
    assert_string_equal(l.warnings.p, "");
    unload(&l);
}

static void test_the_files_of_the_project(void **state)
{
    (void)state;
    check_file("config/doorward.yaml");
    check_file("config/cwms/doorward.yaml");
    check_file("docs/sample.yaml");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_defaults_behind_the_proxy),
        cmocka_unit_test(test_what_is_not_named_is_judged),
        cmocka_unit_test(test_routes_in_full),
        cmocka_unit_test(test_values_in_their_normal_form),
        cmocka_unit_test(test_office_and_its_synonym_are_one),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_urls_that_are_taken),
        cmocka_unit_test(test_a_profile_has_no_default_shape),
        cmocka_unit_test(test_one_name_of_two_issuers_is_told),
        cmocka_unit_test(test_a_budget_below_an_answers_time_is_told),
        cmocka_unit_test(test_certificates_for_a_plain_url_are_told),
        cmocka_unit_test(test_the_files_of_the_project),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
