/* authz/rego_threads: policies evaluated on threads: so many engines, each used by one evaluation at a time, and the line
   of those that wait for one, in the order they came. */
#ifndef AUTHZ_REGO_THREADS_H
#define AUTHZ_REGO_THREADS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "authz/rego_engine.h"
#include "base/slice.h"
#include "io/loop.h"

struct rego_threads;
struct rego_task; /* one evaluation; freed by itself after its callback or cancel */

/* n engines as e is, which is not kept; n is at least 1. */
struct rego_threads *rego_threads_create(struct loop *l, const struct rego_engine *e, unsigned n);
/* Every task has been told or cancelled. What a thread still has frees what it uses when it is through. NULL: nothing. */
void rego_threads_destroy(struct rego_threads *t);

/* input is copied. on_done comes later, once, on the loop; what was said is valid inside it. */
struct rego_task *rego_threads_evaluate(struct rego_threads *t, struct slice input, int64_t limit_ms, size_t answer_bytes,
                                        void (*on_done)(const struct rego_said *said, void *arg), void *arg);
bool rego_task_waits(const struct rego_task *k); /* it has no engine yet */
/* No callback will come. An evaluation that has begun cannot be stopped: it keeps its thread up to its limit. */
void rego_task_cancel(struct rego_task *k);

#endif
