/* http/writer: heads, chunk lines and dates as bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

#include "base/reason.h"
#include "http/writer.h"

#define assert_text(slice, text) assert_true(slice_eq((slice), slice_str(text)))

static void heads(void **state)
{
    (void)state;
    struct header v[] = {
        {.name = SLICE("A"), .value = SLICE("1")},
        {.name = SLICE("B"), .value = SLICE("2"), .drop = true},
        {.name = SLICE("C"), .value = slice_make(NULL, 0)},
    };
    struct head h = {.v = v, .n = 3};
    struct buf out;
    buf_init(&out, NULL);
    writer_status(&out, 200, SLICE(""));
    writer_headers(&out, &h);
    writer_header(&out, SLICE("Date"), SLICE("now"));
    assert_text(buf_slice(&out), "HTTP/1.1 200 OK\r\nA: 1\r\nC: \r\nDate: now\r\n");
    out.n = 0;
    writer_status(&out, 299, SLICE("As it was"));
    writer_status(&out, 299, SLICE("")); /* the space stays (RFC 9112 4) */
    assert_text(buf_slice(&out), "HTTP/1.1 299 As it was\r\nHTTP/1.1 299 \r\n");
    buf_free(&out);
}

/* Every status that a reason may give has its phrase. */
static void phrases(void **state)
{
    (void)state;
    for (int r = 0; r < REASON_COUNT; r++) {
        int status = reason_status((enum reason)r);
        if (status && writer_phrase(status).n == 0) fail_msg("no phrase for %d", status);
    }
    assert_text(writer_phrase(413), "Content Too Large");
    assert_int_equal(writer_phrase(299).n, 0);
}

static void chunks(void **state)
{
    (void)state;
    static const struct {
        uint64_t n;
        const char *line;
    } rows[] = {{1, "1\r\n"},         {10, "a\r\n"}, {16, "10\r\n"},
                {65536, "10000\r\n"}, {0, "0\r\n"},  {UINT64_MAX, "ffffffffffffffff\r\n"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *line = malloc(WRITER_CHUNK_BYTES);
        assert_text(slice_make(line, writer_chunk(line, rows[i].n)), rows[i].line);
        free(line);
    }
}

/* RFC 9110 5.6.7 */
static void dates(void **state)
{
    (void)state;
    assert_text(writer_date(784111777000), "Sun, 06 Nov 1994 08:49:37 GMT");
    assert_text(writer_date(784111777999), "Sun, 06 Nov 1994 08:49:37 GMT");
    assert_text(writer_date(784111778000), "Sun, 06 Nov 1994 08:49:38 GMT");
    assert_text(writer_date(1709164799000), "Wed, 28 Feb 2024 23:59:59 GMT");
    assert_text(writer_date(1709164800000), "Thu, 29 Feb 2024 00:00:00 GMT");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads),
        cmocka_unit_test(phrases),
        cmocka_unit_test(chunks),
        cmocka_unit_test(dates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
