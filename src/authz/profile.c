/* authz/profile: called by identity on a miss. The caller's credential goes to the API and nowhere else; the copy of
   the header line is wiped. Refuses to give a name that was not verified to the service credential. */
#include "authz/profile.h"

#include <openssl/crypto.h>
#include <stdio.h>

#include "authz/context.h"
#include "base/log.h"
#include "base/metric.h"

bool profile_by_service(const struct identity_config *c, bool verified)
{
    return verified && c->service_url.n > 0 && c->service_authorization.n > 0;
}

bool profile_can_name(struct slice name)
{
    return !slice_eq(name, SLICE(".")) && !slice_eq(name, SLICE(".."));
}

/* Everything but RFC 3986's unreserved characters as %XX. */
static void add_encoded(struct buf *out, struct slice s)
{
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                     c == '.' || c == '_' || c == '~';
        if (plain)
            buf_add_char(out, s.p[i]);
        else
            buf_printf(out, "%%%02X", (unsigned)c);
    }
}

static void add_url(struct buf *out, struct slice pattern, struct slice name)
{
    static const struct slice mark = {"{name}", 6};
    for (size_t i = 0; i < pattern.n;) {
        if (slice_starts(slice_make(pattern.p + i, pattern.n - i), mark)) {
            add_encoded(out, name);
            i += mark.n;
        } else {
            buf_add_char(out, pattern.p[i++]);
        }
    }
}

struct fetch_call *profile_ask(struct fetch *f, const struct identity_config *c, bool service, struct slice name,
                               struct slice authorization, int64_t timeout_ms,
                               void (*on_answer)(const struct fetch_answer *, void *), void *arg)
{
    struct buf url, line;
    buf_init(&url, NULL);
    buf_init(&line, NULL);
    if (service)
        add_url(&url, c->service_url, name);
    else
        buf_add_slice(&url, c->url);
    struct slice value = service ? c->service_authorization : authorization;
    buf_reserve(&line, 32 + value.n); /* so that it does not move and leave a copy behind */
    buf_add_lit(&line, "Authorization: ");
    buf_add_slice(&line, value);
    struct slice headers[] = {buf_slice(&line), SLICE("Accept: application/json")};
    struct fetch_request q = {
        .method = SLICE("GET"),
        .url = buf_slice(&url),
        .headers = headers,
        .headers_n = 2,
        .timeout_ms = timeout_ms,
        .max_bytes = c->max_bytes,
        .tls = &c->tls,
    };
    struct fetch_call *call = fetch_start(f, &q, on_answer, arg);
    OPENSSL_cleanse(line.p, line.n);
    buf_free(&line);
    buf_free(&url);
    return call;
}

static void count(const struct fetch_answer *a)
{
    char status[12] = "error";
    if (a->outcome == FETCH_ANSWERED) snprintf(status, sizeof status, "%d", a->status);
    struct slice labels[] = {SLICE("user_profile"), slice_str(status)};
    metric_add(METRIC_API_CALLS, labels, 1);
    metric_observe(METRIC_API_DURATION, labels, (double)a->elapsed_us / 1e6);
}

static void count_failure(struct slice kind)
{
    struct slice labels[] = {SLICE("context"), kind};
    metric_add(METRIC_DEPENDENCY_FAILURES, labels, 1);
}

static struct user *refuse(enum reason *reason, const char **detail, enum reason r, const char *why)
{
    *reason = r;
    *detail = why;
    return NULL;
}

static struct user *not_answered(const struct fetch_answer *a, enum reason *reason, const char **detail)
{
    struct slice kind = SLICE("garbage");
    const char *why = "the profile API broke off";
    if (a->outcome == FETCH_TIMEOUT) {
        kind = SLICE("timeout");
        why = "the profile API did not answer in time";
    } else if (a->outcome == FETCH_UNREACHABLE) {
        kind = SLICE("unreachable");
        why = "the profile API cannot be reached";
    } else if (a->insecure) {
        kind = SLICE("tls");
        why = a->error;
    } else if (a->outcome == FETCH_TOO_LARGE) {
        why = "the profile is too large";
    }
    count_failure(kind);
    return refuse(reason, detail, REASON_CONTEXT_UNAVAILABLE, why);
}

static struct user *rejected(bool service, enum reason *reason, const char **detail)
{
    if (!service) return refuse(reason, detail, REASON_CREDENTIAL_REJECTED, "the API refused the credential");
    count_failure(SLICE("status"));
    log_event(LOG_ERROR, "service_credential_refused", SLICE("the API refused context.service_authorization"));
    return refuse(reason, detail, REASON_CONTEXT_UNAVAILABLE, "the API refused the service credential");
}

struct user *profile_read(const struct identity_config *c, bool service, const struct fetch_answer *a,
                          enum reason *reason, const char **detail)
{
    count(a);
    if (a->outcome != FETCH_ANSWERED) return not_answered(a, reason, detail);
    if (a->status == 401 || (a->status == 403 && service)) return rejected(service, reason, detail);
    if (a->status == 404) {
        if (c->judge_anonymous) return context_anonymous();
        return refuse(reason, detail, REASON_CONTEXT_UNKNOWN, "the API does not know the caller");
    }
    if (a->status != 200) {
        count_failure(SLICE("status"));
        return refuse(reason, detail, REASON_CONTEXT_UNAVAILABLE,
                      "the profile API answered with another status than 200");
    }
    struct user *u = context_of(a->body, c->shape, detail);
    if (u) return u;
    count_failure(SLICE("garbage"));
    *reason = REASON_CONTEXT_MALFORMED;
    return NULL;
}
