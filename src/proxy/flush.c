/* proxy/flush: caches emptied by hand. Called by own. Refuses a body that does not say exactly what to flush. */
#include "proxy/flush.h"

#include <jansson.h>

#include "base/log.h"

static void flush_all(struct proxy *p)
{
    tokens_flush(p->tokens, 0);
    identities_flush_all(p->settings->identities);
    decisions_flush(p->settings->decisions, 0);
    log_event(LOG_INFO, "cache_flushed", SLICE("all"));
}

static struct slice text_of(json_t *value)
{
    return slice_make(json_string_value(value), json_string_length(value));
}

static void flush_some(struct proxy *p, json_t *issuer, json_t *subject)
{
    struct slice iss = text_of(issuer);
    uint64_t tag = subject ? token_subject_tag(iss, text_of(subject)) : token_issuer_tag(iss);
    tokens_flush(p->tokens, tag);
    if (subject)
        identities_flush_subject(p->settings->identities, iss, text_of(subject));
    else
        identities_flush_issuer(p->settings->identities, iss);
    decisions_flush(p->settings->decisions, tag);
    log_event(LOG_INFO, "cache_flushed", subject ? SLICE("subject") : SLICE("issuer"));
}

struct slice flush_caches(struct proxy *p, struct slice body)
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
    else if (all)
        flush_all(p);
    else
        flush_some(p, issuer, subject);
    json_decref(doc);
    return wrong;
}
