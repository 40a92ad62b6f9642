/* authz/rego_engine: called by wire for what is configured and by question for each evaluation. Refuses whatever the
   library did not say: a failure of the policy's, of its time, of the library's are answers that allow nothing. */
#include "authz/rego_engine.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/check.h"

#ifdef DOORWARD_REGO
#include <rego.h>

struct rego_engine {
    struct rego *rego;
};

const char *rego_engine_version(void)
{
    return rego_version();
}

static char *text_of(struct rego_text *t)
{
    char *copy = xmalloc(t->n + 1);
    if (t->n) memcpy(copy, t->p, t->n);
    copy[t->n] = '\0';
    rego_text_free(t);
    return copy;
}

static struct rego_engine *engine_of(struct rego *rego)
{
    struct rego_engine *e = xzalloc(sizeof *e);
    e->rego = rego;
    return e;
}

static struct rego_file *files_of(const struct rego_source *files, size_t n)
{
    struct rego_file *given = xzalloc((n + 1) * sizeof *given);
    for (size_t i = 0; i < n; i++)
        given[i] = (struct rego_file){files[i].name.p, files[i].name.n, files[i].bytes.p, files[i].bytes.n};
    return given;
}

struct rego_engine *rego_engine_create(const struct rego_source *files, size_t n, struct slice rule, char **error)
{
    struct rego_text wrong = {NULL, 0};
    struct rego_file *given = files_of(files, n);
    struct rego *rego = rego_create(given, n, rule.p, rule.n, &wrong);
    free(given);
    if (!rego) *error = text_of(&wrong);
    return rego ? engine_of(rego) : NULL;
}

struct rego_engine *rego_engine_again(const struct rego_engine *e)
{
    return engine_of(rego_again(e->rego));
}

void rego_engine_destroy(struct rego_engine *e)
{
    if (!e) return;
    rego_free(e->rego);
    free(e);
}

uint64_t rego_engine_revision(const struct rego_engine *e)
{
    return rego_revision(e->rego);
}

bool rego_engine_is_compiled(const struct rego_engine *e)
{
    return rego_is_compiled(e->rego);
}

static void evaluate(struct rego_engine *e, struct slice input, const struct rego_limits *limits, struct rego_said *out)
{
    static const enum rego_word words[] = {[REGO_FAILED] = REGO_SAID_FAILED,
                                           [REGO_UNDEFINED] = REGO_SAID_UNDEFINED,
                                           [REGO_ANSWERED] = REGO_SAID,
                                           [REGO_LIMIT] = REGO_SAID_LIMIT};
    struct rego_text text = {NULL, 0};
    out->word = words[rego_eval(e->rego, input.p, input.n, limits, &text)];
    out->n = text.n;
    out->text = text_of(&text);
}

struct listener {
    void (*on_verdict)(const struct rego_verdict *v, void *arg);
    void *arg;
};

static void on_test(const struct rego_test *t, void *arg)
{
    const struct listener *l = arg;
    const struct rego_verdict v = {t->name, t->place, t->message, t->passed,           t->skipped,
                                   t->cases, t->failed_cases, (int64_t)(t->took_ns / 1000)};
    l->on_verdict(&v, l->arg);
}

bool rego_engine_test(const struct rego_source *files, size_t n, int64_t limit_ms,
                      void (*on_verdict)(const struct rego_verdict *v, void *arg), void *arg, char **error)
{
    struct rego_text wrong = {NULL, 0};
    struct rego_file *given = files_of(files, n);
    struct listener listener = {on_verdict, arg};
    const struct rego_limits limits = {.time_us = (uint64_t)limit_ms * 1000};
    bool ran = rego_test(given, n, &limits, on_test, &listener, &wrong);
    free(given);
    if (!ran) *error = text_of(&wrong);
    return ran;
}

#else

struct rego_limits {
    uint64_t time_us;
    size_t answer_bytes;
};

const char *rego_engine_version(void)
{
    return NULL;
}

struct rego_engine *rego_engine_create(const struct rego_source *files, size_t n, struct slice rule, char **error)
{
    (void)files, (void)n, (void)rule;
    *error = xstrdup("this program is built without the engine for it (build option DOORWARD_EMBEDDED_REGO), expected "
                     "policy.url, or another build");
    return NULL;
}

bool rego_engine_test(const struct rego_source *files, size_t n, int64_t limit_ms,
                      void (*on_verdict)(const struct rego_verdict *v, void *arg), void *arg, char **error)
{
    (void)files, (void)n, (void)limit_ms, (void)on_verdict, (void)arg;
    *error = xstrdup("this program is built without the engine for it (build option DOORWARD_EMBEDDED_REGO)");
    return false;
}

struct rego_engine *rego_engine_again(const struct rego_engine *e)
{
    (void)e;
    CHECK(false, "without the library there is no engine");
    return NULL;
}

void rego_engine_destroy(struct rego_engine *e)
{
    (void)e;
}

uint64_t rego_engine_revision(const struct rego_engine *e)
{
    (void)e;
    return 0;
}

bool rego_engine_is_compiled(const struct rego_engine *e)
{
    (void)e;
    return false;
}

static void evaluate(struct rego_engine *e, struct slice input, const struct rego_limits *limits, struct rego_said *out)
{
    (void)e, (void)input, (void)limits, (void)out;
}

#endif

static int64_t now_us(void)
{
    struct timespec t;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &t) == 0, "the clock must be readable");
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

void rego_engine_evaluate(struct rego_engine *e, struct slice input, int64_t limit_ms, size_t answer_bytes,
                          struct rego_said *out)
{
    const struct rego_limits limits = {.time_us = (uint64_t)limit_ms * 1000, .answer_bytes = answer_bytes};
    *out = (struct rego_said){.word = REGO_SAID_NOTHING};
    int64_t began_us = now_us();
    evaluate(e, input, &limits, out);
    out->took_us = now_us() - began_us;
}

void rego_said_free(struct rego_said *said)
{
    free(said->text);
    *said = (struct rego_said){.word = REGO_SAID_NOTHING};
}
