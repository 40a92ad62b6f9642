/* bench/load/requests: what is asked, from a file: one request a line, its columns separated by tabs:

     METHOD <tab> PATH <tab> AUTHORIZATION <tab> BODY

   An empty or missing column is left out. {n} in a path is the request's number, which makes each one unique. The lines
   are used in turn. */
#ifndef BENCH_LOAD_REQUESTS_H
#define BENCH_LOAD_REQUESTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct request_text {
    char *bytes; /* head and body */
    size_t n;
    size_t number_at; /* where the number goes; n: nowhere */
    bool is_head;     /* the answer has no body */
};

struct requests {
    struct request_text *v;
    size_t n;
};

void requests_read(struct requests *r, const char *file, const char *host);
void requests_free(struct requests *r);

#endif
