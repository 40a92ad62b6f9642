/* io/tls_stream: both ends of our own over a connection in memory, carried over piece by piece: the handshake,
   who is refused and why, back-pressure, ends, and being closed in the midst of anything. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "certificates.h"
#include "tls_link.h"

#define BIG (1 << 20)

static struct tls_context *server_with(const struct identity *id, struct slice ca, enum tls_ask ask)
{
    char *error = NULL;
    struct tls_config c = {.certificate = id->certificate, .key = id->key_pem, .ca = ca, .ask = ask, .http = true};
    struct tls_context *ctx = tls_server_create(&c, &error);
    if (!ctx) fail_msg("%s", error);
    return ctx;
}

static struct tls_context *client_with(const struct identity *id, struct slice ca)
{
    char *error = NULL;
    struct tls_config c = {.ca = ca, .http = true};
    if (id) {
        c.certificate = id->certificate;
        c.key = id->key_pem;
    }
    struct tls_context *ctx = tls_client_create(&c, &error);
    if (!ctx) fail_msg("%s", error);
    return ctx;
}

/* Takes both contexts. */
static void secure(struct tls_context *server, struct tls_context *client, const char *name)
{
    link_open();
    stream_secure_server(&link_.server.stream, server, end_on_secured);
    stream_secure_client(&link_.client.stream, client, name, end_on_secured);
    tls_context_release(server);
    tls_context_release(client);
    assert_int_equal(link_.client.secured, 0);
}

static void secure_well(void)
{
    secure(server_with(&ids.server, SLICE(""), TLS_ASK_NONE), client_with(NULL, ids.ca.certificate), "api.test");
}

static void read_both(void)
{
    stream_read(&link_.server.stream, true);
    stream_read(&link_.client.stream, true);
}

static void shakes_hands(void **state)
{
    (void)state;
    static const size_t pieces[] = {1, 2, 3, 7, 100, 1000, 65536};
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        secure_well();
        read_both();
        carry(pieces[i]);
        assert_int_equal(link_.client.secured, 1);
        assert_int_equal(link_.server.secured, 1);
        assert_int_equal(link_.client.error, 0);
        assert_int_equal(link_.server.error, 0);
        assert_string_equal(stream_tls_version(&link_.server.stream), "TLSv1.3");
        assert_int_equal(stream_peer_subject(&link_.server.stream).n, 0);
        end_send(&link_.client, "question");
        end_send(&link_.server, "answer");
        carry(pieces[i]);
        assert_memory_equal(link_.server.read.p, "question", 8);
        assert_memory_equal(link_.client.read.p, "answer", 6);
        assert_int_equal(link_.server.read.n, 8);
        assert_null(memmem(link_.client.sent.p, link_.client.sent.n, "question", 8));
        stream_shutdown(&link_.client.stream);
        carry(pieces[i]);
        assert_int_equal(link_.server.ends, 1);
        assert_int_equal(link_.server.end_error, 0);
        end_send(&link_.server, ", after the end of the other side");
        carry(pieces[i]);
        assert_int_equal(link_.client.read.n, 39);
        link_close();
    }
}

/* What is written at once behind the handshake, before the other side has seen its end. */
static void early_data_waits(void **state)
{
    (void)state;
    secure_well();
    while (!link_.client.secured) carry_both(9999);
    end_send(&link_.client, "first");
    carry(65536); /* the end of the handshake and the first bytes in one piece */
    assert_int_equal(link_.server.secured, 1);
    assert_int_equal(link_.server.read.n, 0);
    assert_false(link_.server.pulls);
    stream_read(&link_.server.stream, true);
    assert_int_equal(link_.server.read.n, 0); /* never inside the call */
    carry(1);
    assert_int_equal(link_.server.read.n, 5);
    link_close();
}

struct refusal {
    const struct identity *server, *client;
    const struct identity *server_trusts, *client_trusts;
    enum tls_ask ask;
    const char *name;
    bool server_refuses;
    int error;
    const char *why, *other; /* of who refuses; of the other one, who gets an alert */
};

