/* proxy/request: one request: its beginning, the runner of its steps, and its end. Called by conn; every callback of a
   waiting step comes back here. Refuses by reason; only the forward step lets bytes out. */
#include "proxy/request.h"

#include "base/check.h"
#include "base/metric.h"
#include "proxy/accesslog.h"
#include "proxy/budget.h"
#include "proxy/own.h"
#include "proxy/peer.h"
#include "proxy/relay.h"
#include "proxy/websocket.h"

struct step_row {
    const char *name;
    enum step_result (*run)(struct request *r);
};

static const struct step_row steps[STEP_COUNT] = {
#define STEP(id, name) {#name, step_##name},
#include "proxy/steps.def"
#undef STEP
};

static void on_budget_spent(struct budget *b);

const char *step_name(enum step s)
{
    return steps[s].name;
}

static struct request *create(struct conn *c)
{
    struct request *r = arena_zalloc(&c->arena, sizeof *r);
    r->conn = c;
    r->proxy = c->proxy;
    r->settings = c->proxy->settings;
    settings_hold(r->settings);
    r->conf = r->settings->conf;
    if (c->revision != r->settings->revision) c->trusted = peer_is_trusted(r->conf, &c->peer);
    c->revision = r->settings->revision;
    r->arena = &c->arena;
    r->head = &c->parser.head;
    r->begun_ns = loop_clock_ns();
    list_init(&r->up_deadline.link);
    buf_init(&r->body, r->arena);
    buf_init(&r->up_partial, r->arena);
    c->request = r;
    return r;
}

void request_begin(struct conn *c, struct slice head_bytes)
{
    struct request *r = create(c);
    if (r->settings->budget) budget_start(&r->budget, r->settings->budget, on_budget_spent);
    r->head_bytes = head_bytes.n;
    enum reason reason =
        parser_head(&c->parser, head_bytes, r->arena, (size_t)r->conf->listen.max_headers, false);
    int64_t most = r->conf->listen.max_requests_per_connection;
    r->keep_alive = reason == REASON_FORWARDED && c->parser.head.keep_alive && (most == 0 || c->served < most) &&
                    !conn_is_outdated(c);
    r->body_held = !c->parser.complete;
    peer_identify(r);
    r->step = STEP_ADMIT;
    if (reason != REASON_FORWARDED) {
        r->keep_alive = false;
        request_fail(r, reason, NULL);
    }
    request_run(r);
}

void request_refuse(struct conn *c, enum reason reason)
{
    c->state = CONN_REQUEST;
    deadline_stop(&c->deadline);
    c->pending = slice_make(NULL, 0);
    struct request *r = create(c);
    peer_identify(r);
    request_fail(r, reason, NULL);
    request_run(r);
}

/* A step waits. Where the body may flow, what is here of it goes on; the request may end in that: the last thing done. */
static void go_on_with_body(struct request *r)
{
    struct conn *c = r->conn;
    if (!r->body_held) request_on_input(r);
    if (c->state == CONN_REQUEST && !c->pumping) conn_update_reading(c);
}

void request_run(struct request *r)
{
    if (r->step_ns) {
        uint64_t waited = (loop_clock_ns() - r->step_ns) / 1000;
        r->waited_us[r->waiting] += (uint32_t)(waited > UINT32_MAX ? UINT32_MAX : waited);
        r->step_ns = 0;
    }
    for (;;) {
        if (r->proxy->rehearsal) r->proxy->rehearsal->on_step(r);
        switch (steps[r->step].run(r)) {
        case STEP_NEXT:
            continue;
        case STEP_WAIT:
            r->step_ns = loop_clock_ns();
            r->waiting = r->step;
            go_on_with_body(r);
            return;
        case STEP_DONE:
            return;
        }
    }
}

enum step_result request_fail(struct request *r, enum reason reason, const char *detail)
{
    r->reason = reason;
    r->detail = detail;
    r->ended = r->step;
    r->step = STEP_REPLY;
    return STEP_NEXT;
}

enum step_result step_admit(struct request *r)
{
    const struct conf *conf = r->conf;
    if (r->head->target.n > (size_t)conf->listen.max_target_bytes) return request_fail(r, REASON_TARGET_TOO_LONG, NULL);
    if (r->head_bytes - r->head->target.n > (size_t)conf->listen.max_header_bytes)
        return request_fail(r, REASON_HEADERS_TOO_LARGE, NULL);
    if (conf->listen.max_body_bytes && r->head->body == BODY_LENGTH &&
        r->head->length > (uint64_t)conf->listen.max_body_bytes)
        return request_fail(r, REASON_BODY_TOO_LARGE, NULL);
    r->websocket = websocket_is_asked(r->head);
    head_drop_named(r->head, r->settings->stripped);
    enum reason reason = head_drop_hop(r->head);
    if (reason != REASON_FORWARDED) return request_fail(r, reason, "Connection names a header it may not");
    r->step = STEP_ROUTE;
    return STEP_NEXT;
}

/* Takes what is pending of the body through the parser; the reason to stop, or FORWARDED. */
static enum reason take_body(struct request *r)
{
    struct conn *c = r->conn;
    if (c->pending.n == 0) return REASON_FORWARDED;
    long used = parser_body(&c->parser, c->pending);
    if (used < 0) return c->parser.reason;
    conn_consume(c, (size_t)used);
    return r->body_over ? REASON_BODY_TOO_LARGE : REASON_FORWARDED;
}

