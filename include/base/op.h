/* base/op: what a starter returns. DONE: the outcome is in the caller's struct now and no callback comes.
   PENDING: the callback comes later, exactly once, never before the starter returned and never after cancel. */
#ifndef BASE_OP_H
#define BASE_OP_H

enum op {
    OP_DONE,
    OP_PENDING,
};

#endif
