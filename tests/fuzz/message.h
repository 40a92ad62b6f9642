/* fuzz/message: one stream of HTTP messages through head_scan, parser_head and parser_body, cut in several ways, and a
   second, simple reading of the same bytes that must agree on every message the parser takes. */
#ifndef FUZZ_MESSAGE_H
#define FUZZ_MESSAGE_H

#include <stdbool.h>

#include "base/slice.h"
#include "http/parser.h"

/* to_head: all answers are to HEAD. A broken invariant fails a CHECK. */
void message_fuzz(enum parser_kind kind, bool to_head, struct slice bytes);

#endif
