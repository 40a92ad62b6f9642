/* authz/shape: the door to libjq. Called by identity (profile to context), grant and decision (decision to header or
   answer), on a miss only. A shape is a function of its input: what reads the environment, files, the clock or further
   inputs is taken from the program, and so are modules, among them ~/.jq, which libjq would load by itself.
   libjq has no limit of time or memory: a program that never ends stops the daemon. Programs come from the operator,
   like the configuration, never from a client. */
#include "authz/shape.h"

#include <jq.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"

struct shape {
    jq_state *jq;
    struct buf complaints; /* what libjq said while compiling */
};

#define WITHOUT(name) "def " name ": error(\"a shape has no \" + \"" name "\"); "

/* Stands before the program on its first line, so that line numbers stay true. After it `import` and `include` are
   syntax errors, and these names mean this. */
static const char prelude[] = "{} as $ENV | " WITHOUT("env") WITHOUT("input") WITHOUT("inputs")
    WITHOUT("input_filename") WITHOUT("halt") WITHOUT("halt_error") WITHOUT("modulemeta") WITHOUT("get_search_list")
        WITHOUT("now") WITHOUT("localtime") "def halt_error(c): error(\"a shape has no halt_error\"); "
                                            "def strflocaltime(f): error(\"a shape has no strflocaltime\"); "
                                            "def debug: .; def debug(m): .; def stderr: .; ";

static void on_complaint(void *arg, jv message)
{
    struct shape *s = arg;
    jv text = jq_format_error(message);
    struct slice said = slice_str(jv_string_value(text));
    const char *own = strstr(said.p, prelude);
    while (said.n && strchr(" \n", said.p[said.n - 1]))
        said.n--;
    if (s->complaints.n) buf_add_lit(&s->complaints, "; ");
    if (own) {
        size_t before = (size_t)(own - said.p);
        size_t after = before + sizeof prelude - 1;
        buf_add(&s->complaints, said.p, before);
        if (after < said.n) buf_add(&s->complaints, said.p + after, said.n - after);
    } else {
        buf_add_slice(&s->complaints, said);
    }
    jv_free(text);
}

static char *error_text(const char *name, struct slice what)
{
    struct buf b;
    buf_init(&b, NULL);
    buf_printf(&b, "%s: ", name);
    buf_add_slice(&b, what);
    buf_add_char(&b, '\0');
    return b.p;
}

/* With an empty environment: libjq takes $HOME/.jq in whenever there is a HOME. Done at load, before any thread. */
static int compile(jq_state *jq, const char *text)
{
    char *none[] = {NULL};
    char **kept = environ;
    environ = none;
    int good = jq_compile(jq, text);
    environ = kept;
    return good;
}

struct shape *shape_compile(const char *name, struct slice program, char **error)
{
    if (memchr(program.p ? program.p : "", 0, program.n)) {
        *error = error_text(name, SLICE("the program has a NUL byte in it"));
        return NULL;
    }
    struct shape *s = xzalloc(sizeof *s);
    struct buf text;
    buf_init(&s->complaints, NULL);
    buf_init(&text, NULL);
    buf_add(&text, prelude, sizeof prelude - 1);
    buf_add_slice(&text, program);
    buf_add_char(&text, '\0');
    s->jq = jq_init();
    CHECK(s->jq, "libjq starts");
    jq_set_error_cb(s->jq, on_complaint, s);
    int good = compile(s->jq, text.p);
    buf_free(&text);
    if (good) return s;
    *error = error_text(name, s->complaints.n ? buf_slice(&s->complaints) : SLICE("not a jq program"));
    shape_destroy(s);
    return NULL;
}

void shape_destroy(struct shape *s)
{
    if (!s) return;
    jq_teardown(&s->jq);
    buf_free(&s->complaints);
    free(s);
}

/* libjq quotes values in its messages, in round brackets and in quotes. They are somebody's profile and not for a log:
   all from the first such sign to the last goes. */
static char *without_values(const char *message)
{
    size_t first = strcspn(message, "(\"");
    size_t end = strlen(message);
    size_t last = end;
    while (last > first && !strchr(")\"", message[last - 1]))
        last--;
    if (last == first) last = end; /* cut off by libjq: no closing sign */
    struct buf b;
    buf_init(&b, NULL);
    buf_add(&b, message, first);
    if (first < end) {
        buf_add_lit(&b, "…");
        buf_add(&b, message + last, end - last);
    }
    buf_add_char(&b, '\0');
    return b.p;
}

static bool failed(char **error, jv result)
{
    jv message = jv_invalid_get_msg(result);
    if (error && jv_get_kind(message) == JV_KIND_STRING) {
        *error = without_values(jv_string_value(message));
    } else if (error) {
        *error = xstrdup("no output");
    }
    jv_free(message);
    return false;
}

/* DEL stands plain in libjq's output; in a header value it is not allowed (RFC 9110 5.5). */
static void add_ascii(struct buf *out, struct slice text)
{
    const char *del;
    while ((del = memchr(text.p, 0x7f, text.n))) {
        size_t n = (size_t)(del - text.p);
        buf_add(out, text.p, n);
        buf_add_lit(out, "\\u007f");
        text = slice_make(del + 1, text.n - n - 1);
    }
    buf_add_slice(out, text);
}

bool shape_run(struct shape *s, struct slice input, struct buf *out, char **error)
{
    if (error) *error = NULL;
    if (input.n > INT_MAX) {
        if (error) *error = xstrdup("the input is too large");
        return false;
    }
    jv value = jv_parse_sized(input.p ? input.p : "", (int)input.n);
    if (!jv_is_valid(value)) return failed(error, value);
    jq_start(s->jq, value, 0);
    jv result = jq_next(s->jq);
    if (!jv_is_valid(result)) return failed(error, result);
    jv text = jv_dump_string(result, JV_PRINT_ASCII);
    add_ascii(out, slice_make(jv_string_value(text), (size_t)jv_string_length_bytes(jv_copy(text))));
    jv_free(text);
    jq_start(s->jq, jv_null(), 0); /* lets go of the input */
    return true;
}
