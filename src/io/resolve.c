/* io/resolve: names by getaddrinfo in libuv's threads. Called by proxy/endpoint. A question that is cancelled while a
   thread has it is freed when that comes back. */
#include "io/resolve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "io/address.h"

#define ADDRESSES_MAX 64

struct resolve {
    uv_getaddrinfo_t req;
    struct deadline deadline; /* tells that it could not be started */
    resolve_done done;        /* NULL: cancelled */
    void *arg;
    int status;
};

static void on_due(struct deadline *d);
static void on_resolved(uv_getaddrinfo_t *req, int status, struct addrinfo *addresses);

static bool holds(const struct sockaddr_storage *v, size_t n, const struct sockaddr_storage *a)
{
    for (size_t i = 0; i < n; i++)
        if (address_same(&v[i], a)) return true;
    return false;
}

static size_t copy(struct sockaddr_storage *v, const struct addrinfo *a)
{
    size_t n = 0;
    for (; a && n < ADDRESSES_MAX; a = a->ai_next) {
        struct sockaddr_storage one = {0};
        if ((a->ai_family != AF_INET && a->ai_family != AF_INET6) || a->ai_addrlen > sizeof one) continue;
        memcpy(&one, a->ai_addr, a->ai_addrlen);
        if (!holds(v, n, &one)) v[n++] = one;
    }
    return n;
}

static void on_due(struct deadline *deadline)
{
    struct resolve *r = container_of(deadline, struct resolve, deadline);
    if (r->done) r->done(r->status, NULL, 0, r->arg);
    free(r);
}

static void on_resolved(uv_getaddrinfo_t *req, int status, struct addrinfo *addresses)
{
    struct resolve *r = container_of(req, struct resolve, req);
    struct sockaddr_storage v[ADDRESSES_MAX];
    size_t n = status ? 0 : copy(v, addresses);
    if (addresses) uv_freeaddrinfo(addresses);
    if (status == 0 && n == 0) status = UV_EAI_NODATA;
    if (r->done) r->done(status, v, n, r->arg);
    free(r);
}

struct resolve *resolve_start(struct loop *l, const char *host, int port, resolve_done done, void *arg)
{
    struct resolve *r = xzalloc(sizeof *r);
    char service[16];
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
    snprintf(service, sizeof service, "%d", port);
    r->done = done;
    r->arg = arg;
    deadline_init(&r->deadline, on_due);
    r->status = uv_getaddrinfo(loop_uv(l), &r->req, on_resolved, host, service, &hints);
    if (r->status) deadline_after(l, &r->deadline, 0);
    return r;
}

void resolve_cancel(struct resolve *r)
{
    r->done = NULL;
    if (!r->status) {
        uv_cancel((uv_req_t *)&r->req); /* where a thread has it already its callback comes late and only frees */
        return;
    }
    deadline_stop(&r->deadline);
    free(r);
}
