/* io/accept: a listening TCP socket. Called by proxy/listener. */
#include "io/accept.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"

#define BACKLOG 4096
#define ERROR_EVERY_MS 1000

struct acceptor {
    uv_tcp_t tcp;
    struct loop *loop;
    void (*on_waiting)(void *arg);
    void (*on_error)(const char *text, void *arg);
    void *arg;
    int64_t told_ms;
    int rest_fd; /* taken by accept_rest; -1: the loop has one */
};

static void on_connection(uv_stream_t *server, int status);
static void on_closed(uv_handle_t *handle);

static void read_address(const struct sockaddr_storage *from, struct address *out)
{
    if (from->ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)from;
        memcpy(out->bytes, &in->sin_addr, 4);
        out->family = 4;
        out->port = ntohs(in->sin_port);
    } else if (from->ss_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)from;
        bool mapped = IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr);
        memcpy(out->bytes, in6->sin6_addr.s6_addr + (mapped ? 12 : 0), mapped ? 4 : 16);
        out->family = mapped ? 4 : 6;
        out->port = ntohs(in6->sin6_port);
    } else {
        return;
    }
    uv_inet_ntop(out->family == 4 ? AF_INET : AF_INET6, out->bytes, out->text, sizeof out->text);
}

static void on_connection(uv_stream_t *server, int status)
{
    struct acceptor *a = container_of((uv_tcp_t *)(void *)server, struct acceptor, tcp);
    if (status == 0) {
        a->on_waiting(a->arg);
        return;
    }
    int64_t now = loop_now_ms(a->loop);
    if (a->told_ms && now - a->told_ms < ERROR_EVERY_MS) return;
    a->told_ms = now;
    a->on_error(uv_err_name(status), a->arg);
}

static void on_closed(uv_handle_t *handle)
{
    free(handle);
}

static struct acceptor *create(struct loop *l, void (*on_waiting)(void *arg),
                               void (*on_error)(const char *text, void *arg), void *arg)
{
    struct acceptor *a = xzalloc(sizeof *a);
    a->loop = l;
    a->on_waiting = on_waiting;
    a->on_error = on_error;
    a->arg = arg;
    a->rest_fd = -1;
    CHECK(uv_tcp_init(loop_uv(l), &a->tcp) == 0, "a TCP handle can be made");
    return a;
}

static int read_host(const char *host, int port, struct sockaddr_storage *out)
{
    int e = uv_ip4_addr(host, port, (struct sockaddr_in *)out);
    return e ? uv_ip6_addr(host, port, (struct sockaddr_in6 *)out) : 0;
}

static struct acceptor *listen_or_close(struct acceptor *a, int e, const char **error)
{
    if (!e) e = uv_listen((uv_stream_t *)&a->tcp, BACKLOG, on_connection);
    if (!e) return a;
    *error = uv_strerror(e);
    accept_close(a);
    return NULL;
}

struct acceptor *accept_open(struct loop *l, const char *host, int port, void (*on_waiting)(void *arg),
                             void (*on_error)(const char *text, void *arg), void *arg, const char **error)
{
    struct acceptor *a = create(l, on_waiting, on_error, arg);
    struct sockaddr_storage address;
    int e = read_host(host, port, &address);
    if (!e) e = uv_tcp_bind(&a->tcp, (const struct sockaddr *)&address, 0);
    return listen_or_close(a, e, error);
}

struct acceptor *accept_adopt(struct loop *l, int fd, void (*on_waiting)(void *arg),
                              void (*on_error)(const char *text, void *arg), void *arg, const char **error)
{
    struct acceptor *a = create(l, on_waiting, on_error, arg);
    int e = uv_tcp_open(&a->tcp, fd);
    if (e) close(fd);
    return listen_or_close(a, e, error);
}

static int port_of(const struct sockaddr_storage *address)
{
    return ntohs(address->ss_family == AF_INET ? ((const struct sockaddr_in *)address)->sin_port
                                               : ((const struct sockaddr_in6 *)address)->sin6_port);
}

/* One that must stand alone is bound before it says that it shares: so it is refused where anybody listens already. */
static int open_socket(struct sockaddr_storage *address, bool alone)
{
    socklen_t n = address->ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    int fd = socket(address->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1, off = 0;
    if (fd < 0) return -1;
    bool good = setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0;
    if (address->ss_family == AF_INET6) /* [::] takes IPv4 too, as libuv has it */
        good = good && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) == 0;
    if (!alone) good = good && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) == 0;
    good = good && bind(fd, (const struct sockaddr *)address, n) == 0;
    if (alone) good = good && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) == 0;
    good = good && listen(fd, BACKLOG) == 0 && getsockname(fd, (struct sockaddr *)address, &n) == 0;
    if (good) return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

bool accept_sockets(const char *host, int *port, int *fds, size_t n, const char **error)
{
    struct sockaddr_storage address;
    memset(&address, 0, sizeof address);
    int e = read_host(host, *port, &address);
    for (size_t i = 0; i < n && !e; i++) {
        fds[i] = open_socket(&address, i == 0);
        if (fds[i] >= 0) continue;
        e = -errno;
        while (i > 0) close(fds[--i]);
        break;
    }
    if (e) *error = uv_strerror(e);
    else *port = port_of(&address);
    return e == 0;
}

int accept_take(struct acceptor *a, struct stream *s, const struct stream_events *events, struct address *peer)
{
    memset(peer, 0, sizeof *peer);
    CHECK(stream_init_tcp(s, a->loop, events) == 0, "a TCP handle can be made");
    int fd = a->rest_fd;
    a->rest_fd = -1;
    int error = fd < 0 ? uv_accept((uv_stream_t *)&a->tcp, (uv_stream_t *)&s->tcp) : uv_tcp_open(&s->tcp, fd);
    if (error && fd >= 0) close(fd);
    if (error) return error;
    uv_tcp_nodelay(&s->tcp, 1);
    struct sockaddr_storage from;
    int n = sizeof from;
    if (uv_tcp_getpeername(&s->tcp, (struct sockaddr *)&from, &n) == 0) read_address(&from, peer);
    return 0;
}

int accept_port(const struct acceptor *a)
{
    struct sockaddr_storage address;
    int n = sizeof address;
    if (uv_tcp_getsockname(&a->tcp, (struct sockaddr *)&address, &n) != 0) return 0;
    return port_of(&address);
}

/* From here on no handshake begins (one that has may end): else a connection could come between our last look into the
   queue and the close, and be reset with the request it brought. Whoever knocks is refused once the socket is gone. */
static void begin_no_more(int listening)
{
    enum { FLAGS_AT = 13, SYN = 0x02, ACK = 0x10 }; /* of a TCP header, RFC 9293 3.1 */
    struct sock_filter drop_syn[] = {
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, FLAGS_AT),
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, SYN | ACK),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYN, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, 0),
        BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
    };
    struct sock_fprog program = {.len = sizeof drop_syn / sizeof *drop_syn, .filter = drop_syn};
    setsockopt(listening, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program); /* without it: as good as it can be */
}

void accept_rest(struct acceptor *a, bool last)
{
    uv_os_fd_t listening;
    if (uv_fileno((uv_handle_t *)&a->tcp, &listening) != 0) return;
    if (last) begin_no_more(listening);
    for (int i = 0; i < BACKLOG; i++) {
        a->rest_fd = accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (a->rest_fd >= 0)
            a->on_waiting(a->arg);
        else if (errno != EINTR && errno != ECONNABORTED)
            return;
    }
}

void accept_close(struct acceptor *a)
{
    uv_close((uv_handle_t *)&a->tcp, on_closed);
}
