/* remote/redis_greeting: the handshake of a connection to Redis: who we are, which database, whether the server is ready
   and a master, and for a subscriber the channels. All of it leaves at once; the answers are judged one by one. */
#ifndef REMOTE_REDIS_GREETING_H
#define REMOTE_REDIS_GREETING_H

#include <stdbool.h>
#include <stddef.h>

#include "base/slice.h"
#include "remote/redis_conn.h"

#define REDIS_CHANNELS 2

struct tls_context;

struct redis_login {
    const char *user;     /* or NULL */
    const char *password; /* or NULL: no AUTH */
    int db;
    struct tls_context *tls; /* or NULL */
    const char *tls_name;    /* or NULL: the host */
};

enum redis_step { REDIS_STEP_AUTH, REDIS_STEP_SELECT, REDIS_STEP_PING, REDIS_STEP_ROLE, REDIS_STEP_ID, REDIS_STEP_SUBSCRIBE };

struct redis_greeting {
    enum redis_step steps[4 + REDIS_CHANNELS];
    size_t n, at;
    long long id;    /* CLIENT ID of a subscriber; 0: the server did not tell */
    bool refused;    /* a channel was refused */
};

enum redis_greeted { REDIS_GREETED_NOT_YET, REDIS_GREETED, REDIS_GREETED_BADLY };

/* master: the server must be one. channels_n > 0: it is asked for the id of the connection, which then subscribes. */
void redis_greeting_send(struct redis_greeting *g, struct redis_conn *c, const struct redis_login *login, bool master,
                         const struct slice *channels, size_t channels_n);
/* The next answer. Badly: *error is a fixed text. */
enum redis_greeted redis_greeting_take(struct redis_greeting *g, const struct redis_reply *reply, const char **error);

#endif
