/* conf/table: the .def files as arrays. Called by every reader and printer of options; refuses nothing. */
#include "conf/table.h"

#include "conf/options.h"

#define RANGE(from, to) .least = (from), .most = (to)
#define CHOICES(list) .choices = (list)
#define ANY .choices = NULL
#define OPTION(path_, kind_, field_, fallback_, limits_, sample_, help_)                                               \
    {.path = (path_), .kind = KIND_##kind_, .offset = offsetof(OWNER, field_), .size = sizeof(((OWNER *)0)->field_),   \
     .fallback = (fallback_), .sample = (sample_), .help = (help_), limits_},

#define OWNER struct conf
static const struct option options[] = {
#include "conf/options.def"
};
#undef OWNER
#define OWNER struct conf_upstream
static const struct option upstream[] = {
#include "conf/upstream.def"
};
#undef OWNER
#define OWNER struct conf_issuer
static const struct option issuer[] = {
#include "conf/issuer.def"
};
#undef OWNER
#define OWNER struct conf_route
static const struct option route[] = {
#include "conf/route.def"
};
#undef OWNER

#define TABLE(rows, owner) {(rows), sizeof(rows) / sizeof((rows)[0]), sizeof(owner)}
const struct table table_options = TABLE(options, struct conf);
const struct table table_upstream = TABLE(upstream, struct conf_upstream);
const struct table table_issuer = TABLE(issuer, struct conf_issuer);
const struct table table_route = TABLE(route, struct conf_route);

const struct table *table_below(enum option_kind kind)
{
    if (kind == KIND_UPSTREAM || kind == KIND_UPSTREAMS) return &table_upstream;
    if (kind == KIND_ISSUERS) return &table_issuer;
    return kind == KIND_ROUTES ? &table_route : NULL;
}

const char *table_variable(struct arena *a, const char *prefix, const char *path, const char *suffix)
{
    struct slice name = arena_printf(a, "DOORWARD_%s%s%s", prefix, path, suffix);
    char *p = arena_alloc(a, name.n + 1);
    for (size_t i = 0; i <= name.n; i++) {
        char c = name.p[i];
        p[i] = c == '.' ? '_' : c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
    }
    return p;
}
