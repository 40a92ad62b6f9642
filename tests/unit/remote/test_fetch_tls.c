/* remote/fetch over https, with a TLS server on the same loop: whom it trusts, what it shows, what it says went wrong,
   and that no connection is shared between two who trust or show something else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "io/accept.h"
#include "io/loop.h"
#include "io/stream.h"
#include "io/tls.h"
#include "remote/fetch.h"
#include "../io/certificates.h"

struct peer { /* one connection at the server */
    struct stream stream;
    size_t line_ends;
};

static struct {
    struct loop *loop;
    struct acceptor *acceptor;
    struct tls_context *context; /* NULL: plain text */
    struct fetch *fetch;
    size_t connections, peers;
    char url[100];
    /* the last answer */
    int told;
    struct fetch_answer got;
    char error[200];
} t;

static void on_closed(struct stream *s)
{
    t.peers--;
    free(container_of(s, struct peer, stream));
}

/* Answers when the empty line behind a head came. */
static void on_read(struct stream *s, struct slice data)
{
    struct peer *p = container_of(s, struct peer, stream);
    struct slice answer = SLICE("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    for (size_t i = 0; i < (t.context ? data.n : 1); i++) { /* to what is no HTTP, a plain one answers at once */
        if (data.p[i] == '\n')
            p->line_ends++;
        else if (data.p[i] != '\r')
            p->line_ends = 0;
        if (p->line_ends == 2 || !t.context) stream_send(s, &answer, 1);
    }
}

static void on_end(struct stream *s, int error)
{
    (void)error;
    stream_close(s, on_closed);
}

static const struct stream_events events = {on_read, on_end, NULL};

static void on_secured(struct stream *s, int error, const char *why)
{
    (void)why;
    if (error) stream_close(s, on_closed);
}

static void on_waiting(void *arg)
{
    struct peer *p = xzalloc(sizeof *p);
    struct address from;
    (void)arg;
    t.connections++;
    t.peers++;
    assert_int_equal(accept_take(t.acceptor, &p->stream, &events, &from), 0);
    if (t.context) stream_secure_server(&p->stream, t.context, on_secured);
    stream_read(&p->stream, true);
}

static void on_accept_error(const char *text, void *arg)
{
    (void)arg;
    fail_msg("%s", text);
}

static void serve(const struct identity *id, enum tls_ask ask, const struct identity *clients)
{
    char *error = NULL;
    tls_context_release(t.context);
    t.context = NULL;
    if (!id) return;
    struct tls_config c = {.certificate = id->certificate, .key = id->key_pem, .ask = ask};
    if (clients) c.ca = clients->certificate;
    t.context = tls_server_create(&c, &error);
    if (!t.context) fail_msg("%s", error);
}

static int set_up(void **state)
{
    const char *error = NULL;
    (void)state;
    memset(&t, 0, sizeof t);
    t.loop = loop_create();
    t.acceptor = accept_open(t.loop, "127.0.0.1", 0, on_waiting, on_accept_error, NULL, &error);
    t.fetch = fetch_create(t.loop);
    return error ? -1 : 0;
}

static int tear_down(void **state)
{
    (void)state;
    fetch_destroy(t.fetch, NULL, NULL);
    accept_close(t.acceptor);
    loop_close(t.loop);
    loop_run(t.loop);
    loop_destroy(t.loop);
    tls_context_release(t.context);
    assert_int_equal(t.peers, 0);
    return 0;
}

static void on_answer(const struct fetch_answer *a, void *arg)
{
    (void)arg;
    t.told++;
    t.got = *a;
    snprintf(t.error, sizeof t.error, "%s", a->error ? a->error : "");
    loop_stop(t.loop);
}

static struct fetch_tls trusting(const struct identity *ca, const struct identity *shown)
{
    struct fetch_tls tls = {.ca = ca->certificate};
    if (shown) {
        tls.certificate = shown->certificate;
        tls.key = shown->key_pem;
    }
    return tls;
}

