/* proxy/announce: called by own with a flush, by the watch of Redis with those of others. Refuses a message that is not
   exactly one of ours: who can write to Redis may make us forget, and nothing else. */
#include "proxy/announce.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "authz/digest.h"
#include "base/check.h"
#include "base/log.h"
#include "base/metric.h"

#define MESSAGE_MAX 512
#define READ_AGAIN_MS 500
#define READS_MAX 6 /* after that many that got no answer all is dropped */

struct announce {
    struct proxy *proxy;
    struct slice prefix;
    uint64_t self;      /* says which messages are our own */
    long long known;    /* number of the last flush that was told or read; -1 none */
    struct list out;    /* announcements that are not counted yet */
    struct redis_call *reading;
    struct deadline again;
    unsigned reads;
    bool warned;
};

struct announcement {
    struct list link;
    struct announce *owner;
    struct flush_scope scope;
    struct redis_call *counting;
    struct announce_call *waiter; /* or NULL: it has gone */
};

static void on_counted(enum redis_outcome o, struct slice value, void *arg);
static void on_read(enum redis_outcome o, struct slice value, void *arg);
static void on_again(struct deadline *d);

static void name_of(const struct announce *a, struct buf *out)
{
    buf_init(out, NULL);
    buf_add_slice(out, a->prefix);
    buf_add_lit(out, "flushes");
}

static void count(struct slice cause)
{
    metric_add(METRIC_CACHE_INVALIDATIONS, &cause, 1);
}

struct announce *announce_create(struct proxy *p, struct slice prefix)
{
    struct announce *a = xzalloc(sizeof *a);
    char id[DIGEST_UUID_BYTES];
    a->proxy = p;
    a->prefix = prefix;
    a->known = -1;
    digest_uuid(id);
    a->self = cache_tag(id, sizeof id, NULL, 0);
    list_init(&a->out);
    deadline_init(&a->again, on_again);
    return a;
}

static void end(struct announcement *n)
{
    list_remove(&n->link);
    free(n);
}

void announce_destroy(struct announce *a)
{
    if (!a) return;
    while (!list_empty(&a->out)) {
        struct announcement *n = container_of(a->out.next, struct announcement, link);
        CHECK(!n->waiter, "requests end before the parts do");
        redis_cancel(n->counting);
        end(n);
    }
    if (a->reading) redis_cancel(a->reading);
    deadline_stop(&a->again);
    free(a);
}

/* --- to others -------------------------------------------------------------------------------------------------- */

static void publish(struct announce *a, const struct flush_scope *s, long long number)
{
    char hex[DIGEST_HEX_BYTES];
    struct buf text;
    buf_init(&text, NULL);
    buf_printf(&text, "{\"v\":1,\"from\":\"%016" PRIx64 "\",\"n\":%lld", a->self, number);
    if (s->what == FLUSH_ALL) buf_add_lit(&text, ",\"all\":true");
    if (s->what == FLUSH_ISSUER) buf_printf(&text, ",\"issuer\":\"%016" PRIx64 "\"", s->tag);
    if (s->what == FLUSH_SUBJECT) {
        digest_hex(s->context, hex);
        buf_printf(&text, ",\"subject\":\"%016" PRIx64 "\",\"context\":\"%s\"", s->tag, hex);
    }
    buf_add_char(&text, '}');
    redis_publish(a->proxy->redis, buf_slice(&text));
    buf_free(&text);
}

/* Where it could not be counted it is not told either: what Redis is owed then (authz/generation) tells it later. */
static void on_counted(enum redis_outcome o, struct slice value, void *arg)
{
    struct announcement *n = arg;
    struct announce *a = n->owner;
    struct announce_call *waiter = n->waiter;
    struct redis_state state;
    long long number;
    bool counted = o == REDIS_FOUND && slice_to_int(value, &number);
    if (counted) publish(a, &n->scope, number);
    redis_state(a->proxy->redis, &state);
    end(n);
    if (!waiter) return;
    waiter->out = NULL;
    waiter->published = counted && state.connected;
    waiter->on_done(waiter);
}

enum op announce_flush(struct announce *a, const struct flush_scope *s, struct announce_call *c)
{
    c->published = false;
    c->out = NULL;
    if (!a) return OP_DONE;
    struct announcement *n = xzalloc(sizeof *n);
    struct buf name;
    n->owner = a;
    n->scope = *s;
    n->waiter = c;
    c->out = n;
    list_add_last(&a->out, &n->link);
    name_of(a, &name);
    n->counting = redis_increment(a->proxy->redis, buf_slice(&name), on_counted, n);
    buf_free(&name);
    return OP_PENDING;
}

void announce_cancel(struct announce_call *c)
{
    if (c->out) c->out->waiter = NULL;
    c->out = NULL;
}

/* --- from others ------------------------------------------------------------------------------------------------ */

static void drop_all(struct announce *a, struct slice cause)
{
    struct flush_scope all = {.what = FLUSH_ALL};
    count(cause);
    flush_apply(a->proxy, &all, true);
}