static void refuses(void **state)
{
    (void)state;
    const struct refusal all[] = {
        {&ids.server, NULL, NULL, &ids.ca, TLS_ASK_NONE, "other.test", false, TLS_CERTIFICATE,
         "the certificate is not for other.test", "the peer refused: "},
        {&ids.server, NULL, NULL, &ids.ca, TLS_ASK_NONE, "127.0.0.2", false, TLS_CERTIFICATE,
         "the certificate is not for 127.0.0.2", "the peer refused: "},
        {&ids.expired, NULL, NULL, &ids.ca, TLS_ASK_NONE, "api.test", false, TLS_CERTIFICATE, "certificate has expired",
         "the peer refused: certificate expired"},
        {&ids.early, NULL, NULL, &ids.ca, TLS_ASK_NONE, "api.test", false, TLS_CERTIFICATE,
         "certificate is not yet valid", "the peer refused: "},
        {&ids.foreign, NULL, NULL, &ids.ca, TLS_ASK_NONE, "api.test", false, TLS_CERTIFICATE,
         "unable to get local issuer certificate", "the peer refused: unknown ca"},
        {&ids.lonely, NULL, NULL, &ids.ca, TLS_ASK_NONE, "api.test", false, TLS_CERTIFICATE, "self-signed certificate",
         "the peer refused: unknown ca"},
        {&ids.server, NULL, NULL, NULL, TLS_ASK_NONE, "api.test", false, TLS_CERTIFICATE,
         "unable to get local issuer certificate", "the peer refused: unknown ca"},
        {&ids.server, NULL, &ids.ca, &ids.ca, TLS_ASK_REQUIRED, "api.test", true, TLS_CERTIFICATE,
         "no certificate was shown", "the peer wants a certificate, and none is configured"},
        {&ids.server, &ids.foreign, &ids.ca, &ids.ca, TLS_ASK_REQUIRED, "api.test", true, TLS_CERTIFICATE,
         "unable to get local issuer certificate", "the peer refused: unknown ca"},
        {&ids.server, &ids.foreign, &ids.ca, &ids.ca, TLS_ASK_OPTIONAL, "api.test", true, TLS_CERTIFICATE,
         "unable to get local issuer certificate", "the peer refused: unknown ca"},
        {&ids.server, &ids.expired, &ids.ca, &ids.ca, TLS_ASK_OPTIONAL, "api.test", true, TLS_CERTIFICATE,
         "certificate has expired", "the peer refused: certificate expired"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const struct refusal *r = &all[i];
        secure(server_with(r->server, r->server_trusts ? r->server_trusts->certificate : SLICE(""), r->ask),
               client_with(r->client, r->client_trusts ? r->client_trusts->certificate : SLICE("")), r->name);
        read_both();
        carry(500);
        struct end *judge = r->server_refuses ? &link_.server : &link_.client;
        struct end *judged = r->server_refuses ? &link_.client : &link_.server;
        if (judge->error != r->error || strcmp(judge->why, r->why) != 0)
            fail_msg("%zu: %d %s", i, judge->error, judge->why);
        assert_string_equal(stream_tls_fault(&judge->stream), r->why);
        if (judged->error == 0) { /* TLS 1.3: the client was done already */
            assert_int_equal(judged->ends, 1);
            assert_int_equal(judged->end_error, TLS_CERTIFICATE_REFUSED);
        } else {
            assert_int_equal(judged->error, TLS_CERTIFICATE_REFUSED);
        }
        if (!strstr(stream_tls_fault(&judged->stream), r->other)) fail_msg("%zu: %s", i, stream_tls_fault(&judged->stream));
        end_send(judge, "not to be sent");
        assert_int_equal(judged->read.n, 0);
        link_close();
    }
}

static void accepts(void **state)
{
    (void)state;
    secure(server_with(&ids.server, ids.ca.certificate, TLS_ASK_REQUIRED), client_with(&ids.client, ids.ca.certificate),
           "127.0.0.1");
    carry(65536);
    assert_string_equal(link_.client.why, "");
    assert_string_equal(link_.server.why, "");
    assert_string_equal(stream_peer_subject(&link_.server.stream).p, "CN=caller\\, \\\"one\\\" \\C3\\A9");
    assert_int_equal(stream_peer_subject(&link_.client.stream).n, 0);
    link_close();
    secure(server_with(&ids.server, ids.ca.certificate, TLS_ASK_OPTIONAL), client_with(NULL, ids.ca.certificate), "api.test");
    carry(65536);
    assert_int_equal(link_.server.secured, 1);
    assert_int_equal(link_.server.error, 0);
    assert_int_equal(stream_peer_subject(&link_.server.stream).n, 0);
    link_close();
    /* what is trusted may be no root, even itself */
    secure(server_with(&ids.lonely, SLICE(""), TLS_ASK_NONE), client_with(NULL, ids.lonely.certificate), "api.test");
    carry(65536);
    assert_string_equal(link_.client.why, "");
    assert_int_equal(link_.client.secured, 1);
    link_close();
}

static void not_tls(void **state)
{
    (void)state;
    static const char *const said[] = {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "\x80\x2e\x01\x03\x01", "G", "\r\n", "\xff"};
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
        link_open();
        struct tls_context *ctx = server_with(&ids.server, SLICE(""), TLS_ASK_NONE);
        stream_secure_server(&link_.server.stream, ctx, end_on_secured);
        tls_context_release(ctx);
        end_send(&link_.client, said[i]);
        carry(65536);
        assert_int_equal(link_.server.error, TLS_NOT_SPOKEN);
        assert_string_equal(tls_error_label(link_.server.error), "not_tls");
        assert_int_equal(link_.server.sent.n, 0);
        stream_read(&link_.server.stream, true);
        for (int k = 0; k < 3; k++) { /* passed over, and not for ever */
            static char more[50000];
            struct slice part = slice_make(more, sizeof more);
            stream_send(&link_.client.stream, &part, 1);
            carry(65536);
        }
        assert_int_equal(link_.server.read.n, 0);
        assert_int_equal(link_.server.ends, 1);
        assert_int_equal(link_.server.secured, 1);
        link_close();
    }
}

