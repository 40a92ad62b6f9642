/* proxy/borrow: a request's way to one of the addresses of an upstream. Called by the connect step and relay, and by
   upstream when addresses come or go. Refuses what goes over max_inflight, and what no address may be used for. */
#include "proxy/borrow.h"

#include "base/check.h"
#include "base/metric.h"
#include "proxy/upstream_parts.h"

static void on_name_due(struct deadline *d);
static void on_dialled(struct stream *s, int status, const char *why, void *arg);

static struct member *of_candidate(struct candidate *c)
{
    return container_of(c, struct member, candidate);
}

static void count_dial(struct upstream *u, const char *result)
{
    struct slice labels[] = {u->group.conf.name, slice_str(result)};
    metric_add(METRIC_UPSTREAM_DIALS, labels, 1);
}

static void count_handshake(int error)
{
    struct slice labels[] = {SLICE("upstream"), slice_str(tls_error_label(error))};
    metric_add(METRIC_TLS_FAILED, labels, 1);
}

/* Some other address would take a request now. */
static bool has_peer(const struct upstream *u, const struct member *m)
{
    for (size_t i = 0; i < u->active_n; i++) {
        const struct candidate *c = u->active[i];
        if (c != &m->candidate && !c->out && balance_tier(c) != TIER_LIMITED) return true;
    }
    return false;
}

static void tell(struct upstream_call *call, enum outcome o, double latency_ms, const char *why)
{
    struct member *m = call->member;
    if (!call->untold) return;
    call->untold = false;
    bool limited = balance_tier(&m->candidate) == TIER_LIMITED;
    member_tell(m, call->ticket, o, latency_ms, why);
    if (!limited && balance_tier(&m->candidate) == TIER_LIMITED) endpoint_ejected(m->endpoint);
}

static void visit(struct upstream_call *call, struct member *m, int64_t now)
{
    if (call->member != m) {
        member_hold(m);
        if (call->member) member_release(call->member);
        call->member = m;
    }
    tried_add(&call->tried, m->candidate.slot);
    CHECK(breaker_allows(&m->candidate.breaker, now, &call->ticket), "who is picked may be called");
    call->untold = true;
}

static struct member *pick(struct upstream *u, struct upstream_call *call, int64_t now)
{
    struct candidate *c = u->active[0];
    bool alone = u->active_n == 1 && !c->out && c->breaker.state == BREAKER_CLOSED;
    if (!alone || tried_has(&call->tried, c->slot))
        c = balance_pick(&u->balance, u->active, u->active_n, &call->tried, call->how == BORROW_ANY, now);
    return c ? of_candidate(c) : NULL;
}

static enum borrow_fault nobody(const struct upstream *u)
{
    for (size_t i = 0; i < u->active_n; i++)
        if (!u->active[i]->out) return BORROW_RESTS;
    return BORROW_UNHEALTHY;
}

bool upstream_has_other(const struct upstream_call *call)
{
    const struct upstream *u = call->upstream;
    int64_t now = loop_now_ms(u->group.loop);
    for (size_t i = 0; i < u->active_n; i++) {
        const struct candidate *c = u->active[i];
        if (!c->out && !tried_has(&call->tried, c->slot) && breaker_would_allow(&c->breaker, now)) return true;
    }
    return false;
}

/* Where there is another way, half of the time that is left is for it. */
static int64_t time_for(const struct upstream_call *call, int64_t now)
{
    const struct endpoint *e = call->member->endpoint;
    bool other = (call->upstream->active_n > 1 && upstream_has_other(call)) ||
                 (e && !e->connected && endpoint_has_other_family(e));
    int64_t left = call->until_ms - now;
    if (other) left /= 2;
    return left > 0 ? left : 1;
}

