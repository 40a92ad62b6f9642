/* proxy/supervisor: called by main when there is more than one worker. Holds the listening sockets, forks the workers,
   starts another one in place of one that dies, tells all to drain, and ends when they have. Serves nobody itself. Refuses
   to start where the first worker cannot. */
#include "proxy/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "base/metric.h"
#include "io/accept.h"
#include "io/channel.h"
#include "proxy/serve.h"
#include "proxy/supervisor_help.h"
#include "proxy/supervisor_log.h"
#include "proxy/supervisor_questions.h"
#include "proxy/supervisor_reload.h"

#define PIPE_BYTES (1024 * 1024)
#define RELAY_EVERY_MS 5      /* lines gather meanwhile: fewer, larger reads */
#define STEADY_MS 10000       /* who lived so long did not die of its birth */
#define RESTART_FIRST_MS 100  /* after the second death in a row, and twice that after each more */
#define RESTART_MAX_MS 5000
#define KILL_AFTER_MS 3000    /* who has not ended by then */
#define WAIT_MAX_MS 60000

int64_t supervisor_now_ms(void)
{
    struct timespec t;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &t) == 0, "the clock must be readable");
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

unsigned workers_of(const struct conf *c)
{
    cpu_set_t cores;
    if (c->workers) return (unsigned)c->workers;
    int n = sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
    return n < 1 ? 1 : n > TEAM_WORKERS_MAX ? TEAM_WORKERS_MAX : (unsigned)n;
}

void workers_share(struct conf *c, unsigned workers)
{
    c->listen.max_connections = (c->listen.max_connections + workers - 1) / workers;
}

void supervisor_kill(struct seat *seat, int signum)
{
    if (seat->pid) kill(seat->pid, signum);
}

