/* proxy/policies: policy.path: its files to the engine in this process. */
#ifndef PROXY_POLICIES_H
#define PROXY_POLICIES_H

#include <stdbool.h>

#include "authz/rego_engine.h"
#include "base/json.h"
#include "conf/options.h"
#include "proxy/settings.h"

/* *out NULL: there is no policy.path. False: *error is a heap text, one finding a line, each with the option and where
   it is: "policy.path: FILE:LINE:COLUMN: what". */
bool policies_compile(const struct conf *c, struct rego_engine **out, char **error);

/* Members for /ready and /health: engine, rule, revision. There is a policy.path. */
void policies_write(const struct settings *s, struct json *j);

#endif
