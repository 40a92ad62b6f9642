/* proxy/team: made by the supervisor right after the fork, used by serve, own and reload. One question to all is out at a
   time; those that came meanwhile share the next one. Refuses nothing: who is alone has no team. */
#include "proxy/team.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "base/metric_sum.h"
#include "conf/options.h"
#include "io/channel.h"
#include "proxy/gauges.h"
#include "proxy/listener.h"
#include "proxy/ready.h"
#include "proxy/reload.h"
#include "proxy/team_message.h"

#define GIVE_UP_MS (2 * TEAM_ANSWER_MS) /* on the supervisor */

struct gathered {
    struct team_part shown;
    struct buf body;
};

struct adopted { /* the socket of a worker that is not there, or does not answer */
    struct list link;
    unsigned number;
    struct listener *listener;
};

struct team {
    struct team_birth birth;
    struct proxy *proxy;
    struct channel_watch *watch;
    struct team_hooks hooks;
    void *arg;
    struct list waiting; /* calls that no question is out for */
    struct list asking;  /* that the one that is out is for */
    struct list adopted;
    struct deadline give_up;
    uint64_t asked;      /* id of the last question */
    struct gathered *parts;
    size_t parts_n, parts_cap;
    bool alone;          /* the supervisor is gone */
    bool last;           /* nobody holds the sockets beside us */
};

static void on_ready(void *arg);
static void on_give_up(struct deadline *d);
static void ask_next(struct team *t);

static const char *const state_names[] = {
    [TEAM_STATE_DOWN] = "down",   [TEAM_STATE_STARTING] = "starting",     [TEAM_STATE_RUNNING] = "running",
    [TEAM_STATE_STUCK] = "stuck", [TEAM_STATE_SUPERVISOR] = "supervisor",
};

struct team *team_create(const struct team_birth *b)
{
    struct team *t = xzalloc(sizeof *t);
    t->birth = *b;
    list_init(&t->waiting);
    list_init(&t->asking);
    list_init(&t->adopted);
    deadline_init(&t->give_up, on_give_up);
    return t;
}

int team_log(const struct team *t)
{
    return t->birth.log_fd;
}

unsigned team_workers(const struct team *t)
{
    return t ? t->birth.workers : 1;
}

int team_take_socket(struct team *t, size_t which)
{
    if (!t) return -1;
    int fd = t->birth.sockets[which];
    t->birth.sockets[which] = -1;
    return fd;
}

bool team_is_last(const struct team *t)
{
    return !t || t->last;
}

static void put_socket(struct team *t, size_t which, int fd)
{
    if (which > 1) {
        close(fd);
        return;
    }
    if (t->birth.sockets[which] >= 0) close(t->birth.sockets[which]);
    t->birth.sockets[which] = fd;
}

static void close_sockets(struct team *t)
{
    for (size_t i = 0; i < 2; i++) {
        int fd = team_take_socket(t, i);
        if (fd >= 0) close(fd);
    }
}

void team_join(struct team *t, struct proxy *p, const struct team_hooks *hooks, void *arg)
{
    struct team_message started = {.kind = TEAM_STARTED};
    t->proxy = p;
    t->hooks = *hooks;
    t->arg = arg;
    p->settings->revision = t->birth.revision;
    p->settings->loaded_wall_ms = t->birth.loaded_wall_ms;
    reload_tell_revision(p);
    t->watch = channel_watch(p->loop, t->birth.channel, on_ready, t);
    channel_send(t->birth.channel, &started, sizeof started, -1);
}

void team_leave(struct team *t)
{
    deadline_stop(&t->give_up);
    channel_unwatch(t->watch);
    t->watch = NULL;
}

void team_destroy(struct team *t)
{
    if (!t) return;
    CHECK(list_empty(&t->waiting) && list_empty(&t->asking), "requests end before their team does");
    for (size_t i = 0; i < t->parts_cap; i++) buf_free(&t->parts[i].body);
    close_sockets(t);
    close(t->birth.channel);
    close(t->birth.log_fd);
    free(t->parts);
    free(t);
}

static void release(struct adopted *a)
{
    list_remove(&a->link);
    listener_close(a->listener);
    free(a);
}

void team_close_listeners(struct team *t, bool rest)
{
    while (t && !list_empty(&t->adopted)) {
        struct adopted *a = container_of(t->adopted.next, struct adopted, link);
        if (rest) listener_rest(a->listener);
        release(a);
    }
}

