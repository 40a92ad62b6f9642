/* proxy/eval_report: reads the request after its steps have run. Called by eval. Never tells a credential, a cookie or a
   signed grant: whoever had the text of this could use them. */
#include "proxy/eval_report.h"

#include <string.h>

#include "authz/base64url.h"
#include "base/json.h"
#include "base/log.h"
#include "http/writer.h"
#include "proxy/own.h"
#include "proxy/policies.h"

#define HIDDEN "(not shown)"


static void tell_request(const struct request *r, struct json *j)
{
    json_field(j, "request");
    json_object_start(j);
    json_field_string(j, "method", r->head->method);
    json_field_string(j, "target", r->head->target);
    if (r->target.path.n) json_field_string(j, "path", r->target.path);
    if (r->host.n) json_field_string(j, "host", r->host);
    json_object_end(j);
}

static struct slice access_name(enum conf_access a)
{
    static const struct slice names[] = {[ACCESS_AUTHORIZED] = {"authorized", 10},
                                         [ACCESS_AUTHENTICATED] = {"authenticated", 13},
                                         [ACCESS_PUBLIC] = {"public", 6}};
    return names[a];
}

static void tell_route(const struct request *r, struct json *j)
{
    const struct conf_route *route = r->route;
    json_field(j, "route");
    json_object_start(j);
    if (r->own) {
        json_field_string(j, "endpoint", own_name(r->own));
    } else if (!route) {
        json_field_string(j, "name", SLICE("none"));
    } else {
        struct slice path = route->path.n ? route->path : SLICE("/");
        json_field_string(j, "name", route->name);
        if (route->prefix)
            json_field_string(j, "prefix", path);
        else
            json_field_string(j, "path", path);
        json_field_string(j, "access", access_name(route->access));
        json_field_string(j, "upstream", route->upstream->name);
        if (r->resource.n) json_field_string(j, "resource", r->resource);
        if (r->action.n) json_field_string(j, "action", r->action);
    }
    json_object_end(j);
}

static void tell_credential(const struct request *r, const struct eval_findings *f, struct json *j)
{
    const struct eval_credential *c = f->credential;
    bool used = r->route && r->route->access != ACCESS_PUBLIC;
    json_field(j, "credential");
    json_object_start(j);
    if (!used) {
        json_field_string(j, "kind", SLICE("not looked at"));
    } else if (!c->facts.n) {
        json_field_string(j, "kind", SLICE("none"));
    } else {
        json_raw(j, buf_slice(&c->facts));
        if (c->signature) json_field_string(j, "signature", slice_str(c->signature));
        if (r->token && r->token->verified) json_field_string(j, "name", r->token->subject);
        json_field_bool(j, "accepted", r->token != NULL);
    }
    json_object_end(j);
}

static struct slice context_from(const struct request *r, const struct eval_findings *f)
{
    if (!r->token) return SLICE("nobody was named: the anonymous context");
    if (r->context_source == FOUND_TOKEN) return SLICE("the token's claims");
    return f->asked->profile.p ? SLICE("--profile, in place of the API's answer") : SLICE("the API");
}

static void tell_context(const struct request *r, const struct eval_findings *f, struct json *j)
{
    if (!r->user && !(f->outcome == EVAL_OPEN && r->step == STEP_IDENTIFY)) return;
    json_field(j, "context");
    json_object_start(j);
    if (r->user) {
        json_field_string(j, "from", context_from(r, f));
        json_field_bool(j, "anonymous", r->user->anonymous);
    } else {
        json_field_string(j, "from", SLICE("not asked"));
    }
    if (r->conf->context.url.n) json_field_string(j, "url", r->conf->context.url);
    if (r->conf->context.service_url.n) json_field_string(j, "service_url", r->conf->context.service_url);
    if (r->user) json_field_raw(j, "user", r->user->json);
    json_object_end(j);
}

