/* proxy/eval: `doorward eval`: one request is played through the very steps that serve one, over a pair of sockets, up to
   where it would go out, and what each step found is told. Nothing of it is kept or sent; without --network nothing is
   connected at all. Tells no credential and no secret. */
#ifndef PROXY_EVAL_H
#define PROXY_EVAL_H

#include <stdbool.h>

#include "base/arena.h"
#include "conf/options.h"

#define EVAL_HEADERS_MAX 100

struct eval_asked { /* the command line; texts in the arena or in argv */
    struct arena arena;
    const char *method, *target;
    struct slice authorization; /* the value of the header; p NULL: none. Secret */
    struct slice claims;        /* in its place, JSON; p NULL: not given */
    struct slice profile;       /* the API's answer; p NULL: not given */
    const char *profile_name;
    const char *headers[EVAL_HEADERS_MAX]; /* "Name: value", without Authorization */
    size_t headers_n;
    bool network;
    bool as_json;
};

/* argv[0] is the subcommand. -1: *asked and *source are set, and eval_run or eval_forget is due; else an exit code, and
   all is said. */
int eval_read(int argc, char **argv, struct conf_source *source, struct eval_asked *asked);
/* Takes conf, and forgets what was asked. The exit code: 0 it would be sent, or is answered by an endpoint of our own; 1
   refused; 3 it depends on what was not asked; 78 the configuration is refused. */
int eval_run(struct eval_asked *asked, struct conf *conf);
void eval_forget(struct eval_asked *asked);

#endif