static void close_one(int *fd)
{
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

static void tell_worker(enum log_level level, struct slice event, const struct seat *seat, const char *detail,
                        int64_t restart_ms)
{
    if (!log_on(level)) return;
    struct log_line line;
    log_begin(&line, level, event);
    json_field_int(&line.json, "of_worker", seat->number);
    json_field_int(&line.json, "pid", seat->pid);
    if (detail) json_field_string(&line.json, "detail", slice_str(detail));
    if (restart_ms >= 0) json_field_int(&line.json, "restart_in_ms", restart_ms);
    log_end(&line);
}

/* --- birth -------------------------------------------------------------------------------------------------------- */

/* In the child: nothing of the others stays, but what the settings point into. */
static void be_born(struct supervisor *s, struct seat *self, int channel, int log_fd)
{
    struct team_birth birth = {.number = self->number,
                               .workers = s->n,
                               .channel = channel,
                               .log_fd = log_fd,
                               .sockets = {self->socket, s->admin},
                               .revision = s->revision,
                               .loaded_wall_ms = s->loaded_wall_ms};
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    log_leave();
    log_set_worker((int)self->number);
    self->socket = s->admin = -1;
    reloading_finish(s);
    close_one(&s->signals);
    s->team = team_create(&birth);
}

static bool open_ways(int channel[2], int lines[2])
{
    if (!channel_pair(channel)) return false;
    if (pipe2(lines, O_CLOEXEC) == 0) {
        fcntl(lines[0], F_SETFL, O_NONBLOCK);
        fcntl(lines[1], F_SETPIPE_SZ, PIPE_BYTES); /* where it is allowed */
        return true;
    }
    close(channel[0]);
    close(channel[1]);
    return false;
}

/* True in the child. */
static bool give_birth(struct supervisor *s, struct seat *seat, int64_t now_ms)
{
    int channel[2], lines[2];
    seat->due_ms = now_ms + RESTART_MAX_MS;
    if (!open_ways(channel, lines)) {
        log_event(LOG_ERROR, "worker_not_started", slice_str(strerror(errno)));
        return false;
    }
    log_flush();
    pid_t pid = fork();
    if (pid == 0) {
        close(channel[0]);
        close(lines[0]);
        be_born(s, seat, channel[1], lines[1]);
        return true;
    }
    close(channel[1]);
    close(lines[1]);
    if (pid < 0) {
        log_event(LOG_ERROR, "worker_not_started", slice_str(strerror(errno)));
        close(channel[0]);
        close(lines[0]);
        return false;
    }
    seat->pid = pid;
    seat->state = TEAM_STATE_STARTING;
    seat->channel = channel[0];
    seat->log_fd = lines[0];
    seat->born_ms = now_ms;
    return false;
}

/* The first shows whether it can be done at all: its reason is told once. */
static bool give_births(struct supervisor *s)
{
    int64_t now_ms = supervisor_now_ms();
    for (unsigned i = 0; i < s->n && !s->draining && !s->failed; i++) {
        struct seat *seat = &s->seats[i];
        if (seat->pid || seat->due_ms > now_ms || (i && !s->one_started)) continue;
        if (give_birth(s, seat, now_ms)) return true;
    }
    return false;
}

static void on_started(struct supervisor *s, struct seat *seat)
{
    bool all = true;
    seat->state = TEAM_STATE_RUNNING;
    s->one_started = true;
    for (unsigned i = 0; i < s->n; i++) all &= s->seats[i].pid && s->seats[i].state == TEAM_STATE_RUNNING;
    if (s->all_started) {
        tell_worker(LOG_INFO, SLICE("worker_restarted"), seat, NULL, -1);
    } else if (all) {
        s->all_started = true;
        serve_tell_started(s->settings->conf, s->port, s->admin_port, s->n);
    }
}

/* --- the end of one ----------------------------------------------------------------------------------------------- */

static int64_t rest_ms(unsigned deaths)
{
    if (deaths <= 1) return 0;
    int64_t ms = RESTART_FIRST_MS;
    for (unsigned i = 2; i < deaths && ms < RESTART_MAX_MS; i++) ms *= 2;
    return ms < RESTART_MAX_MS ? ms : RESTART_MAX_MS;
}

static void on_message(struct supervisor *s, struct seat *seat, const struct team_message *m, int attached)
{
    switch ((int)m->kind) {
    case TEAM_STARTED:
        on_started(s, seat);
        break;
    case TEAM_RELOADED:
        reloading_answer(s, seat, m->good);
        break;
    case TEAM_ASK:
        questions_ask(s, seat, m);
        break;
    case TEAM_ANSWER:
        questions_answer(s, seat, m, attached);
        break;
    default:
        break;
    }
}

static void read_channel(struct supervisor *s, struct seat *seat)
{
    struct team_message m;
    int attached;
    enum channel_got got = CHANNEL_MESSAGE;
    while (seat->channel >= 0 && (got = channel_receive(seat->channel, &m, sizeof m, &attached)) == CHANNEL_MESSAGE) {
        on_message(s, seat, &m, attached);
        close_one(&attached);
    }
    if (got == CHANNEL_ENDED) close_one(&seat->channel);
}

static void tell_death(struct supervisor *s, struct seat *seat, int status)
{
    char detail[64];
    if (WIFSIGNALED(status))
        snprintf(detail, sizeof detail, "killed by SIG%s", sigabbrev_np(WTERMSIG(status)));
    else
        snprintf(detail, sizeof detail, "exit %d", WEXITSTATUS(status));
    if (s->draining) {
        bool in_order = WIFEXITED(status) && WEXITSTATUS(status) == 0;
        if (!in_order) s->code = 1;
        tell_worker(in_order ? LOG_INFO : LOG_WARN, SLICE("worker_ended"), seat, detail, -1);
        return;
    }
    struct slice cause = WIFSIGNALED(status) ? SLICE("signal") : SLICE("exit");
    metric_add(METRIC_WORKER_RESTARTS, &cause, 1);
    tell_worker(LOG_ERROR, SLICE("worker_died"), seat, detail, seat->due_ms - supervisor_now_ms());
}

static void on_death(struct supervisor *s, struct seat *seat, int status)
{
    int64_t now_ms = supervisor_now_ms();
    read_channel(s, seat);
    relay_end(seat);
    seat->deaths = now_ms - seat->born_ms < STEADY_MS ? seat->deaths + 1 : 1;
    seat->due_ms = now_ms + rest_ms(seat->deaths);
    if (!s->one_started) {
        s->failed = true;
        s->code = WIFEXITED(status) && WEXITSTATUS(status) ? WEXITSTATUS(status) : 1;
        if (WIFSIGNALED(status)) fprintf(stderr, "doorward: the first worker was killed by signal %d\n", WTERMSIG(status));
    } else {
        tell_death(s, seat, status);
    }
    seat->pid = 0;
    seat->state = TEAM_STATE_DOWN;
    close_one(&seat->channel);
    help_gone(s, seat);
    questions_gone(s, seat);
    reloading_gone(s, seat);
}

static void reap(struct supervisor *s)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        for (unsigned i = 0; i < s->n; i++)
            if (s->seats[i].pid == pid) on_death(s, &s->seats[i], status);
}

/* --- the end of all ----------------------------------------------------------------------------------------------- */

