/* proxy/eval: plays one request. Called by main. The parts are those of serve, made without anything that goes on in the
   background; the client is the other end of a pair of sockets; the request stops where it would be sent. */
#include "proxy/eval.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "authz/input.h"
#include "base/arena.h"
#include "base/check.h"
#include "base/metric.h"
#include "conf/source.h"
#include "proxy/conn.h"
#include "proxy/eval_print.h"
#include "proxy/eval_report.h"
#include "proxy/wire.h"

#define EXIT_USAGE 2
#define EXIT_OPEN 3
#define EXIT_CONFIG 78
#define FILE_BYTES_MAX (8 << 20)
#define PIPE_MS 10000

struct eval {
    struct proxy proxy;
    const struct eval_asked *asked;
    struct eval_credential credential;
    struct eval_findings findings;
    struct request *request; /* while one is played */
    struct buf answer;       /* what the client got */
    struct buf report;
    struct buf input;
    int client;              /* its end of the pair */
    bool over;
};

static void on_step(struct request *r);
static bool on_fetch(const struct fetch_request *q, struct fetch_answer *a, void *arg);

static const struct rehearsal rehearsal = {on_step, on_fetch};

/* --- the command line ---------------------------------------------------------------------------------------------- */

static void usage(FILE *to)
{
    fputs("usage: doorward eval [CONFIG] [options] METHOD PATH   explain one request, without sending it\n"
          "  --token TOKEN | --token-file FILE   the caller's credential; FILE may be - (standard input)\n"
          "  --claims FILE                       a token's claims, without a token: one JSON object\n"
          "  --profile FILE                      what the API would say of the caller\n"
          "  -H 'Name: value'                    a header of the request; more than once\n"
          "  --network                           ask for keys, the context and the policy engine\n"
          "  --json                              one JSON document\n"
          "Exit: 0 it would pass, 1 it is refused, 2 wrong usage, 3 it depends on what was not asked, 78 bad configuration.\n",
          to);
}

static int wrong(const char *what, const char *detail)
{
    fprintf(stderr, "doorward eval: %s%s%s\n", what, detail ? ": " : "", detail ? detail : "");
    return EXIT_USAGE;
}

static bool read_file(struct arena *a, const char *option, const char *path, struct slice *out)
{
    int64_t pipe_ms = PIPE_MS;
    const char *why = source_file(a, strcmp(path, "-") == 0 ? "/dev/stdin" : path, FILE_BYTES_MAX, &pipe_ms, out);
    if (why) fprintf(stderr, "doorward eval: %s %s: %s\n", option, path, why);
    return !why;
}

/* A token alone is a bearer's; "apikey …" and the like are taken as they are. */
static bool take_token(struct eval_asked *asked, struct slice text)
{
    while (text.n && strchr(" \t\r\n", text.p[text.n - 1])) text.n--;
    text = slice_trim(text);
    if (asked->authorization.p) return false;
    bool whole = text.n && memchr(text.p, ' ', text.n);
    asked->authorization = arena_printf(&asked->arena, "%s%.*s", whole ? "" : "Bearer ", (int)text.n, text.n ? text.p : "");
    return true;
}

static bool is_line(struct slice s, bool spaces)
{
    for (size_t i = 0; i < s.n; i++)
        if ((unsigned char)s.p[i] < (spaces ? ' ' : '!') || s.p[i] == 0x7f) return false;
    return s.n > 0;
}

static int take_header(struct eval_asked *asked, const char *line)
{
    const char *colon = strchr(line, ':');
    if (!colon || colon == line || !is_line(slice_str(line), true)) return wrong("-H takes 'Name: value'", NULL);
    struct slice name = slice_make(line, (size_t)(colon - line));
    if (slice_eq_nocase(name, SLICE("authorization")))
        return take_token(asked, slice_str(colon + 1)) ? -1 : wrong("more than one credential", NULL);
    if (slice_eq_nocase(name, SLICE("content-length")) || slice_eq_nocase(name, SLICE("transfer-encoding")))
        return wrong("a request is played without its body", NULL);
    if (asked->headers_n == EVAL_HEADERS_MAX) return wrong("too many headers", NULL);
    asked->headers[asked->headers_n++] = line;
    return -1;
}

