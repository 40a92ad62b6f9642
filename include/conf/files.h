/* conf/files: the contents of files by their names. For source.c. */
#ifndef CONF_FILES_H
#define CONF_FILES_H

#include <stdbool.h>

#include "base/slice.h"
#include "conf/options.h"

bool files_replace(const struct conf_files *f, const char *path); /* it stands in place of that file */
/* False: none of that name. content may be NULL; valid as long as f. */
bool files_find(const struct conf_files *f, const char *path, struct slice *content);
struct conf_files *files_copy(const struct conf_files *f);
/* From now on they stand in place of the files, but for path and what is below it: that is forgotten. */
void files_stand_in(struct conf_files *f, const char *path);
void files_keep(struct conf_files *f, const char *path, struct slice content); /* copied */

#endif
