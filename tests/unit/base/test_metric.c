/* Unit tests of base/metric: the exposition format line by line, the bound on label sets, any bytes as labels. */
#include "base/metric.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "dies.h"

static struct buf shown;

static const char *show(void)
{
    shown.n = 0;
    metric_text(&shown);
    buf_add_char(&shown, '\0');
    return shown.p;
}

static const char *show_json(void)
{
    shown.n = 0;
    metric_json(&shown, SLICE("2026-01-31T09:00:00.123Z"));
    buf_add_char(&shown, '\0');
    return shown.p;
}

static bool has_line(const char *line)
{
    const char *text = show(), *at = text;
    size_t n = strlen(line);
    while ((at = strstr(at, line)) != NULL) {
        if ((at == text || at[-1] == '\n') && at[n] == '\n') return true;
        at++;
    }
    return false;
}

static size_t count(const char *text, const char *what)
{
    size_t n = 0;
    for (; (text = strstr(text, what)) != NULL; text++) n++;
    return n;
}

static void add1(enum metric m, const char *label)
{
    struct slice labels[1] = {slice_str(label)};
    metric_add(m, labels, 1);
}

static int start(void **state)
{
    (void)state;
    metric_init("doorward_");
    return 0;
}

static int stop(void **state)
{
    (void)state;
    metric_finish();
    buf_free(&shown);
    return 0;
}

static void test_from_the_start(void **state)
{
    (void)state;
    assert_true(has_line("# HELP doorward_active_connections Client connections open"));
    assert_true(has_line("# TYPE doorward_active_connections gauge"));
    assert_true(has_line("doorward_active_connections 0"));
    assert_true(has_line("doorward_log_lines_dropped_total 0"));
    assert_true(has_line("# TYPE doorward_http_requests_total counter")); /* its labels are not known yet: no line */
    assert_null(strstr(show(), "doorward_http_requests_total{"));
    assert_true(has_line("# TYPE doorward_http_request_duration_seconds histogram"));
}

static void test_counters_and_gauges(void **state)
{
    struct slice labels[3] = {SLICE("GET"), SLICE("api"), SLICE("200")};
    struct slice post[3] = {SLICE("POST"), SLICE("api"), SLICE("200")};
    (void)state;
    assert_true(metric_value(METRIC_HTTP_REQUESTS, labels) == 0);
    assert_null(strstr(show(), "GET")); /* asking makes no series */
    metric_add(METRIC_HTTP_REQUESTS, labels, 1);
    metric_add(METRIC_HTTP_REQUESTS, labels, 2);
    metric_add(METRIC_HTTP_REQUESTS, post, 1);
    assert_true(metric_value(METRIC_HTTP_REQUESTS, labels) == 3);
    assert_true(has_line("doorward_http_requests_total{method=\"GET\",route=\"api\",status_code=\"200\"} 3"));
    assert_true(has_line("doorward_http_requests_total{method=\"POST\",route=\"api\",status_code=\"200\"} 1"));
    metric_add(METRIC_ACTIVE_CONNECTIONS, NULL, 5);
    metric_add(METRIC_ACTIVE_CONNECTIONS, NULL, -2);
    assert_true(has_line("doorward_active_connections 3"));
    metric_set(METRIC_ACTIVE_CONNECTIONS, NULL, 0.25);
    assert_true(has_line("doorward_active_connections 0.25"));
    metric_set(METRIC_BYTES_IN, NULL, 9007199254740991.0);
    assert_true(has_line("doorward_client_bytes_received_total 9007199254740991"));
    metric_set(METRIC_LOOP_LAG, NULL, INFINITY);
    assert_true(has_line("doorward_loop_lag_seconds +Inf"));
    metric_set(METRIC_LOOP_LAG, NULL, -INFINITY);
    assert_true(has_line("doorward_loop_lag_seconds -Inf"));
    metric_set(METRIC_LOOP_LAG, NULL, NAN);
    assert_true(has_line("doorward_loop_lag_seconds NaN"));
}

