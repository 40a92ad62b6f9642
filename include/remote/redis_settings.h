/* remote/redis_settings: what struct redis_config says, read, checked and copied: where servers are and who we are there. */
#ifndef REMOTE_REDIS_SETTINGS_H
#define REMOTE_REDIS_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "remote/redis.h"
#include "remote/redis_greeting.h"
#include "remote/redis_url.h"

enum redis_mode { REDIS_SINGLE, REDIS_SENTINEL, REDIS_CLUSTER };

struct redis_settings {
    enum redis_mode mode;
    struct redis_url url;
    struct redis_login login; /* at servers that hold data; points into this struct */
    struct redis_login scout; /* at sentinels, or at nodes for the map */
    struct redis_url *seeds;  /* host and port of those who are asked where data is */
    size_t seeds_n;
    struct buf prefix, channel; /* of the watch; empty: none */
    char *tls_name, *sentinel_user, *sentinel_password; /* or NULL */
};

/* Must not be moved afterwards. NULL; else what is wrong, a fixed text (no part of a url is in it), and out is all zero. */
const char *redis_settings_read(struct redis_settings *out, const struct redis_config *c);
/* Wipes the passwords. */
void redis_settings_finish(struct redis_settings *s);

#endif