static void tell_decision(const struct request *r, const struct eval_findings *f, struct json *j)
{
    const struct decision *d = r->decision;
    if (!f->judged && !d) return;
    if (f->judged) json_field_raw(j, "input", f->input);
    json_field(j, "decision");
    json_object_start(j);
    if (!f->judged) {
        json_field_string(j, "from", SLICE("nobody: the route asks for an identity only"));
        json_object_end(j);
        return;
    }
    if (r->conf->policy.path.n)
        policies_write(r->settings, j);
    else
        json_field_string(j, "engine", r->conf->policy.url);
    if (!d) {
        json_field_string(j, "from", f->outcome == EVAL_OPEN ? SLICE("not asked, needs --network") : SLICE("no decision"));
    } else {
        int64_t now_ms = loop_now_ms(r->proxy->loop);
        json_field_bool(j, "allow", d->allow);
        if (d->bypassed) json_field_bool(j, "bypassed", true);
        if (d->message.n) json_field_string(j, "reason", d->message);
        json_field_string(j, "id", d->id);
        json_field_int(j, "good_for_ms", d->fresh_ms > now_ms ? d->fresh_ms - now_ms : 0);
    }
    json_object_end(j);
}

/* One part of a compact JWS, or a whole base64url text, as the JSON that it holds. */
static void tell_encoded(struct json *j, struct slice text, struct arena *a)
{
    size_t n;
    uint8_t *bytes = arena_alloc(a, BASE64URL_ROOM(text.n));
    if (base64url_decode(text, bytes, &n))
        json_raw(j, slice_make((const char *)bytes, n));
    else
        json_nil(j);
}

static void tell_grant(const struct request *r, struct json *j)
{
    const struct decision *d = r->decision;
    if (!d || !d->allow || !r->conf->grant.header.n) return;
    struct slice rest = d->rendered, header, payload;
    json_field(j, "grant");
    json_object_start(j);
    json_field_string(j, "header", r->conf->grant.header);
    switch (r->conf->grant.format) {
    case CONF_GRANT_JSON:
        json_field_string(j, "format", SLICE("json"));
        json_field_raw(j, "value", d->rendered);
        break;
    case CONF_GRANT_BASE64URL:
        json_field_string(j, "format", SLICE("base64url"));
        json_field(j, "value");
        tell_encoded(j, d->rendered, r->arena);
        break;
    case CONF_GRANT_JWS:
        json_field_string(j, "format", SLICE("jws"));
        if (!slice_next(&rest, '.', &header) || !slice_next(&rest, '.', &payload)) break;
        json_field(j, "signed");
        tell_encoded(j, header, r->arena);
        json_field(j, "value");
        tell_encoded(j, payload, r->arena);
        break;
    }
    json_field_int(j, "bytes", (long long)d->rendered.n);
    json_object_end(j);
}

/* --- the head that would go out ------------------------------------------------------------------------------------ */

static bool is_secret(const struct request *r, struct slice name)
{
    static const struct slice names[] = {{"authorization", 13}, {"proxy-authorization", 19}, {"cookie", 6}};
    bool grant = slice_eq_nocase(name, r->conf->grant.header) && r->conf->grant.format == CONF_GRANT_JWS;
    for (size_t i = 0; !grant && i < sizeof names / sizeof *names; i++)
        if (slice_eq_nocase(name, names[i])) return true;
    return grant;
}

static bool next_line(struct slice *rest, struct slice *name, struct slice *value)
{
    struct slice line;
    if (!slice_next(rest, '\n', &line)) return false;
    if (line.n && line.p[line.n - 1] == '\r') line.n--;
    const char *colon = line.n ? memchr(line.p, ':', line.n) : NULL;
    if (!colon) return false;
    *name = slice_make(line.p, (size_t)(colon - line.p));
    *value = slice_trim(slice_make(colon + 1, (size_t)(line.p + line.n - colon) - 1));
    return true;
}

static bool client_sent(const struct request *r, struct slice name, struct slice value)
{
    for (size_t i = 0; i < r->head->n; i++) {
        const struct header *h = &r->head->v[i];
        if (slice_eq(h->name, name) && slice_eq(h->value, value)) return true;
    }
    return false;
}

/* As it is, or with a value of ours. */
static bool goes_out(struct slice lines, const struct header *h)
{
    struct slice name, value;
    while (next_line(&lines, &name, &value))
        if (slice_eq_nocase(h->name, name)) return true;
    return false;
}

