/* flow/fake_dial: io/dial.h without a network. A dial waits until the test lets it succeed or fail, or by itself until
   its time is up; with fake_dial_open it succeeds at the next turn. Checks of addresses (proxy/health) are kept apart:
   each connects and is answered by itself, as fake_check says, and is counted nowhere else. */
#ifndef FLOW_FAKE_DIAL_H
#define FLOW_FAKE_DIAL_H

#include "flow/memory.h"
#include "io/dial.h"

#define FAKE_CHECK_REFUSED (-1)
extern int (*fake_check)(const char *address); /* status of the answer to a check, or REFUSED; NULL: 200 */
extern const char *fake_check_request;         /* head of the last one, but those to FAKE_ADDRESS */
extern size_t fake_checks;                     /* answered since the last reset */

extern bool fake_dial_open;                      /* every dial succeeds by itself */
extern void (*fake_dial_made)(struct memory *m); /* told of each connection, in order */

size_t fake_dial_waiting(void);
size_t fake_dial_started(void); /* since the last reset */
void fake_dial_reset(void);
/* The address that the nth that waits goes to: "192.0.2.1:80". Valid until the next call. */
const char *fake_dial_to(size_t n);
int64_t fake_dial_timeout(size_t n);
/* The oldest that waits: 0 connects it, else a negative uv error. */
void fake_dial_finish(int status);
/* With fake_dial_open: connects all that wait; answers checks; true when there was something to do. */
bool fake_dial_pump(void);

#endif
