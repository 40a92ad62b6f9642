/* base/json: a streaming JSON writer into a buf. It writes, never reads (jansson reads). Output is pure ASCII:
   other characters are written as \uXXXX (surrogate pairs beyond the BMP), bytes that are not valid UTF-8 as
   \ufffd, so that any bytes give one valid JSON text on one line. No name here is one of jansson's (json_object,
   json_array, json_string, json_null …): files use both, and libjwt calls jansson through the same symbol table. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/slice.h"

struct json {
    struct buf *out;
    bool comma; /* the next value or key needs a comma before it */
};

void json_init(struct json *j, struct buf *out);
void json_object_start(struct json *j); /* { */
void json_object_end(struct json *j);   /* } */
void json_array_start(struct json *j);  /* [ */
void json_array_end(struct json *j);    /* ] */
void json_key(struct json *j, struct slice key);
void json_text(struct json *j, struct slice text); /* a string */
/* A string that needs no escape: a name of ours, not what came from outside. */
void json_plain(struct json *j, struct slice text);
void json_int(struct json *j, long long value);
void json_double(struct json *j, double value); /* NaN and infinities as null */
void json_thousandths(struct json *j, uint64_t value); /* as buf_add_thousandths writes it */
void json_bool(struct json *j, bool value);
void json_nil(struct json *j); /* null */
/* A value that is JSON text already; copied as it is, the caller vouches for it. */
void json_raw(struct json *j, struct slice text);

/* A key that is a literal of plain characters: it comes with its quotes and colon, in one copy. */
static inline void json_plain_key(struct json *j, struct slice quoted)
{
    if (j->comma) buf_add_char(j->out, ',');
    buf_add_slice(j->out, quoted);
    j->comma = false;
}
#define json_field(j, key) json_plain_key((j), SLICE("\"" key "\":"))

/* Key and value in one; the key is such a literal. */
#define json_field_string(j, key, text) (json_field((j), key), json_text((j), (text)))
#define json_field_plain(j, key, text) (json_field((j), key), json_plain((j), (text)))
#define json_field_int(j, key, value) (json_field((j), key), json_int((j), (value)))
#define json_field_bool(j, key, value) (json_field((j), key), json_bool((j), (value)))
#define json_field_raw(j, key, text) (json_field((j), key), json_raw((j), (text)))

#endif
