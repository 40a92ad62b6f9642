/* io/tls: contexts of TLS, made of PEM texts. Called by proxy/ and remote/ when configurations are read and renewed.
   Refuses a key that is not the certificate's, and asks for no passphrase; says which text is wrong, and never a byte of
   a key. */
#include "io/tls.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <uv.h>

#include "base/check.h"
#include "io/tls_stream.h"

#define ERROR_BYTES 256
#define CHAIN_MAX 10          /* certificates between one and its root */
#define CERTIFICATES_BYTES_MAX 65536 /* of a peer's chain */

/* TLS 1.2: forward secrecy and authenticated encryption only. Those of 1.3 all are. */
static const char ciphers[] = "ECDHE+AESGCM:ECDHE+CHACHA20:!aNULL:!PSK:!SRP";
static const unsigned char http_names[] = "\x08http/1.1";

struct tls_context {
    SSL_CTX *ssl;
    size_t refs;
    int64_t expires_s;
    bool verifies;
    unsigned char made_of[32]; /* SHA-256 */
    unsigned char asks[32];    /* likewise, of what is asked of clients */
};

static int on_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_n, const unsigned char *in, unsigned n,
                   void *arg);
static int on_passphrase(char *out, int size, int writing, void *arg);
static int on_certificate_wanted(SSL *ssl, X509 **x, EVP_PKEY **key);

static bool fail(char **error, const char *what, const char *why)
{
    char text[ERROR_BYTES];
    unsigned long code = ERR_peek_error();
    const char *reason = code ? ERR_reason_error_string(code) : NULL;
    if (reason)
        snprintf(text, sizeof text, "%s: %s (%s)", what, why, reason);
    else
        snprintf(text, sizeof text, "%s: %s", what, why);
    *error = xstrdup(text);
    ERR_clear_error();
    return false;
}

static BIO *reader(struct slice pem)
{
    BIO *bio = BIO_new_mem_buf(pem.p, (int)pem.n);
    CHECK(bio, "memory for a reader");
    return bio;
}

static int64_t end_of(X509 *x)
{
    struct tm tm;
    return ASN1_TIME_to_tm(X509_get0_notAfter(x), &tm) == 1 ? (int64_t)timegm(&tm) : 0;
}

/* The next certificate, or NULL: *ended where there is just none left. */
static X509 *next_certificate(BIO *bio, bool *ended)
{
    ERR_clear_error();
    X509 *x = PEM_read_bio_X509(bio, NULL, on_passphrase, NULL);
    *ended = !x && ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
    if (*ended) ERR_clear_error();
    return x;
}

static bool use_certificate(struct tls_context *ctx, struct slice pem, char **error)
{
    BIO *bio = reader(pem);
    bool ended = false, ok = true;
    size_t n = 0;
    X509 *x;
    while (ok && (x = next_certificate(bio, &ended))) {
        int64_t end = end_of(x);
        if (n == 0 || end < ctx->expires_s) ctx->expires_s = end;
        ok = n == 0 ? SSL_CTX_use_certificate(ctx->ssl, x) == 1 : SSL_CTX_add1_chain_cert(ctx->ssl, x) == 1;
        X509_free(x);
        if (ok)
            n++;
        else
            fail(error, "certificate", n ? "a certificate of the chain cannot be used" : "it cannot be used");
    }
    BIO_free(bio);
    if (!ok) return false;
    if (!ended) return fail(error, "certificate", n ? "a certificate of the chain cannot be read" : "it cannot be read");
    return n > 0 || fail(error, "certificate", "not a certificate in PEM");
}

static bool use_key(struct tls_context *ctx, struct slice pem, char **error)
{
    bool encrypted = false;
    ERR_clear_error();
    BIO *bio = reader(pem);
    EVP_PKEY *key = PEM_read_bio_PrivateKey(bio, NULL, on_passphrase, &encrypted);
    BIO_free(bio);
    if (!key) {
        ERR_clear_error(); /* its details are of the key's bytes */
        return fail(error, "key", encrypted ? "it needs a passphrase, expected one without" : "not a private key in PEM");
    }
    X509 *own = SSL_CTX_get0_certificate(ctx->ssl);
    bool fits = own && X509_check_private_key(own, key) == 1;
    ERR_clear_error();
    bool ok = fits ? SSL_CTX_use_PrivateKey(ctx->ssl, key) == 1 || fail(error, "key", "it cannot be used")
                   : fail(error, "key", own ? "it does not belong to the certificate" : "without a certificate");
    EVP_PKEY_free(key);
    return ok;
}

