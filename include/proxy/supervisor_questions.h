/* proxy/supervisor_questions: what one worker asks of all, or the supervisor itself. */
#ifndef PROXY_SUPERVISOR_QUESTIONS_H
#define PROXY_SUPERVISOR_QUESTIONS_H

#include "proxy/supervisor_parts.h"

void questions_ask(struct supervisor *s, struct seat *asker, const struct team_message *m);
void questions_answer(struct supervisor *s, struct seat *from, const struct team_message *m, int attached);
void questions_gone(struct supervisor *s, struct seat *seat); /* its worker has died: nobody waits for it, nor it for others */
void questions_due(struct supervisor *s, int64_t now_ms);
int64_t questions_next_ms(const struct supervisor *s);

#endif
