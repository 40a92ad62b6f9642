/* proxy/keypair: the certificate and key that the listener shows (listen.tls), and that they are renewed while running. */
#ifndef PROXY_KEYPAIR_H
#define PROXY_KEYPAIR_H

#include "conf/options.h"
#include "io/loop.h"
#include "io/tls.h"

struct keypair;

/* *out NULL: the listener speaks plain HTTP. False: *error is a heap text. conf stays while it lives. Touches no file. */
bool keypair_create(const struct conf *conf, struct keypair **out, char **error);
/* Looks at the files at once and every 10 s from now on. New ones that belong together are shown to new connections; others
   change nothing, and a warning says why, once. */
void keypair_watch(struct keypair *k, struct loop *l);
void keypair_renew(struct keypair *k); /* looks now, e.g. when told to by a signal */
/* What new connections are secured with; they hold it. */
struct tls_context *keypair_context(const struct keypair *k);
void keypair_stop(struct keypair *k); /* NULL: nothing */
void keypair_free(struct keypair *k);

#endif
