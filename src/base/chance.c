/* base/chance: an xorshift generator, seeded once by the kernel so that no two processes act alike. */
#include "base/chance.h"

#include <stdint.h>
#include <sys/random.h>

#include "base/check.h"

double chance_fraction(void)
{
    static uint64_t state;
    if (!state) {
        CHECK(getrandom(&state, sizeof state, 0) == (ssize_t)sizeof state, "there are random bytes");
        state |= 1; /* nought is the one state that never changes */
    }
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (double)(state >> 11) / 9007199254740992.0;
}
