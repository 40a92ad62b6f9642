/* conf/options: from where the configuration is taken, and in which order it is put together. Called by main and by
   tests. It refuses a file that cannot be read, and drop-in mode together with a file; all else is refused by those it
   calls, and told at once. */
#include "conf/options.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "conf/check.h"
#include "conf/checkroutes.h"
#include "conf/dropin.h"
#include "conf/environ.h"
#include "conf/files.h"
#include "conf/read.h"
#include "conf/source.h"
#include "conf/yamldoc.h"

#define DEFAULT_FILE "/etc/doorward/doorward.yaml"

enum { FILE_BYTES = 16 * 1024 * 1024, PIPE_MS = 60000, PIPE_HURRIED_MS = 1000 };

/* The file to read, or NULL: drop-in mode, or variables only. */
static const char *choose(struct load *l, const struct conf_source *src)
{
    const char *named = src->file ? src->file : environ_get(l, "DOORWARD_CONFIG");
    if (named && !*named) named = NULL;
    const char *file = named ? named : source_exists(DEFAULT_FILE) ? DEFAULT_FILE : NULL;
    l->drop_in = dropin_is_meant(l, src->drop_in, file != NULL);
    if (!l->drop_in) return file;
    if (named) problem(&l->problems, NULL, "", "drop-in mode takes no file, but %s is named, expected one of the two", named);
    return NULL;
}

static struct node *read_drop_in(struct load *l)
{
    struct slice text;
    CHECK(source_builtin(SLICE(DROPIN_SETTINGS), &text), "the drop-in settings are embedded");
    l->file = "builtin:" DROPIN_SETTINGS;
    struct node *top = yamldoc_read(&l->problems, l->file, text);
    CHECK(top, "the drop-in settings are YAML");
    environ_expand(l, top, true);
    dropin_map(l, top);
    return top;
}

static struct node *read_file(struct load *l, const char *file)
{
    struct slice text;
    struct arena *a = l->problems.arena;
    l->file = arena_copy(a, slice_str(file)).p;
    l->folder = source_folder(a, file);
    const char *wrong = source_file(a, file, FILE_BYTES, &l->pipe_ms, &text);
    if (wrong) {
        problem(&l->problems, NULL, "", "%s: %s, expected a YAML file", file, wrong);
        return NULL;
    }
    struct node *top = yamldoc_read(&l->problems, l->file, text);
    if (text.n) explicit_bzero((char *)text.p, text.n);
    return top;
}

/* Claims have a shape of their own where no profile is asked for. */
static void default_shape(struct load *l, struct node *top)
{
    struct slice name = SLICE("builtin:shapes/claims.jq"), text;
    static const char *const urls[] = {"context.url", "context.service_url"};
    if (node_find(top, "context.shape")) return;
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        const struct node *url = node_find(top, urls[i]);
        if (url && (url->kind != NODE_TEXT || url->text.n)) return;
    }
    if (!source_builtin(slice_make(name.p + 8, name.n - 8), &text)) return;
    node_put(l->problems.arena, top, "context.shape", node_text(l->problems.arena, name, NULL));
}

/* policy.url: file:PATH is policy.path. Under --drop-in a path is in place of the URL that its variables always give. */
static void take_policy_path(struct load *l, struct node *top)
{
    const struct node *url = node_find(top, "policy.url"), *path = node_find(top, "policy.path");
    if (l->drop_in && path) node_drop(top, "policy.url");
    if (path || !url || url->kind != NODE_TEXT || !slice_starts(url->text, SLICE("file:"))) return;
    struct slice rest = slice_make(url->text.p + 5, url->text.n - 5);
    if (slice_starts(rest, SLICE("///"))) rest = slice_make(rest.p + 2, rest.n - 2);
    if (rest.n == 0 || slice_starts(rest, SLICE("//"))) return; /* refused as a URL */
    node_put(l->problems.arena, top, "policy.path", node_text(l->problems.arena, rest, url));
    node_drop(top, "policy.url");
}

static void load(struct load *l, const struct conf_source *src)
{
    struct conf *c = &l->whole->conf;
    const char *file = choose(l, src);
    struct node *top;
    if (l->drop_in) top = read_drop_in(l);
    else if (file) top = read_file(l, file);
    else top = node_create(l->problems.arena, NODE_MAP);
    if (!file && !l->drop_in && !environ_any(l)) {
        problem(&l->problems, NULL, "", "no configuration: no " DEFAULT_FILE ", expected --config, DOORWARD_CONFIG or --drop-in");
        return;
    }
    c->drop_in = l->drop_in;
    if (!top) {
        /* What the file says is not known; the variables are still checked for being options. */
        environ_overlay(l, node_create(l->problems.arena, NODE_MAP));
        return;
    }
    environ_overlay(l, top);
    if (l->drop_in) dropin_finish(l, top);
    else environ_expand(l, top, false); /* what a variable replaced needs no ${...} of its own */
    default_shape(l, top);
    take_policy_path(l, top);
    read_options(l, top, c);
    check_routes(l, top, c);
    check_options(l, top, c);
}

static void wipe(const struct conf_secret *s)
{
    for (; s; s = s->next) explicit_bzero((char *)s->text.p, s->text.n);
}

struct conf *conf_load(const struct conf_source *src, struct buf *errors, struct buf *warnings)
{
    struct conf_whole *whole = xzalloc(sizeof *whole);
    struct arena arena;
    arena_init(&whole->arena);
    arena_init(&arena);
    struct load l = {.problems = {.arena = &arena, .errors = errors},
                     .kept = &whole->arena,
                     .warnings = warnings,
                     .whole = whole,
                     .environ = src->environ,
                     .store = src->taken,
                     .pipe_ms = src->hurried ? PIPE_HURRIED_MS : PIPE_MS,
                     .folder = ""};
    struct conf_files *read = src->files ? src->files : conf_files_create();
    source_use(read);
    load(&l, src);
    source_use(NULL);
    if (whole->conf.policy.path.n && !l.problems.count) whole->files = files_copy(read);
    if (!src->files) conf_files_destroy(read);
    environ_take(&l);
    wipe(l.seen);
    arena_reset(&arena);
    if (l.problems.count == 0) return &whole->conf;
    conf_destroy(&whole->conf);
    return NULL;
}

struct conf_files *conf_files_again(const struct conf *c, const char *path)
{
    struct conf_files *again = files_copy(((const struct conf_whole *)(const void *)c)->files);
    files_stand_in(again, path);
    return again;
}

void conf_destroy(struct conf *c)
{
    if (!c) return;
    struct conf_whole *whole = (struct conf_whole *)(void *)c;
    wipe(whole->secrets);
    conf_files_destroy(whole->files);
    arena_reset(&whole->arena);
    free(whole);
}
