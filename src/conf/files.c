/* conf/files: what was read from files, kept and given on. Called by source.c, and by who hands a configuration to other
   processes. Refuses a pack that is not whole: what is behind the fault is not there. */
#include "conf/files.h"

#include <stdlib.h>

#include "base/check.h"

struct file {
    struct file *next;
    char *path;
    struct slice content;
};

struct conf_files {
    struct file *first;
    bool packed;
    char *live; /* read as it is, although packed; NULL none */
};

struct conf_files *conf_files_create(void)
{
    return xzalloc(sizeof(struct conf_files));
}

/* path is the other one, or below it. */
static bool is_at(const char *path, const char *other)
{
    size_t n = strlen(other);
    return strncmp(path, other, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

bool files_replace(const struct conf_files *f, const char *path)
{
    return f->packed && !(f->live && is_at(path, f->live));
}

bool files_find(const struct conf_files *f, const char *path, struct slice *content)
{
    for (const struct file *one = f->first; one; one = one->next) {
        if (strcmp(one->path, path) != 0) continue;
        if (content) *content = one->content;
        return true;
    }
    return false;
}

void files_keep(struct conf_files *f, const char *path, struct slice content)
{
    if (files_find(f, path, NULL)) return;
    struct file *one = xzalloc(sizeof *one);
    char *copy = xmalloc(content.n + 1);
    if (content.n) memcpy(copy, content.p, content.n);
    *one = (struct file){f->first, xstrdup(path), slice_make(copy, content.n)};
    f->first = one;
}

static void forget(struct file *one)
{
    explicit_bzero((char *)(uintptr_t)one->content.p, one->content.n);
    free((char *)(uintptr_t)one->content.p);
    free(one->path);
    free(one);
}

struct conf_files *files_copy(const struct conf_files *f)
{
    struct conf_files *copy = conf_files_create();
    for (const struct file *one = f->first; one; one = one->next) files_keep(copy, one->path, one->content);
    return copy;
}

void files_stand_in(struct conf_files *f, const char *path)
{
    f->packed = true;
    f->live = xstrdup(path);
    for (struct file **at = &f->first; *at;) {
        struct file *one = *at;
        if (!is_at(one->path, path)) {
            at = &one->next;
            continue;
        }
        *at = one->next;
        forget(one);
    }
}

void conf_files_pack(const struct conf_files *f, struct buf *out)
{
    for (const struct file *one = f->first; one; one = one->next) {
        size_t lengths[2] = {strlen(one->path) + 1, one->content.n};
        buf_add(out, (const char *)lengths, sizeof lengths);
        buf_add(out, one->path, lengths[0]);
        buf_add_slice(out, one->content);
    }
}

struct conf_files *conf_files_unpack(struct slice packed)
{
    struct conf_files *f = conf_files_create();
    size_t lengths[2];
    f->packed = true;
    while (packed.n >= sizeof lengths) {
        memcpy(lengths, packed.p, sizeof lengths);
        packed = slice_make(packed.p + sizeof lengths, packed.n - sizeof lengths);
        bool whole = lengths[0] > 0 && lengths[0] <= packed.n && lengths[1] <= packed.n - lengths[0];
        if (!whole || packed.p[lengths[0] - 1] != '\0') break;
        files_keep(f, packed.p, slice_make(packed.p + lengths[0], lengths[1]));
        packed = slice_make(packed.p + lengths[0] + lengths[1], packed.n - lengths[0] - lengths[1]);
    }
    return f;
}

void conf_files_destroy(struct conf_files *f)
{
    while (f && f->first) {
        struct file *one = f->first;
        f->first = one->next;
        forget(one);
    }
    if (f) free(f->live);
    free(f);
}
