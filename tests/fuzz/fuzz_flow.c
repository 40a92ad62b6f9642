/* Whole connections through the proxy in this process, over the harness of tests/flow: the input is a program of small
   steps, in which clients, upstream, engine, profile API and Redis send, answer, delay, end and break as they like.
   What must hold all the while is in fuzz/flow_watch; in the end nothing is left of the proxy. */
#include <stdio.h>

#include "authz/decision.h"
#include "authz/identity.h"
#include "authz/token.h"
#include "flow_watch.h"
#include "fuzz.h"

#define CLIENTS_MAX 6
#define ASKED "authorize: {what_if: true}"
#define STEPS_MAX 120
#define BIG 70000
#define ALLOW_MS 302000 /* decisions.ttl_s and a little */
#define FLIGHT_MS 40000 /* from decision to upstream at most: connect, and a turn of each wait */

static struct {
    struct memory *m;
    bool admin;
} clients[CLIENTS_MAX];
static size_t clients_n;
static char big[BIG];
static const char *const users[] = {"alice", "bob"};
#define USERS (sizeof users / sizeof *users)
static const char *bearers[USERS]; /* whole lines, good for an hour */

/* Bytes in pieces: one read of the proxy each. how: the sizes. */
static void send_pieces(struct memory *m, const char *p, size_t n, uint8_t how)
{
    static const size_t sizes[] = {65536, 1, 7, 64, 300, 4096, 33, 16384};
    if (m->ends) return;
    size_t whole = sizes[how & 7], head = how >> 3;
    if (n > 2000 && whole < 300) whole = 300;
    if (head && head < n) {
        memory_send(m, p, head);
        p += head;
        n -= head;
    }
    while (n) {
        size_t piece = n < whole ? n : whole;
        memory_send(m, p, piece);
        p += piece;
        n -= piece;
    }
}

static void end_or_break(struct memory *m, uint8_t how)
{
    if ((how & 3) == 3)
        m->write_error = UV_EPIPE;
    else if (!m->ends)
        memory_end(m, (how & 3) == 0 ? 0 : (how & 3) == 1 ? UV_ECONNRESET : UV_ETIMEDOUT);
}

static void make_room(struct memory *m, uint8_t how)
{
    static const size_t rooms[] = {MEMORY_ALL, 0, 1, 50, 1000, 20000, 65536, MEMORY_ALL};
    m->room = rooms[how & 7];
}

/* --- clients ------------------------------------------------------------------------------------------------------ */

static void open_client(uint8_t how)
{
    if (clients_n == CLIENTS_MAX) return;
    clients[clients_n].m = how & 3 ? flow_client_from("192.0.2.77", how & 2) : flow_client();
    clients[clients_n++].admin = how & 2;
}

static const char *bearer_of(uint8_t who, const char **user)
{
    *user = NULL;
    switch (who % 5) {
    case 0:
    case 1:
        *user = users[who % 5];
        return bearers[who % 5];
    case 2:
        *user = watch.judged ? "anonymous" : NULL;
        return "";
    case 3:
        return flow_bearer_of("{\"alg\":\"none\"}", "{\"iss\":\"" FLOW_ISSUER "\",\"sub\":\"alice\"}");
    default:
        return "Authorization: Bearer a.b.c\r\nAuthorization: Basic QQ==\r\n";
    }
}

struct kind { /* of a request */
    const char *method, *headers;
    size_t body;
    const char *text; /* the body as it is sent; NULL: so many b */
};

static const struct kind kinds[] = {
    {"GET", "", 0, ""},
    {"HEAD", "", 0, ""},
    {"POST", "Content-Length: 10\r\n", 10, NULL},
    {"POST", "Transfer-Encoding: chunked\r\n", 5,
     "3\r\nbbb\r\n2;x=y\r\nbb\r\n0\r\nx-auth-context: forged\r\nX: y\r\n\r\n"},
    {"PUT", "Content-Length: 5\r\nExpect: 100-continue\r\n", 5, NULL},
    {"GET", "x-auth-context: {\"user\":{\"id\":\"root\"}}\r\nX_Auth_Context: forged\r\nx.auth-context: forged\r\n", 0,
     ""},
    {"GET",
     "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
     "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
     0, ""},
    {"GET", "Connection: close, x-gone\r\nX-Gone: 1\r\n", 0, ""},
    {"POST", "Content-Length: 70000\r\n", BIG, NULL},
    {"DELETE", "Content-Length: 0\r\n", 0, ""},
    {"OPTIONS", "Origin: https://a.test\r\nAccess-Control-Request-Method: GET\r\n", 0, ""},
    {"PUT", "Transfer-Encoding: chunked\r\n", 0, "0\r\n\r\n"},
};