static void test_labels_are_not_run_together(void **state)
{
    struct slice a[2] = {SLICE("ab"), SLICE("c")}, b[2] = {SLICE("a"), SLICE("bc")};
    (void)state;
    metric_add(METRIC_API_CALLS, a, 1);
    assert_true(metric_value(METRIC_API_CALLS, b) == 0);
    metric_add(METRIC_API_CALLS, b, 5);
    assert_true(metric_value(METRIC_API_CALLS, a) == 1);
}

static void test_histogram(void **state)
{
    static const double seconds[] = {0, -3, 0.0001, 0.00011, 0.005, 0.0050001, 9.9, 10, 11, 1e9};
    struct slice labels[2] = {SLICE("get"), SLICE("hit")};
    double sum = 0;
    char line[120], digits[40];
    (void)state;
    for (size_t i = 0; i < sizeof(seconds) / sizeof(*seconds); i++) {
        metric_observe(METRIC_CACHE_DURATION, labels, seconds[i]);
        sum += seconds[i] > 0 ? seconds[i] : 0;
    }
    metric_observe(METRIC_CACHE_DURATION, labels, NAN);
    static const struct {
        const char *le;
        int n;
    } rows[] = {{"0.0001", 3}, {"0.00025", 4}, {"0.0005", 4}, {"0.001", 4}, {"0.0025", 4}, {"0.005", 5},
                {"0.01", 6},   {"0.025", 6},   {"0.05", 6},   {"0.1", 6},   {"0.25", 6},   {"0.5", 6},
                {"1", 6},      {"2.5", 6},     {"5", 6},      {"10", 8},    {"+Inf", 10}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        snprintf(line, sizeof(line),
                 "doorward_cache_operation_duration_seconds_bucket{operation=\"get\",result=\"hit\",le=\"%s\"} %d",
                 rows[i].le, rows[i].n);
        if (!has_line(line)) fail_msg("missing: %s", line);
    }
    assert_int_equal(count(show(), "_seconds_bucket{"), 17);
    assert_true(has_line("doorward_cache_operation_duration_seconds_count{operation=\"get\",result=\"hit\"} 10"));
    const char *at = strstr(show(), "doorward_cache_operation_duration_seconds_sum{operation=\"get\",result=\"hit\"} ");
    assert_non_null(at);
    assert_int_equal(sscanf(strchr(at, ' '), "%39s", digits), 1);
    double read_back;
    assert_int_equal(sscanf(digits, "%lf", &read_back), 1);
    assert_true(read_back == sum);
}

static void test_escaping(void **state)
{
    (void)state;
    add1(METRIC_REASONS, "a\\b\"c\nd");
    assert_true(has_line("doorward_requests_ended_total{reason=\"a\\\\b\\\"c\\nd\"} 1"));
    add1(METRIC_REASONS, "");
    assert_true(has_line("doorward_requests_ended_total{reason=\"\"} 1"));
    add1(METRIC_REASONS, "\xc3\xa4\xf0\x9f\x98\x80");
    assert_true(has_line("doorward_requests_ended_total{reason=\"\xc3\xa4\xf0\x9f\x98\x80\"} 1"));
}

/* Whatever bytes come in, the text is valid UTF-8 in whole lines, and no series is shown twice. */
static void test_any_bytes(void **state)
{
    (void)state;
    for (int i = 0; i < 256; i++) {
        char bytes[2] = {'x', (char)i};
        struct slice labels[1] = {slice_make(bytes, 2)};
        metric_add(METRIC_REASONS, labels, 1);
        metric_add(METRIC_REASONS, labels, 1);
        assert_true(metric_value(METRIC_REASONS, labels) >= 2);
    }
    show();
    struct slice rest = slice_make(shown.p, shown.n - 1), line;
    char first[300] = "";
    double total = 0;
    while (slice_next(&rest, '\n', &line)) {
        for (struct slice s = line; s.n;) {
            uint32_t code = 0;
            size_t n = slice_utf8(s, &code);
            assert_true(n > 0 && code >= 0x20 && code != 0x7f);
            s = slice_make(s.p + n, s.n - n);
        }
        if (!slice_starts(line, SLICE("doorward_requests_ended_total{reason=\"x?\"}"))) continue;
        assert_string_equal(first, "");
        assert_true(line.n < sizeof(first));
        memcpy(first, line.p, line.n);
        assert_int_equal(sscanf(first, "doorward_requests_ended_total{reason=\"x?\"} %lf", &total), 1);
    }
    assert_true(total == 2.0 * (31 + 1 + 128 + 1)); /* controls less newline, DEL, lone high bytes, "?" itself */
}

