/* proxy/access: the steps authenticate, identify and decide: who asks, and may they. Everything short of an explicit
   allow ends in a refusal. */
#include "proxy/request.h"

#include "base/check.h"
#include "proxy/authorize.h"

static void on_token(struct token_call *c);
static void on_identity(struct identity_call *c);
static void on_decision(struct decision_call *c);

static enum step_result took_token(struct request *r)
{
    r->token = r->token_call.token;
    r->retry_ms = r->token_call.retry_ms;
    if (!r->token) return request_fail(r, r->token_call.reason, r->token_call.detail);
    r->step = STEP_IDENTIFY;
    return STEP_NEXT;
}

static enum step_result took_identity(struct request *r)
{
    r->user = r->identity_call.user;
    r->context_source = r->identity_call.source;
    r->stale = r->identity_call.stale;
    r->retry_ms = r->identity_call.retry_ms;
    if (!r->user) return request_fail(r, r->identity_call.reason, r->identity_call.detail);
    if (r->user->anonymous && r->route && r->route->access == ACCESS_AUTHENTICATED)
        return request_fail(r, REASON_CONTEXT_UNKNOWN, "the API does not know the caller");
    r->step = STEP_DECIDE;
    return STEP_NEXT;
}

static enum step_result took_decision(struct request *r)
{
    const struct decision *d = r->decision_call.decision;
    enum reason reason = r->decision_call.reason;
    r->decision = r->decision_call.decision;
    r->decision_source = r->decision_call.source;
    r->stale = r->stale || r->decision_call.stale;
    r->retry_ms = r->decision_call.retry_ms;
    if (r->ask && d && (reason == REASON_FORWARDED || reason == REASON_POLICY_DENIED)) {
        r->step = STEP_ANSWER;
        return STEP_NEXT;
    }
    if (d && d->allow && reason == REASON_FORWARDED) {
        r->step = STEP_CONNECT;
        return STEP_NEXT;
    }
    if (reason == REASON_FORWARDED) reason = REASON_UNSET; /* an allow that says no, or no decision at all */
    if (d && reason == REASON_POLICY_DENIED) r->message = d->message;
    return request_fail(r, reason, r->decision_call.detail);
}

static void on_token(struct token_call *c)
{
    struct request *r = container_of(c, struct request, token_call);
    took_token(r);
    request_run(r);
}

static void on_identity(struct identity_call *c)
{
    struct request *r = container_of(c, struct request, identity_call);
    took_identity(r);
    request_run(r);
}

static void on_decision(struct decision_call *c)
{
    struct request *r = container_of(c, struct request, decision_call);
    took_decision(r);
    request_run(r);
}

/* The credential of this request: of its one Authorization line, or the one /authorize was given. */
static struct slice credential_of(const struct request *r)
{
    if (r->ask) return r->ask->credential;
    const struct header *h = head_find(r->head, HEADER_AUTHORIZATION, NULL);
    return h ? h->value : slice_make(NULL, 0);
}

enum step_result step_authenticate(struct request *r)
{
    size_t lines;
    head_find(r->head, HEADER_AUTHORIZATION, &lines);
    if (!r->ask && lines > 1) return request_fail(r, REASON_CREDENTIAL_MULTIPLE, "several Authorization lines");
    struct slice credential = credential_of(r);
    if (!credential.p) {
        if (r->conf->tokens.anonymous == ANONYMOUS_REFUSE || r->route->access == ACCESS_AUTHENTICATED)
            return request_fail(r, REASON_CREDENTIAL_MISSING, NULL);
        r->step = STEP_IDENTIFY;
        return STEP_NEXT;
    }
    if (credential.n == 0) return request_fail(r, REASON_CREDENTIAL_SCHEME, "an empty Authorization line");
    r->token_call.on_done = on_token;
    if (tokens_check(r->proxy->tokens, credential, &r->token_call) == OP_PENDING) return STEP_WAIT;
    return took_token(r);
}

/* The token was read under the settings in force, a moment ago. Where they take its subject from another claim than those
   of the request, names are other names: what is kept under them is not the bearer's. */
static struct identities *identities_of(const struct request *r)
{
    const struct settings *now = r->proxy->settings;
    bool alike = slice_eq(r->conf->tokens.name_claim, now->conf->tokens.name_claim);
    return alike ? r->settings->identities : now->identities;
}

enum step_result step_identify(struct request *r)
{
    r->identity_call.on_done = on_identity;
    if (identity_find(identities_of(r), r->token, credential_of(r), &r->identity_call) == OP_PENDING)
        return STEP_WAIT;
    return took_identity(r);
}

static void route_question(struct request *r, struct decision_question *q)
{
    const struct conf_route *route = r->route;
    size_t n = r->target.params_n;
    struct named *params = arena_alloc(r->arena, (n ? n : 1) * sizeof *params);
    for (size_t i = 0; i < n; i++) params[i] = (struct named){r->target.params[i].name, r->target.params[i].value};
    *q = (struct decision_question){
        .use = route->access == ACCESS_AUTHORIZED ? DECISION_GRANT : DECISION_USER_ONLY,
        .user = r->user,
        .token = r->token,
        .user_json = r->user->json,
        .resource = r->resource,
        .action = r->action,
        .method = r->head->method,
        .path = r->target.path,
        .query = r->target.query,
        .params = params,
        .params_n = n,
        .segments = r->target.segments,
        .segments_n = r->target.segments_n,
        .lifted = r->lifted,
        .lifted_n = r->lifted_n,
        .host = r->host,
        .request_id = r->id,
        .source_ip = route->source_ip ? r->client_ip : SLICE(""),
        .source_certificate = stream_peer_subject(&r->conn->stream),
        .route_ttl_ms = route->decision_ttl_s * 1000,
    };
}

void request_question(struct request *r, struct decision_question *q)
{
    if (r->ask)
        authorize_question(r, q);
    else
        route_question(r, q);
}

enum step_result step_decide(struct request *r)
{
    struct decision_question q;
    request_question(r, &q);
    r->decision_call.on_done = on_decision;
    if (decision_find(r->settings->decisions, &q, r->arena, &r->decision_call) == OP_PENDING) return STEP_WAIT;
    return took_decision(r);
}
