/* authz/shape: jq programs that turn a profile into a context and a decision into a header. Compiled at load, run on a
   miss only (36 us). No modules, no environment, no input builtins that reach outside. */
#ifndef AUTHZ_SHAPE_H
#define AUTHZ_SHAPE_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/slice.h"

struct shape;

/* name: for messages (a path). *error: heap text with the name, what jq said, and where. */
struct shape *shape_compile(const char *name, struct slice program, char **error);
void shape_destroy(struct shape *s);

/* input: JSON text. The program's first output goes to out as ASCII JSON without spaces. False when the input is not
   JSON, the program fails or has no output: *error is a heap text for the log then (free it; may be given NULL). */
bool shape_run(struct shape *s, struct slice input, struct buf *out, char **error);

#endif