static void test_long_values_are_cut(void **state)
{
    char a[1000], b[500], want[300];
    (void)state;
    memset(a, 'l', sizeof(a));
    memset(b, 'l', sizeof(b));
    struct slice labels[1] = {slice_make(a, sizeof(a))};
    metric_add(METRIC_REASONS, labels, 1);
    labels[0] = slice_make(b, sizeof(b));
    metric_add(METRIC_REASONS, labels, 1);
    snprintf(want, sizeof(want), "doorward_requests_ended_total{reason=\"%.128s\"} 2", a);
    assert_true(has_line(want));
    memcpy(a + 127, "\xe2\x82\xac", 3); /* the cut would go through a character */
    labels[0] = slice_make(a, sizeof(a));
    metric_add(METRIC_REASONS, labels, 1);
    snprintf(want, sizeof(want), "doorward_requests_ended_total{reason=\"%.127s\"} 1", a);
    assert_true(has_line(want));
}

static void test_label_sets_are_bounded(void **state)
{
    (void)state;
    for (int i = 0; i < 5000; i++) {
        char name[32];
        snprintf(name, sizeof(name), "r%d", i);
        struct slice labels[2] = {slice_str(name), SLICE("kind")};
        metric_add(METRIC_DEPENDENCY_FAILURES, labels, 1);
        metric_add(METRIC_DEPENDENCY_FAILURES, labels, 1);
    }
    const char *text = show();
    assert_int_equal(count(text, "doorward_dependency_failures_total{"), 1001);
    assert_true(has_line("doorward_dependency_failures_total{dependency=\"r999\",kind=\"kind\"} 2"));
    assert_false(has_line("doorward_dependency_failures_total{dependency=\"r1000\",kind=\"kind\"} 2"));
    assert_true(has_line("doorward_dependency_failures_total{dependency=\"other\",kind=\"other\"} 8000"));
    struct slice late[2] = {SLICE("r77"), SLICE("kind")};
    metric_add(METRIC_DEPENDENCY_FAILURES, late, 1); /* those that are known go on */
    assert_true(metric_value(METRIC_DEPENDENCY_FAILURES, late) == 3);
    add1(METRIC_REASONS, "mine"); /* and the bound is of each metric alone */
    assert_true(has_line("doorward_requests_ended_total{reason=\"mine\"} 1"));
}

static void test_prefix_and_restart(void **state)
{
    (void)state;
    add1(METRIC_REASONS, "x");
    metric_init("authorizer_proxy_");
    assert_null(strstr(show(), "doorward_"));
    assert_null(strstr(show(), "reason=\"x\""));
    add1(METRIC_REASONS, "y");
    assert_true(has_line("authorizer_proxy_requests_ended_total{reason=\"y\"} 1"));
}

static void test_every_row_once(void **state)
{
    (void)state;
    const char *text = show();
    assert_int_equal(count(text, "# HELP "), METRIC_COUNT);
    assert_int_equal(count(text, "# TYPE "), METRIC_COUNT);
    for (const char *at = text; (at = strstr(at, "# TYPE ")) != NULL; at++) {
        char name[128], line[160];
        assert_int_equal(sscanf(at, "# TYPE %127s", name), 1);
        snprintf(line, sizeof(line), "# TYPE %s ", name);
        assert_int_equal(count(text, line), 1);
        bool counter = strncmp(at + strlen(line), "counter", 7) == 0, total = strlen(name) > 6 &&
                       strcmp(name + strlen(name) - 6, "_total") == 0;
        assert_int_equal(counter, total); /* counters, and only they, end in _total */
    }
}

