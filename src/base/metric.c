/* base/metric: counting, and the registry as Prometheus text, JSON and documentation. Called from everywhere that
   counts, by the admin endpoints and for the docs page. Refuses a use that is not of the row's kind. */
#include "base/metric.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/check.h"
#include "base/json.h"
#include "base/metric_family.h"

static const double bounds[METRIC_BOUNDS] = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
                                             0.05,   0.1,     0.25,   0.5,   1,      2.5,   5,    10};
static const char *const kind_names[] = {
    [METRIC_COUNTER] = "counter", [METRIC_GAUGE] = "gauge", [METRIC_HISTOGRAM] = "histogram"};

static const char *const over_names[] = {[METRIC_OVER_SUM] = "sum",
                                         [METRIC_OVER_MAX] = "greatest",
                                         [METRIC_OVER_MIN] = "least",
                                         [METRIC_OVER_EACH] = "label `worker`"};

static const char *name_prefix = "doorward_";

void metric_init(const char *prefix)
{
    metric_family_finish();
    name_prefix = prefix;
}

void metric_finish(void)
{
    metric_family_finish();
}

void metric_add(enum metric m, const struct slice *labels, double by)
{
    struct metric_family *f = metric_family_of(m);
    CHECK(f->kind != METRIC_HISTOGRAM, "a histogram is observed");
    CHECK(f->kind != METRIC_COUNTER || by >= 0, "a counter only grows");
    metric_family_series(f, labels, true)->value += by;
}

void metric_set(enum metric m, const struct slice *labels, double value)
{
    struct metric_family *f = metric_family_of(m);
    CHECK(f->kind != METRIC_HISTOGRAM, "a histogram is observed");
    metric_family_series(f, labels, true)->value = value;
}

void metric_observe(enum metric m, const struct slice *labels, double seconds)
{
    struct metric_family *f = metric_family_of(m);
    CHECK(f->kind == METRIC_HISTOGRAM, "only a histogram is observed");
    if (isnan(seconds)) return;
    if (seconds < 0) seconds = 0; /* a clock that was set back */
    struct metric_histogram *h = metric_family_series(f, labels, true)->histogram;
    size_t i = 0;
    while (i < METRIC_BOUNDS && seconds > bounds[i]) i++;
    h->counts[i]++;
    h->sum += seconds;
}

double metric_value(enum metric m, const struct slice *labels)
{
    struct metric_family *f = metric_family_of(m);
    CHECK(f->kind != METRIC_HISTOGRAM, "a histogram has no one value");
    const struct metric_series *s = metric_family_series(f, labels, false);
    return s ? s->value : 0;
}

/* A metric without labels is there from the start, at 0. */
static struct metric_family *family_shown(enum metric m)
{
    struct metric_family *f = metric_family_of(m);
    if (f->label_count == 0) metric_family_series(f, NULL, true);
    return f;
}

/* Exposition format 0.0.4: backslash and newline are escaped everywhere, the quote in label values only. */
static void add_escaped(struct buf *out, struct slice s, bool quoted)
{
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '\n') {
            buf_add_lit(out, "\\n");
        } else {
            if (s.p[i] == '\\' || (quoted && s.p[i] == '"')) buf_add_char(out, '\\');
            buf_add_char(out, s.p[i]);
        }
    }
}

static void add_number(struct buf *out, double value)
{
    if (isfinite(value)) {
        buf_add_double(out, value);
    } else {
        buf_add_slice(out, isnan(value) ? SLICE("NaN") : value > 0 ? SLICE("+Inf") : SLICE("-Inf"));
    }
}

/* One line: name, suffix, labels, and le when there is one (NAN: none). */
static void add_sample(struct buf *out, const struct metric_family *f, const struct metric_series *s,
                       const char *suffix, double le, double value)
{
    char before = '{';
    buf_add_slice(out, slice_str(name_prefix));
    buf_add_slice(out, slice_str(f->name));
    buf_add_slice(out, slice_str(suffix));
    for (size_t i = 0; i < f->label_count; i++) {
        buf_add_char(out, before);
        buf_add_slice(out, f->label_names[i]);
        buf_add_lit(out, "=\"");
        add_escaped(out, s->labels[i], true);
        buf_add_char(out, '"');
        before = ',';
    }
    if (!isnan(le)) {
        buf_add_char(out, before);
        buf_add_lit(out, "le=\"");
        add_number(out, le);
        buf_add_char(out, '"');
        before = ',';
    }
    if (before == ',') buf_add_char(out, '}');
    buf_add_char(out, ' ');
    add_number(out, value);
    buf_add_char(out, '\n');
}