static void adopt(struct team *t, unsigned number, int fd)
{
    const struct conf *c = t->proxy->settings->conf;
    char *error = NULL;
    put_socket(t, 0, fd);
    struct listener *l = t->proxy->closing ? NULL : listener_create(t->proxy, c->listen.host, c->listen.port, false, NULL, &error);
    if (!l) {
        close_sockets(t);
        free(error);
        return;
    }
    struct adopted *a = xzalloc(sizeof *a);
    a->number = number;
    a->listener = l;
    list_add_last(&t->adopted, &a->link);
}

/* Its own worker is there again, and takes what waits. */
static void give_back(struct team *t, unsigned number)
{
    for (struct list *at = t->adopted.next, *next; at != &t->adopted; at = next) {
        struct adopted *a = container_of(at, struct adopted, link);
        next = at->next;
        if (a->number == number) release(a);
    }
}

/* --- to all ------------------------------------------------------------------------------------------------------- */

static enum team_question first_question(const struct team *t)
{
    if (list_empty(&t->asking)) return TEAM_QUESTIONS;
    return container_of(t->asking.next, struct team_call, link)->question;
}

/* Who is not up has nothing in its caches. */
static bool has_nothing(const struct team_part *part)
{
    return part->state == state_names[TEAM_STATE_DOWN] || part->state == state_names[TEAM_STATE_STARTING];
}

static int by_worker(const void *a, const void *b)
{
    const struct team_part *x = a, *y = b;
    return (x->worker > y->worker) - (x->worker < y->worker);
}

/* Those whose question it was may ask the next one inside their callback: it waits. */
static void tell_all(struct team *t, bool whole)
{
    struct list told;
    struct team_part *shown = xzalloc((t->parts_n + 1) * sizeof *shown);
    bool flush = first_question(t) == TEAM_FLUSH;
    deadline_stop(&t->give_up);
    for (size_t i = 0; i < t->parts_n; i++) {
        shown[i] = t->parts[i].shown;
        shown[i].body = buf_slice(&t->parts[i].body);
        whole &= shown[i].answered || (flush && has_nothing(&shown[i]));
    }
    qsort(shown, t->parts_n, sizeof *shown, by_worker);
    list_init(&told);
    while (!list_empty(&t->asking)) {
        struct team_call *c = container_of(t->asking.next, struct team_call, link);
        list_remove(&c->link);
        list_add_last(&told, &c->link);
    }
    while (!list_empty(&told)) {
        struct team_call *c = container_of(told.next, struct team_call, link);
        list_remove(&c->link);
        c->parts = shown;
        c->parts_n = t->parts_n;
        c->whole = whole;
        c->on_done(c);
    }
    free(shown);
    ask_next(t);
}

static void on_give_up(struct deadline *d)
{
    tell_all(container_of(d, struct team, give_up), false);
}

/* All who wait for the same go with it, but for flushes: each has a scope of its own. */
static void ask_next(struct team *t)
{
    if (!list_empty(&t->asking) || list_empty(&t->waiting)) return;
    struct team_call *first = container_of(t->waiting.next, struct team_call, link);
    struct team_message m = {
        .kind = TEAM_ASK, .question = first->question, .id = ++t->asked, .scope = first->scope};
    for (struct list *at = t->waiting.next, *next; at != &t->waiting; at = next) {
        struct team_call *c = container_of(at, struct team_call, link);
        next = at->next;
        if (c != first && (c->question != first->question || c->question == TEAM_FLUSH)) continue;
        list_remove(&c->link);
        list_add_last(&t->asking, &c->link);
    }
    t->parts_n = 0;
    bool sent = !t->alone && channel_send(t->birth.channel, &m, sizeof m, -1);
    deadline_after(t->proxy->loop, &t->give_up, sent ? GIVE_UP_MS : 1);
}

enum op team_ask(struct team *t, enum team_question q, const struct flush_scope *scope, struct team_call *c)
{
    if (!t) return OP_DONE;
    c->question = q;
    if (scope) c->scope = *scope;
    list_init(&c->link);
    list_add_last(&t->waiting, &c->link);
    ask_next(t);
    return OP_PENDING;
}

void team_cancel(struct team_call *c)
{
    if (c) list_remove(&c->link);
}

