/* io/tls: contexts. Called by proxy/ and remote/. Only the shape of it yet: nothing can be made, so nothing is secured. */
#include "io/tls.h"

#include <stdlib.h>
#include <uv.h>

#include "base/check.h"
#include "io/stream.h"

struct tls_context {
    size_t refs;
};

struct tls_context *tls_server_create(const struct tls_config *c, char **error)
{
    (void)c;
    *error = xstrdup("TLS is not there yet");
    return NULL;
}

struct tls_context *tls_client_create(const struct tls_config *c, char **error)
{
    return tls_server_create(c, error);
}

struct tls_context *tls_context_hold(struct tls_context *ctx)
{
    ctx->refs++;
    return ctx;
}

void tls_context_release(struct tls_context *ctx)
{
    if (ctx && --ctx->refs == 0) free(ctx);
}

int64_t tls_context_expiry(const struct tls_context *ctx)
{
    (void)ctx;
    return 0;
}

const char *tls_error_label(int error)
{
    switch (error) {
    case TLS_NOT_SPOKEN:
        return "not_tls";
    case TLS_CERTIFICATE:
        return "certificate";
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

void stream_secure_server(struct stream *s, struct tls_context *ctx, stream_secured on_secured)
{
    (void)s;
    (void)ctx;
    (void)on_secured;
    CHECK(false, "no context can be made yet");
}

void stream_secure_client(struct stream *s, struct tls_context *ctx, const char *name, stream_secured on_secured)
{
    (void)name;
    stream_secure_server(s, ctx, on_secured);
}

struct slice stream_peer_subject(const struct stream *s)
{
    (void)s;
    return SLICE("");
}

const char *stream_tls_version(const struct stream *s)
{
    (void)s;
    return "";
}

const char *stream_tls_fault(const struct stream *s)
{
    (void)s;
    return NULL;
}