/* host: which the certificate must be for. */
static void ask_as(const char *host, const struct fetch_tls *tls)
{
    snprintf(t.url, sizeof t.url, "https://%s:%d/x", host, accept_port(t.acceptor));
    struct fetch_request q = {
        .method = SLICE("GET"), .url = slice_str(t.url), .timeout_ms = 3000, .max_bytes = 4000, .tls = tls};
    t.told = 0;
    fetch_start(t.fetch, &q, on_answer, NULL);
    loop_serve(t.loop);
    assert_int_equal(t.told, 1);
}

static void expect_ok(void)
{
    if (t.got.outcome != FETCH_ANSWERED) fail_msg("%s", t.error);
    assert_int_equal(t.got.status, 200);
    assert_false(t.got.insecure);
}

static void expect_fault(const char *text)
{
    if (t.got.outcome == FETCH_ANSWERED) fail_msg("answered, in place of: %s", text);
    assert_int_equal(t.got.outcome, FETCH_BROKEN); /* never unreachable: a policy may be waived on that */
    assert_string_equal(t.error, text);
    assert_true(t.got.insecure);
}

static void test_trusts_its_authority(void **state)
{
    (void)state;
    struct fetch_tls tls = trusting(&ids.ca, NULL), both = trusting(&ids.ca, &ids.client);
    serve(&ids.server, TLS_ASK_NONE, NULL);
    ask_as("127.0.0.1", &tls);
    expect_ok();
    ask_as("127.0.0.1", &both); /* not asked for */
    expect_ok();
}

