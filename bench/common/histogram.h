/* bench/common/histogram: counts of durations, log-linear: 1024 steps to each power of two, so that every value keeps
   three significant digits from 1 us (in fact from 1 ns) to 60 s. What is longer is counted as overflow. */
#ifndef BENCH_COMMON_HISTOGRAM_H
#define BENCH_COMMON_HISTOGRAM_H

#include <stdint.h>
#include <stdio.h>

#define HISTOGRAM_MAX_NS INT64_C(60000000000)

struct histogram {
    uint64_t *counts; /* heap, NULL before the first value */
    uint64_t n, overflow;
    int64_t least_ns, most_ns;
    double sum_ns;
};

/* A zeroed one is empty. A negative value counts as 0. */
void histogram_add(struct histogram *h, int64_t ns);
void histogram_free(struct histogram *h);

/* The least value that q (0 to 1) of the values do not exceed, at the middle of its step; 0 when empty. */
int64_t histogram_quantile_ns(const struct histogram *h, double q);

/* {"n":…,"overflow":…,"min_us":…,"max_us":…,"mean_us":…,"p50_us":…,…,"counts":[[lower bound ns,count],…]} */
void histogram_print(const struct histogram *h, FILE *out);

#endif
