/* proxy/websocket: handshake and life of a relayed WebSocket. Called by the admit step and relay. Refuses a 101 that
   was not asked for. The bytes themselves pass as they are: Doorward judged the handshake, frames are the API's. */
#include "proxy/websocket.h"

#include "http/writer.h"

#define KEY_BYTES 24 /* base64 of 16 bytes, RFC 6455 4.1 */

static void on_token_expired(struct deadline *d);

static const struct header *find_name(const struct head *h, struct slice name)
{
    const struct header *found = NULL;
    for (size_t i = 0; i < h->n; i++) {
        if (!slice_eq_nocase(h->v[i].name, name)) continue;
        if (found) return NULL; /* one, or it is no handshake */
        found = &h->v[i];
    }
    return found;
}

static bool switches(const struct head *h)
{
    size_t upgrades;
    const struct header *upgrade = head_find(h, HEADER_UPGRADE, &upgrades);
    return upgrades == 1 && slice_eq_nocase(upgrade->value, SLICE("websocket")) &&
           head_lists(h, HEADER_CONNECTION, SLICE("upgrade"));
}

bool websocket_is_asked(const struct head *h)
{
    const struct header *key = find_name(h, SLICE("sec-websocket-key"));
    const struct header *version = find_name(h, SLICE("sec-websocket-version"));
    return slice_eq(h->method, SLICE("GET")) && h->version_minor == 1 && h->body == BODY_NONE && switches(h) && key &&
           key->value.n == KEY_BYTES && version && slice_eq(version->value, SLICE("13"));
}

void websocket_headers(struct buf *out)
{
    buf_add_lit(out, "Connection: Upgrade\r\nUpgrade: websocket\r\n");
}

bool websocket_is_accepted(const struct head *h)
{
    return h->version_minor == 1 && switches(h) && find_name(h, SLICE("sec-websocket-accept"));
}

void websocket_begin(struct request *r)
{
    deadline_stop(&r->up_deadline);
    deadline_init(&r->up_deadline, on_token_expired);
    r->tunnel = true;
    r->keep_alive = false;
    websocket_touched(r);
    bool cut = r->route->websocket == WEBSOCKET_ON && r->token && r->token->exp_s != INT64_MAX;
    if (!cut) return;
    int64_t left_ms = r->token->exp_s * 1000 - loop_wall_ms(r->proxy->loop);
    deadline_after(r->proxy->loop, &r->up_deadline, left_ms > 0 ? left_ms : 0);
}

void websocket_touched(struct request *r)
{
    deadline_start(r->settings->websocket_timeout, &r->conn->deadline);
}

void websocket_end(struct request *r, enum reason reason)
{
    r->ended_by = reason;
    r->up_done = true;
    r->up_dirty = true;
    request_run(r);
}

static void on_token_expired(struct deadline *d)
{
    struct request *r = container_of(d, struct request, up_deadline);
    r->detail = "the token of the WebSocket expired";
    websocket_end(r, REASON_TOKEN_EXPIRED);
}
