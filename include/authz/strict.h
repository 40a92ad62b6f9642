/* authz/strict: strict reading of JSON that anybody may have sent (token parts, key sets): one object, no name twice,
   no NUL in any text, valid UTF-8, nesting bounded before the parser recurses, and a word on what was wrong. RFC 8259,
   RFC 7519 4 (duplicate claims). */
#ifndef AUTHZ_STRICT_H
#define AUTHZ_STRICT_H

#include "base/slice.h"

#define STRICT_MAX_DEPTH 32

struct json_t; /* jansson's; its header stays in the files that read documents */

enum strict_problem {
    STRICT_INVALID,   /* not JSON, or a number out of range */
    STRICT_DUPLICATE, /* a name twice in one object */
    STRICT_TOO_DEEP,
    STRICT_NO_OBJECT,
};

/* The object, owned by the caller (json_decref), or NULL with *problem set. */
struct json_t *strict_object(struct slice text, enum strict_problem *problem);

/* The text under key, valid as long as the object; p is NULL when it is absent or no string. */
struct slice strict_text(const struct json_t *object, const char *key);

#endif
