/* See common/histogram.h. */
#include "common/histogram.h"

#include <stddef.h>
#include <stdlib.h>

#define HALF_BITS 10 /* 1024 steps to a power of two */
#define HALF (INT64_C(1) << HALF_BITS)
#define STEPS ((36 - HALF_BITS + 1) * HALF + HALF) /* 60 s is below 2^36 ns */

static int64_t step_of(int64_t ns)
{
    if (ns < 2 * HALF) return ns;
    int shift = 63 - __builtin_clzll((unsigned long long)ns) - HALF_BITS;
    return shift * HALF + (ns >> shift);
}

static int64_t lower_of(int64_t step)
{
    if (step < 2 * HALF) return step;
    int64_t shift = step / HALF - 1;
    return (step - shift * HALF) << shift;
}

void histogram_add(struct histogram *h, int64_t ns)
{
    if (ns < 0) ns = 0;
    if (!h->counts) {
        h->counts = calloc(STEPS, sizeof *h->counts);
        if (!h->counts) abort();
        h->least_ns = INT64_MAX;
    }
    h->n++;
    h->sum_ns += (double)ns;
    if (ns < h->least_ns) h->least_ns = ns;
    if (ns > h->most_ns) h->most_ns = ns;
    if (ns > HISTOGRAM_MAX_NS)
        h->overflow++;
    else
        h->counts[step_of(ns)]++;
}

void histogram_free(struct histogram *h)
{
    free(h->counts);
    *h = (struct histogram){.counts = NULL};
}

int64_t histogram_quantile_ns(const struct histogram *h, double q)
{
    if (h->n == 0) return 0;
    double wanted = q * (double)h->n;
    uint64_t seen = 0;
    for (int64_t i = 0; i < STEPS; i++) {
        seen += h->counts[i];
        if (h->counts[i] && (double)seen >= wanted) return (lower_of(i) + lower_of(i + 1)) / 2;
    }
    return h->most_ns; /* it is among what overflowed */
}

static double us(int64_t ns)
{
    return (double)ns / 1e3;
}

void histogram_print(const struct histogram *h, FILE *out)
{
    static const struct {
        const char *name;
        double q;
    } quantiles[] = {{"p50", 0.5}, {"p90", 0.9}, {"p95", 0.95}, {"p99", 0.99}, {"p999", 0.999}};
    fprintf(out, "{\"n\":%llu,\"overflow\":%llu,\"min_us\":%.3f,\"max_us\":%.3f,\"mean_us\":%.3f",
            (unsigned long long)h->n, (unsigned long long)h->overflow, us(h->n ? h->least_ns : 0), us(h->most_ns),
            h->n ? h->sum_ns / (double)h->n / 1e3 : 0);
    for (size_t i = 0; i < sizeof quantiles / sizeof *quantiles; i++)
        fprintf(out, ",\"%s_us\":%.3f", quantiles[i].name, us(histogram_quantile_ns(h, quantiles[i].q)));
    fprintf(out, ",\"counts\":[");
    const char *comma = "";
    for (int64_t i = 0; h->counts && i < STEPS; i++) {
        if (h->counts[i] == 0) continue;
        fprintf(out, "%s[%lld,%llu]", comma, (long long)lower_of(i), (unsigned long long)h->counts[i]);
        comma = ",";
    }
    fprintf(out, "]}");
}
