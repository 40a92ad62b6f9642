/* proxy/serve: one process that serves: wiring, signals, drain. Called by main, and by the supervisor in each worker.
   Refuses to run where it cannot listen or start its parts. */
#include "proxy/serve.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/metric.h"
#include "io/loop.h"
#include "proxy/listener.h"
#include "proxy/policies.h"
#include "proxy/proxy.h"
#include "proxy/reload.h"
#include "proxy/team.h"

#define OPEN_FILES_BESIDE 512 /* Redis, calls to OPA, profiles and keys, connections that are told to go */

struct serve {
    struct proxy proxy;
    const struct conf_source *source;
    struct deadline drain_limit;
    struct deadline look; /* at policy.path; a supervisor does it for its workers */
    struct policies_watch policies;
    bool signalled; /* SIGTERM has come; a worker may drain without it */
    bool cut_short;
};

static void on_signal(int signum, void *arg);
static void on_hangup(int signum, void *arg);
static void on_drained(struct proxy *p);
static void on_drain_limit(struct deadline *d);
static void on_told_to_drain(void *arg, const char *why, bool delayed);
static void on_told_to_end(void *arg);
static bool on_told_to_reload(void *arg, struct conf_files *files);

static void drain(struct serve *s, const char *why, bool delayed)
{
    const struct conf *c = s->proxy.settings->conf;
    int64_t delay_ms = delayed ? c->listen.drain_delay_ms : 0;
    log_event(LOG_INFO, "draining", slice_str(why));
    deadline_after(s->proxy.loop, &s->drain_limit, delay_ms + c->listen.drain_timeout_ms);
    proxy_drain(&s->proxy, delay_ms);
}

static void on_signal(int signum, void *arg)
{
    struct serve *s = arg;
    struct proxy *p = &s->proxy;
    bool again = p->draining && (s->signalled || !p->team);
    bool told = p->draining && !again;
    s->signalled = true;
    if (told) return; /* a worker whose supervisor died hears of it twice */
    if (again) {
        log_event(LOG_WARN, "ending_now", slice_str(signum == SIGINT ? "SIGINT" : "SIGTERM"));
        on_drain_limit(&s->drain_limit);
        return;
    }
    drain(s, signum == SIGINT ? "SIGINT" : "SIGTERM", signum != SIGINT); /* nobody waits at a keyboard */
}

/* Each connection may need another one to the API. What a process is given at first is often far less than it may have;
   with none left, no connection is made to anybody. */
static void raise_open_files(int64_t connections)
{
    struct rlimit files;
    rlim_t wanted = 2 * (rlim_t)connections + OPEN_FILES_BESIDE;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= wanted) return;
    files.rlim_cur = files.rlim_max < wanted ? files.rlim_max : wanted;
    setrlimit(RLIMIT_NOFILE, &files);
    if (files.rlim_cur >= wanted || !log_on(LOG_WARN)) return;
    struct log_line line;
    log_begin(&line, LOG_WARN, SLICE("open_files"));
    json_field_string(&line.json, "detail",
                      SLICE("fewer files may be open than listen.max_connections can need: raise the limit (ulimit -Hn, "
                            "LimitNOFILE) or lower the option"));
    json_field_int(&line.json, "may", (long long)files.rlim_cur);
    json_field_int(&line.json, "need", (long long)wanted);
    log_end(&line);
}

static bool reload_and_raise(struct serve *s, const struct conf_source *source)
{
    int64_t before = s->proxy.settings->conf->listen.max_connections;
    if (!reload(&s->proxy, source)) return false;
    int64_t now = s->proxy.settings->conf->listen.max_connections;
    if (now != before) raise_open_files(now);
    return true;
}

static void watch_policies(struct serve *s)
{
    const struct conf *c = s->proxy.settings->conf;
    if (c->policy.path.n && !s->proxy.team) deadline_after(s->proxy.loop, &s->look, POLICIES_LOOK_MS);
}

static void on_look(struct deadline *d)
{
    struct serve *s = container_of(d, struct serve, look);
    struct proxy *p = &s->proxy;
    if (p->draining) return;
    if (policies_changed(&s->policies, p->settings->conf)) reload_policies(p, s->source);
    watch_policies(s);
}

static void on_hangup(int signum, void *arg)
{
    struct serve *s = arg;
    (void)signum;
    if (reload_and_raise(s, s->source) && !deadline_running(&s->look)) watch_policies(s);
}

/* Again from somebody else: only sooner. */
static void on_told_to_drain(void *arg, const char *why, bool delayed)
{
    struct serve *s = arg;
    if (!s->proxy.draining) drain(s, why, delayed);
    else if (!delayed) proxy_drain(&s->proxy, 0);
}

static void on_told_to_end(void *arg)
{
    struct serve *s = arg;
    s->proxy.draining = true; /* so that nobody is let in any more */
    on_drain_limit(&s->drain_limit);
}

static bool on_told_to_reload(void *arg, struct conf_files *files)
{
    struct serve *s = arg;
    struct conf_source source = *s->source;
    source.files = files;
    return reload_and_raise(s, &source);
}

