/* main: arguments, and which job: to serve alone, or to supervise those who do; exit code. 0: ended in order; 1: could not
   run or was cut short; 2: wrong usage; 78: the configuration is refused (EX_CONFIG). */
#include <getopt.h>
#include <jansson.h>
#include <malloc.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "authz/rego_engine.h"
#include "base/metric.h"
#include "conf/options.h"
#include "http/parser.h"
#include "proxy/eval.h"
#include "proxy/policy_test.h"
#include "proxy/probe.h"
#include "proxy/serve.h"
#include "proxy/settings.h"
#include "proxy/supervisor.h"
#include "remote/fetch.h"

#define EXIT_USAGE 2
#define EXIT_CONFIG 78
#define OWN_MAPPING_BYTES (128 * 1024) /* a block of that size goes back to the system when it is freed */
#define HEAPS 2                        /* the loop's, and one for the threads: names, policies */

extern char **environ;

enum job { JOB_RUN, JOB_CHECK, JOB_PRINT_CONFIG, JOB_PROBE };

static void usage(FILE *to)
{
    fputs("usage: doorward [CONFIG]                           run in the foreground\n"
          "       doorward [CONFIG] --check                  validate the configuration and exit\n"
          "       doorward [CONFIG] --print-config           effective values, secrets masked, and where each came from\n"
          "       doorward [CONFIG] --probe                  ask the running instance's /health\n"
          "       doorward eval [CONFIG] ... METHOD PATH      explain one request; eval --help says how\n"
          "       doorward test [options] PATH...             run the tests of policies; test --help says how\n"
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
    if (rego_engine_version()) printf("%s\n", rego_engine_version());
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

static int with_config(enum job job, const struct conf_source *source)
{
    struct conf *conf = load(source);
    if (!conf) return EXIT_CONFIG;
    char *error = NULL;
    unsigned workers = workers_of(conf);
    if (job == JOB_RUN) workers_share(conf, workers);
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
        return workers > 1 ? supervise(settings, source, workers) : serve(settings, source, NULL);
    } else {
        code = probe_health(conf);
    }
    if (settings) settings_release(settings);
    return code;
}

static int explain(int argc, char **argv)
{
    struct conf_source source = {.environ = environ};
    struct eval_asked asked;
    int code = eval_read(argc, argv, &source, &asked);
    if (code >= 0) return code;
    struct conf *conf = load(&source);
    if (conf) return eval_run(&asked, conf);
    eval_forget(&asked);
    return EXIT_CONFIG;
}

/* glibc would learn from the first large block that is freed to keep the next ones in the heap, where a small block behind
   them holds all of it: after each burst the process would stay as large as the burst made it. */
static void keep_memory_small(void)
{
    mallopt(M_MMAP_THRESHOLD, OWN_MAPPING_BYTES);
    mallopt(M_TRIM_THRESHOLD, 2 * OWN_MAPPING_BYTES);
    mallopt(M_ARENA_MAX, HEAPS);
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
    keep_memory_small();
    /* Names are resolved in half of libuv's threads: one that hangs has one of them. Policies are evaluated in at most 16
       (policy.threads), so that at least 16 are there for names; for as long as those of a reload and those before it both
       evaluate, a name waits for the next that is free, policy.eval_limit_ms at most. Before the environment is read. */
    setenv("UV_THREADPOOL_SIZE", "32", 0);
    if (argc > 1 && strcmp(argv[1], "test") == 0) return policy_test(argc - 1, argv + 1);
    if (argc > 1 && strcmp(argv[1], "eval") == 0) return explain(argc - 1, argv + 1);
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
    serve_hold_hangup(job == JOB_RUN);
    int code = with_config(job, &source);
    conf_taken_destroy(source.taken);
    return code;
}
