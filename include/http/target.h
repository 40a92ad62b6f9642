/* http/target: splits, decodes and normalises the request target, and refuses what two readers could read differently.
   RFC 3986, RFC 9112 3.2. What it returns is judged AND sent, byte for byte. */
#ifndef HTTP_TARGET_H
#define HTTP_TARGET_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/reason.h"
#include "base/slice.h"

struct target_param {
    struct slice name;   /* decoded: + is a space */
    struct slice value;
    bool undecodable;    /* an invalid escape or invalid UTF-8 in name or value; then raw bytes are given */
};

struct target {
    struct slice authority;  /* of an absolute form, else empty */
    bool asterisk;           /* "*" */
    struct slice path;       /* normalised: escapes of unreserved characters decoded, hex digits of others upper case */
    struct slice query;      /* as it came, without '?' */
    bool has_query;          /* a '?' was there */
    struct slice *segments;  /* decoded, without a trailing empty one; in the arena */
    size_t segments_n;
    struct target_param *params; /* filled by target_params */
    size_t params_n;
    /* what only a route's path_policy may let through: */
    bool encoded_slash;      /* %2F or %5C in the path (kept encoded in path) */
    bool path_parameter;     /* a ';' or %3B in the path */
};

/* raw: the request target as sent. REASON_FORWARDED when good; TARGET_INVALID (bytes, escapes, form, fragment),
   PATH_AMBIGUOUS (dot segments, plain or encoded; encoded NUL; empty segments; invalid UTF-8 once decoded). A backslash,
   a raw byte outside RFC 3986's set: TARGET_INVALID. Slashes and ';' are flagged, and refused by the caller unless the
   route keeps them. The common clean path costs one pass and no copy. */
enum reason target_parse(struct slice raw, struct arena *a, struct target *t);

/* Splits and decodes the query into params (at most 256; more: QUERY_AMBIGUOUS). */
enum reason target_params(struct target *t, struct arena *a);

#endif
