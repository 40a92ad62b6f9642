/* rego: Rego policies, evaluated in this process. The C side of a small Rust library around the regorus crate; nothing
   else of this folder is for C. All texts are UTF-8 with a length; nothing here blocks, opens a file or knows a clock but
   the one of the evaluation. A panic inside comes back as REGO_FAILED, never as an abort. */
#ifndef REGO_H
#define REGO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rego_text { /* made by the library: rego_text_free */
    char *p;
    size_t n;
};

struct rego_file { /* name: path relative to the root, '/' between; NAME.rego, data.json, data.yaml, .manifest, *.tar.gz */
    const char *name;
    size_t name_n;
    const void *bytes;
    size_t n;
};

enum rego_outcome {
    REGO_FAILED,    /* an error of the policy's, or of the engine's: text says what and where */
    REGO_UNDEFINED, /* the rule has no value for this input */
    REGO_ANSWERED,  /* text is the rule's value as JSON */
    REGO_LIMIT,     /* over its time, or its memory */
};

struct rego_limits {
    uint64_t time_us;    /* of the wall clock; 0: none */
    size_t answer_bytes; /* a larger answer is REGO_LIMIT; 0: none */
};

/* Policies and data, compiled for one rule; immutable. To be used by one thread at a time; rego_again makes another. */
struct rego;

/* rule: data.a.b.c, a rule of the policies. Everything is checked here: what does not parse or compile, two packages that
   clash, a rule that is nowhere, a built-in function that this engine has not. NULL: *error says all of it, one finding a
   line, FILE:LINE:COLUMN: what. A file named *.tar.gz is a bundle of OPA's and is opened. *_test.rego is left out. */
struct rego *rego_create(const struct rego_file *files, size_t n, const char *rule, size_t rule_n, struct rego_text *error);
/* For another thread: shares all that can be shared. */
struct rego *rego_again(const struct rego *r);
void rego_free(struct rego *r); /* NULL: nothing */
/* Not 0; the same for the same files. Of their contents, with .manifest's revision among them. */
uint64_t rego_revision(const struct rego *r);
/* Is the rule compiled to instructions, which are several times faster? Else it is interpreted, with the same answers. */
bool rego_is_compiled(const struct rego *r);

/* input: one JSON value. text: the answer or the error, always made. */
enum rego_outcome rego_eval(struct rego *r, const char *input, size_t n, const struct rego_limits *limits,
                            struct rego_text *text);

struct rego_test { /* one rule test_… of the files */
    const char *name; /* data.package.test_x */
    const char *place; /* FILE:LINE */
    const char *message; /* of a failure, or empty; and what it printed */
    bool passed, skipped;
    size_t cases, failed_cases; /* of a rule test_x[case]; both 0 where there are none, or they are not known */
    uint64_t took_ns;
};

/* Runs all test_ rules of all files, *_test.rego among them; each is told as it ends; text and times are valid inside the
   call. False: they did not compile; *error as above. */
bool rego_test(const struct rego_file *files, size_t n, const struct rego_limits *limits,
               void (*on_test)(const struct rego_test *t, void *arg), void *arg, struct rego_text *error);

void rego_text_free(struct rego_text *t); /* leaves it empty */
const char *rego_version(void);           /* "regorus 0.14.1" */

#endif
