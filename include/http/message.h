/* http/message: the head of a request or response: its header list, what frames its body, and the removal of what
   belongs to one connection only. RFC 9110, RFC 9112. What two readers could frame differently is refused. */
#ifndef HTTP_MESSAGE_H
#define HTTP_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/reason.h"
#include "base/slice.h"

enum header_id {
    HEADER_OTHER,
#define HEADER(id, name, hop) HEADER_##id,
#include "http/headers.def"
#undef HEADER
    HEADER_COUNT
};

struct header {
    struct slice name; /* as sent */
    struct slice value; /* without surrounding white space */
    enum header_id id;
    bool drop; /* not passed on */
};

enum body_kind { BODY_NONE, BODY_LENGTH, BODY_CHUNKED, BODY_UNTIL_CLOSE };

struct head {
    struct slice method, target; /* requests */
    int status;                  /* responses */
    struct slice phrase;
    int version_major, version_minor;
    struct header *v;
    size_t n, cap;
    enum body_kind body;
    uint64_t length;    /* BODY_LENGTH */
    bool keep_alive;    /* the sender lets the connection live on */
    bool expect_continue;
};

enum head_scan { HEAD_PARTIAL, HEAD_WHOLE, HEAD_BAD };

/* Looks for the empty line that ends a head. bytes: all of it so far; *from: where to go on looking (0 at first, kept
   by the caller); *end: the head's length when WHOLE. BAD: a bare LF, a folded line, or bytes that cannot begin a
   message (RFC 9112 2.2, 5.2). */
enum head_scan head_scan(struct slice bytes, size_t *from, size_t *end);

/* Which known header a name is, in any case. */
enum header_id header_identify(struct slice name);

/* The first one of that id, dropped or not, or NULL. *count (may be NULL): how many there are. */
struct header *head_find(const struct head *h, enum header_id id, size_t *count);

/* Does a header of that id name the word among its comma-separated items, in any case? */
bool head_lists(const struct head *h, enum header_id id, struct slice word);

/* Framing, version, Host: fills body, length, keep_alive, expect_continue. FORWARDED when good. */
enum reason head_check_request(struct head *h);
/* to_head: the answer to a HEAD. UPSTREAM_MALFORMED when not good. Whether a 101 was asked for is the caller's to say. */
enum reason head_check_response(struct head *h, bool to_head);

/* Marks hop-by-hop headers and those that Connection names as dropped (RFC 9110 7.6.1). HEADER_INVALID when
   Connection names Host, Content-Length, Transfer-Encoding or Authorization. */
enum reason head_drop_hop(struct head *h);

/* Names that nobody but us may send: matched in any case, with '_' and '.' read as '-'. */
struct name_set;
struct name_set *name_set_create(const struct slice *names, size_t n);
void name_set_destroy(struct name_set *s);
bool name_set_has(const struct name_set *s, struct slice name);
void head_drop_named(struct head *h, const struct name_set *s);

/* Does the name begin with that text, in any case and with '_' and '.' read as '-'? text: lower case, '-'. */
bool header_name_begins(struct slice name, struct slice text);

/* Walks a comma-separated header value: true and the next trimmed, non-empty item. */
bool header_item(struct slice *rest, struct slice *item);

#endif