static void test_json(void **state)
{
    struct slice labels[2] = {SLICE("get"), SLICE("h\"\n\xff")};
    (void)state;
    metric_observe(METRIC_CACHE_DURATION, labels, 0.5);
    add1(METRIC_REASONS, "r");
    const char *text = show_json();
    struct slice start_of_it = SLICE("{\"timestamp\":\"2026-01-31T09:00:00.123Z\",\"metrics\":[{\"name\":\"doorward_");
    assert_true(slice_starts(slice_str(text), start_of_it));
    assert_int_equal(count(text, "\"name\":"), METRIC_COUNT);
    assert_non_null(strstr(text, "{\"name\":\"doorward_active_connections\",\"help\":\"Client connections open\","
                                 "\"type\":\"gauge\",\"values\":[{\"value\":0,\"labels\":{}}]}"));
    assert_non_null(strstr(text, "{\"value\":1,\"labels\":{\"reason\":\"r\"}}"));
    assert_non_null(strstr(text, "{\"value\":0,\"metricName\":\"doorward_cache_operation_duration_seconds_bucket\","
                                 "\"labels\":{\"operation\":\"get\",\"result\":\"h\\\"\\n?\",\"le\":0.25}}"));
    assert_non_null(strstr(text, "\"result\":\"h\\\"\\n?\",\"le\":\"+Inf\"}}"));
    assert_non_null(strstr(text, "{\"value\":0.5,\"metricName\":\"doorward_cache_operation_duration_seconds_sum\""));
    assert_non_null(strstr(text, "{\"value\":1,\"metricName\":\"doorward_cache_operation_duration_seconds_count\""));
    assert_string_equal(text + strlen(text) - 4, "]}]}");
}

static void test_table(void **state)
{
    (void)state;
    shown.n = 0;
    metric_table(&shown);
    buf_add_char(&shown, '\0');
    assert_int_equal(count(shown.p, "\n"), METRIC_COUNT + 6);
    assert_int_equal(count(shown.p, "|"), 6 * (METRIC_COUNT + 2));
    assert_non_null(strstr(shown.p, "| `doorward_cache_hits_total` | counter | cache_type | sum | Found in a cache"));
}

static void add_to_histogram(void *arg)
{
    metric_add(METRIC_HTTP_DURATION, arg, 1);
}

static void observe_counter(void *arg)
{
    metric_observe(METRIC_BYTES_IN, arg, 1);
}

static void count_down(void *arg)
{
    metric_add(METRIC_BYTES_IN, arg, -1);
}

static void forget_labels(void *arg)
{
    metric_add(METRIC_REASONS, arg, 1);
}

static void test_refusals(void **state)
{
    struct slice labels[3] = {SLICE("a"), SLICE("b"), SLICE("c")};
    (void)state;
    assert_true(dies(add_to_histogram, labels));
    assert_true(dies(observe_counter, NULL));
    assert_true(dies(count_down, NULL));
    assert_true(dies(forget_labels, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_from_the_start, start, stop),
        cmocka_unit_test_setup_teardown(test_counters_and_gauges, start, stop),
        cmocka_unit_test_setup_teardown(test_labels_are_not_run_together, start, stop),
        cmocka_unit_test_setup_teardown(test_histogram, start, stop),
        cmocka_unit_test_setup_teardown(test_escaping, start, stop),
        cmocka_unit_test_setup_teardown(test_any_bytes, start, stop),
        cmocka_unit_test_setup_teardown(test_long_values_are_cut, start, stop),
        cmocka_unit_test_setup_teardown(test_label_sets_are_bounded, start, stop),
        cmocka_unit_test_setup_teardown(test_prefix_and_restart, start, stop),
        cmocka_unit_test_setup_teardown(test_every_row_once, start, stop),
        cmocka_unit_test_setup_teardown(test_json, start, stop),
        cmocka_unit_test_setup_teardown(test_table, start, stop),
        cmocka_unit_test_setup_teardown(test_refusals, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
