/* io/address: addresses of sockets as values. Called by resolve and whoever keeps addresses. */
#include "io/address.h"

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <uv.h>

bool address_literal(const char *host, int port, struct sockaddr_storage *out)
{
    *out = (struct sockaddr_storage){0};
    return uv_ip4_addr(host, port, (struct sockaddr_in *)out) == 0 ||
           uv_ip6_addr(host, port, (struct sockaddr_in6 *)out) == 0;
}

bool address_same(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
    if (a->ss_family != b->ss_family) return false;
    if (a->ss_family == AF_INET) {
        const struct sockaddr_in *x = (const void *)a, *y = (const void *)b;
        return x->sin_addr.s_addr == y->sin_addr.s_addr && x->sin_port == y->sin_port;
    }
    const struct sockaddr_in6 *x = (const void *)a, *y = (const void *)b;
    return memcmp(&x->sin6_addr, &y->sin6_addr, sizeof x->sin6_addr) == 0 && x->sin6_port == y->sin6_port &&
           x->sin6_scope_id == y->sin6_scope_id;
}

void address_text(const struct sockaddr_storage *a, char out[ADDRESS_TEXT_BYTES])
{
    char address[64] = "";
    if (a->ss_family == AF_INET6) {
        const struct sockaddr_in6 *x = (const void *)a;
        uv_ip6_name(x, address, sizeof address);
        snprintf(out, ADDRESS_TEXT_BYTES, "[%s]:%d", address, ntohs(x->sin6_port));
        return;
    }
    const struct sockaddr_in *x = (const void *)a;
    uv_ip4_name(x, address, sizeof address);
    snprintf(out, ADDRESS_TEXT_BYTES, "%s:%d", address, ntohs(x->sin_port));
}
