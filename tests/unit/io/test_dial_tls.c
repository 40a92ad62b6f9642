/* io/dial over TLS and UNIX sockets, with a peer on the same loop: told once, in time, and in words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "certificates.h"
#include "io/dial.h"

static struct {
    struct loop *loop;
    struct stream *stream, *peer; /* heap, and freed when they may be */
    struct tls_context *server, *client;
    struct sockaddr_in in;
    struct sockaddr_un un;
    int listener;
    size_t told, closed, peer_secured;
    int status;
    char why[200];
    struct dial *dial;
} t;

static void on_read(struct stream *s, struct slice data)
{
    (void)s;
    (void)data;
}

static void on_end(struct stream *s, int error)
{
    (void)s;
    (void)error;
}

static const struct stream_events events = {on_read, on_end, NULL};

static void on_closed(struct stream *s)
{
    if (s == t.stream) {
        t.closed++;
        t.stream = NULL;
    } else {
        t.peer = NULL;
    }
    free(s);
}

static void on_dialled(struct stream *s, int status, const char *why, void *arg)
{
    assert_ptr_equal(arg, &t);
    assert_ptr_equal(s, t.stream);
    t.told++;
    t.status = status;
    snprintf(t.why, sizeof t.why, "%s", why);
    t.dial = NULL;
    if (status == 0) return;
    free(s);
    t.stream = NULL;
}

static void on_peer_secured(struct stream *s, int error, const char *why)
{
    (void)s;
    (void)error;
    (void)why;
    t.peer_secured++;
}

