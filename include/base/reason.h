/* base/reason: every way a request can end. The table is reasons.def; status, log, metric and the docs page read it. */
#ifndef BASE_REASON_H
#define BASE_REASON_H

#include <stdbool.h>

#include "base/buf.h"

enum reason {
#define REASON(id, code, status, alarm, text) REASON_##id,
#include "base/reasons.def"
#undef REASON
    REASON_COUNT
};

const char *reason_code(enum reason r);    /* stable id for logs, bodies and metrics */
int reason_status(enum reason r);          /* HTTP status of the local answer; 0 where there is none */
bool reason_alarm(enum reason r);          /* true: an operator should look (logged as warning) */
const char *reason_text(enum reason r);    /* one sentence for the client; tells nothing of the token or the inside */

void reason_table(struct buf *out);         /* Markdown: the docs page */

#endif
