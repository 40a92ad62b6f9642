/* proxy/policy_test: reads files and folders as policy.path does, tests among them, and prints what the engine says of each
   test. Called by main. What policies print is written without its control characters. */
#include "proxy/policy_test.h"

#include <getopt.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "authz/rego_engine.h"
#include "base/arena.h"
#include "base/check.h"
#include "base/json.h"
#include "conf/policies.h"

#define EXIT_FAILED 1
#define EXIT_USAGE 2
#define EXIT_CONFIG 78
#define PIPE_MS 10000
#define LIMIT_S_DEFAULT 60
#define LIMIT_S_MAX 86400

struct testing {
    bool verbose, as_json;
    regex_t only;
    bool has_only;
    int64_t limit_ms;
    struct rego_source *files;
    size_t n;
    size_t passed, failed, skipped;
    struct buf rows; /* JSON */
    struct json json;
};

static void usage(FILE *to)
{
    fputs("usage: doorward test [options] PATH...   run the tests of policies: rules named test_...\n"
          "PATH is a .rego file, or a folder of policies and their tests (*_test.rego) with data.json or data.yaml.\n"
          "  -v, --verbose      tests that passed too\n"
          "  -r, --run REGEX    only those whose name (data.package.test_x) matches; the others run, but do not count\n"
          "  --timeout SECONDS  for each test, 60\n"
          "  --json             one JSON document\n"
          "Exit: 0 at least one ran and all passed, 1 not so, 2 wrong usage, 78 a policy cannot be read or compiled.\n",
          to);
}

/* As it is but for control characters; further lines are indented. */
static void print_text(const char *text)
{
    for (const char *c = text; *c; c++) {
        bool control = (unsigned char)*c < ' ' || *c == 0x7f;
        if (*c == '\n') fputs("\n  ", stdout);
        else putchar(control && *c != '\t' ? '?' : *c);
    }
}

static const char *word_of(const struct rego_verdict *v)
{
    return v->skipped ? "SKIPPED" : v->passed ? "PASS" : "FAIL";
}

static void print_verdict(const struct testing *t, const struct rego_verdict *v)
{
    if (v->passed && !t->verbose) return;
    print_text(v->name);
    printf(": %s", word_of(v));
    if (!v->skipped) printf(" (%lld.%03lld ms)", (long long)(v->took_us / 1000), (long long)(v->took_us % 1000));
    fputs("  ", stdout);
    print_text(v->place);
    if (v->cases) printf(", %zu cases", v->cases);
    if (*v->message) {
        fputs("\n  ", stdout);
        print_text(v->message);
    }
    putchar('\n');
    fflush(stdout);
}

static void add_row(struct testing *t, const struct rego_verdict *v)
{
    const char *colon = strrchr(v->place, ':');
    struct slice file = slice_make(v->place, colon ? (size_t)(colon - v->place) : strlen(v->place));
    struct json *j = &t->json;
    json_object_start(j);
    json_field_string(j, "name", slice_str(v->name));
    json_field_string(j, "file", file);
    json_field_int(j, "line", colon ? atoll(colon + 1) : 0);
    json_field_string(j, "outcome", v->skipped ? SLICE("skipped") : v->passed ? SLICE("passed") : SLICE("failed"));
    if (v->cases) {
        json_field_int(j, "cases", (long long)v->cases);
        json_field_int(j, "failed_cases", (long long)v->failed_cases);
    }
    if (*v->message) json_field_string(j, "message", slice_str(v->message));
    json_field(j, "ms");
    json_thousandths(j, (uint64_t)v->took_us);
    json_object_end(j);
}

/* Each case counts, as to `opa test`. */
static void count_cases(struct testing *t, const struct rego_verdict *v)
{
    t->passed += v->cases - v->failed_cases;
    t->failed += v->failed_cases;
}

static void on_verdict(const struct rego_verdict *v, void *arg)
{
    struct testing *t = arg;
    if (t->has_only && regexec(&t->only, v->name, 0, NULL, 0) != 0) return;
    if (v->skipped) t->skipped++;
    else if (v->cases) count_cases(t, v);
    else if (v->passed) t->passed++;
    else t->failed++;
    if (t->as_json)
        add_row(t, v);
    else
        print_verdict(t, v);
}

/* Policies are called what can be opened from here; data by its place below the folder, which says where it stands. */
static void take_files(struct testing *t, struct arena *a, const char *path, const struct policies *read)
{
    t->files = xrealloc(t->files, (t->n + read->n + 1) * sizeof *t->files);
    size_t path_n = strlen(path);
    while (path_n > 1 && path[path_n - 1] == '/') path_n--;
    for (size_t i = 0; i < read->n; i++) {
        struct slice name = read->v[i].name;
        bool single = read->n == 1 && path_n >= name.n && memcmp(path + path_n - name.n, name.p, name.n) == 0;
        bool policy = name.n > 5 && memcmp(name.p + name.n - 5, ".rego", 5) == 0;
        if (single) name = slice_make(path, path_n);
        else if (policy) name = arena_printf(a, "%.*s/%.*s", (int)path_n, path, (int)name.n, name.p);
        t->files[t->n++] = (struct rego_source){name, read->v[i].bytes};
    }
}

