/* proxy/reply: answers of our own. The only place that turns a reason into a status. */
#ifndef PROXY_REPLY_H
#define PROXY_REPLY_H

#include "proxy/request.h"

/* An answer that is no refusal (reason ANSWERED), sent at once; goes on to finish. HEAD gets the head only; status 204
   has no body. */
enum step_result reply_body(struct request *r, int status, struct slice content_type, struct slice body);

#endif
