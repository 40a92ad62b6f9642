/* conf/source: the contents of files and of what is embedded under builtin:. */
#ifndef CONF_SOURCE_H
#define CONF_SOURCE_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/slice.h"

struct conf_files;

/* From here on files are remembered in f, or read from it; NULL: just read. */
void source_use(struct conf_files *f);
bool source_exists(const char *path);

/* The whole of a file, NUL behind it. NULL when read, else what is wrong (static text). pipe_ms: how long pipes may be
   waited for, in all; what was waited is taken off. */
const char *source_file(struct arena *a, const char *path, size_t max_bytes, int64_t *pipe_ms, struct slice *out);

/* The same where a NUL may be in it. */
const char *source_bytes(struct arena *a, const char *path, size_t max_bytes, int64_t *pipe_ms, struct slice *out);

/* What is known beside contents (which files a folder has), under a name that no file has; kept and given on as those
   are. True: it is to be taken from there; *out is without bytes (p NULL) when nothing is. */
bool source_recall(const char *name, struct slice *out);
void source_remember(const char *name, struct slice content);

/* name without "builtin:". False when nothing of that name is embedded. */
bool source_builtin(struct slice name, struct slice *out);

/* The folder of a path, without the slash; "" when it has none ("/" for the root). */
const char *source_folder(struct arena *a, const char *path);
/* path as it is when absolute or folder is "", else below folder. */
const char *source_below(struct arena *a, const char *folder, struct slice path);

#endif
