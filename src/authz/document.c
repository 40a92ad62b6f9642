/* authz/document: the strict reading that profiles, Redis values and the policy engine's answers share. Called by
   context and answer. Refuses duplicate names: two readers could take different ones. */
#include "authz/document.h"

#include <jansson.h>

#include "base/check.h"

struct json_t *document_object(struct slice text)
{
    json_error_t error;
    json_t *value = json_loadb(text.p ? text.p : "", text.n, JSON_REJECT_DUPLICATES, &error);
    if (json_is_object(value)) return value;
    json_decref(value);
    return NULL;
}

/* jansson leaves DEL as it is; a header value may not have it (RFC 9110 5.5). */
static int on_bytes(const char *p, size_t n, void *arg)
{
    struct buf *out = arg;
    for (size_t i = 0; i < n; i++) {
        if (p[i] == 0x7f)
            buf_add_lit(out, "\\u007f");
        else
            buf_add_char(out, p[i]);
    }
    return 0;
}

void document_write(const struct json_t *value, struct buf *out)
{
    int failed = json_dump_callback(value, on_bytes, out, JSON_ENSURE_ASCII | JSON_COMPACT | JSON_ENCODE_ANY);
    CHECK(!failed, "what jansson read it can write");
}
