/* authz/keyset: reading of a key set document and the step from one set to the next. Called by jwks. It keeps the
   OpenSSL keys of what is the same in both, so that a refresh of hundreds of keys costs decoding only. */
#include "authz/keyset.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "authz/strict.h"
#include "base/check.h"

static struct jwk *find(const struct keyset *s, const uint8_t id[JWK_ID_BYTES])
{
    for (size_t i = 0; i < s->n; i++)
        if (memcmp(s->keys[i]->id, id, JWK_ID_BYTES) == 0) return s->keys[i];
    return NULL;
}

/* A reference of its own, or NULL when the key is not usable. */
static struct jwk *read_key(const json_t *object, const struct keyset *old, const struct keyset *fresh)
{
    struct jwk_parts parts;
    const char *problem;
    if (!jwk_decode(object, &parts, &problem) || find(fresh, parts.id)) return NULL;
    struct jwk *known = find(old, parts.id);
    if (!known) return jwk_make(&parts);
    jwk_hold(known);
    return known;
}

static bool read_keys(const json_t *document, const struct keyset *old, struct keyset *fresh, const char **error)
{
    const json_t *list = json_object_get(document, "keys");
    if (!json_is_array(list)) {
        *error = "the key set has no array `keys`";
        return false;
    }
    size_t n = json_array_size(list);
    if (n > KEYSET_MAX) {
        *error = "the key set has more than 1000 keys";
        return false;
    }
    fresh->keys = xzalloc((n + 1) * sizeof(struct jwk *));
    for (size_t i = 0; i < n; i++) {
        struct jwk *k = read_key(json_array_get(list, i), old, fresh);
        if (k)
            fresh->keys[fresh->n++] = k;
        else
            fresh->skipped++;
    }
    if (fresh->n) return true;
    free(fresh->keys);
    *error = n ? "the key set has no usable key" : "the key set is empty";
    return false;
}

bool keyset_replace(struct keyset *s, struct slice document, const char **error)
{
    static const char *const problems[] = {
        [STRICT_INVALID] = "the key set is not JSON",
        [STRICT_DUPLICATE] = "the key set has a name twice in one object",
        [STRICT_TOO_DEEP] = "the key set is nested too deep",
        [STRICT_NO_OBJECT] = "the key set is not an object",
    };
    enum strict_problem problem;
    json_t *root = strict_object(document, &problem);
    if (!root) {
        *error = problems[problem];
        return false;
    }
    struct keyset fresh = {0};
    bool ok = read_keys(root, s, &fresh, error);
    json_decref(root);
    if (!ok) return false;
    keyset_clear(s);
    for (size_t i = 0; i < fresh.n; i++)
        fresh.keys[i]->gone = false;
    *s = fresh;
    return true;
}

void keyset_clear(struct keyset *s)
{
    for (size_t i = 0; i < s->n; i++) {
        s->keys[i]->gone = true;
        jwk_release(s->keys[i]);
    }
    free(s->keys);
    *s = (struct keyset){0};
}
