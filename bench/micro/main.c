/* bench_micro: what the pieces of a request cost in this process, without a kernel's sockets.

     bench_micro                  the names of the pieces, and what each is
     bench_micro PIECE [ROUNDS]   runs it, or all, and prints the times as one JSON object each

   All that is measured happens inside measured_run, so that callgrind can count just that (--toggle-collect). */
#include <stdio.h>
#include <time.h>

#include "common/histogram.h"
#include "flow/flow.h"
#include "micro/pieces.h"

#define WARM_ROUNDS 200

static void measured_run(const struct piece *p)
{
    p->run();
    __asm__ volatile(""); /* no tail call: the measuring ends when it returns */
}

/* Called by this, so that it stays a function of that name, whatever is optimised. */
static void (*volatile run_measured)(const struct piece *p) = measured_run;

static int64_t clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static int64_t once(const struct piece *p, bool measured)
{
    if (p->ready) p->ready();
    int64_t begun = clock_ns();
    if (measured)
        run_measured(p);
    else
        p->run();
    int64_t took = clock_ns() - begun;
    if (p->done) p->done();
    return took;
}

static void run(const struct piece *p, long rounds)
{
    struct histogram h = {.counts = NULL};
    if (!flow.loop) flow_start(&(struct flow_config){.more = "log: {access: true}"});
    if (p->prepare) p->prepare();
    for (int i = 0; i < WARM_ROUNDS; i++) once(p, false);
    for (long i = 0; i < rounds; i++) histogram_add(&h, once(p, true));
    printf("{\"piece\":\"%s\",\"what\":\"%s\",\"rounds\":%ld,\"time\":", p->name, p->what, rounds);
    histogram_print(&h, stdout);
    printf("}\n");
    histogram_free(&h);
}

int main(int argc, char **argv)
{
    int ran = 0;
    for (size_t i = 0; i < pieces_n; i++) {
        if (argc < 2) printf("%-16s %s\n", pieces[i].name, pieces[i].what);
        if (argc < 2 || (strcmp(argv[1], "all") != 0 && strcmp(argv[1], pieces[i].name) != 0)) continue;
        run(&pieces[i], argc > 2 ? atol(argv[2]) : 2000);
        ran++;
    }
    fflush(stdout);
    _Exit(argc < 2 || ran ? 0 : 2); /* nothing to tidy up: the process is the pieces' */
}
