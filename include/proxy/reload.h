/* proxy/reload: another configuration in place of the one in force, without an end in between: all of it or nothing. */
#ifndef PROXY_RELOAD_H
#define PROXY_RELOAD_H

#include <stdbool.h>

#include "proxy/proxy.h"

/* Reads the configuration anew and puts it in force: what begins from now on begins with it, what is under way ends as it
   began. Keys, caches, pools and connections stay where they mean the same. False: something is wrong with it, or the
   proxy is draining: nothing has changed. The log says what was done, or why not. */
bool reload(struct proxy *p, const struct conf_source *source);

/* config_revision, config_loaded_timestamp_seconds: of the settings in force. */
void reload_tell_revision(const struct proxy *p);

#endif
