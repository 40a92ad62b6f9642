/* io/channel: called by proxy/supervisor and proxy/team. Refuses messages of another size than asked for. */
#include "io/channel.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"

struct channel_watch {
    uv_poll_t poll;
    void (*on_ready)(void *arg);
    void *arg;
};

static void on_poll(uv_poll_t *handle, int status, int events);
static void on_closed(uv_handle_t *handle);

union control { /* room for one descriptor, aligned */
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
};

bool channel_pair(int ends[2])
{
    return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0;
}

bool channel_send(int end, const void *message, size_t n, int attached)
{
    struct iovec part = {(void *)(uintptr_t)message, n};
    union control control;
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
    ssize_t sent;
    memset(&control, 0, sizeof control);
    if (attached >= 0) {
        m.msg_control = &control;
        m.msg_controllen = sizeof control;
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        *c = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof attached)};
        memcpy(CMSG_DATA(c), &attached, sizeof attached);
    }
    do sent = sendmsg(end, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)n;
}

enum channel_got channel_receive(int end, void *message, size_t n, int *attached)
{
    struct iovec part = {message, n};
    union control control;
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    ssize_t got;
    *attached = -1;
    do got = recvmsg(end, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    if (got < 0) return errno == EAGAIN || errno == EWOULDBLOCK ? CHANNEL_NOTHING : CHANNEL_ENDED;
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) memcpy(attached, CMSG_DATA(c), sizeof *attached);
    if (got == (ssize_t)n && !(m.msg_flags & (MSG_TRUNC | MSG_CTRUNC))) return CHANNEL_MESSAGE;
    if (*attached >= 0) close(*attached);
    *attached = -1;
    return CHANNEL_ENDED;
}

int channel_pack(struct slice content)
{
    int fd = memfd_create("doorward", MFD_CLOEXEC);
    while (fd >= 0 && content.n) {
        ssize_t n = write(fd, content.p, content.n);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) {
            close(fd);
            return -1;
        }
        content = slice_make(content.p + n, content.n - (size_t)n);
    }
    return fd;
}

bool channel_unpack(int fd, size_t max, struct buf *out)
{
    struct stat st;
    if (fstat(fd, &st) != 0 || st.st_size < 0 || (size_t)st.st_size > max) return false;
    size_t size = (size_t)st.st_size, n = 0;
    buf_reserve(out, size);
    while (n < size) { /* the offset is shared with whoever wrote it: not used */
        ssize_t got = pread(fd, out->p + out->n, size - n, (off_t)n);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        n += (size_t)got;
        out->n += (size_t)got;
    }
    return true;
}

static void on_poll(uv_poll_t *handle, int status, int events)
{
    struct channel_watch *w = container_of(handle, struct channel_watch, poll);
    (void)status;
    (void)events;
    w->on_ready(w->arg);
}

static void on_closed(uv_handle_t *handle)
{
    free(container_of((uv_poll_t *)(void *)handle, struct channel_watch, poll));
}

struct channel_watch *channel_watch(struct loop *l, int end, void (*on_ready)(void *arg), void *arg)
{
    struct channel_watch *w = xzalloc(sizeof *w);
    w->on_ready = on_ready;
    w->arg = arg;
    CHECK(uv_poll_init(loop_uv(l), &w->poll, end) == 0, "a channel can be watched");
    CHECK(uv_poll_start(&w->poll, UV_READABLE | UV_DISCONNECT, on_poll) == 0, "the watch must start");
    uv_unref((uv_handle_t *)&w->poll);
    return w;
}

void channel_unwatch(struct channel_watch *w)
{
    if (w) uv_close((uv_handle_t *)&w->poll, on_closed);
}
