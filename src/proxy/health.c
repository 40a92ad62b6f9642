/* proxy/health: checks of the addresses of an upstream. Called by upstream for each address that is used. */
#include "proxy/health.h"

#include <stdlib.h>

#include "base/chance.h"
#include "base/check.h"
#include "base/log.h"
#include "proxy/endpoint.h"

#define FAILURES 2
#define AGAIN_MS 1000
#define PROBE_TIMEOUT_MS 5000
#define STATUS_BYTES 12 /* "HTTP/1.1 200" */
#define REQUEST_BYTES 2048
#define NOT_IMPLEMENTED 501 /* knows no HEAD, and is there */

struct check {
    struct stream stream;
    struct health *health; /* NULL: cancelled */
    struct dial *dial;
    struct deadline deadline; /* once connected */
    int64_t until_ms;
    char got[STATUS_BYTES];
    size_t got_n;
};

static void on_next_due(struct deadline *d);
static void on_dialled(struct stream *s, int status, const char *why, void *arg);
static void on_read(struct stream *s, struct slice data);
static void on_end(struct stream *s, int error);
static void on_check_due(struct deadline *d);
static void on_closed(struct stream *s);

const struct stream_events health_stream_events = {on_read, on_end, NULL};

static struct member *of(const struct health *h)
{
    return container_of(h, struct member, health);
}

static bool is_active(const struct health *h)
{
    return of(h)->group->conf.health_path.n > 0;
}

static struct check *of_stream(struct stream *s)
{
    return container_of(s, struct check, stream);
}

static void say(struct health *h)
{
    const struct member *m = of(h);
    enum log_level level = h->ok ? LOG_INFO : LOG_WARN;
    int word = h->ok ? 1 : -1;
    if (m->quiet || h->told == word) return;
    h->told = word;
    if (!log_on(level)) return;
    struct log_line line;
    log_begin(&line, level, h->ok ? SLICE("dependency_up") : SLICE("dependency_down"));
    json_field_string(&line.json, "dependency", SLICE("upstream"));
    json_field_string(&line.json, "name", m->group->conf.name);
    json_field_string(&line.json, "address", slice_str(m->text));
    json_field_string(&line.json, "detail", slice_str(h->state));
    log_end(&line);
}

static void set_out(struct member *m, bool out)
{
    if (m->candidate.out == out) return;
    m->candidate.out = out;
    m->candidate.proven = 0;
    if (out) member_drop_idle(m);
}

/* The outcome of one check. state: fixed text. */
static void judge(struct health *h, bool good, const char *state)
{
    struct member *m = of(h);
    const struct conf_upstream *conf = &m->group->conf;
    bool before = h->ok;
    int64_t interval = is_active(h) ? conf->health_interval_ms : m->group->probe_interval_ms;
    h->failed = good ? 0 : h->failed + 1;
    h->checked_ms = loop_now_ms(m->group->loop);
    h->state = state;
    h->ok = good || (is_active(h) && before && h->failed < FAILURES);
    if (is_active(h) && (good || h->failed >= FAILURES)) set_out(m, !good);
    if (good && m->unconnected) breaker_wake(&m->candidate.breaker, h->checked_ms);
    say(h);
    interval = (int64_t)((double)interval * (0.9 + 0.2 * chance_fraction()));
    deadline_after(m->group->loop, &h->next, !good && interval > AGAIN_MS ? AGAIN_MS : interval);
}

/* The check is over; who it was for is told, and its memory goes with its stream. */
static struct health *leave(struct check *c)
{
    struct health *h = c->health;
    deadline_stop(&c->deadline);
    c->health = NULL;
    if (h) h->check = NULL;
    return h;
}

static void end(struct check *c, bool good, const char *state)
{
    struct health *h = leave(c);
    stream_close(&c->stream, on_closed);
    judge(h, good, state);
}

