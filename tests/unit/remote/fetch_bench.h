/* For the tests of remote/fetch: a client and a scripted server in one loop, calls whose answers are kept. */
#ifndef TESTS_REMOTE_FETCH_BENCH_H
#define TESTS_REMOTE_FETCH_BENCH_H

#include "base/arena.h"
#include "harness.h"
#include "remote/fetch.h"

struct bench {
    struct harness h;
    struct script s;
    struct fetch *fetch;
    char url[200];
};

struct got {
    int calls;
    enum fetch_outcome outcome;
    int status;
    char body[4096];
    size_t body_n;
    char cache_control[200];
    char content_type[200];
    char error[200];
    int64_t elapsed_us;
};

static inline void put(char *out, size_t size, struct slice s)
{
    assert_true(s.n < size);
    if (s.n) memcpy(out, s.p, s.n);
    out[s.n] = '\0';
}

static inline void on_answer(const struct fetch_answer *a, void *arg)
{
    struct got *g = arg;
    g->calls++;
    g->outcome = a->outcome;
    g->status = a->status;
    g->elapsed_us = a->elapsed_us;
    put(g->body, sizeof g->body, a->body);
    g->body_n = a->body.n;
    put(g->cache_control, sizeof g->cache_control, a->cache_control);
    put(g->content_type, sizeof g->content_type, a->content_type);
    snprintf(g->error, sizeof g->error, "%s", a->error ? a->error : "");
    assert_true((a->outcome == FETCH_ANSWERED) == (a->error == NULL));
}

static inline struct fetch_request request_to(const char *url)
{
    return (struct fetch_request){.method = SLICE("GET"), .url = slice_str(url), .timeout_ms = 2000, .max_bytes = 4000};
}

static inline struct got *ask(struct bench *b, const struct fetch_request *q)
{
    static struct got g;
    memset(&g, 0, sizeof g);
    assert_non_null(fetch_start(b->fetch, q, on_answer, &g));
    assert_int_equal(g.calls, 0);
    harness_until(&b->h, g.calls > 0);
    harness_turn(&b->h);
    assert_int_equal(g.calls, 1);
    return &g;
}

static inline struct got *get(struct bench *b, const char *url)
{
    struct fetch_request q = request_to(url);
    return ask(b, &q);
}

/* --- the script: answers each whole request with s.arg ---------------------------------------------------------- */

struct answer {
    const char *bytes;
    size_t n;
    bool close;
    bool reset;
    bool drip;
    bool hang;
    int die_at;      /* the n-th request on a connection gets no answer, but an end (1 is the second) */
    char last[8192]; /* the last request */
    int requests;
};

static inline void on_request(struct peer *p)
{
    struct answer *a = p->script->arg;
    const char *end = memmem(p->in.p, p->in.n, "\r\n\r\n", 4);
    if (!end) return;
    size_t n = (size_t)(end - p->in.p) + 4;
    const char *length = memmem(p->in.p, n, "Content-Length: ", 16);
    if (length) n += (size_t)atoi(length + 16);
    if (p->in.n < n) return;
    put(a->last, sizeof a->last, slice_make(p->in.p, n));
    peer_take(p, n);
    a->requests++;
    if (a->hang) return;
    if (a->die_at && p->answered++ == a->die_at) {
        if (a->reset)
            peer_reset(p);
        else
            peer_close(p);
        return;
    }
    if (a->drip) {
        peer_drip(p, a->bytes, a->n, a->close);
        return;
    }
    peer_send(p, a->bytes, a->n);
    if (a->reset && !a->die_at)
        peer_reset(p);
    else if (a->close)
        peer_close(p);
}

static inline void open_bench(struct bench *b, struct answer *a, const char *unix_path)
{
    memset(b, 0, sizeof *b);
    harness_open(&b->h);
    script_listen(&b->s, &b->h, unix_path, on_request);
    b->s.arg = a;
    b->fetch = fetch_create(b->h.loop);
    snprintf(b->url, sizeof b->url, "http://127.0.0.1:%d/x", b->s.port);
}

static inline void close_bench(struct bench *b)
{
    fetch_destroy(b->fetch, harness_on_gone, &b->h.gone);
    assert_false(b->h.gone);
    harness_until(&b->h, b->h.gone);
    script_close(&b->s);
    harness_close(&b->h);
    arena_trim();
    assert_int_equal(arena_chunks_out(), 0);
}

#define ANSWER(text)                                                                                                   \
    {                                                                                                                  \
        .bytes = "" text, .n = sizeof(text) - 1                                                                        \
    }
#define OK_HEAD                                                                                                        \
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nCache-Control: max-age=60\r\nContent-Length: 13\r\n\r\n"
#define OK "" OK_HEAD "{\"allow\":1234"

#endif
