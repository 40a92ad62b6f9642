/* Configurations: a YAML text, then after a line of %% one variable of the environment a line. What is refused says
   why, on lines that print; what is taken keeps to what the rest of the program counts on, and shows no secret. */
#include <stdio.h>
#include <unistd.h>

#include "conf/net.h"
#include "conf/options.h"
#include "conf/routes.h"
#include "fuzz.h"

#define MARK "hush-hush" /* in an input's secret: to be seen nowhere */
#define VARIABLES_MAX 64

static char folder[] = "/tmp/doorward-fuzz-XXXXXX";
static char file[sizeof folder + sizeof "/c.yaml"];

static void leave(void)
{
    unlink(file);
    rmdir(folder);
}

static void enter(void)
{
    if (file[0]) return;
    CHECK(mkdtemp(folder), "a folder of its own");
    snprintf(file, sizeof file, "%s/c.yaml", folder);
    atexit(leave);
}

static void write_file(struct slice text)
{
    FILE *f = fopen(file, "wb");
    CHECK(f && fwrite(text.p, 1, text.n, f) == text.n && fclose(f) == 0, "a file is written");
}

static size_t count(struct slice text, const char *word)
{
    size_t n = 0;
    const char *at;
    while (text.n && (at = memmem(text.p, text.n, word, strlen(word)))) {
        n++;
        text.n -= (size_t)(at - text.p) + 1;
        text.p = at + 1;
    }
    return n;
}

static void check_lines(const struct buf *b)
{
    for (size_t i = 0; i < b->n; i++)
        CHECK((unsigned char)b->p[i] >= 0x20 || b->p[i] == '\n', "messages print");
    CHECK(!b->n || b->p[b->n - 1] == '\n', "whole lines");
}

static void check_text(struct slice s)
{
    CHECK(s.p && s.p[s.n] == '\0' && !memchr(s.p, 0, s.n), "a text with a NUL behind it");
}

static bool holds(const struct conf_list *l, const char *text)
{
    for (size_t i = 0; i < l->n; i++)
        if (slice_eq(l->v[i], slice_str(text))) return true;
    return false;
}

static void check_upstream(const struct conf_upstream *u)
{
    check_text(u->name);
    CHECK(u->endpoints_n, "somewhere to connect to");
    for (size_t i = 0; i < u->endpoints_n; i++) {
        const struct conf_endpoint *e = &u->endpoints[i];
        check_text(e->host);
        CHECK(e->host.n && e->authority.n && e->port > 0 && e->port < 65536, "an address");
    }
    CHECK(!u->base_path.n || (u->base_path.p[0] == '/' && u->base_path.p[u->base_path.n - 1] != '/'), "a base path");
    CHECK(u->connect_timeout_ms > 0 && u->response_timeout_ms > 0 && u->idle_timeout_ms > 0, "times with an end");
}

static void check_issuer(const struct conf_issuer *i)
{
    check_text(i->issuer);
    CHECK(i->issuer.n && i->algorithms.n, "named, with algorithms");
    CHECK((i->jwks_url.n != 0) + (i->jwks.n != 0) + (i->secret.n != 0) == 1, "one kind of key");
    CHECK(i->audiences.n || i->any_audience, "audiences, or any said aloud");
    CHECK(!i->secret.n || i->secret.n >= 32, "no short secret");
    bool by_secret = holds(&i->algorithms, "HS256") || holds(&i->algorithms, "HS384") || holds(&i->algorithms, "HS512");
    CHECK(by_secret == (i->secret.n != 0), "HS goes with a secret");
    CHECK(!holds(&i->algorithms, "none"), "never none");
}

static void check_routes(const struct conf *c)
{
    struct routes *r = routes_create(c->routes, c->routes_n);
    for (size_t i = 0; i < c->routes_n; i++) {
        const struct conf_route *one = &c->routes[i];
        CHECK(one->upstream >= c->upstreams && one->upstream < c->upstreams + c->upstreams_n, "it leads somewhere");
        CHECK(!one->strip_prefix.n || slice_starts(one->path, one->strip_prefix), "what is stripped is there");
        const struct conf_route *found = routes_find(r, one->path.n ? one->path : SLICE("/"));
        CHECK(found && slice_eq(found->path, one->path), "its path leads to it");
        CHECK(!found->prefix || one->prefix, "an exact route comes first");
    }
    routes_destroy(r);
}

