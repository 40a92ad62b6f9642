/* base/reason: reads the table of reasons.def. Called by reply, access log, metrics and the docs page. A number that
   is no reason reads as the first row, a refusal. */
#include "base/reason.h"

#include <stddef.h>

struct row {
    const char *code;
    const char *text;
    int status;
    bool alarm;
};

static const struct row rows[REASON_COUNT] = {
#define REASON(id, code, status, alarm, text) [REASON_##id] = {code, text, status, alarm},
#include "base/reasons.def"
#undef REASON
};

static const struct row *row_of(enum reason r)
{
    return &rows[(size_t)r < REASON_COUNT ? r : REASON_UNSET];
}

const char *reason_code(enum reason r)
{
    return row_of(r)->code;
}

int reason_status(enum reason r)
{
    return row_of(r)->status;
}

bool reason_alarm(enum reason r)
{
    return row_of(r)->alarm;
}

const char *reason_text(enum reason r)
{
    return row_of(r)->text;
}
