/* proxy/upstream_report: rows and gauges of one upstream. Called by ready and gauges. */
#include "proxy/upstream_report.h"

#include "base/metric.h"
#include "proxy/health.h"
#include "proxy/upstream_parts.h"

void upstream_gauges(const struct upstream *u)
{
    static const char *const states[] = {"healthy", "probing", "limited", "unhealthy"};
    const struct slice name = u->group.conf.name;
    double counts[sizeof states / sizeof *states] = {0};
    for (size_t i = 0; i < u->active_n; i++) {
        const char *state = member_state(container_of(u->active[i], struct member, candidate));
        for (size_t k = 0; k < sizeof states / sizeof *states; k++) counts[k] += strcmp(state, states[k]) == 0;
    }
    for (size_t k = 0; k < sizeof states / sizeof *states; k++) {
        struct slice labels[] = {name, slice_str(states[k])};
        metric_set(METRIC_UPSTREAM_MEMBERS, labels, counts[k]);
    }
    metric_set(METRIC_UPSTREAM_IDLE, &name, (double)u->group.idle_n);
    metric_set(METRIC_UPSTREAM_OPEN, &name, (double)u->group.open_n);
    metric_set(METRIC_UPSTREAM_INFLIGHT, &name, (double)u->group.inflight);
    metric_add(METRIC_UPSTREAM_EJECTIONS, &name, 0);
}

/* Once its rest is over it may be used: where nobody is sent here any more, nobody would find that out. */
static bool write_member(const struct member *m, struct json *j, int64_t now)
{
    const struct candidate *c = &m->candidate;
    bool rests = breaker_rest_ms(&c->breaker, now) > 0;
    bool ok = m->health.ok && !c->out && !rests;
    json_object_start(j);
    json_field_string(j, "kind", SLICE("upstream"));
    json_field_string(j, "name", m->group->conf.name);
    json_field_string(j, "address", slice_str(m->text));
    json_field_bool(j, "ok", ok);
    json_field_string(j, "state", rests ? SLICE("resting after failures") : slice_str(m->health.state));
    json_field_string(j, "tier", slice_str(member_state(m)));
    json_field_string(j, "breaker", slice_str(breaker_name(c->breaker.state)));
    json_field_int(j, "in_flight", c->inflight);
    if (m->health.checked_ms) json_field_int(j, "age_ms", now - m->health.checked_ms);
    json_object_end(j);
    return ok;
}

bool upstream_ready(const struct upstream *u, struct json *j)
{
    bool any = false;
    int64_t now = loop_now_ms(u->group.loop);
    for (size_t i = 0; i < u->active_n; i++)
        any |= write_member(container_of(u->active[i], struct member, candidate), j, now);
    for (size_t i = 0; i < u->group.conf.endpoints_n; i++) {
        const struct endpoint *e = &u->endpoints[i];
        if (e->members_n) continue;
        json_object_start(j);
        json_field_string(j, "kind", SLICE("upstream"));
        json_field_string(j, "name", u->group.conf.name);
        json_field_string(j, "address", e->conf.authority);
        json_field_bool(j, "ok", false);
        json_field_string(j, "state", e->error ? SLICE("the name cannot be resolved") : SLICE("not resolved yet"));
        json_object_end(j);
    }
    return any;
}
