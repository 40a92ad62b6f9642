/* base/metric: counters, gauges and histograms with bounded label sets, shown as Prometheus text or JSON.
   The table is metrics.def. One process-wide registry; values are plain numbers (one thread). */
#ifndef BASE_METRIC_H
#define BASE_METRIC_H

#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"

#define METRIC_MAX_LABELS 3

enum metric {
#define METRIC(id, kind, name, labels, over, help) METRIC_##id,
#include "base/metrics.def"
#undef METRIC
    METRIC_COUNT
};

/* prefix: "doorward_" or "authorizer_proxy_"; kept by pointer. */
void metric_init(const char *prefix);
void metric_finish(void);

/* labels: as many slices as the row names (NULL when none). A label set beyond the bound of its metric (1000) is
   counted under the value "other" in every label. Values may be any bytes; they are kept as at most 128 bytes of
   UTF-8. The hot path costs one hash lookup and no allocation once the series exists. */
void metric_add(enum metric m, const struct slice *labels, double by);
void metric_set(enum metric m, const struct slice *labels, double value);
void metric_observe(enum metric m, const struct slice *labels, double seconds);
double metric_value(enum metric m, const struct slice *labels); /* counters and gauges; 0 when never touched */

void metric_text(struct buf *out);                          /* Prometheus exposition format 0.0.4 */
void metric_json(struct buf *out, struct slice timestamp);  /* {"timestamp","metrics":[{name,help,type,values:[…]}]} */
void metric_table(struct buf *out);                         /* Markdown table for the docs page */

#endif
