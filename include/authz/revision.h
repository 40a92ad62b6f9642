/* authz/revision: which revisions of the policy bundles have been seen lately. While engines are updated one by one,
   old and new answer in turn; a revision is gone when it has not been seen for the grace time since a newer one was. */
#ifndef AUTHZ_REVISION_H
#define AUTHZ_REVISION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REVISIONS_MAX 8

struct revisions {
    int64_t grace_ms;
    size_t n;
    struct {
        uint64_t id;
        int64_t first_ms, last_ms; /* monotonic */
    } seen[REVISIONS_MAX];
};

void revisions_see(struct revisions *r, uint64_t id, int64_t now_ms); /* id 0: nothing */
/* May a decision of that revision still be used? 0: yes, its own time alone ends it. */
bool revisions_current(const struct revisions *r, uint64_t id, int64_t now_ms);

#endif
