/* What the tests of conf/ share: a folder of their own, a configuration from a text, its errors as a text. */
#ifndef TEST_CONF_FIXTURE_H
#define TEST_CONF_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conf/options.h"

#define PUBLIC_ROUTE "\nroutes: [{prefix: /, access: public}]\n"

static char folder[] = "/tmp/doorward-conf-XXXXXX";

static void write_file(const char *name, const char *text)
{
    FILE *f = fopen(name, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, strlen(text), f), strlen(text));
    assert_int_equal(fclose(f), 0);
}

static int enter_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

/* The files that tests make have one of these names. */
static int leave_folder(void **state)
{
    (void)state;
    static const char *const names[] = {"c.yaml", "secret", "empty", "key.pem", "shape.jq", "jwks.json", "token", "long"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) unlink(names[i]);
    return chdir("/") == 0 && rmdir(folder) == 0 ? 0 : -1;
}

struct loaded {
    struct conf *conf;
    struct buf errors, warnings;
};

/* env: NULL or a NULL-ended list of NAME=value. */
static struct loaded load_source(const char *file, bool drop_in, const char *const *env)
{
    struct loaded l;
    struct conf_source src = {.file = file, .drop_in = drop_in, .environ = (char **)(uintptr_t)env};
    buf_init(&l.errors, NULL);
    buf_init(&l.warnings, NULL);
    l.conf = conf_load(&src, &l.errors, &l.warnings);
    buf_add_char(&l.errors, '\0');
    buf_add_char(&l.warnings, '\0');
    assert_true(l.conf || l.errors.n > 1);
    assert_true(!l.conf || l.errors.n == 1);
    return l;
}

static inline struct loaded load_text_with(const char *yaml, const char *const *env)
{
    write_file("c.yaml", yaml);
    return load_source("c.yaml", false, env);
}

static void unload(struct loaded *l)
{
    conf_destroy(l->conf);
    buf_free(&l->errors);
    buf_free(&l->warnings);
}

#define assert_slice(slice_, text_) assert_slice_at((slice_), (text_), __FILE__, __LINE__)
static inline void assert_slice_at(struct slice s, const char *text, const char *file, int line)
{
    if (slice_eq(s, slice_str(text)) && (!s.p || s.p[s.n] == '\0')) return;
    print_error("\"%.*s\" is not \"%s\"\n", (int)s.n, s.p ? s.p : "", text);
    _fail(file, line);
}

#endif
