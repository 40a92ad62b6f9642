/* base/check: what happens when something that cannot happen did, and allocation that does not fail. Called from
   everywhere. Refuses to go on: the process aborts after one plain line on standard error. */
#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Neither the log nor stdio's buffers: both may be what broke. */
_Noreturn void check_failed(const char *file, int line, const char *cond, const char *text)
{
    char out[512];
    int n = snprintf(out, sizeof(out), "doorward: %s:%d: %s does not hold: %s\n", file, line, cond, text);
    size_t len = n < 0 ? 0 : (size_t)n < sizeof(out) ? (size_t)n : sizeof(out) - 1;
    ssize_t ignored = write(STDERR_FILENO, out, len);
    (void)ignored;
    abort();
}

static void *got(void *p)
{
    CHECK(p != NULL, "out of memory");
    return p;
}

void *xmalloc(unsigned long size)
{
    return got(malloc(size ? size : 1));
}

void *xzalloc(unsigned long size)
{
    return got(calloc(1, size ? size : 1));
}

void *xrealloc(void *p, unsigned long size)
{
    return got(realloc(p, size ? size : 1));
}

char *xstrdup(const char *s)
{
    return got(strdup(s));
}

char *xstrndup(const char *s, unsigned long n)
{
    return got(strndup(s, n));
}
