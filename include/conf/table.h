/* conf/table: the options as tables, made from options.def, upstream.def, issuer.def, route.def. What is read, checked
   for unknown keys, printed and documented comes from here. */
#ifndef CONF_TABLE_H
#define CONF_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

enum option_kind {
    KIND_INT, KIND_COUNT_AUTO, KIND_DOUBLE, KIND_BOOL, KIND_CHOICE,
    /* texts */
    KIND_TEXT, KIND_PREFIX_NAME, KIND_PATH_TEXT, KIND_URL, KIND_NAMED_URL, KIND_BASE_URL, KIND_HEADER, KIND_ADDRESS,
    KIND_ROUTE_PATH, KIND_ROUTE_PREFIX, KIND_STRIP, KIND_RESOURCE, KIND_REFERENCE, KIND_RULE,
    /* secrets: each also as <key>_file */
    KIND_SECRET, KIND_SECRET_URL, KIND_KEY,
    /* names of files, whose contents are kept */
    KIND_FILE, KIND_SHAPE, KIND_PEM_FILE, KIND_KEY_FILE,
    KIND_POLICIES, /* a file, or a folder with what is below it */
    /* lists of texts */
    KIND_TEXTS, KIND_BASE_URLS, KIND_HOSTS, KIND_NETS, KIND_METHODS, KIND_HEADERS, KIND_STRIP_HEADERS, KIND_ORIGINS, KIND_ALGORITHMS,
    KIND_QUERY,
    /* tables */
    KIND_UPSTREAM, KIND_UPSTREAMS, KIND_ISSUERS, KIND_ROUTES,
    KIND_COUNT
};

struct option {
    const char *path;     /* dotted, below the table's own place */
    enum option_kind kind;
    size_t offset, size;  /* of the field in the table's struct */
    const char *fallback; /* "" none */
    int64_t least, most;  /* both 0: not limited here */
    const char *choices;  /* "a|b" */
    const char *sample;
    const char *help;
};

struct table {
    const struct option *rows;
    size_t n;
    size_t size; /* of its struct */
};

extern const struct table table_options, table_upstream, table_issuer, table_route;

/* The table below a row of one of the last four kinds, else NULL. */
const struct table *table_below(enum option_kind kind);

/* "DOORWARD_" + prefix + path in capitals, dots as _. */
const char *table_variable(struct arena *a, const char *prefix, const char *path, const char *suffix);

#endif