static void on_drained(struct proxy *p)
{
    loop_stop(p->loop);
}

static void on_drain_limit(struct deadline *d)
{
    struct serve *s = container_of(d, struct serve, drain_limit);
    s->cut_short = true;
    proxy_abort(&s->proxy);
    if (s->proxy.conns_n == 0) loop_stop(s->proxy.loop);
}

static bool listen_all(struct proxy *p, char **error)
{
    const struct conf *c = p->settings->conf;
    int port = c->listen.port, admin_port = c->admin.port;
    p->listeners[0] = listener_create(p, c->listen.host, c->listen.port, false, &port, error);
    if (!p->listeners[0]) return false;
    if (c->admin.host.n) {
        p->listeners[1] = listener_create(p, c->admin.host, c->admin.port, true, &admin_port, error);
        if (!p->listeners[1]) return false;
    }
    if (!p->team) serve_tell_started(c, port, admin_port, 1);
    return true;
}

void serve_tell_started(const struct conf *c, int port, int admin_port, unsigned workers)
{
    if (!log_on(LOG_INFO)) return;
    struct log_line line;
    log_begin(&line, LOG_INFO, SLICE("started"));
    json_field_string(&line.json, "version", SLICE(DOORWARD_VERSION));
    json_field_string(&line.json, "address", c->listen.host);
    json_field_int(&line.json, "port", port);
    json_field_bool(&line.json, "tls", c->listen.tls.certificate.n > 0);
    if (c->admin.host.n) {
        json_field_string(&line.json, "admin_address", c->admin.host);
        json_field_int(&line.json, "admin_port", admin_port);
    }
    json_field_bool(&line.json, "drop_in", c->drop_in);
    if (workers > 1) json_field_int(&line.json, "workers", workers);
    log_end(&line);
}

/* Who asks for a reload while we start gets it then: until there is a handler it would be our end. */
void serve_hold_hangup(bool held)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGHUP);
    sigprocmask(held ? SIG_BLOCK : SIG_UNBLOCK, &set, NULL);
}

/* A worker is born with those blocked that its supervisor reads, and ends so: who ends in order is not killed by a signal
   that was sent to all, when nobody hears it any more. */
static void let_in_signals(bool in)
{
    sigset_t none, end;
    sigemptyset(&none);
    sigemptyset(&end);
    sigaddset(&end, SIGTERM);
    sigprocmask(SIG_SETMASK, in ? &none : &end, NULL);
}

/* The supervisor hears of the terminal's signals too, and tells all. */
static void hear_signals(struct serve *s)
{
    struct loop *l = s->proxy.loop;
    loop_on_signal(l, SIGTERM, on_signal, s);
    if (s->proxy.team) {
        signal(SIGINT, SIG_IGN);
        signal(SIGHUP, SIG_IGN);
        return;
    }
    loop_on_signal(l, SIGINT, on_signal, s);
    loop_on_signal(l, SIGHUP, on_hangup, s);
}

static void join(struct serve *s)
{
    static const struct team_hooks hooks = {on_told_to_drain, on_told_to_end, on_told_to_reload};
    if (s->proxy.team) team_join(s->proxy.team, &s->proxy, &hooks, s);
}

int serve(struct settings *settings, const struct conf_source *source, struct team *team)
{
    const struct conf *conf = settings->conf;
    struct serve s = {.source = source, .proxy.team = team};
    struct proxy *p = &s.proxy;
    char *error = NULL;
    signal(SIGPIPE, SIG_IGN);
    log_open(team ? team_log(team) : STDOUT_FILENO, conf->log.level);
    raise_open_files(conf->listen.max_connections);
    metric_init(conf->serve.metrics_prefix.p);
    p->loop = loop_create();
    p->on_drained = on_drained;
    deadline_init(&s.drain_limit, on_drain_limit);
    deadline_init(&s.look, on_look);
    hear_signals(&s);
    if (team)
        let_in_signals(true);
    else
        serve_hold_hangup(false);
    bool running = proxy_start(p, settings, &error) && listen_all(p, &error);
    metric_set(METRIC_UP_SINCE, NULL, (double)(loop_wall_ms(p->loop) / 1000));
    if (running) {
        join(&s);
        watch_policies(&s);
        loop_serve(p->loop);
    } else {
        fprintf(stderr, "doorward: %s\n", error);
        free(error);
        proxy_abort(p);
    }
    deadline_stop(&s.drain_limit);
    deadline_stop(&s.look);
    if (team) {
        let_in_signals(false);
        team_leave(team);
    }
    proxy_finish(p);
    loop_close(p->loop);
    bool whole = loop_end(p->loop);
    if (running) log_event(LOG_INFO, "ended", s.cut_short ? SLICE("cut short") : SLICE("drained"));
    int code = running && !s.cut_short ? 0 : 1;
    if (!whole) {
        log_close();
        _exit(code);
    }
    proxy_free(p);
    loop_destroy(p->loop);
    metric_finish();
    log_close();
    arena_trim();
    return code;
}