static char *pattern(size_t n)
{
    char *p = xmalloc(n);
    uint32_t x = 1;
    for (size_t i = 0; i < n; i++) p[i] = (char)((x = x * 1664525u + 1013904223u) >> 24);
    return p;
}

/* Much both ways through a narrow link, in parts of all sizes: in order, whole, with the queue told as it is. */
static void transfers(void **state)
{
    (void)state;
    char *bytes = pattern(BIG);
    for (int odd = 0; odd < 2; odd++) {
        secure_well();
        read_both();
        carry(65536);
        link_.client.room = 5000;
        size_t sent = 0;
        while (sent < BIG) {
            struct slice parts[5];
            size_t count = 0;
            for (; count < 5 && sent < BIG; count++) {
                size_t n = odd ? (sent * 7 + count) % 40000 : count % 2 ? 16384 : 30;
                if (n > BIG - sent) n = BIG - sent;
                parts[count] = slice_make(bytes + sent, n);
                sent += n;
                if (n == 0) sent++, parts[count] = slice_make(bytes + sent - 1, 1);
            }
            stream_send(&link_.client.stream, parts, count);
        }
        assert_true(stream_queued(&link_.client.stream) > BIG / 2);
        stream_shutdown(&link_.client.stream);
        assert_false(link_.client.shut);
        carry(odd ? 777 : 65536);
        assert_int_equal(link_.server.read.n, BIG);
        assert_memory_equal(link_.server.read.p, bytes, BIG);
        assert_int_equal(stream_queued(&link_.client.stream), 0);
        assert_true(link_.client.drains > 0);
        assert_true(link_.client.shut);
        assert_int_equal(link_.server.ends, 1);
        assert_int_equal(link_.server.end_error, 0);
        link_close();
    }
    free(bytes);
}

/* Switched off, nothing is told and no more is read; switched on, what is there comes without a byte from outside. */
static void back_pressure(void **state)
{
    (void)state;
    char *bytes = pattern(300000);
    secure_well();
    carry(65536);
    struct slice part = slice_make(bytes, 300000);
    stream_send(&link_.client.stream, &part, 1);
    stream_shutdown(&link_.client.stream);
    carry(65536);
    assert_int_equal(link_.server.read.n, 0);
    assert_false(link_.server.pulls);
    link_.server.pauses = true;
    stream_read(&link_.server.stream, true);
    size_t before = link_.client.carried;
    carry_one(&link_.client, &link_.server, 65536);
    assert_int_equal(link_.server.reads, 1);
    assert_false(link_.server.pulls);
    assert_true(link_.client.carried - before <= 65536);
    carry(65536);
    assert_int_equal(link_.server.reads, 1);
    for (int i = 0; i < 100 && !link_.server.ends; i++) {
        size_t reads = link_.server.reads, n = link_.server.read.n;
        stream_read(&link_.server.stream, true);
        assert_int_equal(link_.server.reads, reads);
        carry(30000);
        assert_true(link_.server.reads <= reads + 1);
        assert_true(link_.server.read.n - n <= 65536 + 16384);
    }
    assert_int_equal(link_.server.read.n, 300000);
    assert_memory_equal(link_.server.read.p, bytes, 300000);
    assert_int_equal(link_.server.ends, 1);
    assert_int_equal(link_.server.end_error, 0);
    link_close();
    free(bytes);
}

