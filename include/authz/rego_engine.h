/* authz/rego_engine: Rego policies evaluated in this process; the door to rego.h. In a build without the library
   everything compiles and nothing can be created. */
#ifndef AUTHZ_REGO_ENGINE_H
#define AUTHZ_REGO_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

struct rego_engine; /* policies compiled for one rule; for one thread at a time */

struct rego_source { /* a file of the policies; the name is relative to their folder */
    struct slice name;
    struct slice bytes;
};

enum rego_word { REGO_SAID_NOTHING, REGO_SAID_FAILED, REGO_SAID_UNDEFINED, REGO_SAID_LIMIT, REGO_SAID };

/* What an evaluation gave; rego_said_free. Zeroed: nothing, which is read as a failure. */
struct rego_said {
    enum rego_word word;
    char *text; /* heap: the rule's value as JSON; or what went wrong, and where */
    size_t n;
    int64_t took_us;
};

const char *rego_engine_version(void); /* NULL: the program is built without it */

/* rule: data.a.b. NULL: *error is a heap text, one finding a line, each beginning with the name of its file where it is of
   one. */
struct rego_engine *rego_engine_create(const struct rego_source *files, size_t n, struct slice rule, char **error);
/* For another thread. */
struct rego_engine *rego_engine_again(const struct rego_engine *e);
void rego_engine_destroy(struct rego_engine *e); /* NULL: nothing */
uint64_t rego_engine_revision(const struct rego_engine *e); /* of the files' contents; not 0 */
/* Is the rule compiled, which makes it several times cheaper? Else it is interpreted. */
bool rego_engine_is_compiled(const struct rego_engine *e);

/* input: JSON, what a policy sees as `input`. May be called on any thread; touches nothing but e and out. */
void rego_engine_evaluate(struct rego_engine *e, struct slice input, int64_t limit_ms, size_t answer_bytes,
                          struct rego_said *out);
void rego_said_free(struct rego_said *said);

struct rego_verdict { /* of one rule test_…; the texts are valid inside the call */
    const char *name;    /* data.package.test_x */
    const char *place;   /* FILE:LINE */
    const char *message; /* why it failed, and what it printed, a line each; or empty */
    bool passed, skipped;
    size_t cases, failed_cases; /* of a rule test_x[case]; both 0 where there are none, or they are not known */
    int64_t took_us;
};

/* Runs the tests of the files, each for limit_ms at most, and tells each as it ends. False: *error as of
   rego_engine_create. */
bool rego_engine_test(const struct rego_source *files, size_t n, int64_t limit_ms,
                      void (*on_verdict)(const struct rego_verdict *v, void *arg), void *arg, char **error);

#endif