static int take_rest(int argc, char **argv, struct eval_asked *asked)
{
    if (argc - optind != 2) {
        usage(stderr);
        return EXIT_USAGE;
    }
    asked->method = argv[optind];
    asked->target = argv[optind + 1];
    if (!is_line(slice_str(asked->method), false)) return wrong("METHOD is one word", NULL);
    if (!is_line(slice_str(asked->target), false)) return wrong("PATH has a space or a control character in it", NULL);
    if (asked->target[0] != '/') return wrong("PATH begins with /", asked->target);
    if (asked->claims.p && asked->authorization.p) return wrong("either claims or a credential", NULL);
    return -1;
}

static int read_arguments(int argc, char **argv, struct conf_source *source, struct eval_asked *asked)
{
    enum { CONFIG = 256, DROP_IN, TOKEN, TOKEN_FILE, CLAIMS, PROFILE, NETWORK, AS_JSON };
    static const struct option options[] = {
        {"config", required_argument, NULL, CONFIG},   {"drop-in", no_argument, NULL, DROP_IN},
        {"token", required_argument, NULL, TOKEN},     {"token-file", required_argument, NULL, TOKEN_FILE},
        {"claims", required_argument, NULL, CLAIMS},   {"profile", required_argument, NULL, PROFILE},
        {"network", no_argument, NULL, NETWORK},       {"json", no_argument, NULL, AS_JSON},
        {"header", required_argument, NULL, 'H'},      {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    struct slice text;
    int o, code = -1;
    while (code < 0 && (o = getopt_long(argc, argv, "hc:H:", options, NULL)) != -1) {
        switch (o) {
        case CONFIG:
        case 'c':
            source->file = optarg;
            break;
        case DROP_IN:
            source->drop_in = true;
            break;
        case TOKEN:
            if (!take_token(asked, slice_str(optarg))) code = wrong("more than one credential", NULL);
            break;
        case TOKEN_FILE:
            if (!read_file(&asked->arena, "--token-file", optarg, &text)) return EXIT_USAGE;
            if (!take_token(asked, text)) code = wrong("more than one credential", NULL);
            break;
        case CLAIMS:
            if (!read_file(&asked->arena, "--claims", optarg, &asked->claims)) return EXIT_USAGE;
            break;
        case PROFILE:
            asked->profile_name = optarg;
            if (!read_file(&asked->arena, "--profile", optarg, &asked->profile)) return EXIT_USAGE;
            break;
        case NETWORK:
            asked->network = true;
            break;
        case AS_JSON:
            asked->as_json = true;
            break;
        case 'H':
            code = take_header(asked, optarg);
            break;
        case 'h':
            usage(stdout);
            return 0;
        default:
            usage(stderr);
            return EXIT_USAGE;
        }
    }
    return code >= 0 ? code : take_rest(argc, argv, asked);
}

int eval_read(int argc, char **argv, struct conf_source *source, struct eval_asked *asked)
{
    *asked = (struct eval_asked){0};
    arena_init(&asked->arena);
    int code = read_arguments(argc, argv, source, asked);
    if (code >= 0) eval_forget(asked);
    return code;
}

void eval_forget(struct eval_asked *asked)
{
    if (asked->authorization.n) explicit_bzero((void *)(uintptr_t)asked->authorization.p, asked->authorization.n);
    arena_reset(&asked->arena);
}

/* --- while it is played -------------------------------------------------------------------------------------------- */

static struct eval *eval_of(const struct request *r)
{
    return container_of(r->proxy, struct eval, proxy);
}

/* The report is made while the request still has all that it found. */
static void end(struct eval *e, struct request *r, enum eval_outcome outcome, const char *missing)
{
    e->over = true;
    e->findings.outcome = outcome;
    e->findings.missing = missing;
    e->findings.answer = buf_slice(&e->answer);
    eval_report(r, &e->findings, &e->report);
    r->step = STEP_FINISH;
    loop_stop(r->proxy->loop);
}

/* NULL: it is known, or will be. */
static const char *missing_context(const struct eval *e, const struct request *r)
{
    const struct conf *c = r->conf;
    bool remote = r->token && (c->context.url.n || c->context.service_url.n);
    bool service = remote && r->token->verified && c->context.service_url.n && c->context.service_authorization.n;
    if (!remote || e->asked->profile.p) return NULL;
    if (!e->asked->network) return "the context: give --profile FILE, or --network";
    if (e->credential.from_claims && !service)
        return "the context: the API can only be asked with a token; give --profile FILE";
    return NULL;
}

/* The very bytes that the engine gets: the clock stands still within one turn of the loop. */
static void take_input(struct eval *e, struct request *r)
{
    struct decision_question q;
    struct input in;
    struct buf body;
    char time[LOG_TIME_BYTES];
    request_question(r, &q);
    input_write(&q, r->arena, &in);
    log_time(loop_wall_ms(r->proxy->loop), time);
    buf_init(&body, r->arena);
    input_body(&in, slice_str(time), r->id, &body);
    buf_add_slice(&e->input, input_value(buf_slice(&body)));
    e->findings.judged = true;
    e->findings.input = buf_slice(&e->input);
}

static void take_answer(struct eval *e)
{
    char bytes[4096];
    ssize_t n;
    while ((n = read(e->client, bytes, sizeof bytes)) > 0) buf_add(&e->answer, bytes, (size_t)n);
}

static void before_decision(struct eval *e, struct request *r)
{
    if (r->route->access != ACCESS_AUTHORIZED) return;
    take_input(e, r);
    bool here = r->conf->policy.path.n > 0; /* evaluated in this process: nobody is asked */
    if (!here && !e->asked->network) end(e, r, EVAL_OPEN, "the decision: the policy engine is asked with --network");
}

static void on_step(struct request *r)
{
    struct eval *e = eval_of(r);
    e->request = r;
    if (e->over) return;
    const char *missing = NULL;
    switch ((int)r->step) {
    case STEP_COLLECT:
        end(e, r, EVAL_ANSWERED, NULL);
        break;
    case STEP_IDENTIFY:
        missing = missing_context(e, r);
        if (missing) end(e, r, EVAL_OPEN, missing);
        break;
    case STEP_DECIDE:
        before_decision(e, r);
        break;
    case STEP_CONNECT:
        end(e, r, EVAL_ALLOWED, NULL);
        break;
    case STEP_FINISH:
        take_answer(e);
        end(e, r, r->reason == REASON_ANSWERED ? EVAL_ANSWERED : EVAL_REFUSED, NULL);
        break;
    default:
        break;
    }
}

/* The profile stands for the API's answer; and without a network nothing goes out, whoever asks. */
static bool on_fetch(const struct fetch_request *q, struct fetch_answer *a, void *arg)
{
    struct eval *e = container_of((struct proxy *)arg, struct eval, proxy);
    struct slice profile = e->asked->profile;
    if (profile.p && e->request && e->request->step == STEP_IDENTIFY) {
        if (profile.n > q->max_bytes)
            *a = (struct fetch_answer){.outcome = FETCH_TOO_LARGE, .error = "the answer is too large"};
        else
            *a = (struct fetch_answer){.outcome = FETCH_ANSWERED, .status = 200, .body = profile};
        return true;
    }
    *a = (struct fetch_answer){.outcome = FETCH_UNREACHABLE, .error = "not asked without --network"};
    return !e->asked->network;
}

/* --- the play ------------------------------------------------------------------------------------------------------ */

static void add_line(struct buf *out, const char *text)
{
    buf_add_slice(out, slice_str(text));
    buf_add_lit(out, "\r\n");
}

static bool has_host(const struct eval_asked *asked)
{
    for (size_t i = 0; i < asked->headers_n; i++)
        if (strncasecmp(asked->headers[i], "host:", 5) == 0) return true;
    return false;
}

static bool send_request(struct eval *e)
{
    const struct eval_asked *asked = e->asked;
    const struct conf *c = e->proxy.settings->conf;
    struct buf head;
    buf_init(&head, NULL);
    buf_reserve(&head, e->credential.value.n + 65536); /* so that no copy of the credential is left behind */
    buf_printf(&head, "%s %s HTTP/1.1\r\n", asked->method, asked->target);
    if (!has_host(asked)) buf_printf(&head, "Host: %s\r\n", c->listen.hosts.n ? c->listen.hosts.v[0].p : "localhost");
    for (size_t i = 0; i < asked->headers_n; i++) add_line(&head, asked->headers[i]);
    if (e->credential.value.n) {
        buf_add_lit(&head, "Authorization: ");
        buf_add_slice(&head, buf_slice(&e->credential.value));
        buf_add_lit(&head, "\r\n");
    }
    buf_add_lit(&head, "\r\n");
    bool whole = write(e->client, head.p, head.n) == (ssize_t)head.n;
    explicit_bzero(head.p, head.n);
    buf_free(&head);
    return whole;
}

static struct conn *connect_client(struct eval *e)
{
    static const struct address here = {.family = 4, .bytes = {127, 0, 0, 1}, .text = "127.0.0.1"};
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0, "two descriptors");
    struct conn *c = conn_create(&e->proxy, false);
    CHECK(stream_init_pipe(&c->stream, e->proxy.loop, &conn_events) == 0 && uv_pipe_open(&c->stream.pipe, pair[0]) == 0,
          "one end of a pair is a stream");
    c->peer = here;
    e->client = pair[1];
    return c;
}

static int play(struct eval *e)
{
    conn_begin(connect_client(e));
    if (send_request(e))
        loop_serve(e->proxy.loop);
    else
        fputs("doorward eval: the request is too long\n", stderr);
    proxy_abort(&e->proxy);
    close(e->client);
    if (!e->report.n) return EXIT_USAGE;
    if (e->asked->as_json)
        printf("%.*s\n", (int)e->report.n, e->report.p);
    else
        eval_print(buf_slice(&e->report), stdout);
    static const int codes[] = {[EVAL_ALLOWED] = 0, [EVAL_REFUSED] = 1, [EVAL_ANSWERED] = 0, [EVAL_OPEN] = EXIT_OPEN};
    return fflush(stdout) == 0 ? codes[e->findings.outcome] : EXIT_USAGE;
}

static int start_and_play(struct eval *e, struct settings *settings)
{
    struct proxy *p = &e->proxy;
    char *error = NULL;
    signal(SIGPIPE, SIG_IGN);
    log_open(STDERR_FILENO, LOG_WARN);
    metric_init(settings->conf->serve.metrics_prefix.p);
    p->loop = loop_create();
    p->rehearsal = &rehearsal;
    int code = EXIT_CONFIG;
    if (proxy_start(p, settings, &error)) {
        code = play(e);
    } else {
        fprintf(stderr, "doorward: %s\n", error);
        free(error);
    }
    proxy_finish(p);
    loop_close(p->loop);
    bool whole = loop_end(p->loop);
    log_close();
    if (!whole) _exit(code);
    proxy_free(p);
    loop_destroy(p->loop);
    metric_finish();
    return code;
}

/* What a rehearsal leaves alone: other people's memory of contexts, and the log. */
static void leave_alone(struct conf *conf)
{
    conf->redis.url = SLICE("");
    conf->log.access = false;
}

int eval_run(struct eval_asked *asked, struct conf *conf)
{
    struct eval e = {.asked = asked};
    char *error = NULL;
    int code = EXIT_USAGE;
    leave_alone(conf);
    if (asked->profile.p && !conf->context.url.n && !conf->context.service_url.n)
        fprintf(stderr, "doorward eval: --profile is not used: without context.url the context is made of the token's claims\n");
    buf_init(&e.answer, NULL);
    buf_init(&e.report, NULL);
    buf_init(&e.input, NULL);
    e.findings.asked = asked;
    e.findings.credential = &e.credential;
    if (eval_credential_make(asked, conf, &e.credential, &error)) {
        struct settings *settings = settings_create(conf, &error);
        code = settings ? start_and_play(&e, settings) : EXIT_CONFIG;
    } else {
        conf_destroy(conf);
    }
    if (error) fprintf(stderr, "doorward eval: %s\n", error);
    free(error);
    eval_credential_free(&e.credential);
    buf_free(&e.answer);
    buf_free(&e.report);
    buf_free(&e.input);
    eval_forget(asked);
    arena_trim();
    return code;
}
