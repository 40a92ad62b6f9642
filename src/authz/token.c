/* authz/token: owns the cache of verified tokens, the issuers, and the calls that wait for keys. Called by the
   authenticate step and by /authorize. A hit costs one digest (or none: digest_memo) and one lookup, no parsing, no allocation; a miss runs
   the checks from cheap to dear: scheme, parts, header, payload, issuer, claims, and only then a signature. It refuses
   whatever is left. */
#include "authz/token.h"

#include <stdlib.h>

#include "authz/claims.h"
#include "authz/credential.h"
#include "authz/digest.h"
#include "authz/digest_memo.h"
#include "authz/issuer.h"
#include "authz/jws.h"
#include "authz/kept.h"
#include "authz/strict.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/check.h"
#include "base/metric.h"

/* What a kept token may take on average; a few large ones cannot push the rest out of all bounds. */
#define BYTES_PER_ENTRY 4096
#define CACHE_BYTES_MIN 65536

struct tokens {
    struct loop *loop;
    struct tokens_config config; /* issuers unset */
    struct issuer **issuers;
    size_t issuers_n;
    struct issuer **gone; /* no longer configured; who waited for their keys is to be told */
    size_t gone_n;
    struct deadline farewell; /* to those */
    struct fetch *fetch;
    struct cache *cache;
    struct digest_memo *digests; /* of credentials that are in the cache, or were a moment ago */
};

struct pass { /* one way through the checks */
    struct tokens *tokens;
    uint8_t key[DIGEST_BYTES];
    bool may_wait;
    int64_t now_s;
    struct issuer *issuer;
    struct jwk *verified_by;
    int64_t exp_s;
    struct token *token;
    struct refusal refusal;
};

static void on_settled(struct issuer *i);
static void on_farewell(struct deadline *d);

static const struct slice cache_type[] = {{"token", 5}};

static int64_t wall_s(const struct tokens *t)
{
    return loop_wall_ms(t->loop) / 1000;
}

static void succeed(struct pass *p, struct kept *k, bool into_cache)
{
    struct tokens *t = p->tokens;
    k->token.exp_s = p->exp_s;
    memcpy(k->token.entry.key, p->key, sizeof p->key);
    p->token = &k->token;
    if (!into_cache) return;
    int64_t now_ms = loop_now_ms(t->loop);
    int64_t end_ms = (p->exp_s + t->config.leeway_s) * 1000; /* wall clock */
    k->token.entry.stored_ms = now_ms;
    k->token.entry.expires_ms = now_ms + end_ms - loop_wall_ms(t->loop);
    cache_put(t->cache, &k->token.entry, now_ms);
}

static bool find_issuer(struct pass *p, const struct jws *j)
{
    struct tokens *t = p->tokens;
    struct slice name = strict_text(j->payload, "iss");
    if (!name.p) return refuse(&p->refusal, REASON_TOKEN_ISSUER, "iss is missing or not a text");
    for (size_t i = 0; i < t->issuers_n; i++) {
        if (!slice_eq(t->issuers[i]->config.issuer, name)) continue;
        p->issuer = t->issuers[i];
        return true;
    }
    return refuse(&p->refusal, REASON_TOKEN_ISSUER, "the issuer (iss) is not configured");
}

/* verify: upstream. What it says about itself is not believed, its end is. */
static void judge_unverified(struct pass *p, const struct jws *j)
{
    if (!claims_times(j->payload, p->now_s, p->tokens->config.leeway_s, &p->exp_s, &p->refusal)) return;
    succeed(p, kept_unverified(), true);
}

static enum op judge_signed(struct pass *p, const struct jws *j)
{
    const struct tokens_config *c = &p->tokens->config;
    struct slice subject;
    if (!find_issuer(p, j) || !issuer_accepts(p->issuer, j, p->now_s, c->leeway_s, &p->exp_s, &p->refusal) ||
        !claims_subject(j->payload, c->name_claim, &subject, &p->refusal))
        return OP_DONE;
    switch (issuer_verify(p->issuer, j, p->may_wait, &p->verified_by, &p->refusal)) {
    case ISSUER_WAIT:
        return OP_PENDING;
    case ISSUER_VERIFIED:
        succeed(p, kept_verified(p->issuer, p->verified_by, j->payload, subject, &c->claims), true);
        return OP_DONE;
    case ISSUER_REFUSED:
        break;
    }
    return OP_DONE;
}

