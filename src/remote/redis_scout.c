/* remote/redis_scout: owns the connection to who knows where data is. Called by redis_route. Refuses to ask more often
   than each HURRY_MS, whoever hurries it, and rests between rounds in which nobody answered. */
#include "remote/redis_scout.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/chance.h"
#include "base/check.h"
#include "remote/redis_link.h"

#define HURRY_MS 200
#define ROUND_FIRST_MS 100 /* rest after a round in vain; doubles */
#define ROUND_LAST_MS 1000

struct redis_scout {
    struct redis_scout_config config;
    struct redis_link_config link_config;
    struct redis_link *link;
    struct redis_place *places; /* seeds, then learned */
    size_t seeds, places_n;
    size_t at;                  /* whom it asks, or will */
    struct redis_place aimed;   /* whom it is connected to */
    size_t in_vain;             /* servers asked since one was of use */
    struct deadline next;
    bool asked;
    int64_t asked_ms;
    void (*done)(void *arg); /* of its end */
    void *done_arg;
};

static void on_up(void *arg);
static void on_down(enum redis_failure f, const char *error, void *arg);
static void on_reply(const struct redis_reply *reply, void *arg);
static void on_next(struct deadline *d);

static const struct redis_link_events link_events = {on_up, on_down, on_reply, NULL};

/* The one that was asked last was of no use. */
static void move_on(struct redis_scout *s, const char *error)
{
    int64_t pause_ms = 0;
    redis_link_aim(s->link, NULL, NULL, 0);
    s->asked = false;
    s->in_vain++;
    s->at = (s->at + 1) % s->places_n;
    size_t rounds = s->in_vain / s->places_n;
    if (rounds * s->places_n == s->in_vain) {
        pause_ms = rounds > 4 ? ROUND_LAST_MS : (int64_t)ROUND_FIRST_MS << (rounds - 1);
        if (pause_ms > ROUND_LAST_MS) pause_ms = ROUND_LAST_MS;
        pause_ms -= (int64_t)((double)pause_ms / 4 * chance_fraction());
        s->config.on_failed(error, s->config.arg);
    }
    deadline_after(s->config.loop, &s->next, pause_ms);
}

static void ask(struct redis_scout *s)
{
    if (s->asked) return;
    s->asked = redis_link_send(s->link, s->config.question, s->config.question_n);
    s->asked_ms = loop_now_ms(s->config.loop);
}

static void on_next(struct deadline *d)
{
    struct redis_scout *s = container_of(d, struct redis_scout, next);
    if (redis_link_up(s->link)) {
        ask(s);
        return;
    }
    s->aimed = s->places[s->at];
    redis_link_aim(s->link, NULL, s->aimed.host, s->aimed.port);
}

static void on_up(void *arg)
{
    ask(arg);
}

static void on_down(enum redis_failure f, const char *error, void *arg)
{
    (void)f;
    move_on(arg, error);
}

static void on_reply(const struct redis_reply *reply, void *arg)
{
    struct redis_scout *s = arg;
    s->asked = false;
    deadline_after(s->config.loop, &s->next, s->config.every_ms);
    if (s->config.on_answer(reply, &s->aimed, s->config.arg))
        s->in_vain = 0;
    else
        move_on(s, "the server does not know");
}

struct redis_scout *redis_scout_create(const struct redis_scout_config *c)
{
    struct redis_scout *s = xzalloc(sizeof *s);
    s->config = *c;
    s->link_config = (struct redis_link_config){
        .login = c->login, .timeout_ms = c->timeout_ms, .events = &link_events, .arg = s};
    s->link = redis_link_create(c->loop, &s->link_config);
    deadline_init(&s->next, on_next);
    return s;
}

static void on_link_gone(void *arg)
{
    struct redis_scout *s = arg;
    void (*done)(void *arg) = s->done;
    void *done_arg = s->done_arg;
    free(s->places);
    free(s);
    done(done_arg);
}

void redis_scout_destroy(struct redis_scout *s, void (*done)(void *arg), void *arg)
{
    s->done = done;
    s->done_arg = arg;
    deadline_stop(&s->next);
    redis_link_destroy(s->link, on_link_gone, s);
}

static void put(struct redis_scout *s, size_t at, const struct redis_place *places, size_t n)
{
    s->places = xrealloc(s->places, (at + n + 1) * sizeof *s->places);
    if (n) memcpy(s->places + at, places, n * sizeof *places);
    s->places_n = at + n;
}

void redis_scout_seed(struct redis_scout *s, const char *host, int port)
{
    struct redis_place p = {.port = port};
    CHECK(s->places_n == s->seeds, "seeds come before what is learned");
    snprintf(p.host, sizeof p.host, "%s", host);
    put(s, s->seeds++, &p, 1);
    if (s->seeds == 1) deadline_after(s->config.loop, &s->next, 0);
}

void redis_scout_learn(struct redis_scout *s, const struct redis_place *masters, size_t masters_n,
                       const struct redis_place *replicas, size_t replicas_n)
{
    put(s, s->seeds, masters, masters_n);
    put(s, s->seeds + masters_n, replicas, replicas_n);
    if (s->at >= s->places_n) s->at = 0;
}

void redis_scout_hurry(struct redis_scout *s)
{
    if (s->asked || !redis_link_up(s->link)) return; /* an answer comes, or the next is being tried already */
    int64_t wait_ms = s->asked_ms + HURRY_MS - loop_now_ms(s->config.loop);
    deadline_after(s->config.loop, &s->next, wait_ms > 0 ? wait_ms : 0);
}
