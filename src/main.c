/* main: arguments, wiring, run, drain, exit code. 0: ended in order; 1: could not run or was cut short; 2: wrong usage;
   78: the configuration is refused (EX_CONFIG). */
#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <openssl/crypto.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <uv.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/metric.h"
#include "conf/options.h"
#include "http/parser.h"
#include "io/loop.h"
#include "proxy/listener.h"
#include "proxy/probe.h"
#include "proxy/proxy.h"
#include "proxy/reload.h"
#include "proxy/settings.h"
#include "remote/fetch.h"

#define EXIT_USAGE 2
#define EXIT_CONFIG 78
#define OPEN_FILES_BESIDE 512 /* Redis, calls to OPA, profiles and keys, connections that are told to go */

extern char **environ;

enum job { JOB_RUN, JOB_CHECK, JOB_PRINT_CONFIG, JOB_PROBE };

struct run {
    struct proxy proxy;
    const struct conf_source *source;
    struct deadline drain_limit;
    bool cut_short;
};

static void on_signal(int signum, void *arg);
static void on_hangup(int signum, void *arg);
static void on_drained(struct proxy *p);
static void on_drain_limit(struct deadline *d);

static void usage(FILE *to)
{
    fputs("usage: doorward [CONFIG]                           run in the foreground\n"
          "       doorward [CONFIG] --check                  validate the configuration and exit\n"
          "       doorward [CONFIG] --print-config           effective values, secrets masked, and where each came from\n"
          "       doorward [CONFIG] --probe                  ask the running instance's /health\n"
          "       doorward --print-options | --print-sample  the table of options; a documented sample file\n"
          "       doorward --print-reasons | --print-metrics every way a request can end; every metric\n"
          "       doorward --version | --help\n"
          "CONFIG is --config FILE or --drop-in; else the file of DOORWARD_CONFIG, else /etc/doorward/doorward.yaml.\n",
          to);
}

static void print_version(void)
{
    printf("doorward %s (%s)\nlibuv %s\nllhttp %s\n%s\njansson %s\n" DOORWARD_LIBRARIES "%s\n", DOORWARD_VERSION, DOORWARD_BUILD,
           uv_version_string(), parser_version(), fetch_version(), jansson_version_str(),
           OpenSSL_version(OPENSSL_VERSION));
}

static int print_buf(void (*print)(struct buf *out))
{
    struct buf out;
    buf_init(&out, NULL);
    print(&out);
    fwrite(out.p, 1, out.n, stdout);
    buf_free(&out);
    return fflush(stdout) == 0 ? 0 : 1;
}

static void print_lines(struct buf *b)
{
    if (b->n) fwrite(b->p, 1, b->n, stderr);
    buf_free(b);
}

static struct conf *load(const struct conf_source *source)
{
    struct buf errors, warnings;
    buf_init(&errors, NULL);
    buf_init(&warnings, NULL);
    struct conf *conf = conf_load(source, &errors, &warnings);
    print_lines(&warnings);
    print_lines(&errors);
    return conf;
}

static void on_signal(int signum, void *arg)
{
    struct run *run = arg;
    struct proxy *p = &run->proxy;
    if (p->draining) {
        log_event(LOG_WARN, "ending_now", slice_str(signum == SIGINT ? "SIGINT" : "SIGTERM"));
        on_drain_limit(&run->drain_limit);
        return;
    }
    log_event(LOG_INFO, "draining", slice_str(signum == SIGINT ? "SIGINT" : "SIGTERM"));
    int64_t delay_ms = signum == SIGINT ? 0 : p->settings->conf->listen.drain_delay_ms; /* nobody waits at a keyboard */
    deadline_after(p->loop, &run->drain_limit, delay_ms + p->settings->conf->listen.drain_timeout_ms);
    proxy_drain(p, delay_ms);
}

/* Each connection may need another one to the API. What a process is given at first is often far less than it may have;
   with none left, no connection is made to anybody. */
