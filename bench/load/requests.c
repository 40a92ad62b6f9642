/* See load/requests.h. */
#include "load/requests.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/net.h"

static const char *column(char **rest)
{
    char *text = strsep(rest, "\t");
    return text ? text : "";
}

static void make(struct request_text *t, char *line, const char *host)
{
    const char *method = column(&line), *path = column(&line), *authorization = column(&line), *body = column(&line);
    size_t body_n = strlen(body);
    if (path[0] != '/') die("a line of the requests has no path: %s %s", method, path);
    char *bytes = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&bytes, &n);
    if (!out) die("out of memory");
    const char *number = strstr(path, "{n}");
    int before = number ? (int)(number - path) : (int)strlen(path);
    fprintf(out, "%s %.*s", method, before, path);
    fflush(out);
    t->number_at = n;
    fprintf(out, "%s HTTP/1.1\r\nHost: %s\r\nAccept: */*\r\n", number ? number + 3 : "", host);
    if (authorization[0]) fprintf(out, "Authorization: %s\r\n", authorization);
    if (body_n) fprintf(out, "Content-Type: application/json\r\nContent-Length: %zu\r\n", body_n);
    fprintf(out, "\r\n%s", body);
    fclose(out);
    t->bytes = bytes;
    t->n = n;
    if (!number) t->number_at = n;
    t->is_head = strcmp(method, "HEAD") == 0;
}

void requests_read(struct requests *r, const char *file, const char *host)
{
    FILE *in = fopen(file, "r");
    if (!in) die("%s: %s", file, strerror(errno));
    char *line = NULL;
    size_t room = 0, cap = 0;
    ssize_t n;
    while ((n = getline(&line, &room, in)) > 0) {
        if (line[n - 1] == '\n') line[n - 1] = '\0';
        if (line[0] == '\0') continue;
        if (r->n == cap) {
            cap = cap ? cap * 2 : 16;
            r->v = realloc(r->v, cap * sizeof *r->v);
            if (!r->v) die("out of memory");
        }
        make(&r->v[r->n++], line, host);
    }
    free(line);
    fclose(in);
    if (r->n == 0) die("%s: no request in it", file);
}

void requests_free(struct requests *r)
{
    for (size_t i = 0; i < r->n; i++) free(r->v[i].bytes);
    free(r->v);
    *r = (struct requests){.v = NULL};
}
