/* proxy/supervisor_questions: called by supervisor. Passes what one worker asks on to all, and their answers back, as
   they come. Refuses to wait: who has not answered in time is told to be stuck. One question of each at a time. */
#include "proxy/supervisor_questions.h"

#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/metric.h"
#include "base/metric_sum.h"
#include "io/channel.h"
#include "proxy/gauges.h"

#define ASK_EVERY_MS 1000

static bool is_up(const struct seat *seat)
{
    return seat->pid && seat->state == TEAM_STATE_RUNNING;
}

static void tell_silent(struct seat *seat, bool silent)
{
    if ((seat->silent_ms != 0) == silent) return;
    seat->silent_ms = silent ? supervisor_now_ms() : 0;
    if (!log_on(LOG_WARN)) return;
    struct log_line line;
    log_begin(&line, LOG_WARN, silent ? SLICE("worker_silent") : SLICE("worker_answers_again"));
    json_field_int(&line.json, "of_worker", seat->number);
    json_field_int(&line.json, "pid", seat->pid);
    log_end(&line);
}

/* --- parts -------------------------------------------------------------------------------------------------------- */

/* asker: NULL: the supervisor asked for itself. */
static void send_part(struct seat *asker, const struct question *q, const struct seat *of, enum team_state state, bool good,
                      int attached)
{
    struct team_message m = {.kind = TEAM_PART,
                             .question = q->what,
                             .state = state,
                             .number = of ? of->number : 0,
                             .pid = of ? of->pid : getpid(),
                             .good = good,
                             .id = q->asker_id};
    if (asker) channel_send(asker->channel, &m, sizeof m, attached);
}

static void end(struct seat *asker, struct question *q)
{
    struct team_message m = {.kind = TEAM_PARTS_END, .question = q->what, .id = q->asker_id};
    q->serial = 0;
    if (asker) channel_send(asker->channel, &m, sizeof m, -1);
}

static bool is_waiting(const struct supervisor *s, const struct question *q)
{
    for (unsigned i = 0; i < s->n; i++)
        if (q->waits[i]) return true;
    return false;
}

static void count_workers(const struct supervisor *s)
{
    static const struct slice names[] = {{"down", 4}, {"starting", 8}, {"running", 7}};
    unsigned counts[3] = {0, 0, 0};
    for (unsigned i = 0; i < s->n; i++) counts[s->seats[i].pid ? s->seats[i].state : TEAM_STATE_DOWN]++;
    for (size_t i = 0; i < 3; i++) metric_set(METRIC_WORKERS, &names[i], counts[i]);
}

/* Our own, with what the dead have counted. */
static void send_own_metrics(const struct supervisor *s, struct seat *asker, const struct question *q)
{
    struct buf packed;
    count_workers(s);
    gauges_of_process();
    buf_init(&packed, NULL);
    metric_pack(&packed);
    int fd = channel_pack(buf_slice(&packed));
    buf_free(&packed);
    send_part(asker, q, NULL, TEAM_STATE_SUPERVISOR, true, fd);
    if (fd >= 0) close(fd);
}

/* --- questions ---------------------------------------------------------------------------------------------------- */

/* One that starts answers later, which nobody hears; but a flush must get there before it serves. */
static void put(struct supervisor *s, struct seat *asker, struct question *q, const struct flush_scope *scope)
{
    uint64_t who = asker ? asker->number : 0;
    struct team_message m = {
        .kind = TEAM_QUESTION, .question = q->what, .number = (unsigned)who, .id = q->serial << 16 | who, .scope = *scope};
    for (unsigned i = 0; i < s->n; i++) {
        struct seat *seat = &s->seats[i];
        bool starts = seat->pid && seat->state == TEAM_STATE_STARTING;
        q->waits[i] = is_up(seat) && channel_send(seat->channel, &m, sizeof m, -1);
        if (q->waits[i]) continue;
        if (starts && q->what == TEAM_FLUSH) channel_send(seat->channel, &m, sizeof m, -1);
        enum team_state state = is_up(seat) ? TEAM_STATE_STUCK : starts ? TEAM_STATE_STARTING : TEAM_STATE_DOWN;
        send_part(asker, q, seat, state, false, q->what == TEAM_METRICS ? seat->dump : -1);
    }
}

