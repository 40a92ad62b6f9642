/* conf/form: the forms that texts of the configuration must have. Pure. */
#ifndef CONF_FORM_H
#define CONF_FORM_H

#include "base/arena.h"
#include "base/slice.h"

/* NULL when the text has the form, else what is wrong and what was expected (static), to stand behind the quoted text.
   A form may put its normal spelling in *text (lower case, without a trailing slash), in the arena. *text is not empty. */
typedef const char *form(struct arena *a, struct slice *text);

form form_line;          /* no control characters, valid UTF-8 */
form form_prefix_name;   /* of metrics: letters, digits, _ */
form form_path_text;     /* a slash and bytes that may stand in a path */
form form_url;           /* http, https, unix */
form form_named_url;     /* with {name} in its path or query */
form form_base_url;      /* of an upstream: http or https, no query */
form form_grant_header;  /* a field name that may carry the grant; lower case */
form form_strip_header;  /* a field name that may be removed; lower case */
form form_header;        /* any field name; lower case */
form form_host;          /* host or host:port; lower case */
form form_block;         /* an address block */
form form_method;
form form_origin;        /* scheme://host[:port], or * */
form form_algorithm;
form form_query;         /* name or name|synonym... */
form form_route_path;    /* a normal path; without a trailing slash, "" for / */
form form_resource;      /* a name or $N */
form form_reference;     /* the name of an upstream */
form form_rule;          /* data.a.b */
form form_credential;    /* a field value without control characters */
form form_redis_url;
form form_private_key;   /* PEM */

/* "name" is one of the parts of "name|synonym". */
bool form_query_has(struct slice query, struct slice name);

#endif