static enum op judge(struct pass *p, struct slice authorization)
{
    enum credential_scheme scheme;
    struct slice text;
    if (!credential_read(authorization, p->tokens->config.api_keys, &scheme, &text, &p->refusal)) return OP_DONE;
    if (scheme == CREDENTIAL_API_KEY) {
        /* Never in the cache: making one costs no more than finding it, and keys that anybody can invent push
           nothing out. */
        p->exp_s = INT64_MAX;
        succeed(p, kept_unverified(), false);
        return OP_DONE;
    }
    struct arena a;
    arena_init(&a);
    struct jws j;
    enum op op = OP_DONE;
    if (jws_read(text, &a, &j, &p->refusal)) {
        if (p->tokens->config.upstream)
            judge_unverified(p, &j);
        else
            op = judge_signed(p, &j);
        jws_finish(&j);
    }
    arena_reset(&a);
    return op;
}

/* True when the cache decides: found and good, or found and expired. A token whose key is gone is judged anew. */
static bool look_up(struct pass *p, bool *cached)
{
    struct tokens *t = p->tokens;
    struct cache_entry *e = cache_get(t->cache, p->key, loop_now_ms(t->loop));
    if (!e) return false;
    struct kept *k = kept_of(e);
    bool expired = claims_expired(k->token.exp_s, p->now_s, t->config.leeway_s);
    if (!expired && (!k->issuer || issuer_vouches(k->issuer, k->key))) {
        p->token = &k->token;
        *cached = true;
        return true;
    }
    cache_drop(t->cache, p->key);
    token_release(&k->token);
    if (expired) refuse(&p->refusal, REASON_TOKEN_EXPIRED, "the token has expired (exp)");
    return expired;
}

static enum op run(struct pass *p, struct slice authorization, bool *cached)
{
    struct tokens *t = p->tokens;
    if (authorization.n > t->config.max_bytes) {
        refuse(&p->refusal, REASON_TOKEN_MALFORMED, "the credential is too long");
        return OP_DONE;
    }
    bool remembered = digest_memo_find(t->digests, authorization, p->key);
    if (!remembered) digest_parts(&authorization, 1, p->key);
    p->now_s = wall_s(t);
    bool decided = look_up(p, cached);
    if (remembered && !p->token) digest_memo_forget(t->digests, authorization);
    if (decided) {
        if (!remembered && p->token) digest_memo_keep(t->digests, authorization, p->key);
        metric_add(METRIC_CACHE_HITS, cache_type, 1);
        return OP_DONE;
    }
    metric_add(METRIC_CACHE_MISSES, cache_type, 1);
    return judge(p, authorization);
}

static void settle(struct token_call *c, const struct pass *p)
{
    c->token = p->token;
    c->reason = p->token ? REASON_FORWARDED : p->refusal.reason;
    c->detail = p->token ? NULL : p->refusal.detail;
    bool keys = c->reason == REASON_KEYS_UNAVAILABLE && p->issuer && p->issuer->jwks;
    c->retry_ms = keys ? jwks_retry_ms(p->issuer->jwks) : 0;
}

static struct slice take_pending(struct token_call *c)
{
    struct slice s = slice_make(c->pending, c->pending_n);
    list_remove(&c->link);
    c->tokens = NULL;
    c->pending = NULL;
    c->pending_n = 0;
    c->issuer = NULL;
    return s;
}

/* All who waited at this moment are judged once more, for good; who comes by their callbacks waits for the next. */
static void on_settled(struct issuer *i)
{
    struct list told;
    list_init(&told);
    while (!list_empty(&i->waiting)) {
        struct list *first = i->waiting.next;
        list_remove(first);
        list_add_last(&told, first);
    }
    while (!list_empty(&told)) {
        struct token_call *c = container_of(told.next, struct token_call, link);
        struct pass p = {.tokens = c->tokens};
        struct slice authorization = take_pending(c);
        CHECK(run(&p, authorization, &c->cached) == OP_DONE, "a second pass does not wait");
        free((char *)authorization.p);
        settle(c, &p);
        c->on_done(c);
    }
}

static char *start_error(struct slice issuer, const char *what)
{
    struct buf b;
    buf_init(&b, NULL);
    buf_printf(&b, "issuer \"%.*s\": %s", (int)issuer.n, issuer.n ? issuer.p : "", what);
    buf_add_char(&b, '\0');
    return b.p;
}

