/* base/check: assertions for what cannot happen. They stay on in release; inputs are never checked with them. */
#ifndef BASE_CHECK_H
#define BASE_CHECK_H

/* Aborts with file, line and text when the condition does not hold. */
#define CHECK(cond, text) \
    do { \
        if (__builtin_expect(!(cond), 0)) check_failed(__FILE__, __LINE__, #cond, (text)); \
    } while (0)

_Noreturn void check_failed(const char *file, int line, const char *cond, const char *text);

/* malloc, calloc, realloc, strdup that abort instead of returning NULL. */
void *xmalloc(unsigned long size);
void *xzalloc(unsigned long size);
void *xrealloc(void *p, unsigned long size);
char *xstrdup(const char *s);
char *xstrndup(const char *s, unsigned long n);

#endif
