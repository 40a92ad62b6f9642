/* base/metric_sum: called by workers, who pack and add up, and by their supervisor, who keeps what the dead counted.
   Refuses bytes that are not whole. */
#include "base/metric_sum.h"

#include "base/check.h"
#include "base/metric_family.h"

struct record { /* of one series; its labels stand behind it, then its histogram */
    uint16_t metric;
    uint16_t lengths[METRIC_MAX_LABELS];
    double value;
};

static void pack_series(struct buf *out, enum metric m, const struct metric_family *f, const struct metric_series *s)
{
    struct record r = {.metric = (uint16_t)m, .value = s->value};
    for (size_t i = 0; i < f->label_count; i++) r.lengths[i] = (uint16_t)s->labels[i].n;
    buf_add(out, (const char *)&r, sizeof r);
    for (size_t i = 0; i < f->label_count; i++) buf_add_slice(out, s->labels[i]);
    if (s->histogram) buf_add(out, (const char *)s->histogram, sizeof *s->histogram);
}

void metric_pack(struct buf *out)
{
    for (size_t m = 0; m < METRIC_COUNT; m++) {
        const struct metric_family *f = metric_family_of((enum metric)m);
        for (const struct metric_series *s = f->first; s; s = s->next) pack_series(out, (enum metric)m, f, s);
    }
}

static bool take(struct slice *from, void *to, size_t n)
{
    if (from->n < n) return false;
    memcpy(to, from->p, n);
    *from = slice_make(from->p + n, from->n - n);
    return true;
}

static double combined(enum metric_over over, double a, double b)
{
    if (over == METRIC_OVER_MAX) return a > b ? a : b;
    if (over == METRIC_OVER_MIN) return a < b ? a : b;
    return a + b;
}

static void add_histogram(struct metric_histogram *into, const struct metric_histogram *from)
{
    for (size_t i = 0; i <= METRIC_BOUNDS; i++) into->counts[i] += from->counts[i];
    into->sum += from->sum;
}

static void add_one(struct metric_family *f, const struct slice *labels, double value,
                    const struct metric_histogram *histogram)
{
    struct metric_series *s = metric_family_series(f, labels, false);
    bool first = s == NULL;
    if (first) s = metric_family_series(f, labels, true);
    if (histogram) add_histogram(s->histogram, histogram);
    else s->value = first ? value : combined(f->over, s->value, value);
}

/* worker: NULL adds nothing but what only grows. */
static bool add(struct slice packed, const struct slice *worker)
{
    struct record r;
    while (packed.n) {
        struct metric_histogram histogram;
        struct slice labels[METRIC_LABELS_ROOM];
        size_t n = 0;
        if (!take(&packed, &r, sizeof r) || r.metric >= METRIC_COUNT) return false;
        struct metric_family *f = metric_family_of((enum metric)r.metric);
        bool each = worker && f->over == METRIC_OVER_EACH;
        if (each) labels[n++] = *worker;
        for (size_t i = 0; n < f->label_count; i++) {
            if (packed.n < r.lengths[i]) return false;
            labels[n++] = slice_make(packed.p, r.lengths[i]);
            packed = slice_make(packed.p + r.lengths[i], packed.n - r.lengths[i]);
        }
        bool has_histogram = f->kind == METRIC_HISTOGRAM;
        if (has_histogram && !take(&packed, &histogram, sizeof histogram)) return false;
        if (!worker && f->kind == METRIC_GAUGE) continue;
        add_one(f, labels, r.value, has_histogram ? &histogram : NULL);
    }
    return true;
}

void metric_sum_begin(void)
{
    metric_family_enter(true);
}

bool metric_sum_add(struct slice packed, struct slice worker)
{
    return add(packed, &worker);
}

void metric_sum_end(void)
{
    metric_family_leave();
}

bool metric_fold(struct slice packed)
{
    return add(packed, NULL);
}
