/* remote/redis_greeting: the handshake with a Redis. Called by remote/redis_link. Refuses a server that refuses us, is
   not ready, or is a replica where a master is wanted; what a subscriber may not do is noted and is no refusal. */
#include "remote/redis_greeting.h"

#include <stdio.h>

#include "base/check.h"

static void add(struct redis_greeting *g, struct redis_conn *c, enum redis_step step, const struct slice *args, size_t n)
{
    CHECK(g->n < sizeof g->steps / sizeof *g->steps, "a greeting has a few steps");
    g->steps[g->n++] = step;
    redis_conn_add(c, args, n);
}

void redis_greeting_send(struct redis_greeting *g, struct redis_conn *c, const struct redis_login *login, bool master,
                         const struct slice *channels, size_t channels_n)
{
    *g = (struct redis_greeting){0};
    if (login->password) {
        struct slice args[3] = {SLICE("AUTH"), slice_str(login->user), slice_str(login->password)};
        if (!login->user) args[1] = args[2];
        add(g, c, REDIS_STEP_AUTH, args, login->user ? 3 : 2);
    }
    if (login->db) {
        char db[16];
        int n = snprintf(db, sizeof db, "%d", login->db);
        add(g, c, REDIS_STEP_SELECT, (struct slice[]){SLICE("SELECT"), slice_make(db, (size_t)n)}, 2);
    }
    add(g, c, REDIS_STEP_PING, (struct slice[]){SLICE("PING")}, 1);
    if (master) add(g, c, REDIS_STEP_ROLE, (struct slice[]){SLICE("ROLE")}, 1);
    if (channels_n) add(g, c, REDIS_STEP_ID, (struct slice[]){SLICE("CLIENT"), SLICE("ID")}, 2);
    for (size_t i = 0; i < channels_n; i++)
        add(g, c, REDIS_STEP_SUBSCRIBE, (struct slice[]){SLICE("SUBSCRIBE"), channels[i]}, 2);
    redis_conn_flush(c);
}

static const char *judge_role(const struct redis_reply *reply)
{
    if (reply->kind == REDIS_KIND_ERROR) return "the server refused ROLE, by which a master is known";
    bool master = reply->n > 0 && reply->items[0].kind == REDIS_KIND_STRING &&
                  slice_eq(reply->items[0].text, SLICE("master"));
    return master ? NULL : "the server is no master";
}

/* An error at PING stands for a server that is not ready or wants a password, except when PING itself is all that is
   forbidden to this user. */
static const char *judge_ping(const struct redis_reply *reply)
{
    if (reply->kind != REDIS_KIND_ERROR || slice_starts(reply->text, SLICE("NOPERM"))) return NULL;
    return slice_starts(reply->text, SLICE("NOAUTH"))       ? "the server wants a password"
           : slice_starts(reply->text, SLICE("LOADING"))    ? "the server is still loading"
           : slice_starts(reply->text, SLICE("MASTERDOWN")) ? "the server is a replica without its master"
                                                            : "the server refused PING";
}

enum redis_greeted redis_greeting_take(struct redis_greeting *g, const struct redis_reply *reply, const char **error)
{
    CHECK(g->at < g->n, "an answer is awaited");
    const char *wrong = NULL;
    bool refused = reply->kind == REDIS_KIND_ERROR;
    switch (g->steps[g->at++]) {
    case REDIS_STEP_AUTH:
    case REDIS_STEP_SELECT:
        wrong = refused ? "AUTH or SELECT was refused" : NULL;
        break;
    case REDIS_STEP_PING:
        wrong = judge_ping(reply);
        break;
    case REDIS_STEP_ROLE:
        wrong = judge_role(reply);
        break;
    case REDIS_STEP_ID:
        g->id = reply->kind == REDIS_KIND_INTEGER && reply->integer > 0 ? reply->integer : 0;
        break;
    case REDIS_STEP_SUBSCRIBE:
        if (refused) g->refused = true;
        break;
    }
    *error = wrong;
    return wrong ? REDIS_GREETED_BADLY : g->at == g->n ? REDIS_GREETED : REDIS_GREETED_NOT_YET;
}
