/* proxy/eval_print: the report of a rehearsal for people. */
#ifndef PROXY_EVAL_PRINT_H
#define PROXY_EVAL_PRINT_H

#include <stdio.h>

#include "base/slice.h"

/* document: what eval_report made: sections with names and values under them. */
void eval_print(struct slice document, FILE *to);

#endif
