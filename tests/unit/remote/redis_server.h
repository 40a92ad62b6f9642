/* For the tests of remote/redis: the real server, started here and ended with the test, and calls whose answers are kept. */
#ifndef TESTS_REMOTE_REDIS_SERVER_H
#define TESTS_REMOTE_REDIS_SERVER_H

#include "remote/redis.h"

#include "harness.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

struct server {
    struct harness h;
    char dir[40];
    int port;
    pid_t pid;
    char password[40];
    struct redis *redis;
};

struct got {
    int calls;
    enum redis_outcome outcome;
    size_t n;
    char value[200];
};

static inline void on_value(enum redis_outcome o, struct slice value, void *arg)
{
    struct got *g = arg;
    g->calls++;
    g->outcome = o;
    g->n = value.n;
    snprintf(g->value, sizeof g->value, "%.*s", (int)(value.n < 199 ? value.n : 199), value.n ? value.p : "");
}

static inline bool connected(struct redis *r)
{
    struct redis_state s;
    redis_state(r, &s);
    return s.connected;
}

/* Runs redis-cli; its answer in out (200 bytes) when out is not NULL. */
static inline void cli(struct server *s, const char *arguments, char *out)
{
    char command[400];
    snprintf(command, sizeof command, "redis-cli --no-auth-warning %s%s -p %d %s 2>&1", s->password[0] ? "-a " : "",
             s->password, s->port, arguments);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    char text[200] = "";
    size_t n = fread(text, 1, sizeof text - 1, f);
    text[n] = '\0';
    pclose(f);
    text[strcspn(text, "\r\n")] = '\0';
    if (out) memcpy(out, text, sizeof text);
}

static inline void start_server(struct server *s)
{
    char port[10], socket_path[60], out[200];
    snprintf(port, sizeof port, "%d", s->port);
    snprintf(socket_path, sizeof socket_path, "%s/s", s->dir);
    s->pid = fork();
    assert_true(s->pid >= 0);
    if (s->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* also when an assertion ends this test */
        if (!freopen("/dev/null", "w", stdout)) _exit(1);
        execlp("redis-server", "redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly",
               "no", "--dir", s->dir, "--unixsocket", socket_path, s->password[0] ? "--requirepass" : NULL, s->password,
               NULL);
        _exit(1);
    }
    for (int i = 0; i < 200; i++) {
        cli(s, "PING", out);
        if (strcmp(out, "PONG") == 0) return;
        usleep(20000);
    }
    fail_msg("redis-server does not start: %s", out);
}

static inline void stop_server(struct server *s)
{
    kill(s->pid, SIGKILL);
    waitpid(s->pid, NULL, 0);
}

static inline struct redis *connect_with(struct server *s, const char *url_format, struct redis_config c)
{
    char url[200], *error = NULL;
    if (strstr(url_format, "%s"))
        snprintf(url, sizeof url, url_format, s->dir);
    else
        snprintf(url, sizeof url, url_format, s->port);
    c.url = slice_str(url);
    struct redis *r = redis_create(s->h.loop, &c, &error);
    assert_non_null(r);
    return r;
}

static inline struct redis *connect_to(struct server *s, const char *url_format, int64_t timeout_ms)
{
    return connect_with(s, url_format, (struct redis_config){.timeout_ms = timeout_ms});
}

static inline void disconnect(struct server *s, struct redis *r)
{
    s->h.gone = false;
    redis_destroy(r, harness_on_gone, &s->h.gone);
    harness_until(&s->h, s->h.gone);
}

static inline void open_server(struct server *s, const char *password)
{
    memset(s, 0, sizeof *s);
    strcpy(s->dir, "/tmp/redis-XXXXXX");
    strcpy(s->password, password);
    assert_non_null(mkdtemp(s->dir));
    s->port = free_port();
    harness_open(&s->h);
    start_server(s);
    if (password[0]) return;
    s->redis = connect_to(s, "redis://127.0.0.1:%d", 200);
    harness_until(&s->h, connected(s->redis));
}

static inline void close_server(struct server *s)
{
    char command[60];
    if (s->redis) disconnect(s, s->redis);
    harness_close(&s->h);
    stop_server(s);
    snprintf(command, sizeof command, "rm -r %s", s->dir);
    assert_int_equal(system(command), 0);
}

static inline struct got get_from(struct server *s, struct redis *r, const char *key)
{
    struct got g = {0};
    redis_get(r, slice_str(key), on_value, &g);
    harness_until(&s->h, g.calls);
    return g;
}

static inline struct got get(struct server *s, const char *key)
{
    return get_from(s, s->redis, key);
}

#endif
