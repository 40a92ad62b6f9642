/* http/parser: bytes to heads and bodies, the one door to llhttp. A head is given whole (http/message finds its end),
   so its slices point into the caller's bytes; a body is given as it comes. */
#ifndef HTTP_PARSER_H
#define HTTP_PARSER_H

#include <stdalign.h>
#include <stdbool.h>

#include "base/arena.h"
#include "base/reason.h"
#include "http/message.h"

enum parser_kind { PARSER_REQUEST, PARSER_RESPONSE };

struct parser {
    alignas(8) unsigned char llhttp[128];
    enum parser_kind kind;
    void (*on_body)(struct parser *p, struct slice data); /* inside parser_body; data is the caller's */
    struct arena *arena;
    struct head head;
    struct head trailers;   /* of a chunked body, once complete */
    size_t max_headers;
    char *trailer_text;     /* the trailers' bytes, in the arena */
    size_t trailer_bytes;
    size_t overhead;        /* chunk framing read since the last byte of a body */
    const char *framing;    /* inside parser_body: chunk framing that was not looked at begins here */
    char framing_last;      /* the byte of it before that; NUL behind bytes of the body */
    enum reason reason;     /* why it failed */
    bool to_head;           /* a response to HEAD */
    bool in_head;
    bool head_done;
    bool complete;
};

void parser_init(struct parser *p, enum parser_kind kind, void (*on_body)(struct parser *p, struct slice data));

/* Starts a message and parses its whole head. bytes must live as long as the head is used; lists are made in arena.
   FORWARDED when the head is good and its framing clear; else the reason to refuse it for. complete is set at once
   where there is no body. to_head: for a response, the request was HEAD. */
enum reason parser_head(struct parser *p, struct slice bytes, struct arena *arena, size_t max_headers, bool to_head);

/* Takes body bytes up to the end of the message: how many were used, or -1 when the framing is broken (p->reason). */
long parser_body(struct parser *p, struct slice data);

/* The peer closed: true when that ends the message in order (BODY_UNTIL_CLOSE), which is complete then. */
bool parser_end(struct parser *p);

const char *parser_version(void); /* llhttp's version */

#endif
