/* proxy/policies: policy.path: its files to the engine in this process. */
#ifndef PROXY_POLICIES_H
#define PROXY_POLICIES_H

#include <stdbool.h>
#include <stdint.h>

#include "authz/rego_engine.h"
#include "base/json.h"
#include "conf/options.h"
#include "proxy/settings.h"

/* *out NULL: there is no policy.path. False: *error is a heap text, one finding a line, each with the option and where
   it is: "policy.path: FILE:LINE:COLUMN: what". */
bool policies_compile(const struct conf *c, struct rego_engine **out, char **error);

#define POLICIES_LOOK_MS 2000

struct policies_watch { /* zeroed at first */
    uint64_t last, tried;
};

/* Are there other files at policy.path than those in force, the same ones at two looks? Each state of them is told once. */
bool policies_changed(struct policies_watch *w, const struct conf *c);

/* Members for /ready and /health: engine, rule, revision. There is a policy.path. */
void policies_write(const struct settings *s, struct json *j);

#endif
