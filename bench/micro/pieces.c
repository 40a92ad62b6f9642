/* See micro/pieces.h. The proxy is the flow tests' own: real configuration, parser, authorization and relay over memory
   streams, with the policy engine and the profile API answered in this process. */
#include "micro/pieces.h"

#include "authz/input.h"
#include "authz/render.h"
#include "base/check.h"
#include "flow/flow.h"
#include "http/parser.h"
#include "http/target.h"
#include "http/writer.h"

#define CACHED 10000

static struct arena arena;
static struct memory *client;
static char *sent; /* the request of the whole pieces */
static size_t sent_n;
static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 5\r\n\r\nhello";

static const char *lines(const char *method, const char *path, const char *bearer, size_t body_n)
{
    const char *length = body_n ? flow_printf("Content-Type: application/json\r\nContent-Length: %zu\r\n", body_n) : "";
    return flow_printf("%s %s HTTP/1.1\r\nHost: front.test\r\nUser-Agent: bench/1.0\r\nAccept: application/json\r\n"
                       "Accept-Encoding: gzip\r\nX-Request-Id: 0af7651916cd43dd8448eb211c80319c\r\n%s%s\r\n%s",
                       method, path, bearer, length, body_n ? flow_bytes(body_n) : "");
}

static void reset_arena(void)
{
    arena_reset(&arena);
}

/* --- a head, and its target */

static struct parser parser;
static struct slice head_bytes;
static struct target target;

static void on_body(struct parser *p, struct slice data)
{
    (void)p;
    (void)data;
}

static void parse(void)
{
    size_t from = 0, end = 0;
    CHECK(head_scan(head_bytes, &from, &end) == HEAD_WHOLE, "a whole head");
    CHECK(parser_head(&parser, head_bytes, &arena, 100, false) == REASON_FORWARDED, "a good head");
}

static void prepare_parse(void)
{
    head_bytes = slice_str(lines("GET", "/offices/7?page=2", flow_bearer("alice"), 0));
    parser_init(&parser, PARSER_REQUEST, on_body);
}

static void read_target(void)
{
    CHECK(target_parse(SLICE("/api/things/1234?page=2&office=SWT"), &arena, &target) == REASON_FORWARDED, "a target");
    CHECK(target_params(&target, &arena) == REASON_FORWARDED, "its query");
}

/* --- token, context, decision: found in memory */

static struct slice credential;
static struct token *token;
static struct user *user;
static struct identity_call identified;
static struct decision_question question;
static struct decision_call decided;
static struct input input;

static void on_token(struct token_call *c)
{
    token = c->token;
}

static void on_identity(struct identity_call *c)
{
    user = c->user;
}

static void on_decision(struct decision_call *c)
{
    (void)c;
}

static void find_token(void)
{
    struct token_call c = {.on_done = on_token};
    CHECK(tokens_check(flow.proxy.tokens, credential, &c) == OP_DONE && c.token, "a token that is good");
    token = c.token;
}

static void let_token_go(void)
{
    token_release(token);
}

static void find_context(void)
{
    identified.on_done = on_identity;
    if (identity_find(flow.proxy.settings->identities, token, credential, &identified) == OP_DONE)
        user = identified.user;
}

static void let_context_go(void)
{
    user_release(user);
}

static void prepare_token(void)
{
    const char *line = flow_bearer("alice");
    credential = slice_make(line + strlen("Authorization: "), strlen(line) - strlen("Authorization: \r\n"));
    find_token();
}

static void prepare_context(void)
{
    prepare_token();
    find_context();
    flow_turn();
    CHECK(user, "a context");
}

static void prepare_decision(void)
{
    prepare_context();
    read_target();
    question = (struct decision_question){
        .use = DECISION_GRANT,
        .user = user,
        .token = token,
        .user_json = user->json,
        .resource = SLICE("things"),
        .action = SLICE("read"),
        .method = SLICE("GET"),
        .path = target.path,
        .query = target.query,
        .params = (struct named[]){{SLICE("page"), SLICE("2")}, {SLICE("office"), SLICE("SWT")}},
        .params_n = 2,
        .segments = target.segments,
        .segments_n = target.segments_n,
        .host = SLICE("front.test"),
        .request_id = SLICE("0af7651916cd43dd8448eb211c80319c"),
    };
    /* what it points to stays: the arena of the pieces is given back between them, flow's is not */
    question.path = arena_copy(&flow.arena, target.path);
    struct slice *segments = arena_alloc(&flow.arena, target.segments_n * sizeof *segments);
    for (size_t i = 0; i < target.segments_n; i++)
        segments[i] = arena_copy(&flow.arena, target.segments[i]);
    question.segments = segments;
    struct named *params = arena_alloc(&flow.arena, 2 * sizeof *params);
    memcpy(params, question.params, 2 * sizeof *params);
    question.params = params;
    decided.on_done = on_decision;
    if (decision_find(flow.proxy.settings->decisions, &question, &arena, &decided) == OP_PENDING) flow_turn();
    CHECK(decided.decision, "a decision");
    decision_release(decided.decision);
}