/* Whom to trust; a server also tells its clients these names. */
static bool use_authorities(struct tls_context *ctx, struct slice pem, bool server, char **error)
{
    X509_STORE *store = SSL_CTX_get_cert_store(ctx->ssl);
    BIO *bio = reader(pem);
    bool ended = false, ok = true;
    size_t n = 0;
    X509 *x;
    while (ok && (x = next_certificate(bio, &ended))) {
        ok = X509_STORE_add_cert(store, x) == 1 && (!server || SSL_CTX_add_client_CA(ctx->ssl, x) == 1);
        X509_free(x);
        n++;
    }
    BIO_free(bio);
    if (!ok || !ended) return fail(error, "ca", "a certificate of it cannot be read");
    return n > 0 || fail(error, "ca", "not a certificate in PEM");
}

static void harden(SSL_CTX *ssl)
{
    SSL_CTX_set_min_proto_version(ssl, TLS1_2_VERSION);
    SSL_CTX_set_options(ssl, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE |
                                 SSL_OP_PRIORITIZE_CHACHA);
    SSL_CTX_set_mode(ssl, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_AUTO_RETRY | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_max_cert_list(ssl, CERTIFICATES_BYTES_MAX);
    SSL_CTX_set_verify_depth(ssl, CHAIN_MAX);
    CHECK(SSL_CTX_set_cipher_list(ssl, ciphers) == 1, "ciphers");
    X509_VERIFY_PARAM *param = SSL_CTX_get0_param(ssl);
    /* What is configured is trusted as it is, a root or not; the name is in the names meant for that (RFC 6125 6.4.4). */
    X509_VERIFY_PARAM_set_flags(param, X509_V_FLAG_PARTIAL_CHAIN);
    X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
}

static struct tls_context *finish(struct tls_context *ctx, bool ok)
{
    ERR_clear_error();
    if (ok) return ctx;
    tls_context_release(ctx);
    return NULL;
}

static void digest(const struct tls_config *c, bool server, unsigned char out[32])
{
    const struct slice texts[] = {c->certificate, c->key, c->ca};
    const uint64_t plain[] = {texts[0].n, texts[1].n, texts[2].n, (uint64_t)c->ask, c->http, c->unverified, server};
    EVP_MD_CTX *md = EVP_MD_CTX_new();
    bool ok = md && EVP_DigestInit_ex(md, EVP_sha256(), NULL) && EVP_DigestUpdate(md, plain, sizeof plain);
    for (int i = 0; i < 3; i++) ok = ok && (texts[i].n == 0 || EVP_DigestUpdate(md, texts[i].p, texts[i].n));
    CHECK(ok && EVP_DigestFinal_ex(md, out, NULL), "SHA-256");
    EVP_MD_CTX_free(md);
}

static struct tls_context *begin(const SSL_METHOD *method, const struct tls_config *c, bool server)
{
    struct tls_context *ctx = xzalloc(sizeof *ctx);
    ERR_clear_error();
    ctx->refs = 1;
    ctx->ssl = SSL_CTX_new(method);
    CHECK(ctx->ssl, "memory for a TLS context");
    harden(ctx->ssl);
    struct tls_config asks = {.ca = c->ask == TLS_ASK_NONE ? SLICE("") : c->ca, .ask = c->ask};
    digest(c, server, ctx->made_of);
    digest(&asks, server, ctx->asks);
    return ctx;
}

/* Who offers other protocols only is told so (RFC 7301 3.2); who offers none speaks HTTP/1.1. */
static int on_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_n, const unsigned char *in, unsigned n,
                   void *arg)
{
    (void)ssl;
    (void)arg;
    for (unsigned i = 0; i < n && in[i] < n - i; i += 1u + in[i]) {
        if (in[i] != http_names[0] || memcmp(in + i, http_names, sizeof http_names - 1) != 0) continue;
        *out = in + i + 1;
        *out_n = in[i];
        return SSL_TLSEXT_ERR_OK;
    }
    return SSL_TLSEXT_ERR_ALERT_FATAL;
}