/* The end that came with the last bytes is told when reading is on again, not before. */
static void end_waits(void **state)
{
    (void)state;
    secure_well();
    read_both();
    carry(65536);
    link_.server.pauses = true;
    end_send(&link_.client, "last");
    stream_shutdown(&link_.client.stream);
    carry(65536);
    assert_int_equal(link_.server.read.n, 4);
    assert_int_equal(link_.server.ends, 0);
    stream_read(&link_.server.stream, true);
    assert_int_equal(link_.server.ends, 0);
    carry(65536);
    assert_int_equal(link_.server.ends, 1);
    assert_int_equal(link_.server.end_error, 0);
    link_close();
}

static void truncated(void **state)
{
    (void)state;
    for (int broken = 0; broken < 3; broken++) {
        secure_well();
        read_both();
        carry(65536);
        end_send(&link_.server, "an answer until the end");
        carry(65536);
        if (broken == 2) { /* a byte of a record is another one */
            end_send(&link_.server, "x");
            link_.server.sent.p[link_.server.sent.n - 1] ^= 1;
            carry(65536);
        } else {
            stream_got_end(&link_.client.stream, broken ? UV_ECONNABORTED : 0);
        }
        assert_int_equal(link_.client.read.n, 23);
        assert_int_equal(link_.client.ends, 1);
        assert_int_equal(link_.client.end_error, broken == 2 ? TLS_PROTOCOL : broken ? UV_ECONNABORTED : UV_ECONNRESET);
        link_close();
    }
}

static void ends_within_the_handshake(void **state)
{
    (void)state;
    for (int error = 0; error < 2; error++) {
        secure_well();
        carry_one(&link_.client, &link_.server, 50);
        stream_got_end(&link_.server.stream, error ? UV_ECONNRESET : 0);
        assert_int_equal(link_.server.secured, 1);
        assert_int_equal(link_.server.error, UV_ECONNRESET);
        assert_int_equal(link_.server.ends, 0);
        link_close();
    }
    secure_well(); /* a write fails */
    link_.server.room = 0;
    carry_one(&link_.client, &link_.server, 9999);
    assert_non_null(link_.server.writing.base);
    link_.server.writing = uv_buf_init(NULL, 0);
    stream_written(&link_.server.stream, UV_EPIPE);
    assert_int_equal(link_.server.secured, 0);
    loop_advance(link_.loop, 20);
    loop_turn(link_.loop);
    assert_int_equal(link_.server.secured, 1);
    assert_int_equal(link_.server.error, UV_EPIPE);
    link_close();
}

/* Closed after each piece of a connection's life, by either side, and inside its callback. */
static void closed_anywhere(void **state)
{
    (void)state;
    for (int pieces = 0; pieces < 60; pieces++) {
        for (int who = 0; who < 2; who++) {
            secure_well();
            for (int i = 0; i < pieces; i++) carry_both(97);
            struct end *e = who ? &link_.server : &link_.client;
            if (pieces % 2) read_both();
            stream_close(&e->stream, end_on_closed);
            carry(97);
            link_close();
        }
    }
    secure_well();
    link_.client.closes_when_secured = link_.server.closes_when_secured = true;
    carry(97);
    assert_int_equal(link_.client.secured, 1);
    link_close();
}

/* A close says the end in order, unless a break is meant. */
static void close_says_so(void **state)
{
    (void)state;
    for (int reset = 0; reset < 2; reset++) {
        secure_well();
        read_both();
        carry(65536);
        link_.server.stream.reset = reset;
        stream_close(&link_.server.stream, end_on_closed);
        carry(65536);
        assert_int_equal(link_.client.ends, reset ? 0 : 1);
        assert_int_equal(link_.client.end_error, 0);
        link_close();
    }
}

static void no_name(void **state)
{
    (void)state;
    static char too_long[400];
    memset(too_long, 'a', sizeof too_long - 1);
    secure(server_with(&ids.server, SLICE(""), TLS_ASK_NONE), client_with(NULL, ids.ca.certificate), too_long);
    loop_advance(link_.loop, 20);
    carry(65536);
    assert_int_equal(link_.client.secured, 1);
    assert_int_equal(link_.client.error, TLS_CERTIFICATE);
    link_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shakes_hands),       cmocka_unit_test(early_data_waits),
        cmocka_unit_test(refuses),            cmocka_unit_test(accepts),
        cmocka_unit_test(not_tls),            cmocka_unit_test(transfers),
        cmocka_unit_test(back_pressure),      cmocka_unit_test(end_waits),
        cmocka_unit_test(truncated),          cmocka_unit_test(ends_within_the_handshake),
        cmocka_unit_test(closed_anywhere),    cmocka_unit_test(close_says_so),
        cmocka_unit_test(no_name),
    };
    return cmocka_run_group_tests(tests, identities_set_up, identities_tear_down);
}
