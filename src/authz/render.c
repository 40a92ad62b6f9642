/* authz/render: called by decision once per decision, not per request. Refuses to make a grant for a denial. */
#include "authz/render.h"

#include <stdlib.h>
#include <string.h>

#include "authz/form.h"
#include "base/check.h"
#include "base/json.h"
#include "base/log.h"

#define GRANT_GRACE_S 30 /* a signed grant outlives its decision by that: the way to the API, its clock */

#define USER "{\"user\":"

void front_init(struct front *f, const struct decision_question *q)
{
    struct json j;
    buf_init(&f->text, NULL);
    f->user_n = q->user_json.n;
    json_init(&j, &f->text);
    json_object_start(&j);
    json_field_raw(&j, "user", q->user_json);
    json_key(&j, SLICE("request"));
    json_object_start(&j);
    json_field_string(&j, "method", q->method);
    json_field_string(&j, "path", q->path);
    json_field_string(&j, "query", q->query);
    json_field_string(&j, "resource", q->resource);
    json_field_string(&j, "action", q->action);
    json_object_end(&j);
}

void front_free(struct front *f)
{
    buf_free(&f->text);
}

static struct slice user_of(const struct front *f)
{
    return slice_make(f->text.p + sizeof USER - 1, f->user_n);
}

static void complete(struct buf *out, const struct verdict *v, const char *time)
{
    if (v->use == DECISION_USER_ONLY) {
        buf_add_lit(out, ",\"decision\":null");
    } else {
        buf_printf(out, ",\"decision\":{\"allow\":%s,\"id\":\"%s\"", v->allow ? "true" : "false", v->id);
        buf_add_slice(out, v->members);
        if (v->bypassed) buf_add_lit(out, ",\"bypassed\":true");
        buf_add_char(out, '}');
    }
    buf_printf(out, ",\"timestamp\":\"%s\"}", time);
}

static enum reason render_authorize(const struct decisions_config *c, struct slice input, struct buf *out, char **error)
{
    bool made = c->authorize_shape ? shape_run(c->authorize_shape, input, out, error) : form_authorize(input, out);
    return made ? REASON_FORWARDED : REASON_GRANT_FAILED;
}

/* And that without an escape. By its length: what a reason says may look like another member. */
static bool tells_no_more_than_a_reason(const struct verdict *v)
{
    static const struct slice before = SLICE(",\"reason\":\"");
    if (!v->members.n) return true;
    return v->members.n == before.n + v->message.n + 1 && slice_starts(v->members, before) &&
           memcmp(v->members.p + before.n, v->message.p, v->message.n) == 0;
}

static bool render_object(const struct decisions_config *c, const struct verdict *v, const struct front *front,
                          const char *time, struct buf *out)
{
    return v->use != DECISION_USER_ONLY && v->allow && grant_is_general(c->grant) && tells_no_more_than_a_reason(v) &&
           form_grant_plain(user_of(front), v->members, v->id, v->bypassed, time, out);
}

static enum reason render(const struct decisions_config *c, const struct verdict *v, const struct front *front,
                          struct buf *out, const char **detail)
{
    char *error = NULL;
    char time[LOG_TIME_BYTES];
    struct buf input;
    enum reason r;
    int64_t kept_s = v->end_ms > v->now_ms ? (v->end_ms - v->now_ms + 999) / 1000 : 0;
    int64_t now_s = v->wall_ms / 1000, exp_s = now_s + kept_s + GRANT_GRACE_S;
    log_time(v->wall_ms, time);
    buf_init(&input, NULL);
    if (v->use != DECISION_AUTHORIZE && render_object(c, v, front, time, &input)) {
        r = grant_encode(c->grant, &input, now_s, exp_s, out, &error);
    } else {
        buf_add_slice(&input, buf_slice(&front->text));
        complete(&input, v, time);
        r = v->use == DECISION_AUTHORIZE ? render_authorize(c, buf_slice(&input), out, &error)
                                         : grant_make(c->grant, buf_slice(&input), now_s, exp_s, out, &error);
    }
    if (r == REASON_GRANT_TOO_LARGE)
        *detail = "the grant is over grant.max_bytes";
    else if (r != REASON_FORWARDED)
        *detail = "the grant's or answer's shape failed";
    if (error) log_event(LOG_WARN, "grant_shape_failed", slice_str(error));
    free(error);
    buf_free(&input);
    return r;
}

/* One allocation: the struct, then the texts, each with a NUL. */
static struct slice place(char **p, struct slice s)
{
    char *at = *p;
    if (s.n) memcpy(at, s.p, s.n);
    at[s.n] = '\0';
    *p = at + s.n + 1;
    return slice_make(at, s.n);
}

static struct decision *make(const struct verdict *v, struct slice rendered)
{
    struct slice id = slice_str(v->id);
    size_t size = sizeof(struct decision) + id.n + v->message.n + rendered.n + 3;
    struct decision *d = xzalloc(size);
    char *p = (char *)(d + 1);
    cache_entry_init(&d->entry);
    d->entry.bytes = (uint32_t)size;
    d->entry.expires_ms = v->end_ms;
    d->fresh_ms = v->fresh_ms;
    d->allow = v->allow;
    d->bypassed = v->bypassed;
    d->id = place(&p, id);
    d->message = place(&p, v->message);
    d->rendered = place(&p, rendered);
    d->decided_ms = v->now_ms;
    d->revision = v->revision;
    return d;
}

struct decision *render_decision(const struct decisions_config *c, const struct verdict *v, const struct front *front,
                                 enum reason *reason, const char **detail)
{
    struct buf rendered;
    struct decision *d = NULL;
    buf_init(&rendered, NULL);
    *reason = REASON_FORWARDED;
    if (v->allow || v->use == DECISION_AUTHORIZE) *reason = render(c, v, front, &rendered, detail);
    if (*reason == REASON_FORWARDED) {
        d = make(v, buf_slice(&rendered));
        if (!v->allow) *reason = REASON_POLICY_DENIED;
    }
    buf_free(&rendered);
    return d;
}

void render_free(struct cache_entry *e)
{
    free(container_of(e, struct decision, entry));
}