/* Nobody is there to be asked for one. */
static int on_passphrase(char *out, int size, int writing, void *arg)
{
    (void)out;
    (void)size;
    (void)writing;
    if (arg) *(bool *)arg = true;
    return -1;
}

/* By a server, of a client that has none: kept, since some only say "handshake failure" then. */
static int on_certificate_wanted(SSL *ssl, X509 **x, EVP_PKEY **key)
{
    (void)x;
    (void)key;
    *(bool *)SSL_get_app_data(ssl) = true;
    return 0;
}

struct tls_context *tls_server_create(const struct tls_config *c, char **error)
{
    struct tls_context *ctx = begin(TLS_server_method(), c, true);
    bool ok = use_certificate(ctx, c->certificate, error) && use_key(ctx, c->key, error);
    if (ok && c->ask != TLS_ASK_NONE) {
        ok = use_authorities(ctx, c->ca, true, error);
        SSL_CTX_set_verify(ctx->ssl, SSL_VERIFY_PEER | (c->ask == TLS_ASK_REQUIRED ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0),
                           NULL);
        /* Whoever is to show a certificate shows it on each connection, and it is verified each time. */
        SSL_CTX_set_options(ctx->ssl, SSL_OP_NO_TICKET);
        SSL_CTX_set_num_tickets(ctx->ssl, 0);
    } else {
        SSL_CTX_set_num_tickets(ctx->ssl, 1);
    }
    if (c->http) SSL_CTX_set_alpn_select_cb(ctx->ssl, on_alpn, NULL);
    return finish(ctx, ok);
}

struct tls_context *tls_client_create(const struct tls_config *c, char **error)
{
    struct tls_context *ctx = begin(TLS_client_method(), c, false);
    bool ok = true;
    ctx->verifies = !c->unverified;
    SSL_CTX_set_verify(ctx->ssl, ctx->verifies ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, NULL);
    if (c->ca.n)
        ok = use_authorities(ctx, c->ca, false, error);
    else if (ctx->verifies)
        SSL_CTX_set_default_verify_paths(ctx->ssl);
    if (ok && (c->certificate.n || c->key.n))
        ok = use_certificate(ctx, c->certificate, error) && use_key(ctx, c->key, error);
    else
        SSL_CTX_set_client_cert_cb(ctx->ssl, on_certificate_wanted);
    if (c->http) SSL_CTX_set_alpn_protos(ctx->ssl, http_names, sizeof http_names - 1);
    return finish(ctx, ok);
}

struct tls_context *tls_context_hold(struct tls_context *ctx)
{
    ctx->refs++;
    return ctx;
}

void tls_context_release(struct tls_context *ctx)
{
    if (!ctx || --ctx->refs > 0) return;
    SSL_CTX_free(ctx->ssl);
    free(ctx);
}

bool tls_context_same(const struct tls_context *a, const struct tls_context *b)
{
    return a == b || (a && b && CRYPTO_memcmp(a->made_of, b->made_of, sizeof a->made_of) == 0);
}

bool tls_context_asks_same(const struct tls_context *a, const struct tls_context *b)
{
    return CRYPTO_memcmp(a->asks, b->asks, sizeof a->asks) == 0;
}

int64_t tls_context_expiry(const struct tls_context *ctx)
{
    return ctx->expires_s;
}

const char *tls_error_label(int error)
{
    switch (error) {
    case TLS_NOT_SPOKEN:
        return "not_tls";
    case TLS_CERTIFICATE:
        return "certificate";
    case TLS_CERTIFICATE_REFUSED:
    case TLS_REFUSED:
        return "alert";
    case TLS_PROTOCOL:
        return "protocol";
    case UV_ETIMEDOUT:
        return "timeout";
    default:
        return "closed";
    }
}

struct ssl_st *tls_context_session(struct tls_context *ctx, bool *wanted)
{
    SSL *ssl = SSL_new(ctx->ssl);
    CHECK(ssl && SSL_set_app_data(ssl, wanted), "memory for a TLS connection");
    return ssl;
}

bool tls_context_verifies(const struct tls_context *ctx)
{
    return ctx->verifies;
}
