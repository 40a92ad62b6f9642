/* io/tls_stream: TLS as a filter of a stream. OpenSSL reads from what the transport has just read and writes into one
   buffer of the process that is handed on at the end of each step: nothing of it is kept per connection but what OpenSSL
   has of a record, and the rest of one read where reading was switched off in the midst of it. Called by io/stream.
   Refuses whoever does not begin with a handshake, and an end that TLS was not told of. */
#include "io/tls_stream.h"

#include <arpa/inet.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "io/tls_fault.h"
#include "io/tls_hello.h"

#define RECORD_BYTES 16384
#define SEALED_BYTES (RECORD_BYTES + 512) /* a record with all that is around it */
#define OWED_MAX 16384     /* answers of TLS itself (key updates, alerts) to a peer that does not read them */
#define PASSED_OVER_MAX 65536 /* behind a handshake that failed */
#define SUBJECT_MAX 1024
#define RECORD_HANDSHAKE 22 /* RFC 8446 5.1 */
#define RECORD_ALERT 21

enum state { SHAKES_HANDS, OPEN, FAILED };

struct tls_stream {
    SSL *ssl;
    struct tls_context *ctx;
    struct stream *stream;
    stream_secured on_secured;
    struct slice in;        /* read and not yet taken: in saved, or in the reader's buffer inside tls_got */
    char *saved;            /* heap */
    struct deadline resume; /* goes on with what is there, in a turn of its own */
    enum state state;
    struct tls_hello hello; /* of a client, to a server */
    bool server;
    bool began;             /* something came */
    bool running;
    bool pulls;             /* the transport is read */
    bool said_bye;
    bool received;          /* a plain byte */
    bool wanted;            /* the peer asked for a certificate, and there is none */
    bool has_end;           /* end_error is to be told once reading is on */
    int end_error;
    size_t owed;
    size_t passed_over;
    bool has_fault;
    char fault[192];
    char name[256];
    char *subject;          /* heap; NULL: none */
};

/* Used by one call at a time and empty in between. */
static char sealed[4 * SEALED_BYTES];
static size_t sealed_n;
static char gathered[RECORD_BYTES];
static char opened[65536 + RECORD_BYTES];

static int on_bio_read(BIO *bio, char *out, int n);
static int on_bio_write(BIO *bio, const char *bytes, int n);
static long on_bio_ctrl(BIO *bio, int cmd, long larg, void *parg);
static void on_resume(struct deadline *d);

static void flush(struct tls_stream *t)
{
    if (sealed_n == 0) return;
    struct slice bytes = slice_make(sealed, sealed_n);
    sealed_n = 0;
    stream_pass(t->stream, bytes);
}

static void pull(struct tls_stream *t, bool on)
{
    if (t->pulls == on) return;
    t->pulls = on;
    stream_pull(t->stream, on);
}

static const char *const none_configured = "the peer wants a certificate, and none is configured";

static int blame(struct tls_stream *t, int error, const char *why)
{
    snprintf(t->fault, sizeof t->fault, "%s", why);
    t->has_fault = true;
    return error;
}

/* What went wrong just now in OpenSSL. */
static int explain(struct tls_stream *t)
{
    int error = tls_fault(t->ssl, t->name, t->fault, sizeof t->fault);
    t->has_fault = true;
    if (!t->wanted || (error != TLS_REFUSED && error != TLS_CERTIFICATE_REFUSED)) return error;
    return blame(t, TLS_CERTIFICATE_REFUSED, none_configured);
}

/* The handshake came to nothing: what still comes is passed over, so that the peer can read our alert. */
static void refuse(struct tls_stream *t, int error)
{
    t->state = FAILED;
    t->in = slice_make(NULL, 0);
    t->on_secured(t->stream, error, t->fault);
}

/* RFC 2253, ASCII. Who has a subject longer than we would tell the policy is not let in. */
static bool read_subject(struct tls_stream *t)
{
    X509 *x = SSL_get0_peer_certificate(t->ssl);
    if (!x || SSL_get_verify_result(t->ssl) != X509_V_OK) return true;
    BIO *bio = BIO_new(BIO_s_mem());
    char *text = NULL;
    CHECK(bio, "memory for a name");
    X509_NAME_print_ex(bio, X509_get_subject_name(x), 0, XN_FLAG_RFC2253);
    long n = BIO_get_mem_data(bio, &text);
    bool ok = n >= 0 && n <= SUBJECT_MAX;
    if (ok && n) {
        t->subject = xzalloc((size_t)n + 1);
        memcpy(t->subject, text, (size_t)n);
    }
    BIO_free(bio);
    return ok;
}

