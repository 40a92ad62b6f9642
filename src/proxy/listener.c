/* proxy/listener: accepts connections. Called by main; makes a conn of each. Refuses over the caps with an answer, and
   far over them without one. */
#include "proxy/listener.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/log.h"
#include "io/accept.h"
#include "proxy/admission.h"
#include "proxy/conn.h"
#include "proxy/keypair.h"
#include "proxy/team.h"

#define REFUSED_MAX 256 /* connections over max_connections that still get an answer */

struct listener {
    struct acceptor *acceptor;
    struct proxy *proxy;
    bool admin;
};

static void on_accept_error(const char *text, void *arg);
static void on_waiting(void *arg);

static void on_accept_error(const char *text, void *arg)
{
    (void)arg;
    log_event(LOG_WARN, "accept_failed", slice_str(text));
}

static void on_waiting(void *arg)
{
    struct listener *l = arg;
    struct proxy *p = l->proxy;
    struct conn *c = conn_create(p, l->admin);
    if (accept_take(l->acceptor, &c->stream, &conn_events, &c->peer) != 0) {
        conn_close(c);
        return;
    }
    enum reason reason = admission_take(p, c);
    struct keypair *keypair = l->admin ? NULL : p->settings->keypair;
    if (keypair && (int64_t)p->conns_n <= p->settings->conf->listen.max_connections + REFUSED_MAX)
        conn_secure(c, keypair_context(keypair), reason);
    else if (reason == REASON_FORWARDED)
        conn_begin(c);
    else if ((int64_t)p->conns_n > p->settings->conf->listen.max_connections + REFUSED_MAX)
        conn_close(c);
    else
        conn_refuse(c, reason);
}

struct listener *listener_create(struct proxy *p, struct slice host, int port, bool admin, int *bound_port,
                                 char **error)
{
    struct listener *l = xzalloc(sizeof *l);
    const char *why = NULL;
    l->proxy = p;
    l->admin = admin;
    int fd = team_take_socket(p->team, admin);
    if (p->team && fd < 0)
        why = "the supervisor has no socket for it";
    else if (p->team)
        l->acceptor = accept_adopt(p->loop, fd, on_waiting, on_accept_error, l, &why);
    else
        l->acceptor = accept_open(p->loop, host.p, port, on_waiting, on_accept_error, l, &why);
    if (l->acceptor) {
        if (bound_port) *bound_port = accept_port(l->acceptor);
        return l;
    }
    char text[160];
    snprintf(text, sizeof text, "cannot listen on %s port %d: %s", host.p, port, why);
    *error = xstrdup(text);
    free(l);
    return NULL;
}

void listener_rest(struct listener *l)
{
    if (l) accept_rest(l->acceptor, team_is_last(l->proxy->team));
}

void listener_close(struct listener *l)
{
    if (!l) return;
    accept_close(l->acceptor);
    free(l);
}
