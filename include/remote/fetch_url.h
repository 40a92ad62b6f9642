/* remote/fetch_url: the forms of URL that remote/fetch takes; fetch_url_check stands in remote/fetch.h. */
#ifndef REMOTE_FETCH_URL_H
#define REMOTE_FETCH_URL_H

#include <stdbool.h>

#include "base/slice.h"

bool fetch_url_is_http(struct slice url); /* http:// or https:// */
bool fetch_url_is_unix(struct slice url); /* unix:/ */
/* unix:/path/to.sock:/target, cut in two; without a target it is "/". */
void fetch_url_split_unix(struct slice url, struct slice *path, struct slice *target);

#endif