static void add_samples(struct buf *out, const struct metric_family *f, const struct metric_series *s)
{
    const struct metric_histogram *h = s->histogram;
    if (h == NULL) {
        add_sample(out, f, s, "", NAN, s->value);
        return;
    }
    uint64_t below = 0;
    for (size_t i = 0; i <= METRIC_BOUNDS; i++) {
        below += h->counts[i];
        add_sample(out, f, s, "_bucket", i < METRIC_BOUNDS ? bounds[i] : INFINITY, (double)below);
    }
    add_sample(out, f, s, "_sum", NAN, h->sum);
    add_sample(out, f, s, "_count", NAN, (double)below);
}

void metric_text(struct buf *out)
{
    for (size_t m = 0; m < METRIC_COUNT; m++) {
        const struct metric_family *f = family_shown((enum metric)m);
        buf_printf(out, "# HELP %s%s ", name_prefix, f->name);
        add_escaped(out, slice_str(f->help), false);
        buf_printf(out, "\n# TYPE %s%s %s\n", name_prefix, f->name, kind_names[f->kind]);
        for (const struct metric_series *s = f->first; s != NULL; s = s->next) add_samples(out, f, s);
    }
}

static void add_json_value(struct json *j, const struct metric_family *f, const struct metric_series *s,
                           const char *suffix, double le, double value)
{
    json_object_start(j);
    json_key(j, SLICE("value"));
    json_double(j, value);
    if (f->kind == METRIC_HISTOGRAM) {
        char name[128];
        snprintf(name, sizeof(name), "%s%s%s", name_prefix, f->name, suffix);
        json_field_string(j, "metricName", slice_str(name));
    }
    json_key(j, SLICE("labels"));
    json_object_start(j);
    for (size_t i = 0; i < f->label_count; i++) {
        json_key(j, f->label_names[i]);
        json_text(j, s->labels[i]);
    }
    if (isinf(le)) {
        json_field_string(j, "le", SLICE("+Inf"));
    } else if (!isnan(le)) {
        json_key(j, SLICE("le"));
        json_double(j, le);
    }
    json_object_end(j);
    json_object_end(j);
}

static void add_json_values(struct json *j, const struct metric_family *f, const struct metric_series *s)
{
    const struct metric_histogram *h = s->histogram;
    if (h == NULL) {
        add_json_value(j, f, s, "", NAN, s->value);
        return;
    }
    uint64_t below = 0;
    for (size_t i = 0; i <= METRIC_BOUNDS; i++) {
        below += h->counts[i];
        add_json_value(j, f, s, "_bucket", i < METRIC_BOUNDS ? bounds[i] : INFINITY, (double)below);
    }
    add_json_value(j, f, s, "_sum", NAN, h->sum);
    add_json_value(j, f, s, "_count", NAN, (double)below);
}

void metric_json(struct buf *out, struct slice timestamp)
{
    struct json j;
    json_init(&j, out);
    json_object_start(&j);
    json_field_string(&j, "timestamp", timestamp);
    json_key(&j, SLICE("metrics"));
    json_array_start(&j);
    for (size_t m = 0; m < METRIC_COUNT; m++) {
        const struct metric_family *f = family_shown((enum metric)m);
        char name[128];
        snprintf(name, sizeof(name), "%s%s", name_prefix, f->name);
        json_object_start(&j);
        json_field_string(&j, "name", slice_str(name));
        json_field_string(&j, "help", slice_str(f->help));
        json_field_string(&j, "type", slice_str(kind_names[f->kind]));
        json_key(&j, SLICE("values"));
        json_array_start(&j);
        for (const struct metric_series *s = f->first; s != NULL; s = s->next) add_json_values(&j, f, s);
        json_array_end(&j);
        json_object_end(&j);
    }
    json_array_end(&j);
    json_object_end(&j);
}

void metric_table(struct buf *out)
{
    buf_add_lit(out, "# Metrics\n\nAt `/metrics` (Prometheus text) and `/metrics/json`, on the admin address; in drop-in mode on the "
                     "main port too, there with the prefix `authorizer_proxy_`. Made by `doorward --print-metrics`.\n\n");
    buf_add_lit(out, "| metric | type | labels | over workers | what it counts |\n|---|---|---|---|---|\n");
    for (size_t m = 0; m < METRIC_COUNT; m++) {
        const struct metric_family *f = metric_family_of((enum metric)m);
        buf_printf(out, "| `%s%s` | %s | %s | %s | %s |\n", name_prefix, f->name, kind_names[f->kind], f->labels,
                   over_names[f->over], f->help);
    }
}
