/* proxy/gauges: caches, keys, pools and the process, as gauges. Called when /metrics is asked for. */
#include "proxy/gauges.h"

#include <dirent.h>
#include <malloc.h>
#include <stdio.h>
#include <unistd.h>

#include "base/log.h"
#include "base/metric.h"
#include "proxy/upstream_report.h"

static void set(enum metric m, struct slice label, double value)
{
    metric_set(m, &label, value);
}

/* seen: at the last time; a cache that another configuration replaced begins anew. */
static void cache_gauges(struct proxy *p, const char *name, const struct cache_stats *s, uint64_t *seen)
{
    struct slice label = slice_str(name);
    set(METRIC_CACHE_ENTRIES, label, (double)s->entries);
    set(METRIC_CACHE_BYTES, label, (double)s->bytes);
    uint64_t evictions = s->evictions < *seen ? s->evictions : s->evictions - *seen;
    *seen = s->evictions;
    metric_add(METRIC_CACHE_EVICTIONS, &label, (double)evictions);
    double age = s->oldest_ms ? (double)(loop_now_ms(p->loop) - s->oldest_ms) / 1000 : 0;
    set(METRIC_CACHE_AGE, label, age);
}

static double resident_bytes(void)
{
    FILE *f = fopen("/proc/self/statm", "re");
    long long pages = 0;
    if (f) {
        if (fscanf(f, "%*s %lld", &pages) != 1) pages = 0;
        fclose(f);
    }
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

static double heap_used_bytes(void)
{
    struct mallinfo2 heap = mallinfo2();
    return (double)heap.uordblks + (double)heap.hblkhd;
}

static double open_fds(void)
{
    DIR *d = opendir("/proc/self/fd");
    double n = -3; /* "." and ".." and this one */
    if (!d) return 0;
    while (readdir(d)) n++;
    closedir(d);
    return n;
}

static double breaker_value(const char *name)
{
    return name[0] == 'o' ? 2 : name[0] == 'h' ? 1 : 0;
}

void gauges_of_process(void)
{
    metric_set(METRIC_RSS, NULL, resident_bytes());
    metric_set(METRIC_HEAP_USED, NULL, heap_used_bytes());
    metric_set(METRIC_OPEN_FDS, NULL, open_fds());
    metric_add(METRIC_LINES_DROPPED, NULL, (double)log_dropped() - metric_value(METRIC_LINES_DROPPED, NULL));
}

void gauges_update(struct proxy *p)
{
    const struct settings *now = p->settings;
    struct cache_stats s;
    tokens_stats(p->tokens, &s);
    cache_gauges(p, "token", &s, &p->evictions_seen[0]);
    identities_stats(now->identities, &s);
    cache_gauges(p, "memory", &s, &p->evictions_seen[1]);
    decisions_stats(now->decisions, &s);
    cache_gauges(p, "decision", &s, &p->evictions_seen[2]);
    set(METRIC_INFLIGHT, SLICE("policy"), decisions_inflight(now->decisions));
    set(METRIC_INFLIGHT, SLICE("context"), identities_inflight(now->identities));
    for (size_t i = 0; i < tokens_issuers(p->tokens); i++) {
        struct issuer_state issuer;
        tokens_issuer_state(p->tokens, i, &issuer);
        set(METRIC_KEYS_COUNT, issuer.issuer, (double)issuer.keys);
        set(METRIC_KEYS_AGE, issuer.issuer, issuer.age_ms < 0 ? -1 : (double)issuer.age_ms / 1000);
    }
    for (size_t i = 0; i < now->conf->upstreams_n; i++) upstream_gauges(now->upstreams[i]);
    if (p->redis) {
        struct redis_state redis;
        redis_state(p->redis, &redis);
        set(METRIC_BREAKER, SLICE("redis"), breaker_value(redis.breaker));
        metric_set(METRIC_REDIS_MASTERS, NULL, (double)redis.masters);
        metric_set(METRIC_REDIS_TRACKING, NULL, redis.tracking);
    }
    gauges_of_process();
    metric_set(METRIC_LOOP_LAG, NULL, (double)loop_lag_ms(p->loop) / 1000);
    metric_set(METRIC_LOOP_HANDLES, NULL, (double)loop_handles(p->loop));
    metric_set(METRIC_LOOP_DEADLINES, NULL, (double)loop_deadlines(p->loop));
}
