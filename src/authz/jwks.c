/* authz/jwks: fetch, schedule and staleness of one issuer's keys. Called by issuer. It refuses answers that are not
   200, too large, or without a usable key: then the old keys stay, until they are stale. Redirects are refused by
   fetch. */
#include "authz/jwks.h"

#include <stdlib.h>

#include "base/chance.h"
#include "base/check.h"
#include "base/log.h"
#include "base/metric.h"

struct jwks {
    struct loop *loop;
    struct fetch *fetch; /* NULL: fixed */
    struct jwks_config config;
    struct keyset keys;
    struct fetch_call *call; /* out now, or NULL */
    struct deadline next;    /* the next fetch */
    int64_t loaded_ms;       /* -1: never */
    int64_t refetched_ms;    /* for an unknown key id; -1: never */
    int64_t retry_ms;        /* the next back-off; 0 while all is well */
    const char *error;
    struct buf name; /* in metrics: "issuer " and its name */
};

static void on_next(struct deadline *d);
static void on_answer(const struct fetch_answer *a, void *arg);

/* The back-off is a breaker of its own kind: closed while all is well, open between two tries, half open while one that
   follows a failure is out. */
static void show(const struct jwks *j)
{
    struct slice label = buf_slice(&j->name);
    metric_set(METRIC_BREAKER, &label, !j->error ? 0 : j->call ? 1 : 2);
    metric_set(METRIC_INFLIGHT, &label, j->call ? 1 : 0);
}

static void start_fetch(struct jwks *j)
{
    const struct slice accept = SLICE("Accept: application/jwk-set+json, application/json");
    deadline_stop(&j->next);
    j->call = fetch_start(j->fetch,
                          &(struct fetch_request){.method = SLICE("GET"),
                                                  .url = j->config.url,
                                                  .headers = &accept,
                                                  .headers_n = 1,
                                                  .timeout_ms = JWKS_FETCH_TIMEOUT_MS,
                                                  .max_bytes = JWKS_MAX_BYTES,
                                                  .tls = &j->config.tls},
                          on_answer, j);
    show(j);
}

static void on_next(struct deadline *d)
{
    start_fetch(container_of(d, struct jwks, next));
}

/* RFC 9111 5.2.2.1: max-age in seconds, also quoted (5.2). Bounded; the default when it is absent or senseless. */
static int64_t refresh_after_ms(struct slice cache_control)
{
    struct slice part;
    while (slice_next(&cache_control, ',', &part)) {
        part = slice_trim(part);
        const struct slice name = SLICE("max-age=");
        if (part.n < name.n || !slice_eq_nocase(slice_make(part.p, name.n), name)) continue;
        struct slice value = slice_make(part.p + name.n, part.n - name.n);
        if (value.n >= 2 && value.p[0] == '"' && value.p[value.n - 1] == '"')
            value = slice_make(value.p + 1, value.n - 2);
        long long seconds;
        if (!slice_to_int(value, &seconds)) break;
        if (seconds < JWKS_REFRESH_MIN_MS / 1000) return JWKS_REFRESH_MIN_MS;
        return seconds > JWKS_REFRESH_MAX_MS / 1000 ? JWKS_REFRESH_MAX_MS : seconds * 1000;
    }
    return JWKS_REFRESH_DEFAULT_MS;
}

static void log_loaded(const struct jwks *j, struct slice event)
{
    if (!log_on(LOG_INFO)) return;
    struct log_line l;
    log_begin(&l, LOG_INFO, event);
    json_field_string(&l.json, "issuer", j->config.issuer);
    json_field_int(&l.json, "keys", (long long)j->keys.n);
    json_field_int(&l.json, "skipped", (long long)j->keys.skipped);
    log_end(&l);
}

static void log_failed(const struct jwks *j, const char *kind)
{
    if (!log_on(LOG_WARN)) return;
    struct log_line l;
    log_begin(&l, LOG_WARN, SLICE("keys_failed"));
    json_field_string(&l.json, "issuer", j->config.issuer);
    json_field_string(&l.json, "kind", slice_str(kind));
    json_field_string(&l.json, "error", slice_str(j->error));
    json_field_int(&l.json, "keys", (long long)j->keys.n);
    log_end(&l);
}

/* Keys must not get stale only because nobody asked for them again. Up to a tenth of it is left to chance, so that those that
   started together do not ask together for ever. */
static int64_t within_staleness(const struct jwks *j, int64_t after_ms)
{
    int64_t half_ms = j->config.max_stale_ms / 2;
    if (half_ms < 1000) half_ms = 1000;
    if (after_ms > half_ms) after_ms = half_ms;
    int64_t earlier_ms = after_ms - (int64_t)(chance_fraction() * 0.1 * (double)after_ms);
    if (after_ms < JWKS_REFRESH_MIN_MS) return after_ms;
    return earlier_ms < JWKS_REFRESH_MIN_MS ? JWKS_REFRESH_MIN_MS : earlier_ms;
}

static void loaded(struct jwks *j, struct slice cache_control)
{
    log_loaded(j, j->error ? SLICE("keys_recovered") : SLICE("keys_loaded"));
    j->loaded_ms = loop_now_ms(j->loop);
    j->error = NULL;
    j->retry_ms = 0;
    deadline_after(j->loop, &j->next, within_staleness(j, refresh_after_ms(cache_control)));
}