static void make_key(void)
{
    uint8_t key[CACHE_KEY_BYTES];
    input_write(&question, &arena, &input);
    input_key(&input, &question, key);
}

static void find_decision(void)
{
    CHECK(decision_find(flow.proxy.settings->decisions, &question, &arena, &decided) == OP_DONE,
          "a decision in memory");
    CHECK(decided.decision && decided.decision->allow, "an allow");
    decision_release(decided.decision);
}

static void forget_decisions(void)
{
    decisions_flush(flow.proxy.settings->decisions, 0);
    loop_advance(flow.loop, 1);
    loop_turn(flow.loop);
}

static void start_deciding(void)
{
    CHECK(decision_find(flow.proxy.settings->decisions, &question, &arena, &decided) == OP_PENDING, "a question");
    fake_fetch_answer(fake_fetch_oldest(flow.proxy.fetch), 200, "{\"result\":true}");
}

static void end_deciding(void)
{
    CHECK(decided.decision && decided.decision->allow, "an allow");
    decision_release(decided.decision);
    reset_arena();
}

/* --- the table under them */

static struct cache *cache;
static unsigned nth;

static void free_entry(struct cache_entry *e)
{
    free(e);
}

static void key_of(unsigned i, uint8_t key[CACHE_KEY_BYTES])
{
    uint64_t x = i;
    for (size_t at = 0; at < CACHE_KEY_BYTES; at += sizeof x) {
        x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        memcpy(key + at, &x, sizeof x);
    }
}

static void prepare_cache(void)
{
    cache = cache_create(CACHED, SIZE_MAX / 2, free_entry);
    for (unsigned i = 0; i < CACHED; i++) {
        struct cache_entry *e = calloc(1, sizeof *e);
        CHECK(e, "memory");
        cache_entry_init(e);
        key_of(i, e->key);
        e->expires_ms = INT64_MAX;
        e->bytes = sizeof *e;
        CHECK(cache_put(cache, e, 0), "kept");
        cache_release(e, free_entry);
    }
}

static void get_cached(void)
{
    uint8_t key[CACHE_KEY_BYTES];
    key_of(nth++ * 7919 % CACHED, key);
    struct cache_entry *e = cache_get(cache, key, 1);
    CHECK(e, "it is there");
    cache_release(e, free_entry);
}

/* --- what goes out */

static void write_head(void)
{
    struct buf out;
    buf_init(&out, &arena);
    buf_reserve(&out, 2048);
    buf_add_lit(&out, "GET /offices/7?page=2 HTTP/1.1\r\n");
    writer_headers(&out, &parser.head);
    writer_header(&out, SLICE("x-auth-context"), SLICE("{\"user\":{\"id\":\"alice\",\"roles\":[\"reader\"]}}"));
    buf_add_lit(&out, "\r\n");
}

static struct arena head_arena;

static void prepare_write(void)
{
    prepare_parse();
    CHECK(parser_head(&parser, head_bytes, &head_arena, 100, false) == REASON_FORWARDED, "a good head");
}

static struct grant *grant;
static struct front grant_front;

static void prepare_grant(void)
{
    static const struct decision_question q = {
        .user_json = SLICE("{\"id\":\"alice\",\"roles\":[\"reader\"]}"), .method = SLICE("GET"), .path = SLICE("/x")};
    char *error = NULL;
    grant = grant_create(&(struct grant_config){.max_bytes = 7168}, &error);
    CHECK(grant, "a grant");
    front_init(&grant_front, &q);
}

static void make_grant(void)
{
    const struct verdict v = {
        .use = DECISION_GRANT, .allow = true, .id = "d1", .wall_ms = 1700000000000, .end_ms = 90000};
    const struct decisions_config config = {.grant = grant};
    const char *detail = NULL;
    enum reason reason;
    struct decision *d = render_decision(&config, &v, &grant_front, &reason, &detail);
    CHECK(d, "a grant");
    render_free(&d->entry);
}

