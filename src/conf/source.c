/* conf/source: reading of whole files, bounded. Called by options.c for the configuration and by values.c for what it
   names. It refuses folders, files over their bound, pipes that keep it waiting, and texts with a NUL in them. */
#include "conf/source.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "conf/builtin.h"
#include "conf/files.h"

static struct conf_files *files; /* of the configuration that is being read */

static const char *why_not_opened(int error)
{
    if (error == ENOENT) return "no such file";
    if (error == EACCES) return "no permission to read the file";
    return "the file cannot be opened";
}

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Not NULL: a pipe says nothing more in time. */
static const char *await_bytes(int fd, int64_t *pipe_ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int64_t began_ms = now_ms();
    int ready = poll(&p, 1, *pipe_ms > 0 ? (int)*pipe_ms : 0);
    *pipe_ms -= now_ms() - began_ms;
    return ready == 0 ? "nobody writes to the pipe" : NULL;
}

static const char *read_all(struct arena *a, int fd, size_t max_bytes, int64_t *pipe_ms, struct slice *out)
{
    struct stat st;
    if (fstat(fd, &st) != 0 || S_ISDIR(st.st_mode)) return "not a file";
    if (st.st_size < 0 || (size_t)st.st_size > max_bytes) return "the file is too long";
    /* A pipe has no size: it is read up to the bound. */
    size_t room = S_ISREG(st.st_mode) ? (size_t)st.st_size + 1 : max_bytes + 1, n = 0;
    char *p = arena_alloc(a, room + 1);
    while (n < room) {
        const char *silent = S_ISREG(st.st_mode) ? NULL : await_bytes(fd, pipe_ms);
        if (silent) return silent;
        ssize_t got = read(fd, p + n, room - n);
        if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (got < 0) return "the file cannot be read";
        if (got == 0) break;
        n += (size_t)got;
    }
    if (n == room) return "the file is too long or grows";
    p[n] = '\0';
    *out = slice_make(p, n);
    return NULL;
}

void source_use(struct conf_files *f)
{
    files = f;
}

bool source_exists(const char *path)
{
    return files && files_replace(files, path) ? files_find(files, path, NULL) : access(path, F_OK) == 0;
}

static const char *read_packed(struct arena *a, const char *path, size_t max_bytes, struct slice *out)
{
    struct slice content;
    if (!files_find(files, path, &content)) return "no such file";
    if (content.n > max_bytes) return "the file is too long";
    *out = arena_copy(a, content);
    return NULL;
}

static const char *read_file(struct arena *a, const char *path, size_t max_bytes, int64_t *pipe_ms, struct slice *out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return why_not_opened(errno);
    const char *error = read_all(a, fd, max_bytes, pipe_ms, out);
    close(fd);
    return error;
}

const char *source_bytes(struct arena *a, const char *path, size_t max_bytes, int64_t *pipe_ms, struct slice *out)
{
    if (files && files_replace(files, path)) return read_packed(a, path, max_bytes, out);
    const char *error = read_file(a, path, max_bytes, pipe_ms, out);
    if (files && !error) files_keep(files, path, *out);
    return error;
}

const char *source_file(struct arena *a, const char *path, size_t max_bytes, int64_t *pipe_ms, struct slice *out)
{
    const char *error = source_bytes(a, path, max_bytes, pipe_ms, out);
    return !error && memchr(out->p, 0, out->n) ? "the file has a NUL in it" : error;
}

bool source_recall(const char *name, struct slice *out)
{
    if (!files || !files_replace(files, name)) return false;
    if (!files_find(files, name, out)) *out = slice_make(NULL, 0);
    return true;
}

void source_remember(const char *name, struct slice content)
{
    if (files) files_keep(files, name, content);
}

bool source_builtin(struct slice name, struct slice *out)
{
    for (const struct builtin *b = builtins; b->name; b++) {
        if (!slice_eq(slice_str(b->name), name)) continue;
        *out = b->bytes;
        return true;
    }
    return false;
}

const char *source_folder(struct arena *a, const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash) return "";
    return arena_copy(a, slice_make(path, slash == path ? 1 : (size_t)(slash - path))).p;
}

const char *source_below(struct arena *a, const char *folder, struct slice path)
{
    if (!*folder || (path.n && path.p[0] == '/')) return arena_copy(a, path).p;
    return arena_printf(a, "%s/%.*s", folder, (int)path.n, path.p).p;
}
