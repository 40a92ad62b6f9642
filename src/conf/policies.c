/* conf/policies: called by values.c for policy.path, and by whoever watches it for changes. Refuses folders without a
   policy, more than a proxy should hold, and folders that lead back into themselves. */
#include "conf/policies.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "conf/source.h"

enum { FILES_MAX = 4096, DEPTH_MAX = 16, FILE_BYTES = 16 * 1024 * 1024, ALL_BYTES = 64 * 1024 * 1024 };

struct walk {
    struct arena *a;
    struct buf names; /* of what is to be read, a line each */
    size_t files;
    uint64_t mark;
    bool policy; /* there is one */
    bool tests;  /* are wanted too */
};

static bool ends(struct slice name, struct slice end)
{
    return name.n >= end.n && memcmp(name.p + name.n - end.n, end.p, end.n) == 0;
}

static bool is_wanted(const struct walk *w, struct slice name)
{
    if (slice_eq(name, SLICE(".manifest"))) return true;
    if (name.n == 0 || name.p[0] == '.') return false;
    if (slice_eq(name, SLICE("data.json")) || slice_eq(name, SLICE("data.yaml"))) return true;
    return ends(name, SLICE(".rego")) && (w->tests || !ends(name, SLICE("_test.rego")));
}

static int is_shown(const struct dirent *e)
{
    return e->d_name[0] != '.' || strcmp(e->d_name, ".manifest") == 0;
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* FNV-1a. */
static void mix(uint64_t *mark, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    for (size_t i = 0; i < n; i++) *mark = (*mark ^ p[i]) * UINT64_C(0x100000001b3);
}

static void mix_file(uint64_t *mark, const char *name, const struct stat *s)
{
    const int64_t facts[] = {(int64_t)s->st_dev,         (int64_t)s->st_ino,          (int64_t)s->st_size,
                             (int64_t)s->st_mtim.tv_sec, (int64_t)s->st_mtim.tv_nsec, (int64_t)s->st_ctim.tv_sec,
                             (int64_t)s->st_ctim.tv_nsec};
    mix(mark, name, strlen(name) + 1);
    mix(mark, facts, sizeof facts);
}

static const char *in_arena(struct arena *a, const char *name, const char *what)
{
    return arena_printf(a, "%s: %s", name, what).p;
}

static const char *take_file(struct walk *w, const char *name, const struct stat *s)
{
    if (!S_ISREG(s->st_mode)) return in_arena(w->a, name, "not a regular file, expected one");
    if (++w->files > FILES_MAX) return "more than 4096 files in it, expected a folder of policies";
    w->policy |= ends(slice_str(name), SLICE(".rego"));
    mix_file(&w->mark, name, s);
    buf_add_slice(&w->names, slice_str(name));
    buf_add_char(&w->names, '\n');
    return NULL;
}

/* name: of the folder below the first one, with a slash; "" for that. */
static const char *take_folder(struct walk *w, const char *path, const char *name, unsigned depth)
{
    struct dirent **entries;
    const char *wrong = NULL;
    if (depth > DEPTH_MAX) return in_arena(w->a, name, "more than 16 folders deep, expected no link into itself");
    int n = scandir(path, &entries, is_shown, by_bytes);
    if (n < 0) return in_arena(w->a, path, errno == EACCES ? "no permission to read the folder" : "the folder cannot be read");
    for (int i = 0; i < n; i++) {
        const char *entry = entries[i]->d_name;
        const char *own = arena_printf(w->a, "%s%s", name, entry).p, *below = arena_printf(w->a, "%s/%s", path, entry).p;
        struct stat s;
        if (wrong || strchr(entry, '\n')) {
            /* told already, or no name of ours */
        } else if (stat(below, &s) != 0) {
            if (is_wanted(w, slice_str(entry))) wrong = in_arena(w->a, own, "no such file");
        } else if (S_ISDIR(s.st_mode)) {
            wrong = take_folder(w, below, arena_printf(w->a, "%s/", own).p, depth + 1);
        } else if (is_wanted(w, slice_str(entry))) {
            wrong = take_file(w, own, &s);
        }
        free(entries[i]);
    }
    free(entries);
    return wrong;
}

static const char *walk(struct walk *w, const char *path)
{
    struct stat s;
    w->mark = UINT64_C(0xcbf29ce484222325);
    buf_init(&w->names, w->a);
    if (stat(path, &s) != 0) return errno == EACCES ? "no permission to read it" : "no such file or folder";
    if (S_ISDIR(s.st_mode)) {
        const char *wrong = take_folder(w, path, "", 1);
        return wrong || w->policy ? wrong : "no .rego file in it, expected a folder of policies";
    }
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    if (!ends(slice_str(name), SLICE(".rego")) && !ends(slice_str(name), SLICE(".tar.gz")))
        return "neither a .rego file nor a bundle (.tar.gz), expected one of these or a folder";
    mix_file(&w->mark, name, &s);
    return NULL;
}

static const char *read_one(struct arena *a, int64_t *pipe_ms, const char *path, struct slice name, struct policies *out,
                            size_t *bytes)
{
    struct conf_policy *p = &out->v[out->n++];
    p->name = arena_copy(a, name);
    const char *wrong = source_bytes(a, path, FILE_BYTES, pipe_ms, &p->bytes);
    if (wrong) return in_arena(a, p->name.p, wrong);
    *bytes += p->bytes.n;
    return *bytes > ALL_BYTES ? "more than 64 MiB in it, expected a folder of policies" : NULL;
}

static size_t count_lines(struct slice text)
{
    size_t n = 0;
    for (size_t i = 0; i < text.n; i++) n += text.p[i] == '\n';
    return n;
}

static const char *read_all(struct walk *w, int64_t *pipe_ms, struct policies *out)
{
    struct arena *a = w->a;
    struct slice names, name;
    size_t bytes = 0;
    const char *path = out->path.p, *listed = arena_printf(a, "%s/ names", path).p;
    if (!source_recall(listed, &names)) {
        const char *wrong = walk(w, path);
        if (wrong) return wrong;
        names = buf_slice(&w->names);
        source_remember(listed, names);
        out->mark = w->mark;
    }
    out->v = arena_zalloc(a, (count_lines(names) + 1) * sizeof *out->v);
    if (!names.n) {
        const char *slash = strrchr(path, '/');
        return read_one(a, pipe_ms, path, slice_str(slash ? slash + 1 : path), out, &bytes);
    }
    while (slice_next(&names, '\n', &name)) {
        if (!name.n) continue;
        const char *wrong = read_one(a, pipe_ms, arena_printf(a, "%s/%.*s", path, (int)name.n, name.p).p, name, out, &bytes);
        if (wrong) return wrong;
    }
    return NULL;
}

const char *policies_read(struct arena *a, int64_t *pipe_ms, struct policies *out)
{
    struct walk w = {.a = a};
    return read_all(&w, pipe_ms, out);
}

const char *policies_read_tests(struct arena *a, int64_t *pipe_ms, struct policies *out)
{
    struct walk w = {.a = a, .tests = true};
    return read_all(&w, pipe_ms, out);
}

uint64_t policies_mark(const char *path)
{
    struct arena a;
    arena_init(&a);
    struct walk w = {.a = &a};
    uint64_t mark = walk(&w, path) ? 0 : w.mark;
    arena_reset(&a);
    return mark;
}
