/* Unit tests of io/channel: messages with and without a descriptor, ends, full queues, memory; and sockets that several
   processes listen on (io/accept). */
#include "io/channel.h"

#include <arpa/inet.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "io/accept.h"

static int ends[2];

static int start(void **state)
{
    (void)state;
    return channel_pair(ends) ? 0 : -1;
}

static int stop(void **state)
{
    (void)state;
    close(ends[0]);
    if (ends[1] >= 0) close(ends[1]);
    return 0;
}

static void test_messages(void **state)
{
    char got[6];
    int attached;
    (void)state;
    assert_int_equal(channel_receive(ends[1], got, 6, &attached), CHANNEL_NOTHING);
    assert_true(channel_send(ends[0], "first", 6, -1));
    assert_true(channel_send(ends[0], "other", 6, -1));
    assert_int_equal(channel_receive(ends[1], got, 6, &attached), CHANNEL_MESSAGE);
    assert_string_equal(got, "first");
    assert_int_equal(attached, -1);
    assert_int_equal(channel_receive(ends[1], got, 6, &attached), CHANNEL_MESSAGE);
    assert_string_equal(got, "other");
    close(ends[1]);
    ends[1] = -1;
    assert_int_equal(channel_receive(ends[0], got, 6, &attached), CHANNEL_ENDED);
    assert_false(channel_send(ends[0], "third", 6, -1));
}

static void test_other_sizes_end_it(void **state)
{
    char got[6];
    int attached;
    (void)state;
    assert_true(channel_send(ends[0], "longer", 7, STDIN_FILENO));
    assert_int_equal(channel_receive(ends[1], got, 6, &attached), CHANNEL_ENDED);
    assert_int_equal(attached, -1);
    assert_true(channel_send(ends[0], "s", 2, -1));
    assert_int_equal(channel_receive(ends[1], got, 6, &attached), CHANNEL_ENDED);
}

static void test_memory_goes_along(void **state)
{
    char got[6], content[100000];
    int attached;
    struct buf out;
    (void)state;
    memset(content, 'x', sizeof content);
    int fd = channel_pack(slice_make(content, sizeof content));
    assert_true(fd >= 0);
    assert_true(channel_send(ends[0], "bytes", 6, fd));
    close(fd);
    assert_int_equal(channel_receive(ends[1], got, 6, &attached), CHANNEL_MESSAGE);
    buf_init(&out, NULL);
    assert_false(channel_unpack(attached, sizeof content - 1, &out));
    assert_true(channel_unpack(attached, sizeof content, &out));
    assert_int_equal(out.n, sizeof content);
    assert_memory_equal(out.p, content, sizeof content);
    buf_free(&out);
    close(attached);
}

/* Whoever does not read holds nobody up. */
static void test_full(void **state)
{
    size_t n = 0;
    (void)state;
    while (channel_send(ends[0], "again", 6, -1)) assert_true(++n < 1000000);
    assert_true(n > 8);
}

static int connected(int port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

static void test_sockets(void **state)
{
    int fds[3], others[1], port = 0, counts[3] = {0, 0, 0};
    const char *error = NULL;
    (void)state;
    assert_true(accept_sockets("127.0.0.1", &port, fds, 3, &error));
    assert_true(port > 0);
    for (int i = 0; i < 60; i++) {
        int client = connected(port), taken = -1;
        struct pollfd all[3] = {{fds[0], POLLIN, 0}, {fds[1], POLLIN, 0}, {fds[2], POLLIN, 0}};
        assert_int_equal(poll(all, 3, 5000), 1);
        for (int k = 0; k < 3; k++) {
            if (!all[k].revents) continue;
            taken = accept(fds[k], NULL, NULL);
            counts[k]++;
        }
        assert_true(taken >= 0);
        close(taken);
        close(client);
    }
    for (int k = 0; k < 3; k++) assert_true(counts[k] > 0);
    int same = port;
    assert_false(accept_sockets("127.0.0.1", &same, others, 1, &error)); /* a second start by mistake takes nothing away */
    assert_string_equal(error, "address already in use");
    for (int k = 0; k < 3; k++) close(fds[k]);
    assert_true(accept_sockets("127.0.0.1", &same, others, 1, &error));
    close(others[0]);
    assert_false(accept_sockets("localhost", &same, others, 1, &error));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_messages, start, stop),
        cmocka_unit_test_setup_teardown(test_other_sizes_end_it, start, stop),
        cmocka_unit_test_setup_teardown(test_memory_goes_along, start, stop),
        cmocka_unit_test_setup_teardown(test_full, start, stop),
        cmocka_unit_test(test_sockets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
