/* io/tls_stream against a client that is OpenSSL itself and asks for what it should not get: old versions, weak ciphers,
   other protocols, renegotiation, answers without end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include "certificates.h"
#include "tls_link.h"

static struct {
    SSL_CTX *ctx;
    SSL *ssl;
    BIO *in, *out; /* what it reads, what it wrote */
} raw;

static void raw_open(void)
{
    char *error = NULL;
    struct tls_config c = {.certificate = ids.server.certificate, .key = ids.server.key_pem, .http = true};
    struct tls_context *ctx = tls_server_create(&c, &error);
    assert_non_null(ctx);
    link_open();
    stream_secure_server(&link_.server.stream, ctx, end_on_secured);
    stream_read(&link_.server.stream, true);
    tls_context_release(ctx);
    raw.ctx = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_security_level(raw.ctx, 0);
    SSL_CTX_set_cipher_list(raw.ctx, "ALL");
    raw.ssl = SSL_new(raw.ctx);
    raw.in = BIO_new(BIO_s_mem());
    raw.out = BIO_new(BIO_s_mem());
    SSL_set_bio(raw.ssl, raw.in, raw.out);
    SSL_set_connect_state(raw.ssl);
}

static void raw_close(void)
{
    SSL_free(raw.ssl);
    SSL_CTX_free(raw.ctx);
    ERR_clear_error();
    link_close();
}

/* What it wrote, to the server; without its answers. */
static void raw_push(void)
{
    char bytes[4096];
    int n;
    while (link_.server.pulls && (n = BIO_read(raw.out, bytes, sizeof bytes)) > 0)
        stream_got(&link_.server.stream, slice_make(bytes, (size_t)n));
    loop_turn(link_.loop);
}

static void raw_carry(void)
{
    char bytes[4096];
    for (int i = 0; i < 10; i++) {
        SSL_do_handshake(raw.ssl);
        ERR_clear_error();
        raw_push();
        struct end *e = &link_.server;
        if (e->sent.n > e->carried) BIO_write(raw.in, e->sent.p + e->carried, (int)(e->sent.n - e->carried));
        e->carried = e->sent.n;
        (void)!SSL_read(raw.ssl, bytes, sizeof bytes);
    }
}

static void fails(int error, const char *why)
{
    raw_carry();
    if (link_.server.error != error || !strstr(link_.server.why, why))
        fail_msg("%d %s", link_.server.error, link_.server.why);
    assert_string_equal(tls_error_label(error), "protocol");
    assert_int_equal(link_.server.secured, 1);
    raw_close();
}

static void old_versions(void **state)
{
    (void)state;
    static const int versions[] = {TLS1_VERSION, TLS1_1_VERSION};
    for (size_t i = 0; i < 2; i++) {
        raw_open();
        SSL_set_min_proto_version(raw.ssl, versions[i]);
        SSL_set_max_proto_version(raw.ssl, versions[i]);
        fails(TLS_PROTOCOL, "unsupported protocol");
    }
}

static void ciphers(void **state)
{
    (void)state;
    static const char *const weak[] = {"AES128-SHA", "AES256-GCM-SHA384", "ECDHE-ECDSA-AES128-SHA",
                                       "ECDHE-ECDSA-AES256-SHA384", "aNULL", "eNULL", "DHE-RSA-AES128-SHA"};
    for (size_t i = 0; i < sizeof weak / sizeof *weak; i++) {
        raw_open();
        SSL_set_max_proto_version(raw.ssl, TLS1_2_VERSION);
        assert_int_equal(SSL_set_cipher_list(raw.ssl, weak[i]), 1);
        fails(TLS_PROTOCOL, "no shared cipher");
    }
    raw_open();
    SSL_set_max_proto_version(raw.ssl, TLS1_2_VERSION);
    raw_carry();
    assert_string_equal(link_.server.why, "");
    assert_string_equal(stream_tls_version(&link_.server.stream), "TLSv1.2");
    assert_non_null(strstr(SSL_get_cipher(raw.ssl), "ECDHE-"));
    assert_null(SSL_get_current_compression(raw.ssl));
    raw_close();
}