static void raise_open_files(int64_t connections)
{
    struct rlimit files;
    rlim_t wanted = 2 * (rlim_t)connections + OPEN_FILES_BESIDE;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= wanted) return;
    files.rlim_cur = files.rlim_max < wanted ? files.rlim_max : wanted;
    setrlimit(RLIMIT_NOFILE, &files);
    if (files.rlim_cur >= wanted || !log_on(LOG_WARN)) return;
    struct log_line line;
    log_begin(&line, LOG_WARN, SLICE("open_files"));
    json_field_string(&line.json, "detail",
                      SLICE("fewer files may be open than listen.max_connections can need: raise the limit (ulimit -Hn, "
                            "LimitNOFILE) or lower the option"));
    json_field_int(&line.json, "may", (long long)files.rlim_cur);
    json_field_int(&line.json, "need", (long long)wanted);
    log_end(&line);
}

static void on_hangup(int signum, void *arg)
{
    struct run *run = arg;
    (void)signum;
    int64_t before = run->proxy.settings->conf->listen.max_connections;
    if (!reload(&run->proxy, run->source)) return;
    int64_t now = run->proxy.settings->conf->listen.max_connections;
    if (now != before) raise_open_files(now);
}

static void on_drained(struct proxy *p)
{
    loop_stop(p->loop);
}

static void on_drain_limit(struct deadline *d)
{
    struct run *run = container_of(d, struct run, drain_limit);
    run->cut_short = true;
    proxy_abort(&run->proxy);
    if (run->proxy.conns_n == 0) loop_stop(run->proxy.loop);
}

static bool listen_all(struct proxy *p, char **error)
{
    const struct conf *c = p->settings->conf;
    int port = c->listen.port, admin_port = c->admin.port;
    p->listeners[0] = listener_create(p, c->listen.host, c->listen.port, false, &port, error);
    if (!p->listeners[0]) return false;
    if (c->admin.host.n) {
        p->listeners[1] = listener_create(p, c->admin.host, c->admin.port, true, &admin_port, error);
        if (!p->listeners[1]) return false;
    }
    if (!log_on(LOG_INFO)) return true;
    struct log_line line;
    log_begin(&line, LOG_INFO, SLICE("started"));
    json_field_string(&line.json, "version", SLICE(DOORWARD_VERSION));
    json_field_string(&line.json, "address", c->listen.host);
    json_field_int(&line.json, "port", port);
    json_field_bool(&line.json, "tls", c->listen.tls.certificate.n > 0);
    if (c->admin.host.n) {
        json_field_string(&line.json, "admin_address", c->admin.host);
        json_field_int(&line.json, "admin_port", admin_port);
    }
    json_field_bool(&line.json, "drop_in", c->drop_in);
    log_end(&line);
    return true;
}

/* Who asks for a reload while we start gets it then: until there is a handler it would be our end. */
static void hold_hangup(bool held)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGHUP);
    sigprocmask(held ? SIG_BLOCK : SIG_UNBLOCK, &set, NULL);
}

static int run(struct settings *settings, const struct conf_source *source)
{
    const struct conf *conf = settings->conf;
    struct run r = {.source = source};
    struct proxy *p = &r.proxy;
    char *error = NULL;
    signal(SIGPIPE, SIG_IGN);
    log_open(STDOUT_FILENO, conf->log.level);
    raise_open_files(conf->listen.max_connections);
    metric_init(conf->serve.metrics_prefix.p);
    p->loop = loop_create();
    p->on_drained = on_drained;
    deadline_init(&r.drain_limit, on_drain_limit);
    loop_on_signal(p->loop, SIGTERM, on_signal, &r);
    loop_on_signal(p->loop, SIGINT, on_signal, &r);
    loop_on_signal(p->loop, SIGHUP, on_hangup, &r);
    hold_hangup(false);
    bool running = proxy_start(p, settings, &error) && listen_all(p, &error);
    metric_set(METRIC_UP_SINCE, NULL, (double)(loop_wall_ms(p->loop) / 1000));
    if (running) {
        loop_serve(p->loop);
    } else {
        fprintf(stderr, "doorward: %s\n", error);
        free(error);
        proxy_abort(p);
    }
    deadline_stop(&r.drain_limit);
    proxy_finish(p);
    loop_close(p->loop);
    bool whole = loop_end(p->loop);
    if (running) log_event(LOG_INFO, "ended", r.cut_short ? SLICE("cut short") : SLICE("drained"));
    int code = running && !r.cut_short ? 0 : 1;
    if (!whole) {
        log_close();
        _exit(code);
    }
    proxy_free(p);
    loop_destroy(p->loop);
    metric_finish();
    log_close();
    arena_trim();
    return code;
}