static void test_faults_of_the_peer(void **state)
{
    (void)state;
    struct identity expired = identity_make((struct wish){"x", "IP:127.0.0.1", &ids.ca, -1000, -60, false});
    struct identity early = identity_make((struct wish){"x", "IP:127.0.0.1", &ids.ca, 1000, 100000, false});
    struct identity lonely = identity_make((struct wish){"x", "IP:127.0.0.1", NULL, -60, 100000, false});
    struct identity nameless = identity_make((struct wish){"127.0.0.1", NULL, &ids.ca, -60, 100000, false});
    struct fetch_tls tls = trusting(&ids.ca, NULL), other = trusting(&ids.other_ca, NULL);
    const struct {
        const struct identity *shown;
        const struct fetch_tls *tls;
        const char *host, *text;
    } rows[] = {
        {&ids.server, &other, "127.0.0.1", "unable to get local issuer certificate"},
        {&ids.server, NULL, "127.0.0.1", "unable to get local issuer certificate"},
        {&expired, &tls, "127.0.0.1", "certificate has expired"},
        {&early, &tls, "127.0.0.1", "certificate is not yet valid"},
        {&lonely, &tls, "127.0.0.1", "self-signed certificate"},
        {&ids.server, &tls, "localhost", "the certificate is for another name"},
        {&ids.foreign, &tls, "127.0.0.1", "unable to get local issuer certificate"},
        {NULL, &tls, "127.0.0.1", "the peer does not speak TLS"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        serve(rows[i].shown, TLS_ASK_NONE, NULL);
        ask_as(rows[i].host, rows[i].tls);
        if (!t.got.insecure || strcmp(t.error, rows[i].text) != 0) fail_msg("row %zu: %s", i, t.error);
        expect_fault(rows[i].text);
    }
    identity_free(&expired);
    identity_free(&early);
    identity_free(&lonely);
    identity_free(&nameless);
}

static void test_client_certificates(void **state)
{
    (void)state;
    struct identity stranger = identity_make((struct wish){"y", NULL, &ids.other_ca, -60, 100000, false});
    struct identity expired = identity_make((struct wish){"y", NULL, &ids.ca, -1000, -60, false});
    struct fetch_tls none = trusting(&ids.ca, NULL), good = trusting(&ids.ca, &ids.client);
    struct fetch_tls strange = trusting(&ids.ca, &stranger), old = trusting(&ids.ca, &expired);
    struct fetch_tls mixed = good;
    serve(&ids.server, TLS_ASK_REQUIRED, &ids.ca);
    mixed.key = stranger.key_pem; /* of another certificate */
    ask_as("127.0.0.1", &mixed);
    expect_fault("our certificate or its key cannot be used");
    ask_as("127.0.0.1", &good);
    expect_ok();
    ask_as("127.0.0.1", &none);
    expect_fault("the peer asks for a certificate of ours");
    ask_as("127.0.0.1", &strange);
    expect_fault("the peer does not know the authority of our certificate");
    ask_as("127.0.0.1", &old);
    expect_fault("our certificate has expired, says the peer");
    identity_free(&stranger);
    identity_free(&expired);
}

/* curl keeps connections: one that was made with other authorities or another certificate is not for everybody. */
static void test_connections_are_not_shared(void **state)
{
    (void)state;
    struct identity second = identity_make((struct wish){"second", NULL, &ids.ca, -60, 100000, false});
    struct fetch_tls one = trusting(&ids.ca, &ids.client), two = trusting(&ids.ca, &second);
    struct fetch_tls none = trusting(&ids.ca, NULL), wrong = trusting(&ids.other_ca, &ids.client);
    serve(&ids.server, TLS_ASK_OPTIONAL, &ids.ca);
    ask_as("127.0.0.1", &one);
    ask_as("127.0.0.1", &one);
    expect_ok();
    assert_int_equal(t.connections, 1);
    ask_as("127.0.0.1", &two);
    expect_ok();
    assert_int_equal(t.connections, 2);
    ask_as("127.0.0.1", &none);
    expect_ok();
    assert_int_equal(t.connections, 3);
    ask_as("127.0.0.1", &wrong); /* although a good one is at hand */
    expect_fault("self-signed certificate in certificate chain");
    ask_as("127.0.0.1", NULL);
    expect_fault("self-signed certificate in certificate chain");
    assert_int_equal(t.connections, 5);
    ask_as("127.0.0.1", &one);
    ask_as("127.0.0.1", &two);
    ask_as("127.0.0.1", &none);
    expect_ok();
    assert_int_equal(t.connections, 5);
    identity_free(&second);
}

/* What was given may be gone when the call is out. */
static void test_the_texts_are_copied(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a);
    struct fetch_tls tls = trusting(&ids.ca, &ids.client);
    struct slice *texts[] = {&tls.ca, &tls.certificate, &tls.key};
    for (size_t i = 0; i < 3; i++) *texts[i] = arena_copy(&a, *texts[i]);
    serve(&ids.server, TLS_ASK_REQUIRED, &ids.ca);
    snprintf(t.url, sizeof t.url, "https://127.0.0.1:%d/", accept_port(t.acceptor));
    struct fetch_request q = {
        .method = SLICE("GET"), .url = slice_str(t.url), .timeout_ms = 3000, .max_bytes = 4000, .tls = &tls};
    fetch_start(t.fetch, &q, on_answer, NULL);
    for (size_t i = 0; i < 3; i++) memset((void *)(uintptr_t)texts[i]->p, 'x', texts[i]->n);
    arena_reset(&a);
    memset(&tls, 0, sizeof tls);
    loop_serve(t.loop);
    expect_ok();
}

static int make_identities(void **state)
{
    (void)state;
    identities_make();
    return 0;
}

static int free_identities(void **state)
{
    (void)state;
    identities_free();
    return 0;
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_trusts_its_authority),        TEST(test_faults_of_the_peer),   TEST(test_client_certificates),
        TEST(test_connections_are_not_shared), TEST(test_the_texts_are_copied),
    };
    return cmocka_run_group_tests(tests, make_identities, free_identities);
}