/* One step of the handshake. False: more bytes are needed, or it failed. */
static bool shake_hands(struct tls_stream *t)
{
    ERR_clear_error();
    int done = SSL_do_handshake(t->ssl);
    int fault = done == 1 ? SSL_ERROR_NONE : SSL_get_error(t->ssl, done), error = 0;
    if (done == 1 && t->server && !read_subject(t))
        error = blame(t, TLS_CERTIFICATE, "the subject of the certificate is too long");
    else if (done != 1 && fault != SSL_ERROR_WANT_READ)
        error = explain(t);
    ERR_clear_error();
    flush(t);
    if (error) {
        refuse(t, error);
        return false;
    }
    if (done != 1) return false;
    t->state = OPEN;
    t->on_secured(t->stream, 0, "");
    return true;
}

/* To what SSL_read said in the end: true where there may be more. */
static bool note_end(struct tls_stream *t, int fault)
{
    switch (fault) {
    case SSL_ERROR_NONE:
        return true;
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
        return false;
    case SSL_ERROR_ZERO_RETURN:
        t->has_end = true;
        t->end_error = 0;
        return true;
    default:
        t->has_end = true;
        t->end_error = explain(t);
        return true;
    }
}

/* One helping of plain bytes: whole records, up to what one read of the transport gives. False: nothing is left. */
static bool take(struct tls_stream *t)
{
    struct stream *s = t->stream;
    size_t n = 0;
    int got;
    ERR_clear_error();
    do {
        got = SSL_read(t->ssl, opened + n, (int)(sizeof opened - n));
        if (got > 0) n += (size_t)got;
    } while (got > 0 && sizeof opened - n >= RECORD_BYTES);
    bool more = note_end(t, got > 0 ? SSL_ERROR_NONE : SSL_get_error(t->ssl, got));
    ERR_clear_error();
    t->owed = stream_queued(s) ? t->owed + sealed_n : sealed_n;
    flush(t);
    if (t->owed > OWED_MAX && stream_queued(s)) {
        t->has_end = true;
        t->end_error = blame(t, TLS_PROTOCOL, "the peer asks and does not read");
    }
    t->received |= n > 0;
    if (n) s->events->on_read(s, slice_make(opened, n));
    return more;
}

static void save(struct tls_stream *t)
{
    if (t->in.n == 0) {
        free(t->saved);
        t->saved = NULL;
        return;
    }
    if (t->saved) return; /* in is the rest of it */
    t->saved = xmalloc(t->in.n);
    memcpy(t->saved, t->in.p, t->in.n);
    t->in.p = t->saved;
}

/* All that can be done with what is there. The stream may be closed (not freed) in any of it. */
static void run(struct tls_stream *t)
{
    struct stream *s = t->stream;
    bool more = true;
    t->running = true;
    while (more && !s->closing && !s->ended) {
        if (t->state == SHAKES_HANDS) {
            more = shake_hands(t);
        } else if (t->state == FAILED || !s->reading) {
            more = false;
        } else if (t->has_end) {
            stream_tell_end(s, t->end_error);
        } else {
            more = take(t);
        }
    }
    t->running = false;
    if (s->closing || s->ended) t->in = slice_make(NULL, 0);
    save(t);
    if (!s->closing && !s->ended) pull(t, t->state != OPEN || s->reading);
}

static bool begins_well(const struct tls_stream *t, struct slice bytes)
{
    return bytes.p[0] == RECORD_HANDSHAKE || (!t->server && bytes.p[0] == RECORD_ALERT);
}

void tls_got(struct stream *s, struct slice bytes)
{
    struct tls_stream *t = s->tls;
    if (t->state == FAILED) {
        t->passed_over += bytes.n;
        if (t->passed_over > PASSED_OVER_MAX) stream_tell_end(s, TLS_PROTOCOL);
        return;
    }
    CHECK(t->in.n == 0, "nothing is read while something is left");
    t->in = bytes;
    if (!t->began && !begins_well(t, bytes)) {
        refuse(t, blame(t, TLS_NOT_SPOKEN, "the peer does not speak TLS"));
        return;
    }
    t->began = true;
    if (t->server && t->state == SHAKES_HANDS &&
        !tls_hello_take(&t->hello, bytes, SSL_version(t->ssl) == TLS1_2_VERSION)) {
        refuse(t, blame(t, TLS_PROTOCOL, "the client's hello is too long"));
        return;
    }
    run(t);
}

