/* conf/values: a node to the value of an option, by its kind. */
#ifndef CONF_VALUES_H
#define CONF_VALUES_H

#include "conf/load.h"

/* Fields of compound kinds, as they stand in conf/options.h one behind the other. */
struct address {
    struct slice host;
    int port;
};
struct nets {
    struct conf_net *v;
    size_t n;
};
struct named_text { /* of a file, and the file */
    struct slice text, name;
};
struct route_path {
    struct slice path;
    bool prefix;
};

/* Reads n (NULL: the option's default) into the option's field of base and records it under path, the option's whole
   path. False when it was wrong: a problem has been told. keep_default: record a default as well. Not for tables, nor
   for secrets' files. */
bool value_read(struct load *l, const struct option *o, const char *path, const struct node *n, void *base,
                bool keep_default);

/* The contents of the file that n names, without a line end behind it, as a node that value_read reads. NULL when it
   cannot be read: a problem has been told. */
struct node *value_from_file(struct load *l, const char *path, const struct node *n);

bool value_is_secret(enum option_kind kind);
bool value_is_list(enum option_kind kind);
/* What the docs call it: "whole number", "list of methods". */
const char *value_kind_name(enum option_kind kind);

#endif