static void on_dialled(struct stream *s, int status, const char *why, void *arg)
{
    struct check *c = arg;
    (void)why;
    c->dial = NULL;
    if (status) {
        struct health *h = leave(c);
        struct member *m = of(h);
        free(c);
        judge(h, false, upstream_dial_fault(status));
        endpoint_unreachable(m);
        return;
    }
    struct member *m = of(c->health);
    const struct conf_upstream *conf = &m->group->conf;
    int64_t left = c->until_ms - loop_now_ms(m->group->loop);
    deadline_after(m->group->loop, &c->deadline, left > 0 ? left : 0);
    endpoint_connected(m);
    struct slice parts[] = {
        is_active(c->health) ? SLICE("GET ") : SLICE("HEAD "),
        is_active(c->health) ? conf->health_path : conf->base_path,
        is_active(c->health) ? SLICE("") : SLICE("/"),
        SLICE(" HTTP/1.1\r\nHost: "),
        m->authority,
        SLICE("\r\nUser-Agent: doorward\r\nConnection: close\r\n\r\n"),
    };
    stream_read(s, true);
    stream_send(s, parts, sizeof parts / sizeof *parts);
}

static int status_of(const struct check *c)
{
    const char *p = c->got;
    if (memcmp(p, "HTTP/1.", 7) != 0 || p[8] != ' ') return 0;
    int status = 0;
    for (int i = 9; i < STATUS_BYTES; i++) {
        if (p[i] < '0' || p[i] > '9') return 0;
        status = status * 10 + (p[i] - '0');
    }
    return status;
}

static void on_read(struct stream *s, struct slice data)
{
    struct check *c = of_stream(s);
    size_t take = data.n < STATUS_BYTES - c->got_n ? data.n : STATUS_BYTES - c->got_n;
    memcpy(c->got + c->got_n, data.p, take);
    c->got_n += take;
    if (c->got_n < STATUS_BYTES) return;
    int status = status_of(c);
    if (status < 100)
        end(c, false, "the answer is not HTTP/1.1");
    else if (is_active(c->health) && status >= 400)
        end(c, false, "answers the health check with an error status");
    else if (status >= 500 && status != NOT_IMPLEMENTED)
        end(c, false, "answers HEAD with a server error");
    else
        end(c, true, "available");
}

static void on_end(struct stream *s, int error)
{
    (void)error;
    end(of_stream(s), false, "closed without an answer");
}

static void on_check_due(struct deadline *d)
{
    struct check *c = container_of(d, struct check, deadline);
    end(c, false, "no answer in time");
}

static void on_closed(struct stream *s)
{
    free(of_stream(s));
}

static void on_next_due(struct deadline *d)
{
    struct health *h = container_of(d, struct health, next);
    struct member *m = of(h);
    const struct conf_upstream *conf = &m->group->conf;
    int64_t timeout = is_active(h) ? conf->health_timeout_ms : PROBE_TIMEOUT_MS;
    struct check *c = xzalloc(sizeof *c);
    struct dial_target target = {
        .address = (const struct sockaddr *)&m->address,
        .tls = m->group->tls,
        .tls_name = conf->tls_server_name.n ? conf->tls_server_name.p : m->host.p,
    };
    c->health = h;
    h->check = c;
    deadline_init(&c->deadline, on_check_due);
    c->until_ms = loop_now_ms(m->group->loop) + timeout;
    c->dial = dial_start(m->group->loop, &target, timeout, &c->stream, &health_stream_events, on_dialled, c);
}

void health_start(struct member *m)
{
    struct health *h = &m->health;
    if (h->on) return;
    int64_t since = h->checked_ms ? loop_now_ms(m->group->loop) - h->checked_ms : AGAIN_MS;
    h->on = true;
    deadline_init(&h->next, on_next_due);
    if (since < AGAIN_MS)
        deadline_after(m->group->loop, &h->next, AGAIN_MS - since);
    else
        on_next_due(&h->next);
}

void health_stop(struct member *m)
{
    struct health *h = &m->health;
    if (!h->on) return;
    h->on = false;
    deadline_stop(&h->next);
    if (!h->check) return;
    struct check *c = h->check;
    leave(c);
    if (c->dial)
        dial_cancel(c->dial, on_closed);
    else
        stream_close(&c->stream, on_closed);
}