void tls_ended(struct stream *s, int error)
{
    struct tls_stream *t = s->tls;
    if (t->state == SHAKES_HANDS)
        refuse(t, t->has_fault ? error : blame(t, error ? error : UV_ECONNRESET,
                                               error ? uv_strerror(error) : "the peer ended within the handshake"));
    else if (t->state == FAILED)
        stream_tell_end(s, error);
    else if (t->wanted && !t->received) /* TLS 1.3: its alert may be lost where it did not read what we sent */
        stream_tell_end(s, blame(t, TLS_CERTIFICATE_REFUSED, none_configured));
    else
        stream_tell_end(s, error ? error : blame(t, UV_ECONNRESET, "the peer ended without a close_notify"));
}

void tls_read(struct stream *s)
{
    struct tls_stream *t = s->tls;
    if (t->running || t->state != OPEN) return; /* seen to at the end of it */
    deadline_stop(&t->resume);
    if (s->reading && (t->in.n || t->has_end))
        deadline_now(s->loop, &t->resume);
    else
        pull(t, s->reading);
}

static void on_resume(struct deadline *d)
{
    run(container_of(d, struct tls_stream, resume));
}

/* Up to one record's worth from parts[*i] + *at on: where it stands if it is large, else copied together. */
static struct slice next_record(const struct slice *parts, size_t n, size_t *i, size_t *at)
{
    size_t have = 0;
    while (*i < n && have < RECORD_BYTES) {
        struct slice rest = slice_make(parts[*i].p + *at, parts[*i].n - *at);
        size_t take_n = rest.n < RECORD_BYTES - have ? rest.n : RECORD_BYTES - have;
        bool whole = have == 0 && (take_n == RECORD_BYTES || *i + 1 == n);
        if (!whole && take_n) memcpy(gathered + have, rest.p, take_n);
        have += take_n;
        *at += take_n;
        if (*at == parts[*i].n) {
            (*i)++;
            *at = 0;
        }
        if (whole) return slice_make(rest.p, take_n);
    }
    return slice_make(gathered, have);
}

void tls_send(struct stream *s, const struct slice *parts, size_t n)
{
    struct tls_stream *t = s->tls;
    if (t->state != OPEN || t->said_bye) return;
    size_t i = 0, at = 0;
    bool ok = true;
    ERR_clear_error();
    while (ok && i < n) {
        struct slice record = next_record(parts, n, &i, &at);
        ok = record.n == 0 || SSL_write(t->ssl, record.p, (int)record.n) == (int)record.n;
    }
    int error = ok ? 0 : explain(t);
    flush(t);
    if (error) stream_fail(s, error);
}

void tls_bye(struct stream *s)
{
    struct tls_stream *t = s->tls;
    if (t->state != OPEN || t->said_bye) return;
    t->said_bye = true;
    ERR_clear_error();
    SSL_shutdown(t->ssl);
    ERR_clear_error();
    flush(t);
}

void tls_stop(struct stream *s)
{
    /* An end in order is said where it can be: to a peer that took all, and is not to see a break. */
    if (!s->reset && !s->failed_error && stream_queued(s) == 0) tls_bye(s);
    deadline_stop(&s->tls->resume);
}

void tls_free(struct stream *s)
{
    struct tls_stream *t = s->tls;
    s->tls = NULL;
    deadline_stop(&t->resume);
    SSL_free(t->ssl);
    tls_context_release(t->ctx);
    free(t->subject);
    free(t->saved);
    free(t);
}

bool tls_shakes_hands(const struct stream *s)
{
    return s->tls->state == SHAKES_HANDS;
}

static int on_bio_read(BIO *bio, char *out, int n)
{
    struct tls_stream *t = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (n <= 0) return 0;
    if (t->in.n == 0) {
        BIO_set_retry_read(bio);
        return -1;
    }
    size_t took = t->in.n < (size_t)n ? t->in.n : (size_t)n;
    memcpy(out, t->in.p, took);
    t->in.p += took;
    t->in.n -= took;
    return (int)took;
}

