/* proxy/supervisor_reload: called by supervisor on SIGHUP. The configuration is read once, here; the workers are given what
   was read, so that all have the same, and who starts later has it from here. One worker tries it first. Refuses what it
   refuses; a worker that cannot follow the others is ended, and its successor starts with it. */
#include "proxy/supervisor_reload.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "io/accept.h"
#include "io/channel.h"
#include "proxy/reload.h"

#define TRY_MS 10000

static int64_t wall_ms(void)
{
    struct timespec t;
    CHECK(clock_gettime(CLOCK_REALTIME, &t) == 0, "the wall clock must be readable");
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void close_one(int *fd)
{
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

/* Ends without effect, or after the effect. */
static void forget(struct supervisor *s)
{
    struct reloading *r = &s->reload;
    if (r->next) settings_release(r->next);
    for (unsigned i = 0; r->sockets && i < s->n; i++) close_one(&r->sockets[i]);
    free(r->sockets);
    close_one(&r->admin);
    close_one(&r->files);
    *r = (struct reloading){.admin = -1, .files = -1, .look_ms = r->look_ms, .policies = r->policies};
}

void reloading_finish(struct supervisor *s)
{
    forget(s);
}

static void again(struct supervisor *s)
{
    if (!s->reload_again) return;
    s->reload_again = false;
    reloading_start(s);
}

static void refuse(struct supervisor *s, const char *why)
{
    forget(s);
    reload_refuse(xstrdup(why));
    again(s);
}

static bool open_one(const struct conf *c, bool admin, int *fds, size_t n, int *port, char **error)
{
    struct slice host = admin ? c->admin.host : c->listen.host;
    const char *why;
    char text[200];
    *port = admin ? c->admin.port : c->listen.port;
    if (host.n == 0 || accept_sockets(host.p, port, fds, n, &why)) return true;
    snprintf(text, sizeof text, "cannot listen on %s port %d: %s", host.p, *port, why);
    *error = xstrdup(text);
    return false;
}

static bool open_moved(struct supervisor *s, const struct conf *c, char **error)
{
    struct reloading *r = &s->reload;
    int port;
    for (size_t i = 0; i < 2; i++) r->moved[i] = reload_moves(s->settings->conf, c, i);
    r->sockets = xmalloc(s->n * sizeof *r->sockets);
    for (unsigned i = 0; i < s->n; i++) r->sockets[i] = -1;
    return (!r->moved[0] || open_one(c, false, r->sockets, s->n, &port, error)) &&
           (!r->moved[1] || open_one(c, true, &r->admin, 1, &port, error));
}

/* Everything it needs stands in its queue, in this order; false: it takes nothing. */
static bool give(struct supervisor *s, struct seat *seat)
{
    struct reloading *r = &s->reload;
    struct team_message socket = {.kind = TEAM_SOCKET}, reload = {.kind = TEAM_RELOAD};
    if (r->moved[0] && !channel_send(seat->channel, &socket, sizeof socket, r->sockets[seat->number - 1])) return false;
    socket.number = 1;
    if (r->moved[1] && r->admin >= 0 && !channel_send(seat->channel, &socket, sizeof socket, r->admin)) return false;
    return channel_send(seat->channel, &reload, sizeof reload, r->files);
}

static void take_sockets(struct supervisor *s)
{
    struct reloading *r = &s->reload;
    for (unsigned i = 0; r->moved[0] && i < s->n; i++) {
        close_one(&s->seats[i].socket);
        s->seats[i].socket = r->sockets[i];
        s->seats[i].helper = NULL; /* it has let go of the other one */
        r->sockets[i] = -1;
    }
    if (!r->moved[1]) return;
    close_one(&s->admin);
    s->admin = r->admin;
    r->admin = -1;
}

/* From here on it is in force. */
static void commit(struct supervisor *s)
{
    struct reloading *r = &s->reload;
    struct settings *before = s->settings;
    for (unsigned i = 0; i < s->n; i++) {
        struct seat *seat = &s->seats[i];
        if (seat == r->trier || !seat->pid) continue;
        if (!give(s, seat)) supervisor_kill(seat, SIGKILL);
    }
    take_sockets(s);
    s->settings = r->next;
    r->next = NULL;
    s->settings->revision = ++s->revision;
    s->settings->loaded_wall_ms = s->loaded_wall_ms = wall_ms();
    log_set_level(s->settings->conf->log.level);
    reload_tell(s->settings, before->conf);
    if (before != s->first) settings_release(before);
    forget(s);
    again(s);
}

/* files: what is remembered of what is read, or read in its place; taken. */
static void read_and_try(struct supervisor *s, struct conf_files *files)
{
    struct reloading *r = &s->reload;
    struct conf_source source = *s->source;
    struct buf packed;
    char *error = NULL;
    source.files = files;
    r->next = reload_read(&source, s->settings->conf, s->n, false);
    buf_init(&packed, NULL);
    conf_files_pack(source.files, &packed);
    conf_files_destroy(source.files);
    r->files = r->next ? channel_pack(buf_slice(&packed)) : -1;
    if (packed.n) explicit_bzero(packed.p, packed.n);
    buf_free(&packed);
    if (!r->next) return;
    if (!open_moved(s, r->next->conf, &error)) {
        forget(s);
        reload_refuse(error);
        return;
    }
    if (r->files < 0) {
        refuse(s, "no memory to give it to the workers");
        return;
    }
    for (unsigned i = 0; i < s->n && !r->trier; i++)
        if (s->seats[i].pid && s->seats[i].state == TEAM_STATE_RUNNING && !s->seats[i].silent_ms) r->trier = &s->seats[i];
    r->due_ms = supervisor_now_ms() + TRY_MS;
    if (!r->trier)
        refuse(s, "no worker is there to try it");
    else if (!give(s, r->trier)) {
        supervisor_kill(r->trier, SIGKILL);
        refuse(s, "a worker did not take it");
    }
}

void reloading_start(struct supervisor *s)
{
    if (s->draining)
        reload_ignore(SLICE("draining"));
    else if (s->reload.next || !s->all_started)
        s->reload_again = true;
    else
        read_and_try(s, conf_files_create());
}

/* Where nothing else is under way: the policies may have changed. */
static void look_at_policies(struct supervisor *s, int64_t now_ms)
{
    struct reloading *r = &s->reload;
    const struct conf *c = s->settings->conf;
    if (now_ms < r->look_ms || r->next || s->draining || !s->all_started) return;
    r->look_ms = now_ms + POLICIES_LOOK_MS;
    if (policies_changed(&r->policies, c)) read_and_try(s, conf_files_again(c, c->policy.path.p));
}

int64_t reloading_next_ms(const struct supervisor *s)
{
    const struct reloading *r = &s->reload;
    if (r->next) return r->due_ms;
    return s->settings->conf->policy.path.n && !s->draining && s->all_started ? r->look_ms : INT64_MAX;
}

void reloading_answer(struct supervisor *s, struct seat *from, bool good)
{
    if (s->reload.next && s->reload.trier == from) {
        if (good) commit(s);
        else refuse(s, "a worker could not take it");
    } else if (!good && !s->draining) {
        supervisor_kill(from, SIGTERM);
    }
}

void reloading_gone(struct supervisor *s, struct seat *seat)
{
    if (s->reload.next && s->reload.trier == seat) refuse(s, "the worker that tried it died");
}

void reloading_due(struct supervisor *s, int64_t now_ms)
{
    if (s->reload.next && now_ms >= s->reload.due_ms) {
        supervisor_kill(s->reload.trier, SIGKILL); /* it would follow later, alone */
        refuse(s, "the worker that tried it did not answer in time");
    }
    if (s->all_started) again(s);
    look_at_policies(s, now_ms);
}
