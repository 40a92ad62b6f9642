/* conf/policies: the files of policy.path: one .rego file, one bundle (.tar.gz), or of a folder and those below it
   *.rego, data.json, data.yaml and .manifest. Left out: tests (*_test.rego), what is hidden (the ..data of Kubernetes among
   it, which the names beside it point into), and the copies that editors leave. Symbolic links are followed. */
#ifndef CONF_POLICIES_H
#define CONF_POLICIES_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "conf/options.h"

/* As they stand in conf/options.h one behind the other. */
struct policies {
    struct slice path;
    struct conf_policy *v; /* by name */
    size_t n;
    uint64_t mark;
};

/* Reads what is at out->path, which is kept by pointer. NULL when read, else what is wrong, in a. pipe_ms: as of
   source_file. */
const char *policies_read(struct arena *a, int64_t *pipe_ms, struct policies *out);

/* The same with the tests among them, for `doorward test`. */
const char *policies_read_tests(struct arena *a, int64_t *pipe_ms, struct policies *out);

/* Another one when a file there is another, or has other contents, going by what the file system says of it; cheap, and
   not 0. 0: something cannot be looked at. */
uint64_t policies_mark(const char *path);

#endif
