/* See fakes/fake_fetch.h. A misuse that the real client would answer with a crash (cancel of a call that was answered
   or cancelled already) fails a CHECK here. */
#include "fakes/fake_fetch.h"

#include <stdlib.h>

#include "base/check.h"

struct fetch *fetch_create(struct loop *l)
{
    (void)l;
    return xzalloc(sizeof(struct fetch));
}

static void free_call(struct fetch_call *c)
{
    for (size_t i = 0; i < c->headers_n; i++)
        free(c->headers[i]);
    free(c->headers);
    free(c->method);
    free(c->url);
    free(c->body);
    free(c);
}

void fetch_destroy(struct fetch *f, void (*done)(void *arg), void *arg)
{
    struct fetch_call *c = f->first;
    while (c) {
        struct fetch_call *next = c->next;
        free_call(c);
        c = next;
    }
    free(f);
    if (done) done(arg);
}

static char *copy(struct slice s)
{
    char *p = xmalloc(s.n + 1);
    if (s.n) memcpy(p, s.p, s.n);
    p[s.n] = '\0';
    return p;
}

void fetch_instead(struct fetch *f, bool (*answer)(const struct fetch_request *q, struct fetch_answer *a, void *arg),
                   void *arg)
{
    (void)f, (void)answer, (void)arg; /* nothing goes out here anyway */
}

struct fetch_call *fetch_start(struct fetch *f, const struct fetch_request *q,
                               void (*on_answer)(const struct fetch_answer *a, void *arg), void *arg)
{
    struct fetch_call *c = xzalloc(sizeof *c);
    c->method = copy(q->method);
    c->url = copy(q->url);
    c->body = copy(q->body);
    c->body_n = q->body.n;
    c->headers_n = q->headers_n;
    c->headers = xzalloc((q->headers_n + 1) * sizeof *c->headers);
    for (size_t i = 0; i < q->headers_n; i++)
        c->headers[i] = copy(q->headers[i]);
    c->timeout_ms = q->timeout_ms;
    c->max_bytes = q->max_bytes;
    c->on_answer = on_answer;
    c->arg = arg;
    struct fetch_call **last = &f->first;
    while (*last)
        last = &(*last)->next;
    *last = c;
    return c;
}

void fetch_cancel(struct fetch_call *c)
{
    CHECK(c->state == FAKE_CALL_OPEN, "only a call that is out can be cancelled");
    c->state = FAKE_CALL_CANCELLED;
}

const char *fetch_url_check(struct slice url)
{
    static const char *const schemes[] = {"http://", "https://", "unix:/"};
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        struct slice scheme = slice_str(schemes[i]);
        if (slice_starts(url, scheme) && url.n > scheme.n) return NULL;
    }
    return "must begin with http://, https:// or unix:/";
}

const char *fetch_version(void)
{
    return "fake";
}

size_t fake_fetch_started(const struct fetch *f)
{
    size_t n = 0;
    for (const struct fetch_call *c = f->first; c; c = c->next)
        n++;
    return n;
}

size_t fake_fetch_open(const struct fetch *f)
{
    size_t n = 0;
    for (const struct fetch_call *c = f->first; c; c = c->next)
        n += c->state == FAKE_CALL_OPEN;
    return n;
}

struct fetch_call *fake_fetch_nth(const struct fetch *f, size_t n)
{
    struct fetch_call *c = f->first;
    while (c && n--)
        c = c->next;
    CHECK(c, "no such call was started");
    return c;
}

struct fetch_call *fake_fetch_oldest(const struct fetch *f)
{
    struct fetch_call *c = f->first;
    while (c && c->state != FAKE_CALL_OPEN)
        c = c->next;
    return c;
}

bool fake_fetch_has_header(const struct fetch_call *c, const char *line)
{
    for (size_t i = 0; i < c->headers_n; i++)
        if (strcmp(c->headers[i], line) == 0) return true;
    return false;
}

static void deliver(struct fetch_call *c, const struct fetch_answer *a)
{
    CHECK(c->state == FAKE_CALL_OPEN, "only an open call can be answered");
    c->state = FAKE_CALL_ANSWERED;
    c->on_answer(a, c->arg);
}

void fake_fetch_answer_cached(struct fetch_call *c, int status, const char *body, const char *cache_control)
{
    if (strlen(body) > c->max_bytes) {
        fake_fetch_fail(c, FETCH_TOO_LARGE);
        return;
    }
    /* A copy of exactly its length: the sanitizer sees a read beyond it or after the callback. */
    char *bytes = xmalloc(strlen(body) + (*body == '\0'));
    memcpy(bytes, body, strlen(body));
    struct fetch_answer a = {.outcome = FETCH_ANSWERED,
                             .status = status,
                             .body = slice_make(bytes, strlen(body)),
                             .cache_control = slice_str(cache_control),
                             .content_type = SLICE("application/json"),
                             .elapsed_us = 1000};
    deliver(c, &a);
    free(bytes);
}

void fake_fetch_answer(struct fetch_call *c, int status, const char *body)
{
    fake_fetch_answer_cached(c, status, body, NULL);
}

void fake_fetch_fail(struct fetch_call *c, enum fetch_outcome outcome)
{
    CHECK(outcome != FETCH_ANSWERED, "an answer has a status and a body");
    deliver(c, &(struct fetch_answer){.outcome = outcome, .elapsed_us = 1000, .error = "made to fail by the test"});
}
