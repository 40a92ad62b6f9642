/* flow/fake_dial: io/dial.h without a network. A dial waits until the test lets it succeed or fail, or by itself until
   its time is up; with fake_dial_open it succeeds at the next turn. */
#ifndef FLOW_FAKE_DIAL_H
#define FLOW_FAKE_DIAL_H

#include "flow/memory.h"
#include "io/dial.h"

extern bool fake_dial_open;                      /* every dial succeeds by itself */
extern void (*fake_dial_made)(struct memory *m); /* told of each connection, in order */

size_t fake_dial_waiting(void);
size_t fake_dial_started(void); /* since the last reset */
void fake_dial_reset(void);
/* The oldest that waits: 0 connects it, else a negative uv error. */
void fake_dial_finish(int status);
/* With fake_dial_open: connects all that wait; true when there was one. */
bool fake_dial_pump(void);

#endif