static void check_conf(const struct conf *c)
{
    CHECK(c->listen.port >= 0 && c->listen.port < 65536 && c->routes_n && c->upstreams_n, "it can run");
    CHECK(c->listen.header_timeout_ms > 0 && c->listen.idle_timeout_ms > 0 && c->listen.body_idle_timeout_ms > 0 &&
              c->listen.max_header_bytes > 0 && c->listen.max_headers > 0 && c->listen.max_target_bytes > 0 &&
              c->listen.max_connections > 0 && c->policy.timeout_ms > 0 && c->redis.timeout_ms > 0 &&
              c->decisions.max_entries > 0 && c->decisions.max_bytes > 0,
          "every time and size has an end");
    CHECK(c->decisions.jitter >= 0 && c->decisions.jitter <= 1, "a part");
    CHECK(!c->admin.host.n || net_is_loopback(c->admin.host) || c->admin.token.n, "no open admin address");
    CHECK(!c->cors.credentials || !holds(&c->cors.origins, "*"), "no credentials for any origin");
    for (size_t i = 0; i < c->listen.trusted_n; i++)
        CHECK(c->listen.trusted[i].bits, "nobody trusts all");
    for (size_t i = 0; i < c->grant.header.n; i++)
        CHECK(c->grant.header.p[i] > 0x20 && c->grant.header.p[i] < 0x7f && !strchr(":\"(),/", c->grant.header.p[i]) &&
                  (c->grant.header.p[i] < 'A' || c->grant.header.p[i] > 'Z'),
              "a header's name in lower case");
    for (size_t i = 0; i < c->upstreams_n; i++)
        check_upstream(&c->upstreams[i]);
    if (c->tokens.verify == VERIFY_KEYS)
        for (size_t i = 0; i < c->tokens.issuers_n; i++)
            check_issuer(&c->tokens.issuers[i]);
    check_text(c->policy.url);
    check_text(c->redis.url);
    check_routes(c);
}

static bool is_secret(const struct conf *c)
{
    size_t n = count(c->admin.token, MARK) + count(c->policy.authorization, MARK) +
               count(c->context.service_authorization, MARK) + count(c->redis.url, MARK) + count(c->grant.key, MARK);
    for (size_t i = 0; i < c->tokens.issuers_n; i++)
        n += count(c->tokens.issuers[i].secret, MARK);
    return n > 0;
}

static void check_taken(const struct conf *c, const struct buf *warnings, struct slice input)
{
    struct buf b;
    buf_init(&b, NULL);
    check_conf(c);
    conf_print(c, &b);
    check_lines(&b);
    if (count(input, MARK) == 1 && is_secret(c))
        CHECK(!count(buf_slice(&b), MARK) && !count(buf_slice(warnings), MARK), "no secret is shown");
    buf_free(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct input in = input_make(data, n);
    struct slice yaml = input_rest(&in), line;
    char *variables[VARIABLES_MAX + 1];
    size_t variables_n = 0;
    const char *cut = n >= 4 ? memmem(yaml.p, yaml.n, "\n%%\n", 4) : NULL;
    if (cut) {
        in = (struct input){cut + 4, yaml.n - (size_t)(cut - yaml.p) - 4};
        yaml.n = (size_t)(cut - yaml.p) + 1;
    }
    while (in.n && variables_n < VARIABLES_MAX) {
        line = input_line(&in);
        variables[variables_n++] = xstrndup(line.p, strnlen(line.p, line.n));
    }
    variables[variables_n] = NULL;
    enter();
    write_file(yaml);
    struct buf errors, warnings;
    buf_init(&errors, NULL);
    buf_init(&warnings, NULL);
    const struct conf_source source = {.file = yaml.n ? file : NULL, .environ = variables};
    struct conf *c = conf_load(&source, &errors, &warnings);
    CHECK((c == NULL) == (errors.n > 0), "taken, or refused and why");
    check_lines(&errors);
    check_lines(&warnings);
    if (c) check_taken(c, &warnings, slice_make((const char *)data, n));
    conf_destroy(c);
    buf_free(&errors);
    buf_free(&warnings);
    while (variables_n)
        free(variables[--variables_n]);
    CHECK(arena_chunks_out() == 0, "no arena is left");
    return 0;
}
