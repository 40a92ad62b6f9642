/* io/tls_hello: how long a client says its hello is, however the bytes come. */
#include "io/tls_hello.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/buf.h"

static void record(struct buf *out, unsigned char type, const char *bytes, size_t n)
{
    const char head[] = {(char)type, 3, 3, (char)(n >> 8), (char)n};
    buf_add(out, head, sizeof head);
    buf_add(out, bytes, n);
}

/* The head of a message and as much behind it as is asked for. */
static void message(struct buf *out, unsigned char type, size_t says, size_t has)
{
    const char head[] = {(char)type, (char)(says >> 16), (char)(says >> 8), (char)says};
    buf_add(out, head, sizeof head);
    for (size_t i = 0; i < has; i++) buf_add_char(out, (char)1); /* like the type of a hello */
}

static bool reads(struct tls_hello *h, const struct buf *bytes, size_t piece, bool sealed)
{
    bool good = true;
    for (size_t at = 0; good && at < bytes->n; at += piece) {
        size_t n = bytes->n - at < piece ? bytes->n - at : piece;
        good = tls_hello_take(h, slice_make(bytes->p + at, n), sealed);
    }
    return good;
}

/* In records of so many bytes, read in pieces of so many; then what more there is. */
static bool takes(const struct buf *messages, size_t in_record, size_t piece, const struct buf *more, bool sealed)
{
    struct tls_hello h = {.over = false};
    struct buf all;
    buf_init(&all, NULL);
    for (size_t at = 0; at < messages->n; at += in_record)
        record(&all, 22, messages->p + at, messages->n - at < in_record ? messages->n - at : in_record);
    bool good = reads(&h, &all, piece, false) && (!more || reads(&h, more, piece, sealed));
    buf_free(&all);
    return good;
}

static const size_t sizes[] = {1, 2, 3, 4, 5, 7, 100, 16000, 40000};
#define SIZES_N (sizeof sizes / sizeof *sizes)

static void by_length(void **state)
{
    (void)state;
    static const struct {
        unsigned char type;
        size_t says, has;
        bool good;
    } rows[] = {{1, 300, 300, true},      {1, TLS_HELLO_MAX, TLS_HELLO_MAX, true}, {1, TLS_HELLO_MAX + 1, 0, false},
                {1, 0xffffff, 10, false}, {1, 0, 0, true},                         {11, 60000, 1000, true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct buf m;
        buf_init(&m, NULL);
        message(&m, rows[i].type, rows[i].says, rows[i].has);
        for (size_t k = 0; k < SIZES_N * SIZES_N; k++) {
            size_t in_record = sizes[k / SIZES_N] < 16384 ? sizes[k / SIZES_N] : 16384;
            if (takes(&m, in_record, sizes[k % SIZES_N], NULL, false) != rows[i].good) fail_msg("row %zu, %zu", i, k);
        }
        buf_free(&m);
    }
}

/* One more after HelloRetryRequest is looked at too; what TLS 1.2 encrypts is not, nor what stands in another message. */
static void behind_the_first(void **state)
{
    (void)state;
    static const char other[] = {11, 0, 0, 1, 1};
    struct buf hello, again, sealed, silent;
    buf_init(&hello, NULL);
    buf_init(&again, NULL);
    buf_init(&sealed, NULL);
    buf_init(&silent, NULL);
    message(&hello, 1, 300, 300);
    record(&again, 20, "\1", 1);
    record(&again, 22, "\1\2\0\0", 4);
    record(&sealed, 23, "\1\2\0\0", 4);
    record(&sealed, 22, "\1\2\0\0", 4);
    record(&silent, 22, other, sizeof other);
    record(&silent, 22, "\1\2\0\0", 4);
    for (size_t k = 0; k < SIZES_N; k++) {
        assert_false(takes(&hello, 16384, sizes[k], &again, false));
        assert_true(takes(&hello, 16384, sizes[k], &again, true));
        assert_true(takes(&hello, 16384, sizes[k], &sealed, false));
        assert_true(takes(&hello, 16384, sizes[k], &silent, false));
    }
    buf_free(&hello);
    buf_free(&again);
    buf_free(&sealed);
    buf_free(&silent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(by_length), cmocka_unit_test(behind_the_first)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
