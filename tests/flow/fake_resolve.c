/* See flow/fake_resolve.h. Defines the whole of io/resolve.h, so that the real one is not linked. */
#include "flow/fake_resolve.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/slice.h"
#include "io/address.h"

struct resolve {
    struct deadline deadline;
    struct loop *loop;
    resolve_done done;
    void *arg;
    int port;
};

bool fake_resolve_silent;

static const char *said;
static int failure;
static size_t asked;

static void on_due(struct deadline *d)
{
    struct resolve *r = container_of(d, struct resolve, deadline);
    struct sockaddr_storage v[16];
    size_t n = 0;
    struct slice rest = slice_str(said ? said : FAKE_ADDRESS), one;
    if (fake_resolve_silent) {
        deadline_after(r->loop, d, 10);
        return;
    }
    while (!failure && slice_next(&rest, ',', &one)) {
        char text[64];
        snprintf(text, sizeof text, "%.*s", (int)one.n, one.p);
        CHECK(n < 16 && address_literal(text, r->port, &v[n]), "an address");
        n++;
    }
    r->done(failure, v, n, r->arg);
    free(r);
}

struct resolve *resolve_start(struct loop *l, const char *host, int port, resolve_done done, void *arg)
{
    struct resolve *r = xzalloc(sizeof *r);
    CHECK(*host, "a name");
    r->loop = l;
    r->done = done;
    r->arg = arg;
    r->port = port;
    deadline_init(&r->deadline, on_due);
    deadline_after(l, &r->deadline, 0);
    asked++;
    return r;
}

void resolve_cancel(struct resolve *r)
{
    deadline_stop(&r->deadline);
    free(r);
}

void fake_resolve_say(const char *addresses, int error)
{
    said = addresses;
    failure = error;
}

size_t fake_resolve_asked(void)
{
    return asked;
}

void fake_resolve_reset(void)
{
    said = NULL;
    failure = 0;
    asked = 0;
    fake_resolve_silent = false;
}