static bool check_issuers(const struct tokens_config *c, char **error)
{
    for (size_t i = 0; !c->upstream && i < c->issuers_n; i++) {
        const char *what = issuer_check(&c->issuers[i]);
        for (size_t k = 0; k < i; k++)
            if (slice_eq(c->issuers[k].issuer, c->issuers[i].issuer)) what = "the issuer is configured twice";
        if (!what) continue;
        *error = start_error(c->issuers[i].issuer, what);
        return false;
    }
    return true;
}

static size_t cache_bytes(const struct tokens_config *c)
{
    size_t bytes = c->max_entries < SIZE_MAX / BYTES_PER_ENTRY ? c->max_entries * BYTES_PER_ENTRY : SIZE_MAX;
    return bytes > CACHE_BYTES_MIN ? bytes : CACHE_BYTES_MIN;
}

static struct issuer *begin_issuer(struct tokens *t, const struct issuer_config *c)
{
    struct issuer *i = xzalloc(sizeof *i);
    CHECK(issuer_init(i, c, t->loop, t->fetch, on_settled) == NULL, "it was checked before");
    return i;
}

static void end_issuer(struct issuer *i)
{
    CHECK(list_empty(&i->waiting), "calls end before the issuer does");
    issuer_finish(i);
    free(i);
}

struct tokens *tokens_create(struct loop *l, struct fetch *f, const struct tokens_config *c, char **error)
{
    if (!check_issuers(c, error)) return NULL;
    struct tokens *t = xzalloc(sizeof *t);
    t->loop = l;
    t->fetch = f;
    t->config = *c;
    t->config.issuers = NULL;
    t->config.issuers_n = 0;
    deadline_init(&t->farewell, on_farewell);
    t->cache = cache_create(c->max_entries, cache_bytes(c), kept_destroy);
    t->digests = digest_memo_create();
    t->issuers = xzalloc((c->issuers_n + 1) * sizeof(struct issuer *));
    for (size_t i = 0; !c->upstream && i < c->issuers_n; i++)
        t->issuers[t->issuers_n++] = begin_issuer(t, &c->issuers[i]);
    return t;
}

/* Takes it out of the list. */
static struct issuer *take_known(struct tokens *t, struct slice name)
{
    for (size_t i = 0; i < t->issuers_n; i++) {
        struct issuer *known = t->issuers[i];
        if (!known || !slice_eq(known->config.issuer, name)) continue;
        t->issuers[i] = NULL;
        return known;
    }
    return NULL;
}

static void dismiss(struct tokens *t, struct issuer *i)
{
    tokens_flush(t, token_issuer_tag(i->config.issuer));
    t->gone = xrealloc(t->gone, (t->gone_n + 1) * sizeof(struct issuer *));
    t->gone[t->gone_n++] = i;
    if (i->jwks) jwks_stop(i->jwks); /* its texts go */
    i->config.issuer = SLICE("");
    deadline_after(t->loop, &t->farewell, 1);
}

/* Who waits for the keys of the same issuer at another place. */
static void move_waiting(struct issuer *from, struct issuer *to)
{
    while (!list_empty(&from->waiting)) {
        struct list *first = from->waiting.next;
        list_remove(first);
        list_add_last(&to->waiting, first);
        container_of(first, struct token_call, link)->issuer = to;
    }
}

static struct issuer *reconfigure_issuer(struct tokens *t, const struct issuer_config *c)
{
    struct issuer *known = take_known(t, c->issuer);
    if (!known) return begin_issuer(t, c);
    if (issuer_same_keys(&known->config, c)) {
        if (!issuer_same_rules(&known->config, c)) tokens_flush(t, token_issuer_tag(c->issuer));
        issuer_adjust(known, c);
        return known;
    }
    struct issuer *fresh = begin_issuer(t, c);
    if (fresh->jwks && jwks_fetching(fresh->jwks)) move_waiting(known, fresh);
    dismiss(t, known);
    return fresh;
}

static bool same_rules(const struct tokens_config *a, const struct tokens_config *b)
{
    bool same = a->claims.n == b->claims.n && slice_eq(a->name_claim, b->name_claim) && a->leeway_s == b->leeway_s &&
                a->upstream == b->upstream && a->api_keys == b->api_keys;
    for (size_t i = 0; same && i < a->claims.n; i++)
        same = slice_eq(a->claims.v[i], b->claims.v[i]);
    return same;
}