static void take_part(struct team *t, const struct team_message *m, int attached)
{
    if (m->id != t->asked || list_empty(&t->asking)) return;
    if (t->parts_n == t->parts_cap) {
        size_t cap = t->parts_cap ? t->parts_cap * 2 : 8;
        t->parts = xrealloc(t->parts, cap * sizeof *t->parts);
        memset(t->parts + t->parts_cap, 0, (cap - t->parts_cap) * sizeof *t->parts);
        t->parts_cap = cap;
    }
    struct gathered *g = &t->parts[t->parts_n++];
    g->body.n = 0;
    bool read = attached < 0 || channel_unpack(attached, TEAM_BODY_MAX, &g->body);
    g->shown = (struct team_part){.worker = m->number,
                                  .pid = m->pid,
                                  .state = state_names[m->state],
                                  .answered = read && m->state >= TEAM_STATE_RUNNING && m->state != TEAM_STATE_STUCK,
                                  .good = m->good};
}

/* --- of the supervisor -------------------------------------------------------------------------------------------- */

static void answer(struct team *t, const struct team_message *q)
{
    struct team_message m = {.kind = TEAM_ANSWER, .id = q->id, .question = q->question, .good = true};
    struct buf body;
    buf_init(&body, NULL);
    if (q->question == TEAM_READY) {
        m.good = ready_write(t->proxy->ready, NULL, &body);
    } else if (q->question == TEAM_METRICS) {
        gauges_update(t->proxy);
        metric_pack(&body);
    } else if (q->number != t->birth.number) { /* who asks has done it */
        flush_apply(t->proxy, &q->scope, true);
    }
    int fd = channel_pack(buf_slice(&body));
    buf_free(&body);
    channel_send(t->birth.channel, &m, sizeof m, fd);
    if (fd >= 0) close(fd);
}

static void take_configuration(struct team *t, int fd)
{
    struct team_message m = {.kind = TEAM_RELOADED};
    struct buf packed;
    buf_init(&packed, NULL);
    if (channel_unpack(fd, TEAM_FILES_MAX, &packed)) {
        struct conf_files *files = conf_files_unpack(buf_slice(&packed));
        bool last = t->last;
        t->last = true; /* of what it closes then */
        m.good = t->hooks.on_reload(t->arg, files);
        t->last = last;
        conf_files_destroy(files);
    }
    if (packed.n) explicit_bzero(packed.p, packed.n);
    buf_free(&packed);
    close_sockets(t); /* of a configuration that was refused: nobody takes what would come there */
    channel_send(t->birth.channel, &m, sizeof m, -1);
}

static void take_message(struct team *t, const struct team_message *m, int attached)
{
    switch ((int)m->kind) {
    case TEAM_DRAIN:
        t->last = true;
        t->hooks.on_drain(t->arg, "by the supervisor", m->good);
        break;
    case TEAM_END:
        t->hooks.on_end(t->arg);
        break;
    case TEAM_SOCKET:
        if (attached >= 0) put_socket(t, m->number, dup(attached));
        break;
    case TEAM_ADOPT:
        if (attached >= 0) adopt(t, m->number, dup(attached));
        break;
    case TEAM_GIVE_BACK:
        give_back(t, m->number);
        break;
    case TEAM_RELOAD:
        take_configuration(t, attached);
        break;
    case TEAM_QUESTION:
        answer(t, m);
        break;
    case TEAM_PART:
        take_part(t, m, attached);
        break;
    case TEAM_PARTS_END:
        if (m->id == t->asked && !list_empty(&t->asking)) tell_all(t, true);
        break;
    default:
        CHECK(false, "the supervisor says what a worker knows");
    }
}

/* Without a supervisor nobody starts another one in our place, or tells us to end: what is under way is finished. */
static void on_ready(void *arg)
{
    struct team *t = arg;
    struct team_message m;
    int attached;
    enum channel_got got = CHANNEL_MESSAGE;
    while (t->watch && (got = channel_receive(t->birth.channel, &m, sizeof m, &attached)) == CHANNEL_MESSAGE) {
        take_message(t, &m, attached);
        if (attached >= 0) close(attached);
    }
    if (got != CHANNEL_ENDED || t->alone) return;
    t->alone = t->last = true;
    channel_unwatch(t->watch);
    t->watch = NULL;
    log_close(); /* whoever wrote our lines is gone too */
    log_open(STDOUT_FILENO, t->proxy->settings->conf->log.level);
    log_event(LOG_ERROR, "supervisor_gone", SLICE("what is under way is finished"));
    t->hooks.on_drain(t->arg, "the supervisor is gone", false);
}
