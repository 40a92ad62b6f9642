/* proxy/reload: another configuration in place of the one in force, without an end in between: all of it or nothing. */
#ifndef PROXY_RELOAD_H
#define PROXY_RELOAD_H

#include <stdbool.h>

#include "proxy/proxy.h"

/* Reads the configuration anew and puts it in force: what begins from now on begins with it, what is under way ends as it
   began. Keys, caches, pools and connections stay where they mean the same. False: something is wrong with it, or the
   proxy is draining: nothing has changed. The log says what was done, or why not. */
bool reload(struct proxy *p, const struct conf_source *source);

/* The same configuration as before, but for what is at policy.path now. */
bool reload_policies(struct proxy *p, const struct conf_source *source);

/* The parts of it, for a supervisor, who has no proxy but settings that workers are started with.
   What is read: settings, of one of so many workers; NULL: the log says why, and it is counted. quiet: warnings are not
   told. */
struct settings *reload_read(const struct conf_source *source, const struct conf *before, unsigned workers, bool quiet);
bool reload_moves(const struct conf *before, const struct conf *c, size_t i); /* the main (0) or admin (1) address */
bool reload_refuse(char *error); /* a heap text, freed: told and counted; false */
void reload_ignore(struct slice why);
void reload_tell(const struct settings *s, const struct conf *before);

/* config_revision, config_loaded_timestamp_seconds: of the settings in force. */
void reload_tell_revision(const struct proxy *p);

#endif
