/* base/metric_family: how the registry behind base/metric.h is kept: families by row of metrics.def, series by label
   set. For metric.c; nobody else includes it. */
#ifndef BASE_METRIC_FAMILY_H
#define BASE_METRIC_FAMILY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/metric.h"

#define METRIC_BOUNDS 16 /* of a histogram, without +Inf */

enum metric_kind { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };
enum metric_over { METRIC_OVER_SUM, METRIC_OVER_MAX, METRIC_OVER_MIN, METRIC_OVER_EACH };

#define METRIC_LABELS_ROOM (METRIC_MAX_LABELS + 1) /* the worker before them */

struct metric_histogram {
    uint64_t counts[METRIC_BOUNDS + 1]; /* each bucket alone, not cumulative; the last one is +Inf */
    double sum;
};

struct metric_series {
    struct metric_series *chain; /* same slot */
    struct metric_series *next;  /* in the order they came up */
    uint64_t hash;
    struct slice labels[METRIC_LABELS_ROOM]; /* valid UTF-8, bytes behind the struct */
    double value;
    struct metric_histogram *histogram; /* histograms only */
};

struct metric_family {
    enum metric_kind kind;
    enum metric_over over;
    const char *name; /* without prefix */
    const char *labels;
    const char *help;
    struct slice label_names[METRIC_LABELS_ROOM];
    size_t label_count;
    struct metric_series **slots;
    size_t mask;
    size_t series_count;
    struct metric_series *first;
    struct metric_series **last;
};

struct metric_family *metric_family_of(enum metric m);

/* The series of that label set, made if there is none and create is set (else NULL). Label values may be any bytes:
   they are cut to 128 bytes, and what Prometheus could not read is replaced. Sets beyond 1000 share one series. */
struct metric_series *metric_family_series(struct metric_family *f, const struct slice *labels, bool create);

/* Frees all series. */
void metric_family_finish(void);

/* An empty registry in place of the process's own, until metric_family_leave frees it; not twice. by_worker: families
   that each worker has its own figure of get the label `worker` before theirs. */
void metric_family_enter(bool by_worker);
void metric_family_leave(void);

#endif
