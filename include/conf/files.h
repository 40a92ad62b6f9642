/* conf/files: the contents of files by their names. For source.c. */
#ifndef CONF_FILES_H
#define CONF_FILES_H

#include <stdbool.h>

#include "base/slice.h"
#include "conf/options.h"

bool files_replace(const struct conf_files *f, const char *path); /* it stands in place of that file */
/* False: none of that name. content may be NULL; valid as long as f. */
bool files_find(const struct conf_files *f, const char *path, struct slice *content);
void files_keep(struct conf_files *f, const char *path, struct slice content); /* copied */

#endif
