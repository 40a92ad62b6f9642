/* Unit tests of base/metric_sum: what several processes counted as one, by the column `over`; bytes that are not whole. */
#include "base/metric_sum.h"

#include <stdio.h>
#include <string.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/metric.h"

static struct buf first, second, shown;

/* What a worker has counted, packed; nothing is left behind. */
static void pack_worker(struct buf *out, double requests, double seconds, double rss, double revision)
{
    struct slice http[3] = {SLICE("GET"), SLICE("/x"), SLICE("200")}, cache[1] = {SLICE("token")};
    metric_init("doorward_");
    metric_add(METRIC_HTTP_REQUESTS, http, requests);
    metric_observe(METRIC_HTTP_DURATION, http, seconds);
    metric_set(METRIC_RSS, NULL, rss);
    metric_set(METRIC_CONFIG_REVISION, NULL, revision);
    metric_set(METRIC_CACHE_AGE, cache, requests);
    metric_set(METRIC_CACHE_ENTRIES, cache, requests);
    buf_init(out, NULL);
    metric_pack(out);
    metric_finish();
}

static int start(void **state)
{
    (void)state;
    pack_worker(&first, 3, 0.0002, 1000, 2);
    pack_worker(&second, 4, 20, 3000, 1);
    metric_init("doorward_");
    buf_init(&shown, NULL);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    buf_free(&first);
    buf_free(&second);
    buf_free(&shown);
    metric_finish();
    return 0;
}

static const char *show(void)
{
    shown.n = 0;
    metric_text(&shown);
    buf_add_char(&shown, '\0');
    return shown.p;
}

static void has(const char *line)
{
    if (strstr(show(), line)) return;
    print_error("not there: %s\n", line);
    fail();
}

static void test_sum(void **state)
{
    (void)state;
    metric_sum_begin();
    assert_true(metric_sum_add(buf_slice(&first), SLICE("1")));
    assert_true(metric_sum_add(buf_slice(&second), SLICE("2")));
    has("\ndoorward_http_requests_total{method=\"GET\",route=\"/x\",status_code=\"200\"} 7\n");
    has("_duration_seconds_bucket{method=\"GET\",route=\"/x\",status_code=\"200\",le=\"0.0001\"} 0\n");
    has("_duration_seconds_bucket{method=\"GET\",route=\"/x\",status_code=\"200\",le=\"0.00025\"} 1\n");
    has("_duration_seconds_bucket{method=\"GET\",route=\"/x\",status_code=\"200\",le=\"10\"} 1\n");
    has("_duration_seconds_bucket{method=\"GET\",route=\"/x\",status_code=\"200\",le=\"+Inf\"} 2\n");
    has("_duration_seconds_sum{method=\"GET\",route=\"/x\",status_code=\"200\"} 20.0002\n");
    has("_duration_seconds_count{method=\"GET\",route=\"/x\",status_code=\"200\"} 2\n");
    has("\ndoorward_process_resident_memory_bytes{worker=\"1\"} 1000\n");
    has("\ndoorward_process_resident_memory_bytes{worker=\"2\"} 3000\n");
    has("\ndoorward_config_revision 1\n");
    has("\ndoorward_cache_oldest_seconds{cache_type=\"token\"} 4\n");
    has("\ndoorward_cache_entries{cache_type=\"token\"} 7\n");
    metric_sum_end();
}

/* The process's own registry is as it was, and has no label that only the sum has. */
static void test_own_is_untouched(void **state)
{
    (void)state;
    metric_set(METRIC_RSS, NULL, 5);
    metric_sum_begin();
    assert_true(metric_sum_add(buf_slice(&first), SLICE("1")));
    assert_null(strstr(show(), "resident_memory_bytes 5\n"));
    metric_sum_end();
    has("\ndoorward_process_resident_memory_bytes 5\n");
    assert_null(strstr(show(), "http_requests_total{"));
}

/* Of the dead, what only grows: their gauges are nobody's any more. */
static void test_fold(void **state)
{
    struct slice http[3] = {SLICE("GET"), SLICE("/x"), SLICE("200")};
    (void)state;
    metric_add(METRIC_HTTP_REQUESTS, http, 1);
    assert_true(metric_fold(buf_slice(&first)));
    assert_true(metric_fold(buf_slice(&second)));
    has("\ndoorward_http_requests_total{method=\"GET\",route=\"/x\",status_code=\"200\"} 8\n");
    has("_duration_seconds_count{method=\"GET\",route=\"/x\",status_code=\"200\"} 2\n");
    has("\ndoorward_process_resident_memory_bytes 0\n");
    has("\ndoorward_config_revision 0\n");
}

static void test_not_whole(void **state)
{
    size_t whole = 0;
    (void)state;
    for (size_t n = 0; n < first.n; n++) {
        metric_sum_begin();
        if (metric_sum_add(slice_make(first.p, n), SLICE("1"))) whole++;
        metric_sum_end();
    }
    assert_int_equal(whole, 6); /* nothing, and where one of the six series ends but for the last */
    first.p[0] = first.p[1] = '\xff';
    metric_sum_begin();
    assert_false(metric_sum_add(buf_slice(&first), SLICE("1")));
    metric_sum_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_sum, start, stop),
        cmocka_unit_test_setup_teardown(test_own_is_untouched, start, stop),
        cmocka_unit_test_setup_teardown(test_fold, start, stop),
        cmocka_unit_test_setup_teardown(test_not_whole, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
