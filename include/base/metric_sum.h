/* base/metric_sum: the registries of several processes of one program as one: each packs its own, one of them adds them
   up by the column `over` of metrics.def and shows the sum. */
#ifndef BASE_METRIC_SUM_H
#define BASE_METRIC_SUM_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/slice.h"

/* Every series that there is, as bytes for metric_sum_add or metric_fold of the same program. */
void metric_pack(struct buf *out);

/* From here to metric_sum_end the registry is an empty one: metric_text and metric_json show what was added to it. */
void metric_sum_begin(void);
/* worker: the label of what each has its own figure of. False: not a whole pack; what came before the fault is in. */
bool metric_sum_add(struct slice packed, struct slice worker);
void metric_sum_end(void);

/* Counters and histograms into the process's own registry: of somebody who is gone, so that no sum falls. */
bool metric_fold(struct slice packed);

#endif
