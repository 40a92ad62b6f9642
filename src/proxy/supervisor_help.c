/* proxy/supervisor_help: called by supervisor in each turn. The kernel goes on to spread connections over all sockets: what
   comes to that of a worker that rests after several deaths, or does not answer, is taken by another one meanwhile. One that
   has not answered for long is ended. */
#include "proxy/supervisor_help.h"

#include <signal.h>

#include "base/log.h"
#include "io/channel.h"

#define SHORT_MS 20         /* a rest that nobody notices */
#define SILENT_MAX_MS 30000

static bool needs_help(const struct seat *seat, int64_t now_ms)
{
    if (seat->pid) return seat->silent_ms != 0;
    return seat->due_ms - now_ms > SHORT_MS;
}

static bool can_help(const struct seat *seat)
{
    return seat->pid && seat->state == TEAM_STATE_RUNNING && !seat->silent_ms;
}

static void find_helper(struct supervisor *s, struct seat *seat)
{
    struct team_message m = {.kind = TEAM_ADOPT, .number = seat->number};
    for (unsigned i = 0; i < s->n; i++) {
        struct seat *other = &s->seats[(seat->number + i) % s->n];
        if (other == seat || !can_help(other)) continue;
        if (!channel_send(other->channel, &m, sizeof m, seat->socket)) continue;
        seat->helper = other;
        return;
    }
}

static void let_go(struct seat *seat)
{
    struct team_message m = {.kind = TEAM_GIVE_BACK, .number = seat->number};
    if (seat->helper->pid) channel_send(seat->helper->channel, &m, sizeof m, -1);
    seat->helper = NULL;
}

void help_all(struct supervisor *s, int64_t now_ms)
{
    for (unsigned i = 0; i < s->n && s->all_started && !s->draining; i++) {
        struct seat *seat = &s->seats[i];
        bool needs = needs_help(seat, now_ms);
        if (seat->helper && (!needs || seat->helper->silent_ms)) let_go(seat);
        if (needs && !seat->helper) find_helper(s, seat);
        if (!seat->pid || !seat->silent_ms || now_ms - seat->silent_ms < SILENT_MAX_MS) continue;
        log_event(LOG_ERROR, "worker_stuck", SLICE("it has not answered for 30 s: ended"));
        supervisor_kill(seat, SIGKILL);
        seat->silent_ms = now_ms; /* once is enough */
    }
}

void help_gone(struct supervisor *s, const struct seat *seat)
{
    for (unsigned i = 0; i < s->n; i++)
        if (s->seats[i].helper == seat) s->seats[i].helper = NULL;
}
