/* proxy/policies: called by wire to compile, by ready and own to say what is in force. Refuses what the engine cannot
   compile, with all its findings. */
#include "proxy/policies.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "conf/policies.h"
#include "proxy/wire.h"

/* The folder that names are below, with a slash; of a single file the one it is in. */
static struct slice folder_of(const struct conf *c)
{
    struct slice path = c->policy.path;
    bool single = c->policy.files_n == 1 && path.n >= c->policy.files[0].name.n &&
                  memcmp(path.p + path.n - c->policy.files[0].name.n, c->policy.files[0].name.p, c->policy.files[0].name.n) == 0;
    return single ? slice_make(path.p, path.n - c->policy.files[0].name.n) : path;
}

static bool is_of_file(const struct conf *c, struct slice line)
{
    for (size_t i = 0; i < c->policy.files_n; i++)
        if (slice_starts(line, c->policy.files[i].name)) return true;
    return false;
}

/* Findings as they can be opened from where the program was started. */
static char *with_places(const struct conf *c, char *findings)
{
    struct slice rest = slice_str(findings), line, folder = folder_of(c);
    struct buf out;
    buf_init(&out, NULL);
    while (slice_next(&rest, '\n', &line)) {
        if (!line.n) continue;
        if (out.n) buf_add_char(&out, '\n');
        if (slice_starts(line, c->policy.rule)) buf_add_lit(&out, "policy.rule: ");
        else buf_add_lit(&out, "policy.path: ");
        if (is_of_file(c, line)) {
            buf_add_slice(&out, folder);
            if (folder.n && folder.p[folder.n - 1] != '/') buf_add_char(&out, '/');
        }
        buf_add_slice(&out, line);
    }
    if (!out.n) buf_add_lit(&out, "policy.path: it cannot be compiled");
    buf_add_char(&out, '\0');
    free(findings);
    return out.p;
}

bool policies_compile(const struct conf *c, struct rego_engine **out, char **error)
{
    *out = NULL;
    if (!c->policy.path.n) return true;
    char *findings = NULL;
    struct rego_source *files = xzalloc((c->policy.files_n + 1) * sizeof *files);
    for (size_t i = 0; i < c->policy.files_n; i++)
        files[i] = (struct rego_source){c->policy.files[i].name, c->policy.files[i].bytes};
    *out = rego_engine_create(files, c->policy.files_n, c->policy.rule, &findings);
    free(files);
    if (!*out) *error = with_places(c, findings);
    return *out != NULL;
}

#define GONE 1 /* in place of the mark of what cannot be read: told as any other change */

bool policies_changed(struct policies_watch *w, const struct conf *c)
{
    if (!c->policy.path.n) return false;
    uint64_t last = w->last, now = policies_mark(c->policy.path.p);
    if (!now) now = GONE;
    w->last = now;
    if (now == c->policy.mark || now == w->tried || now != last) return false;
    w->tried = now;
    return true;
}

void policies_write(const struct settings *s, struct json *j)
{
    char revision[17];
    snprintf(revision, sizeof revision, "%016llx", (unsigned long long)rego_engine_revision(wire_rego(s->wire)));
    json_field_string(j, "engine", slice_str(rego_engine_version()));
    json_field_string(j, "rule", s->conf->policy.rule);
    json_field_bool(j, "compiled", rego_engine_is_compiled(wire_rego(s->wire)));
    json_field_string(j, "revision", slice_str(revision));
}