void request_on_input(struct request *r)
{
    struct conn *c = r->conn;
    if (r->tunnel) relay_tunnel(r);
    if (r->body_held || r->body_paused || c->parser.complete) return;
    if (r->step != STEP_FORWARD && r->step != STEP_COLLECT) return;
    enum reason reason = take_body(r);
    if (reason != REASON_FORWARDED) {
        relay_discard();
        request_abort(r, reason);
        return;
    }
    if (!c->parser.complete)
        deadline_start(r->settings->body_timeout, &c->deadline);
    else if (!r->up_paused) /* else it is the time in which the client must take some of the answer */
        deadline_stop(&c->deadline);
    if (r->step == STEP_FORWARD) relay_flush(r);
    if (r->step == STEP_COLLECT && c->parser.complete) request_run(r);
}

void request_on_body(struct request *r, struct slice data)
{
    int64_t max = r->conf->listen.max_body_bytes;
    r->bytes_in += data.n;
    r->body_over |= max && r->bytes_in > (uint64_t)max;
    if (r->step == STEP_COLLECT)
        own_body(r, data);
    else if (r->step == STEP_FORWARD && !r->body_over)
        relay_body(r, data);
}

void request_on_client_end(struct request *r, int error)
{
    bool body_open = !r->conn->parser.complete;
    r->keep_alive = false;
    if (r->tunnel)
        websocket_end(r, REASON_FORWARDED);
    else if (error || body_open) request_abort(r, REASON_CLIENT_GONE);
}

void request_on_client_drain(struct request *r)
{
    if (r->step == STEP_FORWARD) relay_client_drained(r);
}

/* Cancels whatever is out for this request; nothing calls back after it. */
static void cancel_all(struct request *r)
{
    switch (r->step) {
    case STEP_AUTHENTICATE:
        tokens_cancel(&r->token_call);
        break;
    case STEP_IDENTIFY:
        identity_cancel(&r->identity_call);
        break;
    case STEP_DECIDE:
        decision_cancel(&r->decision_call);
        break;
    case STEP_CONNECT:
        upstream_cancel(&r->upstream_call);
        break;
    case STEP_ANSWER:
        announce_cancel(&r->announce_call);
        team_cancel(r->team_call);
        break;
    case STEP_COLLECT:
    case STEP_ADMIT:
    case STEP_ROUTE:
    case STEP_FORWARD:
    case STEP_REPLY:
    case STEP_FINISH:
    case STEP_COUNT:
        break;
    }
}

static const char *awaited(enum step s)
{
    switch (s) {
    case STEP_AUTHENTICATE:
        return "waiting for the issuer's keys";
    case STEP_IDENTIFY:
        return "waiting for the context";
    case STEP_DECIDE:
        return "waiting for the decision";
    case STEP_CONNECT:
        return "waiting for a connection";
    case STEP_FORWARD:
        return "waiting for the answer";
    case STEP_ANSWER:
        return "waiting for Redis";
    case STEP_ADMIT:
    case STEP_ROUTE:
    case STEP_COLLECT:
    case STEP_REPLY:
    case STEP_FINISH:
    case STEP_COUNT:
        break;
    }
    return NULL;
}

/* What it waits for goes on where others wait for it too. */
static void on_budget_spent(struct budget *b)
{
    struct request *r = container_of(b, struct request, budget);
    const char *detail = awaited(r->step);
    CHECK(detail && !r->answer_started, "a budget runs while others are waited for");
    cancel_all(r);
    if (r->up) relay_release(r);
    request_fail(r, REASON_BUDGET, detail);
    request_run(r);
}

/* The end of every request: told to log and metrics, and nothing of it held any longer. */
static void let_go(struct request *r)
{
    budget_stop(&r->budget);
    relay_release(r);
    accesslog_write(r);
    upstream_forget(&r->upstream_call);
    if (r->decision) decision_release(r->decision);
    if (r->user) user_release(r->user);
    if (r->token) token_release(r->token);
    settings_release(r->settings);
}

void request_abort(struct request *r, enum reason reason)
{
    struct conn *c = r->conn;
    cancel_all(r);
    bool can_answer = !r->answer_started && reason != REASON_CLIENT_GONE && !c->half_closed;
    if (can_answer) {
        r->keep_alive = false;
        request_fail(r, reason, NULL);
        request_run(r);
        return;
    }
    r->reason = reason;
    r->ended = r->step;
    if (!r->answer_started || reason == REASON_CLIENT_GONE) r->status = reason_status(reason);
    /* An answer that only the end of the connection ends would look whole. */
    c->stream.reset = r->answer_started && !r->tunnel && r->head->version_minor == 0;
    let_go(r);
    c->request = NULL;
    conn_close(c);
}

enum step_result step_finish(struct request *r)
{
    struct conn *c = r->conn;
    /* Whom an answer told that its connection goes on may be asking already: before the closing there is an answer. */
    bool keep_alive = r->keep_alive && !c->half_closed && !r->proxy->closing;
    let_go(r);
    conn_request_done(c, keep_alive);
    return STEP_DONE;
}
