/* authz/revision: pure state, time passed in. Called by decision. A revision that was pushed out of the table by eight
   later ones is gone: doubt asks again. */
#include "authz/revision.h"

/* Was k seen later than i? */
static bool later(const struct revisions *r, size_t k, size_t i)
{
    if (r->seen[k].last_ms != r->seen[i].last_ms) return r->seen[k].last_ms > r->seen[i].last_ms;
    return r->seen[k].first_ms > r->seen[i].first_ms;
}

/* An older revision that is seen later counts too: it may be a roll-back. */
static bool gone(const struct revisions *r, size_t i, int64_t now_ms)
{
    for (size_t k = 0; k < r->n; k++) {
        if (k == i || !later(r, k, i)) continue;
        int64_t since = r->seen[i].last_ms > r->seen[k].first_ms ? r->seen[i].last_ms : r->seen[k].first_ms;
        if (now_ms - since >= r->grace_ms) return true;
    }
    return false;
}

/* Gone because of one that came after it: seen again, it is new. An engine that answers seldom is not that. */
static bool replaced(const struct revisions *r, size_t i, int64_t now_ms)
{
    for (size_t k = 0; k < r->n; k++) {
        if (r->seen[k].first_ms <= r->seen[i].first_ms) continue;
        int64_t since = r->seen[i].last_ms > r->seen[k].first_ms ? r->seen[i].last_ms : r->seen[k].first_ms;
        if (now_ms - since >= r->grace_ms) return true;
    }
    return false;
}

static size_t place_of(const struct revisions *r, uint64_t id)
{
    size_t i = 0;
    while (i < r->n && r->seen[i].id != id)
        i++;
    return i;
}

void revisions_see(struct revisions *r, uint64_t id, int64_t now_ms)
{
    if (id == 0) return;
    size_t i = place_of(r, id);
    bool fresh = i == r->n;
    if (fresh && r->n == REVISIONS_MAX) {
        i = 0;
        for (size_t k = 1; k < r->n; k++) {
            if (r->seen[k].last_ms < r->seen[i].last_ms) i = k;
        }
    } else if (fresh) {
        r->n++;
    } else {
        fresh = replaced(r, i, now_ms);
    }
    if (fresh) r->seen[i].first_ms = now_ms;
    r->seen[i].id = id;
    r->seen[i].last_ms = now_ms;
}

bool revisions_current(const struct revisions *r, uint64_t id, int64_t now_ms)
{
    size_t i = place_of(r, id);
    return id == 0 || (i < r->n && !gone(r, i, now_ms));
}