static void dial(struct upstream *u, struct upstream_call *call, int64_t now)
{
    struct member *m = call->member;
    const struct conf_upstream *conf = &u->group.conf;
    struct dial_target target = {
        .address = (const struct sockaddr *)&m->address,
        .tls = u->group.tls,
        .tls_name = m->host.p,
    };
    if (conf->tls_server_name.n) target.tls_name = conf->tls_server_name.p;
    call->reused = false;
    call->dialling = member_new(m, call->events, call->owner);
    call->dial = dial_start(u->group.loop, &target, time_for(call, now), &call->dialling->stream, &uconn_stream_events,
                            on_dialled, call);
}

static enum op await_name(struct upstream *u, struct upstream_call *call)
{
    bool asked = false;
    for (size_t i = 0; i < u->group.conf.endpoints_n; i++) {
        struct endpoint *e = &u->endpoints[i];
        if (e->members_n == 0) endpoint_ask(e);
        asked |= e->question != NULL;
        if (e->error) call->error = e->error;
    }
    call->fault = BORROW_NAMELESS;
    if (!asked) return OP_DONE;
    list_add_last(&u->waiting, &call->link);
    deadline_start(u->name_timeout, &call->deadline);
    return OP_PENDING;
}

/* DONE with a connection or a fault, or PENDING. */
static enum op advance(struct upstream *u, struct upstream_call *call)
{
    int64_t now = loop_now_ms(u->group.loop);
    if (u->active_n == 0) return await_name(u, call);
    if ((int64_t)u->group.inflight >= u->group.conf.max_inflight) {
        call->fault = BORROW_FULL;
        return OP_DONE;
    }
    struct member *m = pick(u, call, now);
    if (!m) {
        call->fault = nobody(u);
        return OP_DONE;
    }
    visit(call, m, now);
    call->conn = member_take_idle(m, call->how, call->events, call->owner);
    call->fault = BORROW_OK;
    if (call->conn) {
        call->reused = true;
        metric_add(METRIC_UPSTREAM_REUSED, &u->group.conf.name, 1);
        return OP_DONE;
    }
    dial(u, call, now);
    return OP_PENDING;
}

/* Nothing went wrong there: we have no descriptor, or no port, left. */
static bool is_ours(int error)
{
    return error == UV_EMFILE || error == UV_ENFILE || error == UV_ENOBUFS || error == UV_ENOMEM ||
           error == UV_EADDRNOTAVAIL;
}

static void on_failed_dial(struct upstream_call *call, int status, const char *why)
{
    struct upstream *u = call->upstream;
    struct member *m = call->member;
    bool ours = is_ours(status);
    if (!m->quiet) count_dial(u, "error");
    tell(call, ours ? OUTCOME_UNKNOWN : OUTCOME_UNCONNECTED, -1, why);
    if (!ours) {
        endpoint_unreachable(m);
        if (loop_now_ms(u->group.loop) < call->until_ms && advance(u, call) == OP_PENDING) return;
    }
    if (!call->conn) {
        call->fault = BORROW_FAILED;
        call->error = status;
        call->why = why;
    }
    call->on_done(call);
}

static void on_dialled(struct stream *s, int status, const char *why, void *arg)
{
    struct upstream_call *call = arg;
    struct uconn *c = call->dialling;
    call->dial = NULL;
    call->dialling = NULL;
    if (status) {
        uconn_unlend(c);
        uconn_closed(s);
        if (status <= TLS_NOT_SPOKEN) count_handshake(status);
        on_failed_dial(call, status, why);
        return;
    }
    count_dial(call->upstream, "ok");
    endpoint_connected(call->member);
    call->conn = c;
    stream_read(s, true);
    call->on_done(call);
}

static void on_name_due(struct deadline *d)
{
    struct upstream_call *call = container_of(d, struct upstream_call, deadline);
    list_remove(&call->link);
    call->fault = BORROW_NAMELESS;
    call->error = UV_ETIMEDOUT;
    call->on_done(call);
}