static void send_request(size_t c, struct input *in)
{
    static const char *const paths[] = {"/a", "/public/x", "/me", "/b?office=x&y=1", "/ws", "/a", "/public", "/%61/x"};
    static const char *const judged[] = {"/a", "/public/x", "/me", "/b", "/ws", "/a", "/public", "/a/x"};
    const struct kind *k = &kinds[input_byte(in) % (sizeof kinds / sizeof *kinds)];
    uint8_t path = input_byte(in) & 7, how = input_byte(in);
    struct memory *m = clients[c].m;
    if (watch.sent_n == WATCH_MARKS_MAX || m->ends) return;
    struct sent *s = &watch.sent[watch.sent_n];
    *s = (struct sent){.client = c, .method = k->method, .path = judged[path], .body = k->body};
    const char *bearer = bearer_of(input_byte(in), &s->user);
    struct buf b;
    buf_init(&b, &flow.arena);
    buf_printf(&b, "%s %s HTTP/1.1\r\nHost: front.test\r\nX-Mark: %zu\r\n%s%s\r\n", k->method, paths[path],
               watch.sent_n++, bearer, k->headers);
    if (k->text)
        buf_add_slice(&b, slice_str(k->text));
    else
        buf_add(&b, big, k->body);
    send_pieces(m, b.p, b.n, how);
}

/* A question of any form, to the endpoint of our own: nothing of it reaches the upstream. */
static void send_question(size_t c, uint8_t who, struct input *in)
{
    struct memory *m = clients[c].m;
    size_t n = (size_t)input_byte(in) << 8;
    n |= input_byte(in);
    if (n > in->n) n = in->n;
    if (m->ends) return;
    const char *user;
    struct buf b;
    buf_init(&b, &flow.arena);
    buf_printf(&b, "POST %s HTTP/1.1\r\nHost: front.test\r\n%sContent-Length: %zu\r\n\r\n",
               who & 16 && clients[c].admin ? "/cache/flush" : "/authorize", bearer_of(who & 15, &user), n);
    buf_add(&b, in->p, n);
    send_pieces(m, b.p, b.n, who >> 5);
    in->p += n;
    in->n -= n;
}

static void send_raw(struct memory *m, struct input *in)
{
    size_t n = input_byte(in) & 31;
    if (n > in->n) n = in->n;
    if (m->ends || !n) return;
    memory_send(m, in->p, n);
    in->p += n;
    in->n -= n;
}

/* --- the upstream ------------------------------------------------------------------------------------------------- */

/* %04zu: the mark of the request that is answered. */
static const char *const answers[] = {
    "HTTP/1.1 200 OK\r\nX-For: for-mark-%04zu\r\nContent-Length: 19\r\n\r\nit is for-mark-%04zu",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nit is\r\n10\r\n   for-mark-%04zu\r\n0\r\nX: y\r\n\r\n",
    "HTTP/1.0 200 OK\r\n\r\nfor-mark-%04zu",
    "HTTP/1.1 100 Continue\r\n\r\n",
    "HTTP/1.1 200 OK\r\nX-For: for-mark-%04zu\r\nContent-Le",
    "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nfor-mark-%04zu",
    "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\r\n",
    "HTTP/1.1 204 No Content\r\nX-For: for-mark-%04zu\r\n\r\n",
    "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\nX-For: for-mark-%04zu\r\n\r\n",
    "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 13\r\n\r\nfor-mark-%04zu",
    "HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\nfor-mark-%04zuHTTP/1.1 200 OK\r\nContent-Length: "
    "13\r\n\r\nfor-mark-%04zu",
    "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nX-For: for-mark-%04zu\r\n\r\n",
};
enum { ANSWER_CONTINUE = 3, ANSWER_TWO = 10, ANSWER_HINTS = 11, ANSWER_SWITCH = 6, ANSWER_BIG = 14, ANSWER_RAW = 15 };

