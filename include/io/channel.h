/* io/channel: messages between a process and those it forked, each whole or not there, with a descriptor beside it where
   wanted. What is long goes in memory of its own (channel_pack), never through the queue. Nothing here waits. */
#ifndef IO_CHANNEL_H
#define IO_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "io/loop.h"

enum channel_got { CHANNEL_MESSAGE, CHANNEL_NOTHING, CHANNEL_ENDED };

/* Two ends, closed on exec. False: the system has no more descriptors. */
bool channel_pair(int ends[2]);
/* attached: -1 none; stays the caller's. False: the other side's queue is full, or it is gone. */
bool channel_send(int end, const void *message, size_t n, int attached);
/* A message of exactly n bytes; one of another size ends the channel. *attached is the caller's to close, or -1. */
enum channel_got channel_receive(int end, void *message, size_t n, int *attached);

/* A descriptor of memory that holds content: nobody finds it by a name. -1: there is no more. */
int channel_pack(struct slice content);
/* Reads the whole of it, at most max bytes; false: more, or not to be read. fd stays open. */
bool channel_unpack(int fd, size_t max, struct buf *out);

/* on_ready inside the loop while something can be received, or the other side is gone. The end stays the caller's. */
struct channel_watch;
struct channel_watch *channel_watch(struct loop *l, int end, void (*on_ready)(void *arg), void *arg);
void channel_unwatch(struct channel_watch *w); /* NULL: nothing; freed by its close callback */

#endif