static void protocols(void **state)
{
    (void)state;
    raw_open();
    SSL_set_alpn_protos(raw.ssl, (const unsigned char *)"\x02h2\x08http/1.0", 12);
    fails(TLS_PROTOCOL, "no application protocol");
    raw_open();
    SSL_set_alpn_protos(raw.ssl, (const unsigned char *)"\x02h2\x08http/1.1", 12);
    raw_carry();
    const unsigned char *name;
    unsigned n;
    SSL_get0_alpn_selected(raw.ssl, &name, &n);
    assert_int_equal(n, 8);
    assert_memory_equal(name, "http/1.1", 8);
    raw_close();
}

static void renegotiation(void **state)
{
    (void)state;
    raw_open();
    SSL_set_max_proto_version(raw.ssl, TLS1_2_VERSION);
    raw_carry();
    assert_int_equal(link_.server.error, 0);
    assert_int_equal(SSL_renegotiate(raw.ssl), 1);
    size_t before = link_.server.sent.n;
    SSL_do_handshake(raw.ssl);
    ERR_clear_error();
    raw_push();
    assert_int_equal(link_.server.ends, 0);
    assert_true(link_.server.sent.n - before < 100); /* an alert, no handshake */
    raw_carry();
    assert_int_equal(link_.server.secured, 1);
    raw_close();
}

/* Key updates that ask for ours, by a peer that reads none: what is owed is bounded, and that is the end of it. */
static void asks_without_reading(void **state)
{
    (void)state;
    raw_open();
    raw_carry();
    link_.server.room = 0;
    for (int i = 0; i < 5000 && !link_.server.ends; i++) {
        SSL_key_update(raw.ssl, SSL_KEY_UPDATE_REQUESTED);
        SSL_write(raw.ssl, "x", 1);
        raw_push();
        assert_true(stream_queued(&link_.server.stream) < 64 * 1024);
    }
    assert_int_equal(link_.server.ends, 1);
    assert_int_equal(link_.server.end_error, TLS_PROTOCOL);
    raw_close();
    raw_open(); /* who reads may ask */
    raw_carry();
    for (int i = 0; i < 1000; i++) {
        SSL_key_update(raw.ssl, SSL_KEY_UPDATE_REQUESTED);
        SSL_write(raw.ssl, "x", 1);
        raw_push();
    }
    assert_int_equal(link_.server.ends, 0);
    assert_int_equal(link_.server.read.n, 1000);
    raw_close();
}

static void garbage(void **state)
{
    (void)state;
    char bytes[2000];
    unsigned x = 7;
    for (int i = 0; i < 300; i++) {
        raw_open();
        size_t n = 0;
        SSL_do_handshake(raw.ssl);
        if (i % 2) n = (size_t)BIO_read(raw.out, bytes, sizeof bytes); /* a hello with broken bytes in it */
        for (size_t k = n ? (size_t)i / 2 : 0; k < (n ? (size_t)i / 2 + 3 : sizeof bytes); k++)
            bytes[k] = (char)((x = x * 1664525u + 1013904223u) >> 24);
        if (n == 0) memcpy(bytes, "\x16\x03\x01\x01\x00\x01", 6);
        stream_got(&link_.server.stream, slice_make(bytes, n ? n : sizeof bytes));
        loop_turn(link_.loop);
        assert_true(link_.server.secured <= 1);
        assert_int_equal(link_.server.read.n, 0);
        assert_int_equal(ERR_peek_error(), 0);
        raw_close();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(old_versions),  cmocka_unit_test(ciphers),
        cmocka_unit_test(protocols),     cmocka_unit_test(renegotiation),
        cmocka_unit_test(garbage),       cmocka_unit_test(asks_without_reading),
    };
    return cmocka_run_group_tests(tests, identities_set_up, identities_tear_down);
}
