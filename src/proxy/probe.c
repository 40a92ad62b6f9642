/* proxy/probe: `doorward --probe`. Called by main instead of running. Needs no shell and no curl in the container. Where the
   listener speaks TLS it is asked in TLS, without verifying: it is ourselves, and nothing secret is said. */
#include "proxy/probe.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/check.h"
#include "io/dial.h"
#include "io/loop.h"

#define TIMEOUT_MS 2000

struct asking {
    struct loop *loop;
    struct stream *stream; /* NULL: not connected, or closed */
    struct deadline limit;
    const struct conf *conf;
    char answer[13]; /* as far as the status */
    size_t answer_n;
    int error;
};

static void on_read(struct stream *s, struct slice data);
static void on_end(struct stream *s, int error);
static void on_limit(struct deadline *d);
static void on_dialled(struct stream *s, int status, const char *why, void *arg);
static void on_closed(struct stream *s);

static const struct stream_events events = {on_read, on_end, NULL};

static void finish(struct asking *a)
{
    deadline_stop(&a->limit);
    if (a->stream) stream_close(a->stream, on_closed);
    a->stream = NULL;
    loop_stop(a->loop);
}

static void on_read(struct stream *s, struct slice data)
{
    struct asking *a = s->uv.data;
    size_t room = sizeof a->answer - 1 - a->answer_n, n = data.n < room ? data.n : room;
    memcpy(a->answer + a->answer_n, data.p, n);
    a->answer_n += n;
    if (a->answer_n == sizeof a->answer - 1) finish(a);
}

static void on_end(struct stream *s, int error)
{
    struct asking *a = s->uv.data;
    a->error = error;
    finish(a);
}

static void on_limit(struct deadline *d)
{
    finish(container_of(d, struct asking, limit));
}

/* A listed host is named, so that `listen.hosts` does not refuse the probe. */
static void on_dialled(struct stream *s, int status, const char *why, void *arg)
{
    struct asking *a = arg;
    (void)why;
    a->error = status;
    if (status) {
        free(s);
        finish(a);
        return;
    }
    a->stream = s;
    s->uv.data = a;
    struct slice host = a->conf->listen.hosts.n ? a->conf->listen.hosts.v[0] : SLICE("localhost");
    struct slice parts[] = {SLICE("GET /health HTTP/1.1\r\nHost: "), host, SLICE("\r\nConnection: close\r\n\r\n")};
    stream_send(s, parts, 3);
    stream_read(s, true);
}

static void on_closed(struct stream *s)
{
    free(s);
}

/* Where to find our own listener: a wildcard address is asked on the loopback. */
static const char *own_address(const struct conf *c)
{
    if (slice_eq(c->listen.host, SLICE("0.0.0.0"))) return "127.0.0.1";
    if (slice_eq(c->listen.host, SLICE("::"))) return "::1";
    return c->listen.host.p;
}

static void ask(struct asking *a, struct tls_context *tls)
{
    struct dial_target target = {.host = own_address(a->conf), .port = a->conf->listen.port, .tls = tls};
    a->loop = loop_create();
    deadline_init(&a->limit, on_limit);
    deadline_after(a->loop, &a->limit, 2 * TIMEOUT_MS);
    dial_start(a->loop, &target, TIMEOUT_MS, xzalloc(sizeof(struct stream)), &events, on_dialled, a);
    loop_serve(a->loop);
    loop_close(a->loop);
    loop_run(a->loop);
    loop_destroy(a->loop);
}

int probe_health(const struct conf *c)
{
    struct asking a = {.conf = c};
    struct tls_context *tls = NULL;
    char *error = NULL;
    int status = 0;
    if (c->listen.tls.certificate.n) {
        tls = tls_client_create(&(struct tls_config){.http = true, .unverified = true}, &error);
        CHECK(tls, "a context without certificates");
    }
    ask(&a, tls);
    tls_context_release(tls);
    if (sscanf(a.answer, "HTTP/1.%*d %3d", &status) == 1 && status == 200) return 0;
    /* whoever wants to see a certificate is alive, and we have none to show */
    bool required = c->listen.tls.client_certificates == CLIENT_CERTIFICATES_REQUIRED;
    if (required && a.error == TLS_CERTIFICATE_REFUSED) return 0;
    if (status > 0)
        fprintf(stderr, "doorward: /health answered %d\n", status);
    else
        fprintf(stderr, "doorward: no answer from port %d\n", c->listen.port);
    return 1;
}