static int on_bio_write(BIO *bio, const char *bytes, int n)
{
    struct tls_stream *t = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    for (size_t left = n > 0 ? (size_t)n : 0; left;) {
        if (sealed_n == sizeof sealed) flush(t);
        size_t room = sizeof sealed - sealed_n, took = left < room ? left : room;
        memcpy(sealed + sealed_n, bytes, took);
        sealed_n += took;
        bytes += took;
        left -= took;
    }
    return n;
}

static long on_bio_ctrl(BIO *bio, int cmd, long larg, void *parg)
{
    (void)bio;
    (void)larg;
    (void)parg;
    return cmd == BIO_CTRL_FLUSH || cmd == BIO_CTRL_PUSH || cmd == BIO_CTRL_POP;
}

static BIO *make_bio(struct tls_stream *t)
{
    static BIO_METHOD *method; /* as long as the process */
    if (!method) {
        method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "stream");
        CHECK(method && BIO_meth_set_read(method, on_bio_read) && BIO_meth_set_write(method, on_bio_write) &&
                  BIO_meth_set_ctrl(method, on_bio_ctrl),
              "a BIO of our own");
    }
    BIO *bio = BIO_new(method);
    CHECK(bio, "memory for a BIO");
    BIO_set_data(bio, t);
    BIO_set_init(bio, 1);
    return bio;
}

static struct tls_stream *secure(struct stream *s, struct tls_context *ctx, bool server, stream_secured on_secured)
{
    struct tls_stream *t = xzalloc(sizeof *t);
    CHECK(!s->tls && !s->closing, "a stream is secured once");
    ERR_clear_error();
    t->ssl = tls_context_session(ctx, &t->wanted);
    t->ctx = tls_context_hold(ctx);
    t->stream = s;
    t->server = server;
    t->on_secured = on_secured;
    deadline_init(&t->resume, on_resume);
    BIO *bio = make_bio(t);
    SSL_set_bio(t->ssl, bio, bio);
    s->tls = t;
    return t;
}

void stream_secure_server(struct stream *s, struct tls_context *ctx, stream_secured on_secured)
{
    struct tls_stream *t = secure(s, ctx, true, on_secured);
    SSL_set_accept_state(t->ssl);
    pull(t, true);
}

/* Whom the certificate must be for. False: it is no name that one could be for; to OpenSSL a dot in front means whatever
   stands before it. */
static bool expect_name(struct tls_stream *t, const char *name)
{
    unsigned char bytes[16];
    bool literal = inet_pton(AF_INET, name, bytes) == 1 || inet_pton(AF_INET6, name, bytes) == 1;
    X509_VERIFY_PARAM *param = SSL_get0_param(t->ssl);
    size_t n = strlen(name);
    if (n == 0 || n >= sizeof t->name || name[0] == '.') return false;
    memcpy(t->name, name, n);
    if (!literal && SSL_set_tlsext_host_name(t->ssl, name) != 1) return false;
    if (!tls_context_verifies(t->ctx)) return true;
    return literal ? X509_VERIFY_PARAM_set1_ip_asc(param, name) == 1 : X509_VERIFY_PARAM_set1_host(param, name, n) == 1;
}

void stream_secure_client(struct stream *s, struct tls_context *ctx, const char *name, stream_secured on_secured)
{
    struct tls_stream *t = secure(s, ctx, false, on_secured);
    SSL_set_connect_state(t->ssl);
    if (!expect_name(t, name)) {
        ERR_clear_error();
        stream_fail(s, blame(t, TLS_CERTIFICATE, "not a name that a certificate could be for"));
        return;
    }
    SSL_do_handshake(t->ssl); /* it can only want the answer: what goes wrong shows when that is read */
    ERR_clear_error();
    flush(t);
    pull(t, true);
}

struct slice stream_peer_subject(const struct stream *s)
{
    return s->tls && s->tls->subject ? slice_str(s->tls->subject) : SLICE("");
}

const char *stream_tls_version(const struct stream *s)
{
    return s->tls && s->tls->state == OPEN ? SSL_get_version(s->tls->ssl) : "";
}

const char *stream_tls_fault(const struct stream *s)
{
    return s->tls && s->tls->has_fault ? s->tls->fault : NULL;
}