/* Only a request that is there is answered, and once: what comes unasked on an idle connection can be told from an
   answer by nobody once the next request is out. */
static void answer_up(struct up *u, struct memory *m, struct input *in)
{
    size_t at = input_byte(in) & 15;
    uint8_t how = input_byte(in);
    if (u->answered >= u->heads || m->ends || m->closed) {
        if (u->tunnel) send_raw(m, in);
        return;
    }
    bool interim = at == ANSWER_CONTINUE || at == ANSWER_HINTS;
    if (!interim) u->answered++;
    u->answer_sent = true;
    if (at == ANSWER_SWITCH) u->tunnel = true;
    if (at == ANSWER_RAW) {
        send_raw(m, in);
        return;
    }
    struct buf b;
    buf_init(&b, &flow.arena);
    if (at == ANSWER_BIG) {
        buf_printf(&b, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\nfor-mark-%04zu", BIG + 13, u->mark);
        buf_add(&b, big, BIG);
    } else {
        buf_printf(&b, answers[at], u->mark, u->mark);
    }
    if (at == ANSWER_TWO)
        memory_send(m, b.p, b.n); /* the second comes with the first, so that it can be seen */
    else
        send_pieces(m, b.p, b.n, how);
}

/* --- engine, API, Redis ------------------------------------------------------------------------------------------- */

/* Whose token was sent along. */
static const char *profile_of(const struct fetch_call *c)
{
    const char *user = "nobody";
    for (size_t i = 0; i < USERS; i++)
        if (fake_fetch_has_header(c, flow_printf("%.*s", (int)strcspn(bearers[i], "\r"), bearers[i]))) user = users[i];
    return flow_printf("{\"id\":\"%s\",\"roles\":[\"reader\"]}", user);
}

static void answer_policy(struct fetch_call *c, uint8_t how)
{
    static const char *const bodies[] = {"{\"result\":true}",
                                         "{\"result\":{\"allow\":true,\"ttl\":1,\"reason\":\"x\"}}",
                                         "{\"result\":{\"allow\":true,\"context\":{\"a\":1}}}",
                                         "{\"result\":false}",
                                         "{\"result\":{\"allow\":false,\"reason\":\"no\"}}",
                                         "{}",
                                         "{\"result\":\"true\"}",
                                         "{\"result\":{\"allow\":true,\"allow\":false}}"};
    how &= 15;
    if (how >= 12) {
        fake_fetch_fail(c, (enum fetch_outcome)(FETCH_UNREACHABLE + (how - 12)));
    } else if (how >= 8) {
        fake_fetch_answer(c, how == 8 ? 500 : how == 9 ? 401 : how == 10 ? 302 : 201, bodies[0]);
    } else {
        if (how < 3) watch_allow(c->body, (how == 1 ? 1000 : ALLOW_MS) + FLIGHT_MS);
        fake_fetch_answer(c, 200, bodies[how]);
    }
}

static void answer_profile(struct fetch_call *c, uint8_t how)
{
    static const int statuses[] = {200, 200, 200, 404, 401, 500, 302, 200};
    how &= 15;
    if (how >= 12)
        fake_fetch_fail(c, (enum fetch_outcome)(FETCH_UNREACHABLE + (how - 12)));
    else if (how == 7)
        fake_fetch_answer(c, 200, "{\"roles\":[]}");
    else
        fake_fetch_answer(c, statuses[how & 7], profile_of(c));
}

static void answer_call(uint8_t which, uint8_t how)
{
    size_t open = 0;
    for (struct fetch_call *c = flow.proxy.fetch->first; c; c = c->next) {
        if (c->state != FAKE_CALL_OPEN || open++ < which) continue;
        if (strstr(c->url, "/policy"))
            answer_policy(c, how);
        else
            answer_profile(c, how);
        return;
    }
}

/* Everything goes well until nothing moves: so that a short input gets far. */
static void go_well(void)
{
    for (int i = 0; i < 20; i++) {
        flow_turn();
        if (flow.proxy.redis) fake_redis_deliver(flow.proxy.redis);
        answer_call(0, 0);
    }
    flow_turn();
}

/* --- the program -------------------------------------------------------------------------------------------------- */

static void flush(uint8_t how)
{
    if (how & 1) tokens_flush(flow.proxy.tokens, 0);
    if (how & 2) identities_flush(flow.proxy.settings->identities, 0, NULL);
    if (how & 4) decisions_flush(flow.proxy.settings->decisions, 0);
}

static void pass(uint8_t how)
{
    static const int64_t times[] = {1, 10, 150, 1100, HEADER_MS + 20, RESPONSE_MS + 20, BODY_MS + 20, 310000};
    loop_advance(flow.loop, times[how & 7]);
    loop_turn(flow.loop);
}

static void step_client(unsigned op, struct input *in)
{
    if (!clients_n) open_client(0);
    size_t c = input_byte(in) % clients_n;
    switch (op) {
    case 0:
        send_request(c, in);
        break;
    case 1:
        watch.raw = true;
        send_raw(clients[c].m, in);
        break;
    case 2:
        end_or_break(clients[c].m, input_byte(in));
        break;
    default:
        make_room(clients[c].m, input_byte(in));
    }
}

static void step_up(unsigned op, struct input *in)
{
    size_t i = input_byte(in);
    if (!flow.ups_n) return;
    i = flow.ups_n - 1 - i % flow.ups_n;
    if (op == 4)
        answer_up(&watch.ups[i], flow.ups[i], in);
    else if (op == 5)
        end_or_break(flow.ups[i], input_byte(in));
    else
        make_room(flow.ups[i], input_byte(in));
}

static void step_world(unsigned op, struct input *in)
{
    uint8_t how = input_byte(in);
    switch (op) {
    case 7:
        memory_pump();
        break;
    case 8:
        pass(how);
        break;
    case 9:
        if (fake_dial_waiting()) fake_dial_finish((how & 3) == 3 ? UV_ECONNREFUSED : 0);
        break;
    case 10:
        answer_call(how >> 4, how);
        break;
    case 11:
        if (flow.proxy.redis && (how & 3) == 3) flow.proxy.redis->unavailable = !flow.proxy.redis->unavailable;
        if (flow.proxy.redis) fake_redis_deliver(flow.proxy.redis);
        break;
    case 12:
        open_client(how);
        break;
    case 13:
        go_well();
        break;
    case 14:
        flush(how);
        break;
    default:
        if (how == 255)
            proxy_drain(&flow.proxy, 0);
        else if (how & 2 && clients_n)
            send_question(clients_n - 1, input_byte(in), in);
        else
            fake_dial_open = how & 1;
    }
}

static void start(uint8_t how)
{
    struct flow_config c = {
        .more = how & 1 ? "redis: {url: \"redis://redis.test:6379\"}\n" ASKED : ASKED,
        .serve = "public_endpoints: true",
        .tokens = how & 2 ? "anonymous: judge" : NULL,
        .listen = how & 4 ? "max_connections: 3, max_requests_per_connection: 2, max_body_bytes: 60000" : NULL,
        .routes = "[{prefix: /public, access: public, websocket: on}, {prefix: /me, access: authenticated}, "
                  "{prefix: /ws, access: authorized, websocket: on}, {prefix: /, access: authorized}]",
        .grant = "header: x-auth-context",
    };
    watch = (struct watch){.judged = how & 2};
    clients_n = 0;
    flow_start(&c);
    flow.manual = true;
    fake_dial_open = how & 8;
    for (size_t i = 0; i < USERS; i++)
        bearers[i] = flow_bearer(users[i]);
}

static void look(void)
{
    watch_ups();
    for (size_t i = 0; i < clients_n; i++)
        watch_client(i, buf_slice(&clients[i].m->got));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct input in = input_make(data, n);
    if (!big[0]) memset(big, 'b', sizeof big);
    start(input_byte(&in));
    for (int i = 0; i < STEPS_MAX && in.n; i++) {
        unsigned op = input_byte(&in) & 15;
        if (op < 4)
            step_client(op, &in);
        else if (op < 7)
            step_up(op, &in);
        else
            step_world(op, &in);
        look();
    }
    flow_end();
    return 0;
}
