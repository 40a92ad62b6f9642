/* authz/kept: called by token when a credential was found good. Claims are written anew, as ASCII on one line, so that
   what goes on to policy, shape and header is JSON of ours, not bytes of the token. */
#include "authz/kept.h"

#include <jansson.h>
#include <stdlib.h>

#include "authz/document.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/check.h"

/* The next text of k, with a NUL behind it. */
static struct slice put_text(char **at, struct slice s)
{
    struct slice copy = slice_make(*at, s.n);
    if (s.n) memcpy(*at, s.p, s.n);
    (*at)[s.n] = '\0';
    *at += s.n + 1;
    return copy;
}

static struct kept *create(size_t texts_bytes)
{
    size_t size = sizeof(struct kept) + texts_bytes;
    struct kept *k = xmalloc(size);
    memset(k, 0, sizeof *k);
    cache_entry_init(&k->token.entry);
    k->token.entry.bytes = (uint32_t)size;
    return k;
}

/* Those that are named in the configuration and there in the token. */
static void select_claims(const struct json_t *payload, const struct texts *names, struct buf *out)
{
    json_t *selected = json_object();
    CHECK(selected, "out of memory");
    for (size_t i = 0; i < names->n; i++) {
        json_t *v = json_object_getn(payload, names->v[i].p, names->v[i].n);
        if (v) CHECK(json_object_setn(selected, names->v[i].p, names->v[i].n, v) == 0, "out of memory");
    }
    document_write(selected, out);
    json_decref(selected);
}

struct kept *kept_verified(const struct issuer *issuer, struct jwk *key, const struct json_t *payload,
                           struct slice subject, const struct texts *claims)
{
    struct arena a;
    struct buf selected, all;
    arena_init(&a);
    buf_init(&selected, &a);
    buf_init(&all, &a);
    select_claims(payload, claims, &selected);
    document_write(payload, &all);
    struct slice name = issuer->config.issuer;
    struct kept *k = create(name.n + subject.n + selected.n + all.n + 4);
    char *at = k->text;
    k->token.verified = true;
    k->token.issuer = put_text(&at, name);
    k->token.subject = put_text(&at, subject);
    k->token.claims = put_text(&at, buf_slice(&selected));
    k->token.payload = put_text(&at, buf_slice(&all));
    k->token.entry.tags[0] = token_issuer_tag(name);
    k->token.entry.tags[1] = token_subject_tag(name, subject);
    token_name_key(k->token.issuer, k->token.subject, k->token.name_key);
    k->token.has_name_key = true;
    k->issuer = issuer;
    k->key = key;
    if (key) jwk_hold(key);
    arena_reset(&a);
    return k;
}

struct kept *kept_unverified(void)
{
    return create(0);
}

void kept_destroy(struct cache_entry *e)
{
    struct kept *k = kept_of(e);
    if (k->key) jwk_release(k->key);
    free(k);
}
