/* authz/digest_memo: a table with one place for each text. Called by token. Refuses long texts: with all places taken
   it holds 256 KiB. */
#include "authz/digest_memo.h"

#include <openssl/crypto.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/word.h"

#define PLACES 64
#define TEXT_MAX 4096
#define STEP 512 /* room is taken in multiples of it, so that texts of about the same length need no new one */

struct place {
    char *text; /* heap, NULL: none was here yet */
    size_t n;   /* 0: free */
    size_t cap;
    uint8_t digest[DIGEST_BYTES];
};

struct digest_memo {
    struct place places[PLACES];
};

/* By the end: of a token that is a piece of its signature, which no two have in common. */
static size_t index_of(struct slice text)
{
    uint64_t h = (word_last(text.p, 0, text.n) ^ text.n) * 0x9e3779b97f4a7c15ULL;
    return (size_t)(h >> 32) % PLACES;
}

/* All of it, always: how long it takes must not tell how much of a credential was guessed. */
static bool is_same(const char *a, const char *b, size_t n)
{
    uint64_t differs = 0;
    size_t i = 0;
    for (; i + sizeof(uint64_t) <= n; i += sizeof(uint64_t)) differs |= word_at(a + i) ^ word_at(b + i);
    if (i < n) differs |= word_last(a, i, n) ^ word_last(b, i, n);
    return differs == 0;
}

static void empty(struct place *p)
{
    if (p->n) OPENSSL_cleanse(p->text, p->n);
    p->n = 0;
}

struct digest_memo *digest_memo_create(void)
{
    return xzalloc(sizeof(struct digest_memo));
}

void digest_memo_destroy(struct digest_memo *m)
{
    digest_memo_clear(m);
    free(m);
}

bool digest_memo_find(const struct digest_memo *m, struct slice text, uint8_t out[DIGEST_BYTES])
{
    if (text.n == 0 || text.n > TEXT_MAX) return false;
    const struct place *p = &m->places[index_of(text)];
    if (p->n != text.n || !is_same(p->text, text.p, text.n)) return false;
    memcpy(out, p->digest, DIGEST_BYTES);
    return true;
}

void digest_memo_keep(struct digest_memo *m, struct slice text, const uint8_t digest[DIGEST_BYTES])
{
    if (text.n == 0 || text.n > TEXT_MAX) return;
    struct place *p = &m->places[index_of(text)];
    empty(p);
    if (p->cap < text.n) {
        free(p->text);
        p->cap = (text.n + STEP - 1) / STEP * STEP;
        p->text = xmalloc(p->cap);
    }
    memcpy(p->text, text.p, text.n);
    memcpy(p->digest, digest, DIGEST_BYTES);
    p->n = text.n;
}

void digest_memo_forget(struct digest_memo *m, struct slice text)
{
    uint8_t digest[DIGEST_BYTES];
    if (digest_memo_find(m, text, digest)) empty(&m->places[index_of(text)]);
}

void digest_memo_clear(struct digest_memo *m)
{
    for (size_t i = 0; i < PLACES; i++) {
        empty(&m->places[i]);
        free(m->places[i].text);
        m->places[i] = (struct place){0};
    }
}
