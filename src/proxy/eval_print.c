/* proxy/eval_print: the JSON report as sections. Called by eval, unless --json was given. What it shows came from tokens,
   profiles and policies: each text is written as JSON writes it, so that no control character reaches a terminal. */
#include "proxy/eval_print.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

#define DEEP_INDENT "      "

/* Without its quotes where nothing in it is escaped. */
static void print_scalar(const json_t *value, FILE *to)
{
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_ENSURE_ASCII | JSON_COMPACT);
    CHECK(text, "a value that was read can be written");
    size_t n = strlen(text);
    if (json_is_string(value) && n > 2 && !strchr(text, '\\'))
        fprintf(to, "%.*s\n", (int)(n - 2), text + 1);
    else
        fprintf(to, "%s\n", text);
    free(text);
}

static void print_indented(const json_t *value, const char *indent, FILE *to)
{
    char *text = json_dumps(value, JSON_INDENT(2) | JSON_ENSURE_ASCII);
    CHECK(text, "a value that was read can be written");
    char *rest = text, *line;
    while ((line = strsep(&rest, "\n"))) fprintf(to, "%s%s\n", indent, line);
    free(text);
}

static void print_member(const char *name, const json_t *value, FILE *to)
{
    size_t i;
    const json_t *one;
    if (json_is_object(value)) {
        fprintf(to, "  %s\n", name);
        print_indented(value, DEEP_INDENT, to);
        return;
    }
    if (!json_is_array(value)) {
        fprintf(to, "  %-13s ", name);
        print_scalar(value, to);
        return;
    }
    json_array_foreach(value, i, one)
    {
        fprintf(to, "  %-13s ", i ? "" : name);
        print_scalar(one, to);
    }
}

void eval_print(struct slice document, FILE *to)
{
    const char *section, *name;
    json_t *report = json_loadb(document.p, document.n, 0, NULL), *value, *member;
    CHECK(report, "the report is JSON");
    json_object_foreach(report, section, value)
    {
        if (!json_is_object(value)) {
            fprintf(to, "%-15s ", section);
            print_scalar(value, to);
            continue;
        }
        fprintf(to, "%s\n", section);
        if (strcmp(section, "input") == 0) {
            print_indented(value, "  ", to);
            continue;
        }
        json_object_foreach(value, name, member) print_member(name, member, to);
    }
    json_decref(report);
}