static void read_number(struct announce *a)
{
    struct buf name;
    if (a->reading) redis_cancel(a->reading);
    deadline_stop(&a->again);
    name_of(a, &name);
    a->reading = redis_get(a->proxy->redis, buf_slice(&name), on_read, a);
    buf_free(&name);
}

static void on_again(struct deadline *d)
{
    read_number(container_of(d, struct announce, again));
}

/* A number that is none is as good as another one. */
static void on_read(enum redis_outcome o, struct slice value, void *arg)
{
    struct announce *a = arg;
    long long number = 0;
    a->reading = NULL;
    if (o == REDIS_UNAVAILABLE) {
        if (++a->reads < READS_MAX)
            deadline_after(a->proxy->loop, &a->again, READ_AGAIN_MS);
        else
            drop_all(a, SLICE("missed"));
        return;
    }
    if (o == REDIS_FOUND && (!slice_to_int(value, &number) || number < 0)) number = -1;
    if (number >= 0 && number == a->known) return;
    a->known = number;
    drop_all(a, SLICE("missed"));
}

void announce_on_invalidated(struct slice key, void *arg)
{
    struct proxy *p = arg;
    if (!p->settings) return;
    count(key.n ? SLICE("key") : SLICE("doubt"));
    struct identities *now = p->settings->identities;
    identities_invalidated(now, key);
    for (struct list *n = p->all_settings.next; n != &p->all_settings; n = n->next) {
        struct settings *each = container_of(n, struct settings, link);
        if (each->identities != now) identities_invalidated(each->identities, key);
    }
    if (key.n || !p->announce) return;
    p->announce->reads = 0;
    read_number(p->announce);
}

/* Two tags and a digest are all that a message can bring. */
struct message {
    uint64_t from;
    long long number;
    struct flush_scope scope;
};

static bool read_hex(json_t *value, char *out, size_t digits)
{
    const char *text = json_string_value(value);
    if (!text || json_string_length(value) != digits || strspn(text, "0123456789abcdef") != digits) return false;
    memcpy(out, text, digits + 1);
    return true;
}

static bool read_tag(json_t *value, uint64_t *out)
{
    char hex[17];
    if (!read_hex(value, hex, 16)) return false;
    *out = strtoull(hex, NULL, 16);
    return *out != 0;
}

static bool read_digest(json_t *value, uint8_t out[CACHE_KEY_BYTES])
{
    char hex[DIGEST_HEX_BYTES];
    if (!read_hex(value, hex, DIGEST_HEX_BYTES - 1)) return false;
    for (size_t i = 0; i < CACHE_KEY_BYTES; i++) {
        char byte[3] = {hex[i * 2], hex[i * 2 + 1], '\0'};
        out[i] = (uint8_t)strtoul(byte, NULL, 16);
    }
    return true;
}

static bool read_scope(json_t *doc, struct flush_scope *out)
{
    json_t *issuer = json_object_get(doc, "issuer"), *subject = json_object_get(doc, "subject");
    size_t n = json_object_size(doc);
    if (subject) {
        out->what = FLUSH_SUBJECT;
        return n == 5 && read_tag(subject, &out->tag) && read_digest(json_object_get(doc, "context"), out->context);
    }
    out->what = issuer ? FLUSH_ISSUER : FLUSH_ALL;
    return n == 4 && (issuer ? read_tag(issuer, &out->tag) : json_is_true(json_object_get(doc, "all")));
}

static bool read_message(struct slice payload, struct message *out)
{
    *out = (struct message){.from = 0};
    if (payload.n > MESSAGE_MAX) return false;
    json_t *doc = json_loadb(payload.p ? payload.p : "", payload.n, JSON_REJECT_DUPLICATES, NULL);
    json_t *number = json_object_get(doc, "n");
    bool good = json_is_object(doc) && json_integer_value(json_object_get(doc, "v")) == 1 &&
                read_tag(json_object_get(doc, "from"), &out->from) && json_is_integer(number) &&
                json_integer_value(number) > 0 && read_scope(doc, &out->scope);
    out->number = json_integer_value(number);
    json_decref(doc);
    return good;
}

/* Numbers come in their order, but for two who flush at the same time: then more goes than had to. */
void announce_on_message(struct slice payload, void *arg)
{
    struct proxy *p = arg;
    struct announce *a = p->announce;
    struct message m;
    if (!a || !p->settings) return;
    if (!read_message(payload, &m)) {
        if (!a->warned) log_event(LOG_WARN, "flush_message_malformed", SLICE("on the channel of flushes in Redis"));
        a->warned = true;
        return;
    }
    bool missed = a->known < 0 || m.number > a->known + 1;
    if (missed || m.number == a->known + 1) a->known = m.number;
    if (missed) {
        drop_all(a, SLICE("missed"));
    } else if (m.from != a->self) {
        count(SLICE("flush"));
        flush_apply(p, &m.scope, true);
    }
}

void announce_on_raised(void *arg)
{
    struct proxy *p = arg;
    struct flush_scope all = {.what = FLUSH_ALL};
    count(SLICE("generation"));
    if (p->settings) flush_apply(p, &all, true);
}