static void tell_lines(const struct request *r, struct slice lines, bool ours, struct json *j)
{
    struct slice name, value;
    json_array_start(j);
    while (next_line(&lines, &name, &value)) {
        if (client_sent(r, name, value) == ours) continue;
        struct buf line;
        buf_init(&line, r->arena);
        bool grant = slice_eq_nocase(name, r->conf->grant.header);
        buf_add_slice(&line, name);
        buf_add_lit(&line, ": ");
        buf_add_slice(&line, grant && ours ? SLICE("(the grant above)") : is_secret(r, name) ? SLICE(HIDDEN) : value);
        json_text(j, buf_slice(&line));
    }
    json_array_end(j);
}

static void tell_removed(const struct request *r, struct slice lines, struct json *j)
{
    json_array_start(j);
    for (size_t i = 0; i < r->head->n; i++)
        if (!goes_out(lines, &r->head->v[i])) json_text(j, r->head->v[i].name);
    json_array_end(j);
}

static void tell_sent(struct request *r, struct json *j)
{
    const struct conf_upstream *up = r->route->upstream;
    struct slice lines = request_head_out(r), line, method;
    slice_next(&lines, '\n', &line);
    slice_next(&line, ' ', &method);
    json_field(j, "sent");
    json_object_start(j);
    json_field(j, "to");
    json_array_start(j);
    for (size_t i = 0; i < up->endpoints_n; i++) json_text(j, up->endpoints[i].url);
    json_array_end(j);
    json_field_string(j, "method", method);
    json_field_string(j, "target", slice_make(line.p, line.n - sizeof " HTTP/1.1\r" + 1));
    json_field(j, "passed_on");
    tell_lines(r, lines, false, j);
    json_field(j, "added");
    tell_lines(r, lines, true, j);
    json_field(j, "removed");
    tell_removed(r, lines, j);
    json_object_end(j);
}

/* --- an answer of our own ------------------------------------------------------------------------------------------ */

static struct slice body_of(struct slice answer)
{
    const char *end = answer.n ? memmem(answer.p, answer.n, "\r\n\r\n", 4) : NULL;
    return end ? slice_make(end + 4, (size_t)(answer.p + answer.n - end) - 4) : SLICE("");
}

static void tell_answer(const struct request *r, const struct eval_findings *f, struct json *j)
{
    struct slice body = body_of(f->answer);
    if (f->outcome == EVAL_ANSWERED) {
        json_field(j, "answer");
        json_object_start(j);
        if (r->status)
            json_field_int(j, "status", r->status);
        else
            json_field_string(j, "by", SLICE("an endpoint of our own, which is not run here"));
        json_object_end(j);
        return;
    }
    json_field(j, "refusal");
    json_object_start(j);
    json_field_int(j, "status", r->status);
    json_field_string(j, "reason", slice_str(reason_code(r->reason)));
    if (r->detail) json_field_string(j, "detail", slice_str(r->detail));
    json_field_string(j, "step", slice_str(step_name(r->ended)));
    if (body.n && body.p[0] == '{') json_field_raw(j, "body", body);
    json_object_end(j);
}

void eval_report(struct request *r, const struct eval_findings *f, struct buf *out)
{
    static const struct slice names[] = {{"allowed", 7}, {"refused", 7}, {"answered", 8}, {"open", 4}};
    struct json j;
    json_init(&j, out);
    json_object_start(&j);
    tell_request(r, &j);
    tell_route(r, &j);
    tell_credential(r, f, &j);
    tell_context(r, f, &j);
    tell_decision(r, f, &j);
    tell_grant(r, &j);
    if (f->outcome == EVAL_ALLOWED) tell_sent(r, &j);
    if (f->outcome == EVAL_REFUSED || f->outcome == EVAL_ANSWERED) tell_answer(r, f, &j);
    json_field_string(&j, "outcome", names[f->outcome]);
    if (f->missing) json_field_string(&j, "missing", slice_str(f->missing));
    json_object_end(&j);
}