static void start(bool unix_socket)
{
    memset(&t, 0, sizeof t);
    t.loop = loop_create();
    t.stream = xzalloc(sizeof *t.stream);
    t.listener = socket(unix_socket ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (unix_socket) {
        t.un.sun_family = AF_UNIX;
        snprintf(t.un.sun_path, sizeof t.un.sun_path, "/tmp/doorward-dial-%d", (int)getpid());
        unlink(t.un.sun_path);
        assert_int_equal(bind(t.listener, (struct sockaddr *)&t.un, sizeof t.un), 0);
    } else {
        socklen_t n = sizeof t.in;
        t.in.sin_family = AF_INET;
        t.in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        assert_int_equal(bind(t.listener, (struct sockaddr *)&t.in, sizeof t.in), 0);
        assert_int_equal(getsockname(t.listener, (struct sockaddr *)&t.in, &n), 0);
    }
    assert_int_equal(listen(t.listener, 10), 0);
    char *error = NULL;
    struct tls_config server = {.certificate = ids.server.certificate, .key = ids.server.key_pem};
    struct tls_config client = {.ca = ids.ca.certificate};
    t.server = tls_server_create(&server, &error);
    t.client = tls_client_create(&client, &error);
    assert_non_null(t.server);
    assert_non_null(t.client);
}

static void finish(void)
{
    if (t.stream) stream_close(t.stream, on_closed);
    if (t.peer) stream_close(t.peer, on_closed);
    tls_context_release(t.server);
    tls_context_release(t.client);
    loop_close(t.loop);
    loop_run(t.loop);
    loop_destroy(t.loop);
    assert_null(t.stream);
    assert_null(t.peer);
    close(t.listener);
    if (t.un.sun_family) unlink(t.un.sun_path);
}

/* The peer: speaks TLS, or says what it is given. */
static void turn(bool tls, const char *says)
{
    int fd = t.peer ? -1 : accept4(t.listener, NULL, NULL, SOCK_NONBLOCK);
    if (fd >= 0) {
        t.peer = xzalloc(sizeof *t.peer);
        bool un = t.un.sun_family;
        assert_int_equal(un ? stream_init_pipe(t.peer, t.loop, &events) : stream_init_tcp(t.peer, t.loop, &events), 0);
        assert_int_equal(un ? uv_pipe_open(&t.peer->pipe, fd) : uv_tcp_open(&t.peer->tcp, fd), 0);
        struct slice part = slice_str(says ? says : "");
        if (tls) stream_secure_server(t.peer, t.server, on_peer_secured);
        else if (says) stream_send(t.peer, &part, 1);
    }
    loop_turn(t.loop);
}

static void dial(struct dial_target target)
{
    t.dial = dial_start(t.loop, &target, 5000, t.stream, &events, on_dialled, &t);
    assert_int_equal(t.told, 0);
}

static struct dial_target to_tcp(const char *name)
{
    return (struct dial_target){.host = "127.0.0.1", .port = ntohs(t.in.sin_port), .tls = t.client, .tls_name = name};
}

static void wait_told(bool tls, const char *says)
{
    for (int i = 0; i < 2000 && !t.told; i++) {
        turn(tls, says);
        usleep(500);
    }
    assert_int_equal(t.told, 1);
}

static void connects(void **state)
{
    (void)state;
    static const char *const names[] = {NULL, "api.test"}; /* NULL: the address it connects to is in the certificate */
    for (size_t i = 0; i < 2; i++) {
        start(false);
        dial(to_tcp(names[i]));
        wait_told(true, NULL);
        assert_int_equal(t.status, 0);
        assert_string_equal(stream_tls_version(t.stream), "TLSv1.3");
        assert_false(t.stream->reading);
        loop_advance(t.loop, 20000);
        for (int k = 0; k < 5; k++) turn(true, NULL);
        assert_int_equal(t.told, 1);
        assert_int_equal(t.peer_secured, 1);
        finish();
    }
}

static void resolved_already(void **state)
{
    (void)state;
    start(false);
    dial((struct dial_target){.address = (const struct sockaddr *)&t.in, .host = "api.test", .port = 1, .tls = t.client});
    wait_told(true, NULL);
    assert_string_equal(t.why, "");
    assert_int_equal(t.status, 0);
    finish();
}

static void says_why(void **state)
{
    (void)state;
    start(false);
    dial(to_tcp("other.test"));
    wait_told(true, NULL);
    assert_int_equal(t.status, TLS_CERTIFICATE);
    assert_string_equal(t.why, "the certificate is not for other.test");
    finish();
    start(false);
    dial(to_tcp(".test")); /* not: whatever ends so */
    wait_told(true, NULL);
    assert_int_equal(t.status, TLS_CERTIFICATE);
    assert_string_equal(t.why, "not a name that a certificate could be for");
    finish();
    start(false);
    dial(to_tcp("api.test"));
    wait_told(false, "HTTP/1.1 400 Bad Request\r\n\r\n");
    assert_int_equal(t.status, TLS_NOT_SPOKEN);
    assert_string_equal(t.why, "the peer does not speak TLS");
    finish();
}

static void silent(void **state)
{
    (void)state;
    for (int cancel = 0; cancel < 2; cancel++) {
        start(false);
        dial(to_tcp("api.test"));
        for (int i = 0; i < 2000 && !t.peer; i++) turn(false, NULL);
        for (int i = 0; i < 5; i++) turn(false, NULL);
        assert_int_equal(t.told, 0);
        if (cancel)
            dial_cancel(t.dial, on_closed);
        else
            loop_advance(t.loop, 6000);
        for (int i = 0; i < 5; i++) turn(false, NULL);
        assert_int_equal(t.told, !cancel);
        assert_int_equal(t.closed, cancel);
        if (!cancel) {
            assert_int_equal(t.status, UV_ETIMEDOUT);
            assert_string_equal(t.why, "no TLS handshake in time");
        }
        finish();
    }
}

static void unix_socket(void **state)
{
    (void)state;
    for (int tls = 0; tls < 2; tls++) {
        start(true);
        dial((struct dial_target){.path = t.un.sun_path, .tls = tls ? t.client : NULL, .tls_name = "api.test"});
        wait_told(tls, NULL);
        assert_int_equal(t.status, 0);
        finish();
    }
    static char too_long[200];
    memset(too_long, 'a', sizeof too_long - 1);
    const char *const paths[] = {"/nowhere/at/all", too_long};
    const int status[] = {UV_ENOENT, UV_ENAMETOOLONG};
    for (size_t i = 0; i < 2; i++) {
        start(true);
        dial((struct dial_target){.path = paths[i]});
        wait_told(false, NULL);
        assert_int_equal(t.status, status[i]);
        assert_string_equal(t.why, uv_strerror(status[i]));
        finish();
    }
    start(true);
    dial((struct dial_target){.path = t.un.sun_path});
    dial_cancel(t.dial, on_closed);
    for (int i = 0; i < 5; i++) turn(false, NULL);
    assert_int_equal(t.told, 0);
    assert_int_equal(t.closed, 1);
    finish();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connects), cmocka_unit_test(resolved_already), cmocka_unit_test(says_why),
        cmocka_unit_test(silent),   cmocka_unit_test(unix_socket),
    };
    return cmocka_run_group_tests(tests, identities_set_up, identities_tear_down);
}
