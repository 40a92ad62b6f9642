/* parse: what http/parser and http/message make of bytes, for test_cases.py. Reads inputs from standard input, each as
   its length in decimal on a line and then its bytes, and goes through each as a connection does: message after message
   until the bytes end, one is refused, or one says that it is the last.

     llhttp_parse request|response|head [bytewise]       head: responses to HEAD

   Prints a line per part, "name hex": method, target, status, then a "header NAME = VALUE" each, "body", "trailer NAME
   = VALUE", "complete"; and closes each input with "end OUTCOME": done, partial, closed, or the code of the refusal. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "http/parser.h"
#include "http/target.h"

#define MAX_HEADERS 100
#define INPUT_MAX (1 << 22)

static void print_hex(const char *name, struct slice s, char end)
{
    printf("%s ", name);
    for (size_t i = 0; i < s.n; i++) printf("%02x", (unsigned char)s.p[i]);
    putchar(end);
}

static void print_headers(const char *name, const struct head *h)
{
    for (size_t i = 0; i < h->n; i++) {
        print_hex(name, h->v[i].name, ' ');
        print_hex("=", h->v[i].value, '\n');
    }
}

static void on_body(struct parser *p, struct slice data)
{
    (void)p;
    print_hex("body", data, '\n');
}

/* RFC 9112 2.2, as the connection does it. */
static bool pass_empty_lines(struct slice *rest)
{
    while (rest->n >= 2 && rest->p[0] == '\r' && rest->p[1] == '\n') *rest = slice_make(rest->p + 2, rest->n - 2);
    return rest->n == 0 || (rest->p[0] != '\n' && !(rest->p[0] == '\r' && rest->n > 1));
}

static void print_head(const struct parser *p, struct arena *arena)
{
    const struct head *h = &p->head;
    if (p->kind == PARSER_REQUEST) {
        struct target target;
        enum reason r = target_parse(h->target, arena, &target);
        print_hex("method", h->method, '\n');
        print_hex("target", h->target, '\n');
        printf("judged %s\n", reason_code(r));
    } else {
        printf("status %d\n", h->status);
        print_hex("phrase", h->phrase, '\n');
    }
    print_headers("header", h);
}

/* The outcome that ends the input, or NULL when a whole message was taken off rest and another may follow. */
static const char *next_message(struct parser *p, struct arena *arena, struct slice *rest, bool to_head, bool bytewise)
{
    size_t from = 0, end = 0, seen = bytewise ? 1 : rest->n;
    enum head_scan found = head_scan(slice_make(rest->p, seen), &from, &end);
    while (found == HEAD_PARTIAL && seen < rest->n) found = head_scan(slice_make(rest->p, ++seen), &from, &end);
    if (found == HEAD_BAD)
        return reason_code(p->kind == PARSER_REQUEST ? REASON_MALFORMED : REASON_UPSTREAM_MALFORMED);
    if (found == HEAD_PARTIAL) return "partial";
    enum reason r = parser_head(p, arena_copy(arena, slice_make(rest->p, end)), arena, MAX_HEADERS, to_head);
    if (r != REASON_FORWARDED) return reason_code(r);
    print_head(p, arena);
    *rest = slice_make(rest->p + end, rest->n - end);
    while (!p->complete && rest->n) {
        struct slice piece = arena_copy(arena, slice_make(rest->p, bytewise ? 1 : rest->n));
        long used = parser_body(p, piece);
        if (used < 0) return reason_code(p->reason);
        *rest = slice_make(rest->p + used, rest->n - (size_t)used);
    }
    if (!parser_end(p)) return "partial";
    print_headers("trailer", &p->trailers);
    puts("complete");
    return p->head.keep_alive || p->head.status / 100 == 1 ? NULL : "closed";
}

static void parse(enum parser_kind kind, bool to_head, bool bytewise, struct slice rest)
{
    struct parser p;
    struct arena arena;
    const char *outcome = NULL;
    parser_init(&p, kind, on_body);
    while (!outcome) {
        if (kind == PARSER_REQUEST && !pass_empty_lines(&rest)) {
            outcome = reason_code(REASON_MALFORMED);
        } else if (rest.n == 0) {
            outcome = "done";
        } else {
            arena_init(&arena);
            outcome = next_message(&p, &arena, &rest, to_head, bytewise);
            arena_reset(&arena);
        }
    }
    printf("end %s\n", outcome);
}

int main(int argc, char **argv)
{
    CHECK(argc > 1, "a kind is named");
    enum parser_kind kind = strcmp(argv[1], "request") == 0 ? PARSER_REQUEST : PARSER_RESPONSE;
    bool bytewise = argc > 2 && strcmp(argv[2], "bytewise") == 0;
    unsigned long n;
    printf("llhttp %s\n", parser_version());
    while (scanf("%lu", &n) == 1) {
        CHECK(n < INPUT_MAX && getchar() == '\n', "an input is small and begins on a line of its own");
        char *bytes = malloc(n + 1); /* no NUL behind it is read: the parser is told the length */
        CHECK(bytes && fread(bytes, 1, n, stdin) == n, "an input comes whole");
        parse(kind, strcmp(argv[1], "head") == 0, bytewise, slice_make(bytes, n));
        free(bytes);
    }
    arena_trim();
    return 0;
}
