/* io/work: work for libuv's threads. Called by authz/rego_threads. Waits for nothing: it is the loop that ends last. */
#include "io/work.h"

#include "base/check.h"

static void on_thread(uv_work_t *req)
{
    struct work *w = container_of(req, struct work, req);
    w->run(w->arg);
}

static void on_back(uv_work_t *req, int status)
{
    struct work *w = container_of(req, struct work, req);
    loop_count_work(w->loop, -1);
    w->on_done(status == 0, w->arg);
}

void work_start(struct loop *l, struct work *w, void (*run)(void *arg), void (*on_done)(bool ran, void *arg), void *arg)
{
    *w = (struct work){.loop = l, .run = run, .on_done = on_done, .arg = arg};
    CHECK(uv_queue_work(loop_uv(l), &w->req, on_thread, on_back) == 0, "there is work to be done");
    loop_count_work(l, 1);
}

void work_cancel(struct work *w)
{
    uv_cancel((uv_req_t *)&w->req); /* an error says that a thread has it */
}
