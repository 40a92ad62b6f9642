/* What the embedded engine says, for comparing it with the real OPA.

     rego_lines FILE... data.RULE...        each line of standard input is one JSON value; for each of them one line a rule:
                                            {"result":…} {"undefined":true} {"error":"…"} {"limit":true}
     rego_lines --load FILE... data.RULE... {"loaded":true,"compiled":true or false} for each rule, or {"error":"…"}

   Policies that do not load are one line {"error":"…"} and exit 1. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "rego.h"

#define RULES 256

static const struct rego_limits limits = {.time_us = 60 * 1000 * 1000};

static void say(const char *key, struct slice text, bool is_json)
{
    struct buf b;
    struct json j;
    buf_init(&b, NULL);
    json_init(&j, &b);
    json_object_start(&j);
    json_key(&j, slice_make(key, strlen(key)));
    if (is_json) {
        json_raw(&j, text);
    } else {
        json_text(&j, text);
    }
    json_object_end(&j);
    buf_add_char(&b, '\n');
    if (fwrite(b.p, 1, b.n, stdout) != b.n) exit(2);
    buf_free(&b);
}

static char *read_file(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    if (!f) {
        perror(path);
        exit(2);
    }
    struct buf b;
    char part[4096];
    size_t got;
    buf_init(&b, NULL);
    while ((got = fread(part, 1, sizeof part, f)) > 0)
        buf_add(&b, part, got);
    fclose(f);
    *n = b.n;
    return b.p;
}

static struct rego_file *read_files(char **paths, size_t n)
{
    struct rego_file *files = calloc(n + 1, sizeof *files);
    if (!files) abort();
    for (size_t i = 0; i < n; i++) {
        files[i] = (struct rego_file){.name = paths[i], .name_n = strlen(paths[i])};
        files[i].bytes = read_file(paths[i], &files[i].n);
    }
    return files;
}

static void free_files(struct rego_file *files, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free((void *)files[i].bytes);
    free(files);
}

static void answer(struct rego *r, const char *line, size_t n)
{
    struct rego_text text = {0};
    enum rego_outcome outcome = rego_eval(r, line, n, &limits, &text);
    struct slice s = slice_make(text.p, text.n);
    if (outcome == REGO_ANSWERED) say("result", s, true);
    if (outcome == REGO_UNDEFINED) say("undefined", SLICE("true"), true);
    if (outcome == REGO_LIMIT) say("limit", SLICE("true"), true);
    if (outcome == REGO_FAILED) say("error", s, false);
    fflush(stdout);
    rego_text_free(&text);
}

static void answer_lines(struct rego **rules, size_t rules_n)
{
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    while ((n = getline(&line, &cap, stdin)) > 0) {
        if (line[n - 1] == '\n') n--;
        for (size_t i = 0; i < rules_n; i++)
            answer(rules[i], line, (size_t)n);
    }
    free(line);
}

int main(int argc, char **argv)
{
    static struct rego *rules[RULES];
    size_t rules_n = 0;
    bool loaded = true;
    bool only_load = argc > 1 && strcmp(argv[1], "--load") == 0;
    char **names = argv + 1 + only_load;
    size_t files_n = 0;
    while (names[files_n] && strncmp(names[files_n], "data.", 5) != 0)
        files_n++;
    struct rego_file *files = read_files(names, files_n);
    for (char **name = names + files_n; *name && rules_n < RULES && loaded; name++) {
        struct rego_text error = {0};
        rules[rules_n] = rego_create(files, files_n, *name, strlen(*name), &error);
        loaded = rules[rules_n] != NULL;
        if (loaded) {
            rules_n++;
        } else {
            say("error", slice_make(error.p, error.n), false);
        }
        rego_text_free(&error);
    }
    for (size_t i = 0; loaded && only_load && i < rules_n; i++)
        printf("{\"loaded\":true,\"compiled\":%s}\n", rego_is_compiled(rules[i]) ? "true" : "false");
    if (loaded && !only_load) answer_lines(rules, rules_n);
    for (size_t i = 0; i < rules_n; i++)
        rego_free(rules[i]);
    free_files(files, files_n);
    return loaded ? 0 : 1;
}
