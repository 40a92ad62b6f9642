/* io/resolve: names by getaddrinfo in libuv's threads. Called by proxy/endpoint and dial. One name is in one thread at
   most, however often it is asked for and given up: else a name that hangs would have all threads, and no other name one. */
#include "io/resolve.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "io/address.h"

#define ADDRESSES_MAX 64

struct question { /* what a thread is asked */
    uv_getaddrinfo_t req;
    struct list link;   /* of questions */
    struct list askers; /* may all be gone: it stays while the thread has it */
    struct loop *loop;
    char host[];
};

struct resolve {
    struct list link;          /* of askers */
    struct question *question; /* NULL: could not be started, or is being told */
    struct deadline deadline;  /* tells that it could not be started */
    resolve_done done;
    void *arg;
    int port;
    int status;
};

static struct list questions = {&questions, &questions};

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

static void set_port(struct sockaddr_storage *a, int port)
{
    if (a->ss_family == AF_INET)
        ((struct sockaddr_in *)a)->sin_port = htons((uint16_t)port);
    else
        ((struct sockaddr_in6 *)a)->sin6_port = htons((uint16_t)port);
}

static void on_due(struct deadline *deadline)
{
    struct resolve *r = container_of(deadline, struct resolve, deadline);
    r->done(r->status, NULL, 0, r->arg);
    free(r);
}

static void on_resolved(uv_getaddrinfo_t *req, int status, struct addrinfo *addresses)
{
    struct question *q = container_of(req, struct question, req);
    struct sockaddr_storage v[ADDRESSES_MAX];
    size_t n = status ? 0 : copy(v, addresses);
    if (addresses) uv_freeaddrinfo(addresses);
    if (status == 0 && n == 0) status = UV_EAI_NODATA;
    list_remove(&q->link); /* who asks from now on asks anew */
    for (struct list *at = q->askers.next; at != &q->askers; at = at->next)
        container_of(at, struct resolve, link)->question = NULL;
    while (!list_empty(&q->askers)) {
        struct resolve *r = container_of(q->askers.next, struct resolve, link);
        list_remove(&r->link);
        for (size_t i = 0; i < n; i++) set_port(&v[i], r->port);
        r->done(status, v, n, r->arg);
        free(r);
    }
    free(q);
}

static struct question *find(const struct loop *l, const char *host)
{
    for (struct list *at = questions.next; at != &questions; at = at->next) {
        struct question *q = container_of(at, struct question, link);
        if (q->loop == l && strcmp(q->host, host) == 0) return q;
    }
    return NULL;
}

/* NULL: *status says why it could not be started. */
static struct question *ask(struct loop *l, const char *host, int *status)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
    size_t n = strlen(host) + 1;
    struct question *q = xzalloc(sizeof *q + n);
    memcpy(q->host, host, n);
    q->loop = l;
    list_init(&q->askers);
    *status = uv_getaddrinfo(loop_uv(l), &q->req, on_resolved, host, NULL, &hints);
    if (*status == 0) {
        list_add_last(&questions, &q->link);
        return q;
    }
    free(q);
    return NULL;
}

struct resolve *resolve_start(struct loop *l, const char *host, int port, resolve_done done, void *arg)
{
    struct resolve *r = xzalloc(sizeof *r);
    r->port = port;
    r->done = done;
    r->arg = arg;
    list_init(&r->link);
    deadline_init(&r->deadline, on_due);
    r->question = find(l, host);
    if (!r->question) r->question = ask(l, host, &r->status);
    if (r->question)
        list_add_last(&r->question->askers, &r->link);
    else
        deadline_after(l, &r->deadline, 0);
    return r;
}

void resolve_cancel(struct resolve *r)
{
    struct question *q = r->question;
    list_remove(&r->link);
    deadline_stop(&r->deadline);
    free(r);
    if (!q || !list_empty(&q->askers)) return;
    if (uv_cancel((uv_req_t *)&q->req) == 0) list_remove(&q->link); /* no thread had it yet */
}