static void tell_all(struct supervisor *s, enum team_kind kind, bool delayed)
{
    struct team_message m = {.kind = kind, .good = delayed};
    for (unsigned i = 0; i < s->n; i++) {
        struct seat *seat = &s->seats[i];
        if (seat->pid && !channel_send(seat->channel, &m, sizeof m, -1)) supervisor_kill(seat, SIGTERM);
    }
}

/* Our copies of the sockets go first: the kernel must not keep open what the workers close. */
static void drain(struct supervisor *s, bool delayed)
{
    const struct conf *c = s->settings->conf;
    s->draining = true;
    reloading_finish(s);
    for (unsigned i = 0; i < s->n; i++) close_one(&s->seats[i].socket);
    close_one(&s->admin);
    s->kill_ms = supervisor_now_ms() + (delayed ? c->listen.drain_delay_ms : 0) + c->listen.drain_timeout_ms + KILL_AFTER_MS;
    tell_all(s, TEAM_DRAIN, delayed);
}

static void on_end_signal(struct supervisor *s, const char *name, bool delayed)
{
    if (s->draining) {
        log_event(LOG_WARN, "ending_now", slice_str(name));
        s->kill_ms = supervisor_now_ms() + KILL_AFTER_MS;
        tell_all(s, TEAM_END, false);
        return;
    }
    log_event(LOG_INFO, "draining", slice_str(name));
    drain(s, delayed);
}

static void kill_due(struct supervisor *s, int64_t now_ms)
{
    if (!s->draining || now_ms < s->kill_ms) return;
    s->code = 1;
    s->kill_ms = now_ms + KILL_AFTER_MS;
    for (unsigned i = 0; i < s->n; i++) supervisor_kill(&s->seats[i], SIGKILL);
}

static void read_signals(struct supervisor *s)
{
    struct signalfd_siginfo info;
    while (read(s->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGTERM) on_end_signal(s, "SIGTERM", true);
        if (info.ssi_signo == SIGINT) on_end_signal(s, "SIGINT", false);
        if (info.ssi_signo == SIGHUP) reloading_start(s);
    }
    reap(s);
}

/* --- the one loop ------------------------------------------------------------------------------------------------- */

static bool is_over(const struct supervisor *s)
{
    for (unsigned i = 0; i < s->n; i++)
        if (s->seats[i].pid) return false;
    return s->draining || s->failed;
}

static int64_t next_ms(const struct supervisor *s, int64_t now_ms)
{
    int64_t next = questions_next_ms(s);
    if (s->draining && s->kill_ms < next) next = s->kill_ms;
    if (reloading_next_ms(s) < next) next = reloading_next_ms(s);
    if (s->relay_ms > now_ms && s->relay_ms < next) next = s->relay_ms;
    for (unsigned i = 0; i < s->n && !s->draining; i++)
        if (!s->seats[i].pid && (i == 0 || s->one_started) && s->seats[i].due_ms < next) next = s->seats[i].due_ms;
    return next;
}

/* Polls for all that can come; 1 + 2n places: signals, then channel and lines of each. */
static void wait_for_any(struct supervisor *s, struct pollfd *fds)
{
    int64_t now_ms = supervisor_now_ms(), wait_ms = next_ms(s, now_ms) - now_ms;
    bool relay = now_ms >= s->relay_ms;
    fds[0] = (struct pollfd){.fd = s->signals, .events = POLLIN};
    for (unsigned i = 0; i < s->n; i++) {
        fds[1 + 2 * i] = (struct pollfd){.fd = s->seats[i].channel, .events = POLLIN};
        fds[2 + 2 * i] = (struct pollfd){.fd = relay ? s->seats[i].log_fd : -1, .events = POLLIN};
    }
    int timeout = wait_ms < 0 ? 0 : wait_ms > WAIT_MAX_MS ? WAIT_MAX_MS : (int)wait_ms;
    if (poll(fds, 1 + 2 * s->n, timeout) < 0) CHECK(errno == EINTR, "descriptors of our own can be polled");
}

static void handle_all(struct supervisor *s, const struct pollfd *fds)
{
    bool lines = false;
    for (unsigned i = 0; i < s->n; i++) {
        if (fds[2 + 2 * i].fd >= 0 && fds[2 + 2 * i].revents) {
            relay_read(&s->seats[i]);
            lines = true;
        }
        if (fds[1 + 2 * i].fd >= 0 && fds[1 + 2 * i].revents) read_channel(s, &s->seats[i]);
    }
    if (fds[0].revents) read_signals(s);
    int64_t now_ms = supervisor_now_ms();
    if (lines) s->relay_ms = now_ms + RELAY_EVERY_MS;
    questions_due(s, now_ms);
    reloading_due(s, now_ms);
    help_all(s, now_ms);
    kill_due(s, now_ms);
    log_flush();
}

