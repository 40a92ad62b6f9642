/* conf/node: a configuration document as a tree that remembers where each part came from, and the list of what is wrong
   with it. YAML files and JSON variables both become such trees. Everything lives in one arena. */
#ifndef CONF_NODE_H
#define CONF_NODE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/slice.h"

enum node_kind { NODE_NULL, NODE_TEXT, NODE_LIST, NODE_MAP };

struct node_variable { /* a variable of the environment that a text was made from */
    const char *name;
    struct node_variable *next;
};

struct node {
    enum node_kind kind;
    bool quoted;           /* a text because of its quotes: neither number nor bool */
    bool expanded;         /* ${...} was in it */
    bool told;             /* a problem with it has been told: no second one */
    bool nested;           /* inside a variable's JSON: messages need its path too */
    int line;              /* in file; 0: the file as a whole */
    const char *file;      /* NULL: from the environment */
    const char *variable;  /* the variable it is named by in messages, or NULL */
    struct node_variable *used; /* their names */
    struct slice key;      /* in a map */
    struct slice text;     /* NUL behind it */
    struct node *child, *last, *next;
    size_t children;
};

/* What is wrong, all of it. */
struct problems {
    struct arena *arena;
    struct buf *errors;
    size_t count;
};

#define NODE_MAX_KEYS 1024 /* of one map */
#define NODE_MAX_DEPTH 16

struct node *node_create(struct arena *a, enum node_kind kind);
/* A text of our own making that is named like `origin` in messages. */
struct node *node_text(struct arena *a, struct slice text, const struct node *origin);
void node_append(struct node *parent, struct node *child);
/* The child of that key; NULL when there is none or map is not a map. */
struct node *node_child(const struct node *map, struct slice key);
/* By a dotted path from a map. A null is as if it were not there. */
struct node *node_find(const struct node *map, const char *path);
/* Puts value at the dotted path in place of what is there, opening maps on the way. False when the way is barred by
   something that is not a map. */
bool node_put(struct arena *a, struct node *map, const char *path, struct node *value);
void node_drop(struct node *map, const char *path);

/* "file:line" or "environment NAME", for --print-config. */
struct slice node_origin(struct arena *a, const struct node *n);

/* Appends "file:line: path: what" or "environment: NAME: what". n may be NULL: then only the path is named. */
void problem(struct problems *p, const struct node *n, const char *path, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* s as it may stand in a message: at most 60 bytes, what does not print as ?. */
const char *node_shown(struct arena *a, struct slice s);

#endif