static int with_config(enum job job, const struct conf_source *source)
{
    struct conf *conf = load(source);
    if (!conf) return EXIT_CONFIG;
    char *error = NULL;
    struct settings *settings = settings_create(conf, &error);
    int code = EXIT_CONFIG;
    if (!settings) {
        fprintf(stderr, "%s\n", error);
        free(error);
    } else if (job == JOB_CHECK) {
        puts("the configuration is valid");
        code = 0;
    } else if (job == JOB_PRINT_CONFIG) {
        struct buf out;
        buf_init(&out, NULL);
        conf_print(conf, &out);
        fwrite(out.p, 1, out.n, stdout);
        buf_free(&out);
        code = 0;
    } else if (job == JOB_RUN) {
        return run(settings, source);
    } else {
        code = probe_health(conf);
    }
    if (settings) settings_release(settings);
    return code;
}

int main(int argc, char **argv)
{
    enum { CONFIG = 256, DROP_IN, CHECK_ONLY, CONFIG_PRINT, OPTIONS, SAMPLE, REASONS, METRICS, PROBE, VERSION };
    static const struct option options[] = {
        {"config", required_argument, NULL, CONFIG},       {"drop-in", no_argument, NULL, DROP_IN},
        {"check", no_argument, NULL, CHECK_ONLY},          {"print-config", no_argument, NULL, CONFIG_PRINT},
        {"print-options", no_argument, NULL, OPTIONS},     {"print-sample", no_argument, NULL, SAMPLE},
        {"print-reasons", no_argument, NULL, REASONS},     {"print-metrics", no_argument, NULL, METRICS},
        {"probe", no_argument, NULL, PROBE},               {"version", no_argument, NULL, VERSION},
        {"help", no_argument, NULL, 'h'},                  {NULL, 0, NULL, 0},
    };
    /* Names are resolved in half of libuv's threads: one that hangs has one of them. Before the environment is read. */
    setenv("UV_THREADPOOL_SIZE", "32", 0);
    struct conf_source source = {.environ = environ};
    enum job job = JOB_RUN;
    int o;
    while ((o = getopt_long(argc, argv, "hc:", options, NULL)) != -1) {
        switch (o) {
        case CONFIG:
        case 'c':
            source.file = optarg;
            break;
        case DROP_IN:
            source.drop_in = true;
            break;
        case CHECK_ONLY:
            job = JOB_CHECK;
            break;
        case CONFIG_PRINT:
            job = JOB_PRINT_CONFIG;
            break;
        case PROBE:
            job = JOB_PROBE;
            break;
        case OPTIONS:
            return print_buf(conf_print_options);
        case SAMPLE:
            return print_buf(conf_print_sample);
        case REASONS:
            return print_buf(reason_table);
        case METRICS:
            return print_buf(metric_table);
        case VERSION:
            print_version();
            return 0;
        case 'h':
            usage(stdout);
            return 0;
        default:
            usage(stderr);
            return EXIT_USAGE;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "doorward: unexpected argument: %s\n", argv[optind]);
        usage(stderr);
        return EXIT_USAGE;
    }
    source.taken = job == JOB_RUN ? conf_taken_create() : NULL;
    hold_hangup(job == JOB_RUN);
    int code = with_config(job, &source);
    conf_taken_destroy(source.taken);
    return code;
}
