/* Messages as a strict client or API reads them: whole, framed by their own length, by chunks, or by the end of the
   stream. See flow/flow.h. A reader of its own, so that the proxy's parser is not judged by itself. */
#include <stdio.h>
#include <strings.h>

#include "flow/flow.h"

static void consume(struct memory *m, size_t n)
{
    m->got.n -= n;
    memmove(m->got.p, m->got.p + n, m->got.n);
}

static const char *text_of(const char *p, size_t n)
{
    return arena_copy(&flow.arena, slice_make(p, n)).p;
}

bool flow_has_message(const struct memory *m)
{
    return m->got.n > 0;
}

const char *flow_header(const struct message *m, const char *name)
{
    size_t n = strlen(name);
    for (const char *line = strstr(m->head, "\r\n"); line && line[2]; line = strstr(line + 2, "\r\n")) {
        const char *at = line + 2;
        if (strncasecmp(at, name, n) != 0 || at[n] != ':') continue;
        at += n + 1;
        while (*at == ' ')
            at++;
        return text_of(at, strcspn(at, "\r"));
    }
    return NULL;
}

size_t flow_header_count(const struct message *m, const char *name)
{
    size_t n = strlen(name), count = 0;
    for (const char *line = strstr(m->head, "\r\n"); line && line[2]; line = strstr(line + 2, "\r\n"))
        count += strncasecmp(line + 2, name, n) == 0 && line[2 + n] == ':';
    return count;
}

/* Chunks up to the last one; the number of bytes they took. */
static size_t read_chunks(const struct memory *m, size_t from, struct message *out)
{
    struct buf body;
    buf_init(&body, &flow.arena);
    for (size_t at = from;;) {
        const char *line = memmem(m->got.p + at, m->got.n - at, "\r\n", 2);
        if (!line) fail_msg("a chunked body is not whole: %.*s", (int)m->got.n, m->got.p);
        size_t size = strtoul(m->got.p + at, NULL, 16);
        at = (size_t)(line - m->got.p) + 2;
        if (size == 0) {
            const char *end = m->got.p + at;
            size_t left = m->got.n - at;
            const char *stop = left >= 2 && memcmp(end, "\r\n", 2) == 0 ? end - 2 : memmem(end, left, "\r\n\r\n", 4);
            if (!stop) fail_msg("trailers without an end");
            size_t trailers = stop < end ? 0 : (size_t)(stop - end) + 2;
            out->trailers = text_of(end, trailers);
            out->body = text_of(body.p, body.n);
            out->body_n = body.n;
            return at + trailers + 2 - from;
        }
        if (m->got.n - at < size + 2 || memcmp(m->got.p + at + size, "\r\n", 2) != 0) fail_msg("a chunk is not whole");
        buf_add(&body, m->got.p + at, size);
        at += size + 2;
    }
}

static struct message take(struct memory *m, bool to_head)
{
    struct message out = {.body = "", .trailers = ""};
    const char *end = m->got.n ? memmem(m->got.p, m->got.n, "\r\n\r\n", 4) : NULL;
    if (!end) fail_msg("no whole head in %zu bytes: %.*s", m->got.n, (int)m->got.n, m->got.p);
    size_t head = (size_t)(end - m->got.p) + 4, body = 0;
    out.head = text_of(m->got.p, head - 2);
    out.first = text_of(out.head, strcspn(out.head, "\r"));
    bool answer = sscanf(out.first, "HTTP/1.1 %d ", &out.status) == 1;
    const char *length = flow_header(&out, "Content-Length"), *coding = flow_header(&out, "Transfer-Encoding");
    bool bodiless = to_head || (answer && (out.status < 200 || out.status == 204 || out.status == 304));
    assert_false(length && coding);
    if (bodiless) {
        consume(m, head);
        return out;
    }
    if (coding) {
        assert_string_equal(coding, "chunked");
        body = read_chunks(m, head, &out);
    } else {
        body = length ? strtoul(length, NULL, 10) : answer ? m->got.n - head : 0;
        if (answer && !length) assert_true(m->shut || m->closed);
        if (m->got.n - head < body) fail_msg("%zu of %zu body bytes", m->got.n - head, body);
        out.body = text_of(m->got.p + head, body);
        out.body_n = body;
    }
    consume(m, head + body);
    return out;
}

struct message flow_take(struct memory *m)
{
    return take(m, false);
}

struct message flow_take_head_answer(struct memory *m)
{
    return take(m, true);
}

void flow_expect(struct memory *client, int status, const char *body)
{
    struct message m = flow_take(client);
    if (m.status != status) fail_msg("%s, not %d: %s", m.first, status, m.body);
    if (body) assert_string_equal(m.body, body);
}

void flow_expect_reason(struct memory *client, enum reason reason)
{
    struct message m = flow_take(client);
    const char *code = flow_printf("\"code\":\"%s\"", reason_code(reason));
    if (m.status != reason_status(reason) || !strstr(m.body, code)) fail_msg("%s, not %s: %s", m.first, code, m.body);
    assert_non_null(flow_header(&m, "Date"));
    assert_non_null(flow_header(&m, "X-Request-Id"));
    assert_non_null(strstr(m.body, flow_printf("\"request_id\":\"%s\"", flow_header(&m, "X-Request-Id"))));
    assert_string_equal(flow_header(&m, "Content-Type"), "application/json; charset=utf-8");
    assert_int_equal(flow_header(&m, "Retry-After") != NULL, m.status == 503);
    assert_int_equal(flow_header(&m, "WWW-Authenticate") != NULL, m.status == 401);
}
