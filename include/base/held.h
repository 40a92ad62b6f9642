/* base/held: memory that several point into; it goes when the last of them lets go. The owner embeds it. */
#ifndef BASE_HELD_H
#define BASE_HELD_H

#include <stddef.h>

#include "base/check.h"

struct held {
    unsigned holders;
    void (*on_gone)(struct held *h); /* nobody holds it any more: frees what is around it, now or later */
};

/* With one holder. */
static inline void held_init(struct held *h, void (*on_gone)(struct held *h))
{
    h->holders = 1;
    h->on_gone = on_gone;
}

/* NULL: nothing is held, for owners that outlive all. */
static inline void held_take(struct held *h)
{
    if (!h) return;
    CHECK(h->holders, "only what is held can be held once more");
    h->holders++;
}

static inline void held_release(struct held *h)
{
    if (!h) return;
    CHECK(h->holders, "it is released as often as it is held");
    if (--h->holders == 0) h->on_gone(h);
}

#endif
