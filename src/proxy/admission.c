/* proxy/admission: connection budgets. Called by listener when a connection comes and by conn when it is closed. */
#include "proxy/admission.h"

#include <stdlib.h>

#include "base/cache.h"
#include "base/check.h"
#include "proxy/conn.h"

#define BUCKETS 1024

struct counted {
    struct counted *chain;
    uint8_t bytes[16];
    uint8_t family;
    unsigned count;
};

static struct counted *buckets[BUCKETS];

static struct counted **find(const struct conn *c)
{
    uint64_t hash = cache_tag(c->peer.bytes, 16, &c->peer.family, 1);
    struct counted **at = &buckets[hash % BUCKETS];
    while (*at && ((*at)->family != c->peer.family || memcmp((*at)->bytes, c->peer.bytes, 16) != 0)) at = &(*at)->chain;
    return at;
}

enum reason admission_take(struct proxy *p, struct conn *c)
{
    int64_t per_address = p->settings->conf->listen.max_connections_per_address;
    enum reason reason = REASON_FORWARDED;
    if (per_address && !c->admin) {
        struct counted **at = find(c);
        if (!*at) {
            *at = xzalloc(sizeof **at);
            memcpy((*at)->bytes, c->peer.bytes, 16);
            (*at)->family = c->peer.family;
        }
        c->counted = true;
        if (++(*at)->count > per_address) reason = REASON_OVERLOADED;
    }
    if (!c->admin && (int64_t)p->conns_n > p->settings->conf->listen.max_connections) reason = REASON_CONNECTIONS;
    return reason;
}

void admission_give_back(struct proxy *p, struct conn *c)
{
    (void)p;
    if (!c->counted) return;
    struct counted **at = find(c);
    CHECK(*at && (*at)->count, "a counted address is known");
    if (--(*at)->count) return;
    struct counted *gone = *at;
    *at = gone->chain;
    free(gone);
}
