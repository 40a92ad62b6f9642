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

void reason_table(struct buf *out)
{
    buf_add_lit(out, "# Reasons\n\nEvery way a request can end: `reason` in the access log, `code` in an error body, the label "
                     "of `requests_ended_total`. Made by `doorward --print-reasons`.\n\n"
                     "| reason | status | level | what the client is told |\n|---|---|---|---|\n");
    for (size_t i = 0; i < REASON_COUNT; i++) {
        buf_printf(out, "| `%s` | ", rows[i].code);
        if (rows[i].status) buf_add_int(out, rows[i].status);
        buf_printf(out, "%s | %s | %s |\n", rows[i].status ? "" : "the API's", rows[i].alarm ? "warn" : "info",
                   rows[i].text);
    }
}
