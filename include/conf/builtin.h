/* conf/builtin: the files of config/builtin.list, in the binary. Named "builtin:<path below config/>" in options. */
#ifndef CONF_BUILTIN_H
#define CONF_BUILTIN_H

#include "base/slice.h"

struct builtin {
    const char *name;    /* NULL ends the table */
    struct slice bytes;  /* a NUL stands behind them */
};

extern const struct builtin builtins[];

#endif