/* The wait doubles from twice the least to the most; the upper half of it is left to chance. */
static void failed(struct jwks *j, const char *kind, const char *error)
{
    const char *before = j->error;
    j->error = error;
    struct slice label = buf_slice(&j->name);
    if (!before) log_failed(j, kind);
    if (!before) metric_add(METRIC_BREAKER_OPENED, &label, 1);
    metric_add(METRIC_DEPENDENCY_FAILURES, (const struct slice[]){SLICE("issuer"), slice_str(kind)}, 1);
    j->retry_ms = j->retry_ms ? j->retry_ms * 2 : JWKS_RETRY_MIN_MS * 2;
    if (j->retry_ms > JWKS_RETRY_MAX_MS) j->retry_ms = JWKS_RETRY_MAX_MS;
    int64_t half_ms = j->retry_ms / 2;
    deadline_after(j->loop, &j->next, half_ms + (int64_t)(chance_fraction() * (double)half_ms));
}

static void take(struct jwks *j, const struct fetch_answer *a)
{
    switch (a->outcome) {
    case FETCH_UNREACHABLE:
        failed(j, "unreachable", "the issuer cannot be reached");
        return;
    case FETCH_TIMEOUT:
        failed(j, "timeout", "the issuer did not answer in time");
        return;
    case FETCH_TOO_LARGE:
        failed(j, "garbage", "the key set is larger than 1 MiB");
        return;
    case FETCH_BROKEN:
        failed(j, a->insecure ? "tls" : "garbage", a->insecure ? a->error : "the issuer's answer broke off");
        return;
    case FETCH_ANSWERED:
        break;
    }
    const char *error = NULL;
    if (a->status != 200)
        failed(j, "status", "the issuer answered with a status other than 200");
    else if (keyset_replace(&j->keys, a->body, &error))
        loaded(j, a->cache_control);
    else
        failed(j, "garbage", error);
}

static void on_answer(const struct fetch_answer *a, void *arg)
{
    struct jwks *j = arg;
    j->call = NULL;
    take(j, a);
    show(j);
    j->config.on_settled(j->config.arg);
}

static struct jwks *create(struct loop *l, const struct jwks_config *c)
{
    struct jwks *j = xzalloc(sizeof *j);
    j->loop = l;
    j->config = *c;
    j->loaded_ms = j->refetched_ms = -1;
    deadline_init(&j->next, on_next);
    buf_init(&j->name, NULL);
    buf_add_lit(&j->name, "issuer ");
    buf_add_slice(&j->name, c->issuer);
    return j;
}

struct jwks *jwks_create(struct loop *l, struct fetch *f, const struct jwks_config *c)
{
    struct jwks *j = create(l, c);
    j->fetch = f;
    start_fetch(j);
    return j;
}

struct jwks *jwks_create_fixed(struct loop *l, struct slice issuer, struct slice document, const char **error)
{
    struct jwks *j = create(l, &(struct jwks_config){.issuer = issuer});
    if (!keyset_replace(&j->keys, document, error)) {
        jwks_destroy(j);
        return NULL;
    }
    j->loaded_ms = loop_now_ms(l);
    log_loaded(j, SLICE("keys_loaded"));
    return j;
}

void jwks_adjust(struct jwks *j, const struct jwks_config *c)
{
    j->config = *c;
    if (j->fetch && !j->call && !j->error && j->loaded_ms >= 0 && deadline_running(&j->next)) {
        int64_t left_ms = j->next.due_ms - loop_now_ms(j->loop);
        deadline_after(j->loop, &j->next, within_staleness(j, left_ms > 0 ? left_ms : 0));
    }
}

void jwks_stop(struct jwks *j)
{
    if (j->call) fetch_cancel(j->call);
    j->call = NULL;
    deadline_stop(&j->next);
}

void jwks_destroy(struct jwks *j)
{
    jwks_stop(j);
    keyset_clear(&j->keys);
    buf_free(&j->name);
    free(j);
}

bool jwks_usable(const struct jwks *j)
{
    if (j->loaded_ms < 0) return false;
    return !j->fetch || loop_now_ms(j->loop) - j->loaded_ms < j->config.max_stale_ms;
}

bool jwks_never_loaded(const struct jwks *j)
{
    return j->loaded_ms < 0;
}

bool jwks_fetching(const struct jwks *j)
{
    return j->call != NULL;
}

const struct keyset *jwks_keys(const struct jwks *j)
{
    return &j->keys;
}

bool jwks_refetch(struct jwks *j)
{
    if (!j->fetch) return false;
    if (j->call) return true;
    int64_t now_ms = loop_now_ms(j->loop);
    if (j->refetched_ms >= 0 && now_ms - j->refetched_ms < JWKS_REFETCH_MS) return false;
    j->refetched_ms = now_ms;
    start_fetch(j);
    return true;
}

int64_t jwks_retry_ms(const struct jwks *j)
{
    if (!j->error || !deadline_running(&j->next)) return 0;
    int64_t left_ms = j->next.due_ms - loop_now_ms(j->loop);
    return left_ms > 0 ? left_ms : 0;
}

int64_t jwks_age_ms(const struct jwks *j)
{
    return j->loaded_ms < 0 ? -1 : loop_now_ms(j->loop) - j->loaded_ms;
}

const char *jwks_error(const struct jwks *j)
{
    return j->error;
}
