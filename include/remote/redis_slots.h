/* remote/redis_slots: what servers say about where data is: the map of a cluster, a redirection, the master that a
   sentinel names. Pure reading: whatever is sent, it is understood whole or not at all. */
#ifndef REMOTE_REDIS_SLOTS_H
#define REMOTE_REDIS_SLOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"
#include "remote/redis_conn.h"

#define REDIS_SLOTS 16384
#define REDIS_MASTERS_MOST 1000
#define REDIS_NOBODY UINT16_MAX

struct redis_place {
    char host[256]; /* name or address literal, NUL-terminated, not empty */
    int port;       /* 1 to 65535 */
};

bool redis_place_same(const struct redis_place *a, const struct redis_place *b);

struct redis_slots { /* heap; one free */
    struct redis_place *masters; /* those that have a slot, each once */
    size_t masters_n;
    struct redis_place *replicas;
    size_t replicas_n;
    uint16_t owner[REDIS_SLOTS]; /* index of a master, or REDIS_NOBODY */
};

/* The slot of a key: CRC16 (XMODEM) of it, or of what stands between its first { and the next } when that is not empty. */
unsigned redis_slot(struct slice key);

/* The answer to CLUSTER SLOTS. asked: the host of who gave it, for places without one. NULL: it is none, or nobody has a
   slot. Freed by redis_slots_free. */
struct redis_slots *redis_slots_read(const struct redis_reply *reply, const char *asked);
void redis_slots_free(struct redis_slots *s); /* NULL: nothing */

enum redis_redirection { REDIS_STAYS, REDIS_MOVED, REDIS_ASK };

/* "MOVED 3999 127.0.0.1:6381" and "ASK …" of an error; anything else, also a broken one, stays. asked: as above. */
enum redis_redirection redis_redirection_read(struct slice error, const char *asked, unsigned *slot,
                                              struct redis_place *to);

/* The answer to SENTINEL get-master-addr-by-name. */
bool redis_master_read(const struct redis_reply *reply, struct redis_place *out);

#endif