/* --- whole: from bytes read to bytes written */

static void pump(void)
{
    while (memory_pump())
        continue;
}

static void send_request(void)
{
    loop_advance(flow.loop, 1);
    loop_turn(flow.loop);
    memory_send(client, sent, sent_n);
}

static void check_forwarded(void)
{
    struct memory *up = flow_up(0);
    CHECK(memmem(up->got.p, up->got.n, "x-auth-context: ", 16), "it went out, with a grant");
    up->got.n = 0;
}

static void check_answered(void)
{
    CHECK(client->got.n > 16 && memcmp(client->got.p, "HTTP/1.1 200 OK\r\n", 17) == 0, "it was answered");
    client->got.n = 0;
}

static void send_answer(void)
{
    check_forwarded();
    memory_send(flow_up(0), answer, sizeof answer - 1);
}

static void take_forwarded(void)
{
    send_answer();
    pump();
    check_answered();
}

static void prepare_whole(const char *method, size_t body_n)
{
    const char *text = lines(method, "/offices/7?page=2", flow_bearer("alice"), body_n);
    sent_n = strlen(text);
    sent = strdup(text);
    client = flow_client();
    for (int i = 0; i < 5; i++) {
        send_request();
        flow_turn();
        send_answer();
        flow_turn();
        check_answered();
    }
}

static void prepare_get(void)
{
    prepare_whole("GET", 0);
}

static void prepare_94(void)
{
    prepare_whole("POST", 94);
}

static void prepare_4096(void)
{
    prepare_whole("POST", 4096);
}

static void ready_answer(void)
{
    send_request();
    pump();
    send_answer();
}

/* No network, but nothing known either: the token is verified, the context and the decision are asked for. */
static void ready_cold(void)
{
    flow.manual = true;
    tokens_flush(flow.proxy.tokens, 0);
    identities_flush(flow.proxy.settings->identities, 0, NULL);
    decisions_flush(flow.proxy.settings->decisions, 0);
    loop_advance(flow.loop, 1);
    send_request();
}

static void run_cold(void)
{
    pump();
    fake_fetch_answer(fake_fetch_oldest(flow.proxy.fetch), 200, "{\"id\":\"alice\",\"roles\":[\"reader\"]}");
    pump();
    fake_fetch_answer(fake_fetch_oldest(flow.proxy.fetch), 200, "{\"result\":true}");
    pump();
}

const struct piece pieces[] = {
    {"parse", "find the end of a head of seven lines, parse and check it", prepare_parse, NULL, parse, reset_arena},
    {"target", "split, decode and check a path and its query", NULL, NULL, read_target, reset_arena},
    {"token", "a credential that is known, to its token", prepare_token, NULL, find_token, let_token_go},
    {"context", "a token to its context, in memory", prepare_context, NULL, find_context, let_context_go},
    {"decision-key", "write the policy input and its digest", prepare_decision, NULL, make_key, reset_arena},
    {"decision", "the same, and the decision found in memory", prepare_decision, NULL, find_decision, reset_arena},
    {"decision-miss", "the same, but asked for and answered, the grant rendered", prepare_decision, forget_decisions,
     start_deciding, end_deciding},
    {"cache", "one of 10,000 entries", prepare_cache, NULL, get_cached, NULL},
    {"grant", "a decision with its grant in the general form, made anew (only after a miss)", prepare_grant, NULL,
     make_grant, NULL},
    {"head", "write the head that goes to the API", prepare_write, NULL, write_head, reset_arena},
    {"forward", "a warm GET: from its bytes to those that go to the API", prepare_get, send_request, pump,
     take_forwarded},
    {"answer", "the API's answer, from its bytes to those that go to the client", prepare_get, ready_answer, pump,
     check_answered},
    {"forward-94", "a warm POST of 94 bytes, likewise", prepare_94, send_request, pump, take_forwarded},
    {"forward-4096", "a warm POST of 4096 bytes, likewise", prepare_4096, send_request, pump, take_forwarded},
    {"forward-cold", "a GET of which nothing is known, OPA and profile answered at once", prepare_get, ready_cold,
     run_cold, take_forwarded},
};
const size_t pieces_n = sizeof pieces / sizeof *pieces;
