/* conf/load: what one conf_load works with, and what it keeps behind the struct conf it gives. */
#ifndef CONF_LOAD_H
#define CONF_LOAD_H

#include "conf/node.h"
#include "conf/options.h"
#include "conf/table.h"

struct conf_record { /* one option as it came out, for conf_print */
    const char *path;
    struct slice value;  /* masked already */
    struct slice origin; /* "default", "file:line", "environment NAME" */
    struct conf_record *next;
};

struct conf_secret { /* bytes to be wiped in the end */
    struct slice text;
    struct conf_secret *next;
};

struct conf_whole {
    struct conf conf; /* first: conf_destroy gets here from it */
    struct arena arena;
    struct conf_record *records, *last_record;
    struct conf_secret *secrets;
    struct conf_files *files; /* what it was read from, where policies can change beside it; else NULL */
};

struct load {
    struct problems problems;    /* its arena holds the tree and whatever else ends with the load */
    struct arena *kept;          /* what the configuration points to: the whole's */
    struct buf *warnings;
    struct conf_whole *whole;
    char **environ;
    struct conf_taken *store;    /* conf_source.taken */
    const char *file;            /* the document's name in messages, or NULL */
    const char *folder;          /* what names of files are relative to; "" the working folder */
    int64_t pipe_ms;             /* what is left of the time to wait for pipes */
    bool drop_in;
    struct node_variable *taken; /* variables that held secrets */
    struct conf_secret *seen;    /* bytes of secrets in the tree */
};

/* A secret in the tree: its bytes are wiped when the load ends, and the variables it came from are taken out of the
   environment then. */
void load_secret(struct load *l, struct slice text, const struct node *n);
/* A copy that is kept; of a secret (wiped with the configuration) or of anything else. */
struct slice load_keep_secret(struct load *l, struct slice text);
struct slice load_keep(struct load *l, struct slice text);
/* Kept already; its bytes are wiped with the configuration. */
void load_wipe(struct load *l, struct slice text);
/* All is copied. */
void load_record(struct load *l, const char *path, struct slice value, struct slice origin);
/* What is recorded there is not in force, and why. */
void load_unrecord(struct load *l, const char *path, struct slice why);

/* A text that ends with the load; printf. */
const char *load_text(struct load *l, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
