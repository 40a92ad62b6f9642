/* proxy/cors: the CORS protocol. Called by route, relay and reply. Refuses nothing: an origin that is not listed gets no
   headers and the browser refuses. */
#include "proxy/cors.h"

#include "http/writer.h"

static const struct header *origin_of(const struct request *r)
{
    return head_find(r->head, HEADER_ORIGIN, NULL);
}

static bool is_allowed(const struct conf *conf, struct slice origin)
{
    for (size_t i = 0; i < conf->cors.origins.n; i++) {
        struct slice o = conf->cors.origins.v[i];
        if (slice_eq(o, SLICE("*")) || slice_eq(o, origin)) return true;
    }
    return false;
}

static void add_list(struct buf *out, struct slice name, const struct conf_list *list)
{
    if (list->n == 0) return;
    buf_add_slice(out, name);
    buf_add_lit(out, ": ");
    for (size_t i = 0; i < list->n; i++) {
        if (i) buf_add_lit(out, ", ");
        buf_add_slice(out, list->v[i]);
    }
    buf_add_lit(out, "\r\n");
}

/* On the admin address there is none: it may ask no token, and is for no page. */
static bool is_on(const struct request *r)
{
    return r->conf->cors.on && !r->conn->admin;
}

bool cors_is_preflight(const struct request *r)
{
    return is_on(r) && slice_eq(r->head->method, SLICE("OPTIONS")) && origin_of(r) &&
           head_find(r->head, HEADER_ACR_METHOD, NULL);
}

void cors_headers(const struct request *r, struct buf *out, bool preflight)
{
    const struct conf *conf = r->conf;
    if (!is_on(r)) return;
    buf_add_lit(out, "Vary: Origin\r\n");
    const struct header *origin = origin_of(r);
    if (!origin || !is_allowed(conf, origin->value)) return;
    writer_header(out, SLICE("Access-Control-Allow-Origin"), origin->value);
    if (conf->cors.credentials) buf_add_lit(out, "Access-Control-Allow-Credentials: true\r\n");
    if (!preflight) {
        add_list(out, SLICE("Access-Control-Expose-Headers"), &conf->cors.expose);
        return;
    }
    add_list(out, SLICE("Access-Control-Allow-Methods"), &conf->cors.methods);
    const struct header *asked = head_find(r->head, HEADER_ACR_HEADERS, NULL);
    if (conf->cors.headers.n)
        add_list(out, SLICE("Access-Control-Allow-Headers"), &conf->cors.headers);
    else if (asked)
        writer_header(out, SLICE("Access-Control-Allow-Headers"), asked->value);
    if (conf->cors.max_age_s) {
        buf_add_lit(out, "Access-Control-Max-Age: ");
        buf_add_int(out, conf->cors.max_age_s);
        buf_add_lit(out, "\r\n");
    }
}

void cors_drop(const struct request *r, struct head *answer)
{
    if (!r->conf->cors.on) return;
    for (size_t i = 0; i < answer->n; i++) {
        enum header_id id = answer->v[i].id;
        if (id >= HEADER_ACA_ORIGIN && id <= HEADER_ACA_MAX_AGE) answer->v[i].drop = true;
    }
}
