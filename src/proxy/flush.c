/* proxy/flush: caches emptied by hand. Called by own, and by announce for what other instances flushed. Refuses a body
   that does not say exactly what to flush. Settings that only requests of before still use are flushed too. */
#include "proxy/flush.h"

#include <jansson.h>
#include <string.h>

#include "base/log.h"

static struct slice text_of(json_t *value)
{
    return slice_make(json_string_value(value), json_string_length(value));
}

static struct flush_scope scope_of(json_t *issuer, json_t *subject)
{
    struct flush_scope s = {.what = FLUSH_ALL};
    if (subject) {
        s.what = FLUSH_SUBJECT;
        s.tag = token_subject_tag(text_of(issuer), text_of(subject));
        identities_context(text_of(issuer), text_of(subject), s.context);
    } else if (issuer) {
        s.what = FLUSH_ISSUER;
        s.tag = token_issuer_tag(text_of(issuer));
    }
    return s;
}

struct slice flush_read(struct slice body, struct flush_scope *out)
{
    json_t *doc = json_loadb(body.p ? body.p : "", body.n, JSON_REJECT_DUPLICATES, NULL);
    json_t *all = json_object_get(doc, "all"), *issuer = json_object_get(doc, "issuer");
    json_t *subject = json_object_get(doc, "subject");
    size_t known = (size_t)(all != NULL) + (issuer != NULL) + (subject != NULL);
    struct slice wrong = SLICE("");
    if (!json_is_object(doc) || json_object_size(doc) != known || known == 0)
        wrong = SLICE("expected {\"all\":true}, {\"issuer\":text} or {\"issuer\":text,\"subject\":text}");
    else if (all && (!json_is_true(all) || known > 1))
        wrong = SLICE("\"all\" must be true and stand alone");
    else if (!all && !json_is_string(issuer))
        wrong = SLICE("\"issuer\" must be a text");
    else if (subject && !json_is_string(subject))
        wrong = SLICE("\"subject\" must be a text");
    else
        *out = scope_of(issuer, subject);
    json_decref(doc);
    return wrong;
}

void flush_apply(struct proxy *p, const struct flush_scope *s, bool told)
{
    static const struct slice names[2][3] = {
        {{"all", 3}, {"issuer", 6}, {"subject", 7}},
        {{"all, told by Redis", 18}, {"issuer, told by Redis", 21}, {"subject, told by Redis", 22}},
    };
    const uint8_t *context = s->what == FLUSH_SUBJECT ? s->context : NULL;
    struct identities *now = p->settings->identities;
    tokens_flush(p->tokens, s->tag);
    if (told)
        identities_flush_told(now, s->tag, context);
    else
        identities_flush(now, s->tag, context);
    for (struct list *n = p->all_settings.next; n != &p->all_settings; n = n->next) {
        struct settings *each = container_of(n, struct settings, link);
        if (each->identities != now) identities_flush_told(each->identities, s->tag, context);
        decisions_flush(each->decisions, s->tag);
    }
    log_event(LOG_INFO, "cache_flushed", names[told][s->what]);
}