enum op upstream_borrow(struct upstream *u, enum borrow how, const struct uconn_events *events, void *owner,
                        struct upstream_call *call)
{
    bool again = call->member && call->reused;
    if (!call->upstream) {
        list_init(&call->link);
        deadline_init(&call->deadline, on_name_due);
    }
    tell(call, OUTCOME_UNKNOWN, -1, NULL);
    call->upstream = u;
    call->conn = NULL;
    call->error = 0;
    call->why = NULL;
    call->how = how;
    call->events = events;
    call->owner = owner;
    call->until_ms = loop_now_ms(u->group.loop) + u->group.conf.connect_timeout_ms;
    enum op op = advance(u, call);
    if (again && op == OP_DONE && (call->fault == BORROW_RESTS || call->fault == BORROW_UNHEALTHY)) {
        call->tried = (struct tried){0};
        op = advance(u, call);
    }
    return op;
}

void upstream_cancel(struct upstream_call *call)
{
    if (!call->upstream) return;
    list_remove(&call->link);
    deadline_stop(&call->deadline);
    if (!call->dial) return;
    struct dial *d = call->dial;
    uconn_unlend(call->dialling);
    call->dial = NULL;
    call->dialling = NULL;
    tell(call, OUTCOME_UNKNOWN, -1, NULL);
    dial_cancel(d, uconn_closed);
}

void upstream_answered(struct upstream_call *call, int status, double latency_ms)
{
    if (!call->untold) return;
    bool weak = status == 502 || status == 503 || status == 504;
    if (weak && has_peer(call->upstream, call->member))
        tell(call, OUTCOME_FAILED, -1, "answers 502, 503 or 504");
    else
        tell(call, OUTCOME_GOOD, status < 500 ? latency_ms : -1, NULL); /* to fail fast is not to be fast */
}

void upstream_failed(struct upstream_call *call, bool silent, const char *why)
{
    if (!call->untold) return;
    bool counts = silent || has_peer(call->upstream, call->member);
    tell(call, counts ? OUTCOME_FAILED : OUTCOME_UNKNOWN, -1, why);
}

void upstream_forget(struct upstream_call *call)
{
    tell(call, OUTCOME_UNKNOWN, -1, NULL);
    if (call->member) member_release(call->member);
    call->member = NULL;
}

struct slice upstream_authority(const struct upstream_call *call)
{
    return call->member->authority;
}

struct slice upstream_address(const struct upstream_call *call)
{
    return call->member ? slice_str(call->member->text) : SLICE("");
}

struct deadline_list *upstream_silence(const struct uconn *c)
{
    return upstream_of(c->member->group)->silence;
}

const char *upstream_dial_fault(int error)
{
    switch (error) {
    case UV_ETIMEDOUT:
        return "connect timed out";
    case UV_ECONNREFUSED:
        return "connection refused";
    case UV_EHOSTUNREACH:
    case UV_ENETUNREACH:
        return "no way to the host";
    case UV_EAI_NONAME:
    case UV_EAI_NODATA:
    case UV_EAI_AGAIN:
    case UV_EAI_FAIL:
        return "the name cannot be resolved";
    case UV_EMFILE:
    case UV_ENFILE:
        return "no file descriptor is left";
    case TLS_CERTIFICATE:
        return "its certificate is refused";
    case TLS_CERTIFICATE_REFUSED:
        return "it refuses our certificate";
    case TLS_NOT_SPOKEN:
        return "it does not speak TLS";
    case TLS_REFUSED:
    case TLS_PROTOCOL:
        return "the TLS handshake failed";
    default:
        return "connect failed";
    }
}

void borrow_serve(struct upstream *u)
{
    struct list waiting; /* who has to wait again is not met again */
    list_init(&waiting);
    while (!list_empty(&u->waiting)) {
        struct list *first = u->waiting.next;
        list_remove(first);
        list_add_last(&waiting, first);
    }
    while (!list_empty(&waiting)) {
        struct upstream_call *call = container_of(waiting.next, struct upstream_call, link);
        list_remove(&call->link);
        deadline_stop(&call->deadline);
        if (advance(u, call) == OP_DONE) call->on_done(call);
    }
}
