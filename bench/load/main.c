/* bench_load: requests over keep-alive connections, by fixed arrivals or by users; what came of them as one JSON object.

     bench_load --to 127.0.0.1:PORT --requests FILE [--host NAME] [--first N] [--cycle N]
                --rate R --connections N --seconds S [--warmup S]                  fixed arrivals
                --stages USERS:SECONDS,… [--think-ms N] [--requests-n N]           users

   Requests are numbered from --first on; --cycle N begins again from 0 after N. load/requests.h has the file's form,
   load/schedule.h what is measured. One thread; exit code 0 when it ran to its end,
   whatever came of the requests. */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>

#include "common/net.h"
#include "load/schedule.h"

static void read_stages(struct plan *p, const char *text)
{
    for (;;) {
        p->stages = realloc(p->stages, (p->stages_n + 1) * sizeof *p->stages);
        if (!p->stages) die("out of memory");
        struct stage *s = &p->stages[p->stages_n++];
        *s = (struct stage){.users = 0};
        int used = 0;
        if (sscanf(text, "%u:%lf%n", &s->users, &s->seconds, &used) != 2 || s->users == 0 || s->seconds < 0)
            die("--stages: not like 5:10,20:10");
        text += used;
        if (*text == '\0') return;
        if (*text++ != ',') die("--stages: not like 5:10,20:10");
    }
}

static const char *read_arguments(int argc, char **argv, struct plan *p, const char **host)
{
    static const struct option options[] = {
        {"to", required_argument, NULL, 't'},        {"requests", required_argument, NULL, 'q'},
        {"host", required_argument, NULL, 'h'},      {"first", required_argument, NULL, 'f'},
        {"rate", required_argument, NULL, 'r'},      {"connections", required_argument, NULL, 'c'},
        {"seconds", required_argument, NULL, 's'},   {"warmup", required_argument, NULL, 'w'},
        {"stages", required_argument, NULL, 'g'},    {"think-ms", required_argument, NULL, 'k'},
        {"requests-n", required_argument, NULL, 'n'}, {"cycle", required_argument, NULL, 'y'},
        {NULL, 0, NULL, 0}};
    const char *file = NULL;
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 't') load.address = net_address(optarg);
        if (option == 't' && !*host) *host = optarg;
        if (option == 'q') file = optarg;
        if (option == 'h') *host = optarg;
        if (option == 'f') p->first = strtoull(optarg, NULL, 10);
        if (option == 'r') p->rate = strtod(optarg, NULL);
        if (option == 'c') load.clients_n = strtoull(optarg, NULL, 10);
        if (option == 's') p->seconds = strtod(optarg, NULL);
        if (option == 'w') p->warmup_s = strtod(optarg, NULL);
        if (option == 'g') read_stages(p, optarg);
        if (option == 'k') p->think_ms = strtod(optarg, NULL);
        if (option == 'y') load.cycle = strtoull(optarg, NULL, 10);
        if (option == 'n') p->requests = strtoull(optarg, NULL, 10);
        if (option == '?') exit(2);
    }
    if (!file || !*host) die("bench_load: --to and --requests are needed");
    if ((p->rate > 0) == (p->stages_n > 0)) die("bench_load: either --rate or --stages");
    if (p->rate > 0 && (!load.clients_n || p->seconds <= 0)) die("bench_load: --rate goes with --connections, --seconds");
    return file;
}

/* Without the brace that ends it. */
static void print_counts(const struct counts *c)
{
    printf("\"scheduled\":%llu,\"completed\":%llu,\"errors\":%llu,\"bytes\":%llu,\"status\":{",
           (unsigned long long)c->scheduled, (unsigned long long)c->completed, (unsigned long long)c->errors,
           (unsigned long long)c->bytes);
    for (int i = 0; i < 6; i++)
        printf("%s\"%dxx\":%llu", i ? "," : "", i, (unsigned long long)c->classes[i]);
    printf("}");
}

static void print_tail(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    double cpu = (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
                 (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
    printf(",\"connects\":%llu,\"connect_errors\":%llu,\"cpu_s\":%.3f}\n", (unsigned long long)load.connects,
           (unsigned long long)load.connect_errors, cpu);
}

static void run_open(const struct plan *p)
{
    struct open_result r = {.unfinished = 0};
    schedule_open(p, &r);
    printf("{\"mode\":\"open\",\"rate\":%.3f,\"connections\":%zu,\"seconds\":%.3f,\"elapsed_s\":%.3f,"
           "\"unfinished\":%llu,\"warm\":{",
           p->rate, load.clients_n, p->seconds, r.elapsed_s, (unsigned long long)r.unfinished);
    print_counts(&r.warm);
    printf("},");
    print_counts(&r.counts);
    printf(",\"latency\":");
    histogram_print(&r.counts.latency, stdout);
    printf(",\"lateness\":");
    histogram_print(&r.lateness, stdout);
    print_tail();
    histogram_free(&r.warm.latency);
    histogram_free(&r.counts.latency);
    histogram_free(&r.lateness);
}

static void run_closed(struct plan *p)
{
    for (size_t i = 0; i < p->stages_n; i++)
        if (p->stages[i].users > load.clients_n) load.clients_n = p->stages[i].users;
    load.clients = calloc(load.clients_n, sizeof *load.clients);
    if (!load.clients) die("out of memory");
    int64_t begun = now_ns();
    schedule_closed(p);
    printf("{\"mode\":\"closed\",\"think_ms\":%.3f,\"elapsed_s\":%.3f,\"stages\":[", p->think_ms,
           (double)(now_ns() - begun) / 1e9);
    for (size_t i = 0; i < p->stages_n; i++) {
        printf("%s{\"users\":%u,\"seconds\":%.3f,", i ? "," : "", p->stages[i].users, p->stages[i].seconds);
        print_counts(&p->stages[i].counts);
        printf(",\"latency\":");
        histogram_print(&p->stages[i].counts.latency, stdout);
        printf("}");
        histogram_free(&p->stages[i].counts.latency);
    }
    printf("]");
    print_tail();
}

int main(int argc, char **argv)
{
    struct plan plan = {.rate = 0};
    const char *host = NULL;
    const char *file = read_arguments(argc, argv, &plan, &host);
    net_raise_files();
    requests_read(&load.requests, file, host);
    load.epoll = epoll_create1(EPOLL_CLOEXEC);
    load.timer = timer_create_fd();
    struct epoll_event timer = {.events = EPOLLIN | EPOLLET, .data.ptr = &load};
    if (load.epoll < 0 || epoll_ctl(load.epoll, EPOLL_CTL_ADD, load.timer, &timer)) die("epoll: %s", strerror(errno));
    if (plan.rate > 0) {
        load.clients = calloc(load.clients_n, sizeof *load.clients);
        if (!load.clients) die("out of memory");
        run_open(&plan);
    } else {
        run_closed(&plan);
    }
    for (size_t i = 0; i < load.clients_n; i++) client_close(&load.clients[i]);
    requests_free(&load.requests);
    free(load.clients);
    free(plan.stages);
    return 0;
}
