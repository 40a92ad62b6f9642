/* proxy/budget: called by request and relay. A budget that stands still keeps its place in the list of equal timeouts;
   what it gained is seen when that comes due. */
#include "proxy/budget.h"

static void on_due(struct deadline *d)
{
    struct budget *b = container_of(d, struct budget, deadline);
    int64_t now = loop_now_ms(b->loop);
    if (b->still) return; /* budget_go_on sets a new end */
    if (now < b->end_ms) {
        deadline_after(b->loop, d, b->end_ms - now);
        return;
    }
    b->on = false;
    b->on_spent(b);
}

void budget_start(struct budget *b, struct deadline_list *all, void (*on_spent)(struct budget *b))
{
    deadline_init(&b->deadline, on_due);
    b->loop = all->loop;
    b->on_spent = on_spent;
    b->end_ms = loop_now_ms(b->loop) + all->timeout_ms;
    b->on = true;
    b->still = false;
    deadline_start(all, &b->deadline);
}

void budget_hold(struct budget *b)
{
    if (!b->on || b->still) return;
    b->still = true;
    b->left_ms = b->end_ms - loop_now_ms(b->loop);
}

void budget_go_on(struct budget *b)
{
    if (!b->on || !b->still) return;
    b->still = false;
    b->end_ms = loop_now_ms(b->loop) + b->left_ms;
    if (!deadline_running(&b->deadline)) deadline_after(b->loop, &b->deadline, b->left_ms);
}

void budget_stop(struct budget *b)
{
    if (!b->on) return;
    b->on = false;
    deadline_stop(&b->deadline);
}