bool tokens_reconfigure(struct tokens *t, const struct tokens_config *c, char **error)
{
    if (!check_issuers(c, error)) return false;
    size_t n = c->upstream ? 0 : c->issuers_n;
    struct issuer **issuers = xzalloc((n + 1) * sizeof(struct issuer *));
    if (!same_rules(&t->config, c)) tokens_flush(t, 0);
    for (size_t i = 0; i < n; i++)
        issuers[i] = reconfigure_issuer(t, &c->issuers[i]);
    for (size_t i = 0; i < t->issuers_n; i++)
        if (t->issuers[i]) dismiss(t, t->issuers[i]);
    free(t->issuers);
    t->issuers = issuers;
    t->issuers_n = n;
    t->config = *c;
    t->config.issuers = NULL;
    t->config.issuers_n = 0;
    cache_limit(t->cache, c->max_entries, cache_bytes(c));
    return true;
}

static void end_gone(struct tokens *t)
{
    while (t->gone_n) end_issuer(t->gone[--t->gone_n]);
    free(t->gone);
    t->gone = NULL;
}

/* Those who waited are judged once more, and no longer find their issuer. */
static void on_farewell(struct deadline *d)
{
    struct tokens *t = container_of(d, struct tokens, farewell);
    for (size_t i = 0; i < t->gone_n; i++)
        on_settled(t->gone[i]);
    end_gone(t);
}

void tokens_destroy(struct tokens *t)
{
    deadline_stop(&t->farewell);
    end_gone(t);
    for (size_t i = 0; i < t->issuers_n; i++)
        end_issuer(t->issuers[i]);
    cache_destroy(t->cache);
    digest_memo_destroy(t->digests);
    free(t->issuers);
    free(t);
}

enum op tokens_check(struct tokens *t, struct slice authorization, struct token_call *c)
{
    c->token = NULL;
    c->cached = false;
    c->tokens = NULL;
    c->pending = NULL;
    c->pending_n = 0;
    c->issuer = NULL;
    list_init(&c->link);
    struct pass p = {.tokens = t, .may_wait = true};
    if (run(&p, authorization, &c->cached) == OP_DONE) {
        settle(c, &p);
        return OP_DONE;
    }
    c->reason = REASON_UNSET;
    c->detail = NULL;
    c->tokens = t;
    c->pending = xmalloc(authorization.n);
    memcpy(c->pending, authorization.p, authorization.n);
    c->pending_n = authorization.n;
    c->issuer = p.issuer;
    list_add_last(&p.issuer->waiting, &c->link);
    return OP_PENDING;
}

void tokens_cancel(struct token_call *c)
{
    if (c->tokens) free((char *)take_pending(c).p);
}

void token_release(struct token *t)
{
    cache_release(&t->entry, kept_destroy);
}

void tokens_flush(struct tokens *t, uint64_t tag)
{
    cache_flush(t->cache, tag, loop_now_ms(t->loop));
    if (tag == 0) digest_memo_clear(t->digests);
}

uint64_t token_issuer_tag(struct slice issuer)
{
    return cache_tag(issuer.p, issuer.n, NULL, 0);
}

uint64_t token_subject_tag(struct slice issuer, struct slice subject)
{
    return cache_tag(issuer.p, issuer.n, subject.p, subject.n);
}

void token_name_key(struct slice issuer, struct slice name, uint8_t key[CACHE_KEY_BYTES])
{
    struct slice fields[] = {SLICE("context v1 name"), issuer, name};
    digest_fields(fields, 3, key);
}

size_t tokens_issuers(const struct tokens *t)
{
    return t->issuers_n;
}

void tokens_issuer_state(const struct tokens *t, size_t i, struct issuer_state *out)
{
    CHECK(i < t->issuers_n, "an issuer that is configured");
    const struct issuer *one = t->issuers[i];
    *out = (struct issuer_state){.issuer = one->config.issuer, .usable = true, .keys = 1};
    if (!one->jwks) return;
    out->usable = jwks_usable(one->jwks);
    out->keys = jwks_keys(one->jwks)->n;
    out->age_ms = jwks_age_ms(one->jwks);
    out->error = jwks_error(one->jwks);
}

void tokens_stats(const struct tokens *t, struct cache_stats *out)
{
    cache_stats(t->cache, out);
}