/* True in a worker that was just born. */
static bool supervise_all(struct supervisor *s)
{
    struct pollfd *fds = xzalloc((1 + 2 * s->n) * sizeof *fds);
    bool born = give_births(s);
    while (!born && !is_over(s)) {
        wait_for_any(s, fds);
        handle_all(s, fds);
        born = give_births(s);
    }
    free(fds);
    return born;
}

/* --- start -------------------------------------------------------------------------------------------------------- */

static bool listen_all(struct supervisor *s, const struct conf *c)
{
    int *sockets = xmalloc(s->n * sizeof *sockets);
    const char *why = NULL;
    struct slice host = c->listen.host;
    int port = s->port = c->listen.port;
    s->admin_port = c->admin.port;
    bool good = accept_sockets(host.p, &s->port, sockets, s->n, &why);
    for (unsigned i = 0; i < s->n && good; i++) s->seats[i].socket = sockets[i];
    free(sockets);
    if (good && c->admin.host.n) {
        host = c->admin.host;
        port = c->admin.port;
        good = accept_sockets(host.p, &s->admin_port, &s->admin, 1, &why);
    }
    if (!good) fprintf(stderr, "doorward: cannot listen on %s port %d: %s\n", host.p, port, why);
    return good;
}

static void take_seats(struct supervisor *s, unsigned workers)
{
    s->n = workers;
    s->seats = xzalloc(workers * sizeof *s->seats);
    s->own.waits = xzalloc(workers * sizeof(bool));
    for (unsigned i = 0; i < workers; i++) {
        s->seats[i] = (struct seat){.number = i + 1, .channel = -1, .log_fd = -1, .socket = -1, .dump = -1};
        s->seats[i].question.waits = xzalloc(workers * sizeof(bool));
    }
}

static void leave_seats(struct supervisor *s)
{
    for (unsigned i = 0; i < s->n; i++) {
        struct seat *seat = &s->seats[i];
        close_one(&seat->channel);
        close_one(&seat->log_fd);
        close_one(&seat->socket);
        close_one(&seat->dump);
        buf_free(&seat->log);
        free(seat->question.waits);
    }
    close_one(&s->admin);
    free(s->own.waits);
    free(s->seats);
}

static int be_worker(struct supervisor *s)
{
    struct settings *first = s->first != s->settings ? s->first : NULL;
    struct team *team = s->team;
    int code = serve(s->settings, s->source, team);
    team_destroy(team);
    if (first) settings_release(first);
    return code;
}

static int be_supervisor(struct supervisor *s)
{
    if (s->all_started) log_event(LOG_INFO, "ended", s->code ? SLICE("cut short") : SLICE("drained"));
    reloading_finish(s);
    close_one(&s->signals);
    if (s->settings != s->first) settings_release(s->settings);
    settings_release(s->first);
    metric_finish();
    log_close();
    return s->code;
}

int supervise(struct settings *settings, const struct conf_source *source, unsigned workers)
{
    struct supervisor s = {.source = source,
                           .settings = settings,
                           .first = settings,
                           .revision = 1,
                           .admin = -1,
                           .reload = {.admin = -1, .files = -1}};
    struct timespec now;
    sigset_t heard;
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&heard);
    sigaddset(&heard, SIGTERM);
    sigaddset(&heard, SIGINT);
    sigaddset(&heard, SIGHUP);
    sigaddset(&heard, SIGCHLD);
    sigprocmask(SIG_BLOCK, &heard, NULL);
    clock_gettime(CLOCK_REALTIME, &now);
    s.loaded_wall_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    log_open(STDOUT_FILENO, settings->conf->log.level);
    metric_init(settings->conf->serve.metrics_prefix.p);
    metric_set(METRIC_UP_SINCE, NULL, (double)now.tv_sec);
    s.signals = signalfd(-1, &heard, SFD_NONBLOCK | SFD_CLOEXEC);
    CHECK(s.signals >= 0, "signals can be read");
    take_seats(&s, workers);
    s.code = 1;
    bool born = false;
    if (listen_all(&s, settings->conf)) {
        s.code = 0;
        born = supervise_all(&s);
    }
    leave_seats(&s);
    return born ? be_worker(&s) : be_supervisor(&s);
}
