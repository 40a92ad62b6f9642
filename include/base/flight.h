/* base/flight: one call per key, however many wait for it. The leader starts the call; who comes while it is out
   waits with it; when it lands all are told, in the order they came. A waiter that leaves cancels nobody. */
#ifndef BASE_FLIGHT_H
#define BASE_FLIGHT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"

struct flight_waiter {
    struct list link;
    /* Told once with what flight_land was given. The waiter is unlinked before the call. */
    void (*on_landed)(struct flight_waiter *w, void *outcome);
};

struct flights; /* a table of what is out */
struct flight;  /* one key that is out */

struct flights *flights_create(void);
/* CHECKs that nothing is out. */
void flights_destroy(struct flights *t);

/* Joins the flight of that key, or opens it: *opened says that the caller must start the call and land it. */
struct flight *flight_join(struct flights *t, const uint8_t key[32], struct flight_waiter *w, bool *opened);
/* Harmless for a waiter that is not linked (initialise with list_init(&w->link)). */
void flight_leave(struct flight_waiter *w);
bool flight_is_waited_for(const struct flight *f);
/* What flight_owner and flight_close give; NULL at first. */
void flight_set_owner(struct flight *f, void *owner);
void *flight_owner(const struct flight *f);
/* Nobody joins the flight of that key from now on: who comes opens another. Its owner; NULL when there is none. It
   lands as any. */
void *flight_close(struct flights *t, const uint8_t key[32]);
/* Takes the key off the table, then tells the waiters; a waiter told may join or open a new flight of the same key. */
void flight_land(struct flights *t, struct flight *f, void *outcome);

size_t flights_out(const struct flights *t);

#endif