static void start(struct supervisor *s, struct seat *asker, struct question *q, const struct flush_scope *scope)
{
    q->serial = ++s->serial;
    q->due_ms = supervisor_now_ms() + TEAM_ANSWER_MS;
    put(s, asker, q, scope);
    if (asker && q->what == TEAM_METRICS) send_own_metrics(s, asker, q);
    if (!is_waiting(s, q)) end(asker, q);
}

void questions_ask(struct supervisor *s, struct seat *asker, const struct team_message *m)
{
    struct question *q = &asker->question;
    if (m->question >= TEAM_QUESTIONS) return;
    q->what = m->question;
    q->asker_id = m->id;
    start(s, asker, q, &m->scope);
}

void questions_answer(struct supervisor *s, struct seat *from, const struct team_message *m, int attached)
{
    uint64_t who = m->id & 0xffff, serial = m->id >> 16;
    tell_silent(from, false);
    if (m->question == TEAM_METRICS && attached >= 0) {
        if (from->dump >= 0) close(from->dump);
        from->dump = dup(attached);
    }
    if (who > s->n) return;
    struct seat *asker = who ? &s->seats[who - 1] : NULL;
    struct question *q = asker ? &asker->question : &s->own;
    bool *waits = &q->waits[from->number - 1];
    if (q->serial == 0 || q->serial != serial || !*waits) return;
    *waits = false;
    send_part(asker, q, from, TEAM_STATE_RUNNING, m->good, attached);
    if (!is_waiting(s, q)) end(asker, q);
}

static void give_up(struct supervisor *s, struct seat *asker, struct question *q)
{
    for (unsigned i = 0; i < s->n; i++) {
        struct seat *seat = &s->seats[i];
        if (!q->waits[i]) continue;
        q->waits[i] = false;
        tell_silent(seat, true);
        send_part(asker, q, seat, TEAM_STATE_STUCK, false, q->what == TEAM_METRICS ? seat->dump : -1);
    }
    end(asker, q);
}

static void gone_from(struct supervisor *s, struct seat *asker, struct question *q, struct seat *seat)
{
    bool *waits = &q->waits[seat->number - 1];
    if (q->serial == 0 || !*waits) return;
    *waits = false;
    send_part(asker, q, seat, TEAM_STATE_DOWN, false, -1);
    if (!is_waiting(s, q)) end(asker, q);
}

/* What it counted goes on as ours: a sum never falls because somebody died. */
static void fold(struct seat *seat)
{
    struct buf packed;
    if (seat->dump < 0) return;
    buf_init(&packed, NULL);
    if (channel_unpack(seat->dump, TEAM_BODY_MAX, &packed)) metric_fold(buf_slice(&packed));
    buf_free(&packed);
    close(seat->dump);
    seat->dump = -1;
}

void questions_gone(struct supervisor *s, struct seat *seat)
{
    seat->question.serial = 0;
    seat->silent_ms = 0;
    fold(seat);
    gone_from(s, NULL, &s->own, seat);
    for (unsigned i = 0; i < s->n; i++) gone_from(s, &s->seats[i], &s->seats[i].question, seat);
}

void questions_due(struct supervisor *s, int64_t now_ms)
{
    static const struct flush_scope none;
    if (s->own.serial && now_ms >= s->own.due_ms) give_up(s, NULL, &s->own);
    for (unsigned i = 0; i < s->n; i++) {
        struct question *q = &s->seats[i].question;
        if (q->serial && now_ms >= q->due_ms) give_up(s, &s->seats[i], q);
    }
    if (now_ms < s->ask_ms || s->own.serial) return;
    s->ask_ms = now_ms + ASK_EVERY_MS;
    s->own.what = TEAM_METRICS;
    start(s, NULL, &s->own, &none);
}

int64_t questions_next_ms(const struct supervisor *s)
{
    int64_t next = s->own.serial ? s->own.due_ms : s->ask_ms;
    for (unsigned i = 0; i < s->n; i++) {
        const struct question *q = &s->seats[i].question;
        if (q->serial && q->due_ms < next) next = q->due_ms;
    }
    return next;
}
