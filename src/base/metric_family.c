/* base/metric_family: the registry: one family per row of metrics.def, its series by label set. Called by metric.c
   only. Refuses unbounded label sets: what is beyond the bound is counted as "other". */
#include "base/metric_family.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/word.h"

#define FIRST_SLOTS 16
#define SERIES_MAX 1000
#define LABEL_BYTES_MAX 128

static const struct metric_family rows[METRIC_COUNT] = {
#define METRIC(id, k, n, l, o, h) \
    [METRIC_##id] = {.kind = METRIC_##k, .name = n, .labels = l, .over = METRIC_OVER_##o, .help = h},
#include "base/metrics.def"
#undef METRIC
};

static struct registry {
    struct metric_family families[METRIC_COUNT];
    bool ready;
} own, summed, *now = &own;

static void prepare(bool by_worker)
{
    for (size_t m = 0; m < METRIC_COUNT; m++) {
        struct metric_family *f = &now->families[m];
        *f = rows[m];
        struct slice rest = slice_str(f->labels), name;
        if (by_worker && f->over == METRIC_OVER_EACH) f->label_names[f->label_count++] = SLICE("worker");
        while (rest.n && slice_next(&rest, ',', &name)) {
            CHECK(f->label_count < METRIC_LABELS_ROOM, "metrics.def: too many labels in a row");
            f->label_names[f->label_count++] = name;
        }
        f->last = &f->first;
    }
    now->ready = true;
}

struct metric_family *metric_family_of(enum metric m)
{
    CHECK((size_t)m < METRIC_COUNT, "no such metric");
    if (!now->ready) prepare(false);
    return &now->families[m];
}

void metric_family_finish(void)
{
    for (size_t m = 0; m < METRIC_COUNT && now->ready; m++) {
        struct metric_family *f = &now->families[m];
        while (f->first != NULL) {
            struct metric_series *s = f->first;
            f->first = s->next;
            free(s->histogram);
            free(s);
        }
        free(f->slots);
        f->slots = NULL;
        f->mask = f->series_count = f->label_count = 0;
    }
    now->ready = false;
}

void metric_family_enter(bool by_worker)
{
    CHECK(now == &own, "one other registry at a time");
    now = &summed;
    prepare(by_worker);
}

void metric_family_leave(void)
{
    CHECK(now == &summed, "entered before");
    metric_family_finish();
    now = &own;
}

static uint64_t mix(uint64_t h, uint64_t w)
{
    h = (h ^ w) * 0x9e3779b97f4a7c15ULL;
    return h ^ h >> 32;
}

static uint64_t hash_labels(const struct slice *labels, size_t count)
{
    uint64_t h = 0;
    for (size_t i = 0; i < count; i++) {
        struct slice s = labels[i];
        size_t k = 0;
        h = mix(h, s.n);
        for (; k + sizeof(uint64_t) <= s.n; k += sizeof(uint64_t)) h = mix(h, word_at(s.p + k));
        if (k < s.n) h = mix(h, word_last(s.p, k, s.n));
    }
    return h;
}

static struct metric_series *find(const struct metric_family *f, const struct slice *labels, uint64_t hash)
{
    if (f->slots == NULL) return NULL;
    for (struct metric_series *s = f->slots[hash & f->mask]; s != NULL; s = s->chain) {
        size_t same = 0;
        if (s->hash != hash) continue;
        while (same < f->label_count && slice_eq(s->labels[same], labels[same])) same++;
        if (same == f->label_count) return s;
    }
    return NULL;
}

static void grow(struct metric_family *f)
{
    size_t count = f->slots ? (f->mask + 1) * 2 : FIRST_SLOTS;
    free(f->slots);
    f->slots = xzalloc(count * sizeof(*f->slots));
    f->mask = count - 1;
    for (struct metric_series *s = f->first; s != NULL; s = s->next) {
        s->chain = f->slots[s->hash & f->mask];
        f->slots[s->hash & f->mask] = s;
    }
}

static struct metric_series *add_series(struct metric_family *f, const struct slice *labels, uint64_t hash)
{
    size_t bytes = sizeof(struct metric_series);
    for (size_t i = 0; i < f->label_count; i++) bytes += labels[i].n;
    struct metric_series *s = xzalloc(bytes);
    char *text = (char *)(s + 1);
    for (size_t i = 0; i < f->label_count; i++) {
        if (labels[i].n) memcpy(text, labels[i].p, labels[i].n);
        s->labels[i] = slice_make(text, labels[i].n);
        text += labels[i].n;
    }
    s->hash = hash;
    if (f->kind == METRIC_HISTOGRAM) s->histogram = xzalloc(sizeof(*s->histogram));
    if (f->slots == NULL || f->series_count > f->mask) grow(f);
    s->chain = f->slots[hash & f->mask];
    f->slots[hash & f->mask] = s;
    *f->last = s;
    f->last = &s->next;
    f->series_count++;
    return s;
}

/* A label value as it is kept: cut to the bound, and in place of a byte that a reader of the exposition format may
   stumble over (not UTF-8, a control character other than newline) a question mark. Done before the look-up, so that
   two values that are shown alike are one series. */
static struct slice clean(struct slice raw, char room[LABEL_BYTES_MAX])
{
    size_t n = 0;
    while (raw.n && n < LABEL_BYTES_MAX) {
        uint32_t code = 0;
        size_t length = slice_utf8(raw, &code);
        if (length > LABEL_BYTES_MAX - n) break;
        if (length == 0 || (code < 0x20 && code != '\n') || (code >= 0x7f && code < 0xa0)) {
            room[n++] = '?';
        } else {
            memcpy(room + n, raw.p, length);
            n += length;
        }
        if (length == 0) length = 1;
        raw = slice_make(raw.p + length, raw.n - length);
    }
    return slice_make(room, n);
}

struct metric_series *metric_family_series(struct metric_family *f, const struct slice *labels, bool create)
{
    CHECK(labels != NULL || f->label_count == 0, "a metric with labels needs their values");
    uint64_t hash = hash_labels(labels, f->label_count);
    struct metric_series *s = find(f, labels, hash);
    if (s != NULL) return s;

    char room[METRIC_LABELS_ROOM][LABEL_BYTES_MAX];
    struct slice kept[METRIC_LABELS_ROOM];
    for (size_t i = 0; i < f->label_count; i++) kept[i] = clean(labels[i], room[i]);
    hash = hash_labels(kept, f->label_count);
    s = find(f, kept, hash);
    if (s != NULL) return s;
    if (f->series_count >= SERIES_MAX) {
        for (size_t i = 0; i < f->label_count; i++) kept[i] = SLICE("other");
        hash = hash_labels(kept, f->label_count);
        s = find(f, kept, hash);
    }
    return s != NULL || !create ? s : add_series(f, kept, hash);
}