static bool read_paths(struct testing *t, struct arena *a, char **paths, int n)
{
    bool good = true;
    for (int i = 0; i < n; i++) {
        int64_t pipe_ms = PIPE_MS;
        struct policies read = {.path = slice_str(paths[i])};
        const char *wrong = policies_read_tests(a, &pipe_ms, &read);
        if (wrong) fprintf(stderr, "doorward test: %s: %s\n", paths[i], wrong);
        else take_files(t, a, paths[i], &read);
        good &= !wrong;
    }
    return good;
}

static void print_summary(const struct testing *t)
{
    if (!t->as_json) {
        if (t->passed + t->failed + t->skipped == 0) puts("no test ran");
        printf("%zu passed, %zu failed", t->passed, t->failed);
        printf(t->skipped ? ", %zu skipped\n" : "\n", t->skipped);
        return;
    }
    printf("{\"tests\":[%.*s],\"passed\":%zu,\"failed\":%zu,\"skipped\":%zu}\n", (int)t->rows.n, t->rows.n ? t->rows.p : "",
           t->passed, t->failed, t->skipped);
}

static int run(struct testing *t, char **paths, int n)
{
    struct arena arena;
    char *error = NULL;
    int code = EXIT_CONFIG;
    arena_init(&arena);
    if (read_paths(t, &arena, paths, n)) {
        if (rego_engine_test(t->files, t->n, t->limit_ms, on_verdict, t, &error)) {
            print_summary(t);
            code = t->failed || !t->passed ? EXIT_FAILED : 0;
        } else {
            fprintf(stderr, "%s\n", error);
        }
    }
    free(error);
    free(t->files);
    arena_reset(&arena);
    arena_trim();
    return fflush(stdout) == 0 ? code : EXIT_FAILED;
}

static bool take_limit(struct testing *t, const char *text)
{
    long long seconds;
    if (!slice_to_int(slice_str(text), &seconds) || seconds < 1 || seconds > LIMIT_S_MAX) return false;
    t->limit_ms = seconds * 1000;
    return true;
}

static bool take_only(struct testing *t, const char *text)
{
    if (t->has_only) regfree(&t->only);
    t->has_only = regcomp(&t->only, text, REG_EXTENDED | REG_NOSUB) == 0;
    return t->has_only;
}

/* -1: go on; else an exit code. */
static int read_arguments(struct testing *t, int argc, char **argv)
{
    enum { AS_JSON = 256, TIMEOUT };
    static const struct option options[] = {
        {"verbose", no_argument, NULL, 'v'}, {"run", required_argument, NULL, 'r'},
        {"json", no_argument, NULL, AS_JSON}, {"timeout", required_argument, NULL, TIMEOUT},
        {"help", no_argument, NULL, 'h'},    {NULL, 0, NULL, 0},
    };
    int o;
    while ((o = getopt_long(argc, argv, "hvr:", options, NULL)) != -1) {
        const char *wrong = NULL;
        switch (o) {
        case 'v':
            t->verbose = true;
            break;
        case 'r':
            if (!take_only(t, optarg)) wrong = "--run takes a regular expression (POSIX, extended)";
            break;
        case AS_JSON:
            t->as_json = true;
            break;
        case TIMEOUT:
            if (!take_limit(t, optarg)) wrong = "--timeout takes whole seconds, 1 to 86400";
            break;
        case 'h':
            usage(stdout);
            return 0;
        default:
            usage(stderr);
            return EXIT_USAGE;
        }
        if (!wrong) continue;
        fprintf(stderr, "doorward test: %s\n", wrong);
        return EXIT_USAGE;
    }
    if (optind < argc) return -1;
    usage(stderr);
    return EXIT_USAGE;
}

int policy_test(int argc, char **argv)
{
    struct testing t = {.limit_ms = LIMIT_S_DEFAULT * 1000};
    buf_init(&t.rows, NULL);
    json_init(&t.json, &t.rows);
    int code = read_arguments(&t, argc, argv);
    if (code < 0 && !rego_engine_version()) {
        fputs("doorward test: this program is built without the policy engine: build it where Rust's cargo is "
              "(scripts/deps, build option DOORWARD_EMBEDDED_REGO)\n",
              stderr);
        code = EXIT_FAILED;
    }
    if (code < 0) code = run(&t, argv + optind, argc - optind);
    if (t.has_only) regfree(&t.only);
    buf_free(&t.rows);
    return code;
}
