/* conf/print: the options as texts for people. */
#ifndef CONF_PRINT_H
#define CONF_PRINT_H

#include "base/buf.h"

struct conf;

void conf_print(const struct conf *c, struct buf *out);  /* --print-config: every value, masked secrets, where it came from */
void conf_print_options(struct buf *out);                /* --print-options: the table, Markdown; docs/options.md */
void conf_print_sample(struct buf *out);                 /* the documented sample file, YAML; docs/sample.yaml */

#endif
