/* proxy/peer: whom a forwarding header is believed, and what is said of the client to the API. */
#include <arpa/inet.h>

#include "proxy/peer.h"
#include "requested.h"

static struct address address_of(const char *text)
{
    struct address a = {0};
    snprintf(a.text, sizeof a.text, "%s", text);
    a.family = strchr(text, ':') ? 6 : 4;
    CHECK(inet_pton(a.family == 4 ? AF_INET : AF_INET6, text, a.bytes) == 1, text);
    return a;
}

/* From that peer, with these trusted blocks. */
static void identify(struct requested *q, const char *peer, const char *const *blocks, const char *const *lines)
{
    requested_init(q, "GET", lines);
    for (; *blocks; blocks++)
        assert_null(net_block(slice_str(*blocks), &q->nets[q->conf.listen.trusted_n++]));
    q->conf.listen.trusted = q->nets;
    q->conn.peer = address_of(peer);
    q->conn.trusted = peer_is_trusted(&q->conf, &q->conn.peer);
    peer_identify(&q->r);
}

static const char *const proxies[] = {"10.0.0.0/8", "192.0.2.64/27", "2001:db8:1::/48", NULL};
static const char *const nobody[] = {NULL};

static void blocks(void **state)
{
    (void)state;
    static const struct {
        const char *address;
        bool trusted;
    } rows[] = {
        {"10.0.0.0", true},      {"10.255.255.255", true},    {"11.0.0.0", false},      {"9.255.255.255", false},
        {"192.0.2.64", true},    {"192.0.2.95", true},        {"192.0.2.63", false},    {"192.0.2.96", false},
        {"2001:db8:1::1", true}, {"2001:db8:1:ffff::", true}, {"2001:db8:2::1", false}, {"::ffff:10.0.0.1", false},
        {"a00::1", false},
    };
    struct requested q;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        identify(&q, rows[i].address, proxies, LINES("Host: a"));
        if (q.conn.trusted != rows[i].trusted) fail_msg("%s", rows[i].address);
        requested_finish(&q);
    }
    struct address unknown = {0};
    identify(&q, "10.0.0.1", proxies, LINES("Host: a"));
    assert_false(peer_is_trusted(&q.conf, &unknown));
    requested_finish(&q);
}

/* The nearest hop that is no trusted proxy; what stands further left is hearsay. */
static void client_address(void **state)
{
    (void)state;
    const struct {
        const char *peer, *client;
        const char *const *lines;
    } rows[] = {
        {"203.0.113.1", "203.0.113.1", LINES("X-Forwarded-For: 198.51.100.7")},
        {"10.0.0.1", "10.0.0.1", LINES("Host: a")},
        {"10.0.0.1", "198.51.100.7", LINES("X-Forwarded-For: 198.51.100.7")},
        {"10.0.0.1", "198.51.100.7", LINES("X-Forwarded-For: 1.2.3.4, 198.51.100.7")},
        {"10.0.0.1", "198.51.100.7", LINES("X-Forwarded-For: 1.2.3.4,198.51.100.7 , 10.9.9.9")},
        {"10.0.0.1", "10.1.1.1", LINES("X-Forwarded-For: 10.1.1.1, 10.2.2.2")},
        {"10.0.0.1", "198.51.100.7", LINES("X-Forwarded-For: 1.2.3.4", "X-Forwarded-For: 198.51.100.7, 10.2.2.2")},
        {"10.0.0.1", "198.51.100.7", LINES("X-Forwarded-For: 198.51.100.7:4711")},
        {"10.0.0.1", "2001:db8:9::1", LINES("X-Forwarded-For: 2001:db8:9::1")},
        {"10.0.0.1", "2001:db8:9::1", LINES("X-Forwarded-For: [2001:db8:9::1]:4711, [2001:db8:1::5]")},
        {"10.0.0.1", "10.2.2.2", LINES("X-Forwarded-For: unknown, 10.2.2.2")},
        {"10.0.0.1", "10.0.0.1", LINES("X-Forwarded-For: 1.2.3.4, not-an-address")},
        {"10.0.0.1", "10.0.0.1", LINES("X-Forwarded-For: 1.2.3.4, ")},
        {"10.0.0.1", "10.0.0.1", LINES("X-Forwarded-For: [::1")},
        {"10.0.0.1", "10.0.0.1", LINES("X-Forwarded-For:")},
        {"10.0.0.1", "10.0.0.1",
         LINES("X-Forwarded-For: 11111111111111111111111111111111111111111111111111111111111111111")},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct requested q;
        identify(&q, rows[i].peer, proxies, rows[i].lines);
        if (!slice_eq(q.r.client_ip, slice_str(rows[i].client)))
            fail_msg("row %zu: %.*s", i, (int)q.r.client_ip.n, q.r.client_ip.p);
        requested_finish(&q);
    }
}

static void request_ids(void **state)
{
    (void)state;
    char longest[140] = "X-Request-Id: ", too_long[160] = "X-Request-Id: ";
    memset(longest + 14, 'i', 110);
    memset(too_long + 14, 'i', 129);
    const struct {
        const char *peer, *line;
        bool kept;
    } rows[] = {
        {"10.0.0.1", "X-Request-Id: abc.DEF-1_2", true},
        {"10.0.0.1", longest, true},
        {"10.0.0.1", too_long, false},
        {"10.0.0.1", "X-Request-Id:", false},
        {"10.0.0.1", "X-Request-Id: a b", false},
        {"10.0.0.1", "X-Request-Id: a\"b", false},
        {"10.0.0.1", "X-Request-Id: \xc3\xa9", false},
        {"203.0.113.1", "X-Request-Id: abc", false},
        {"10.0.0.1", "X_Request_Id: abc", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct requested q;
        identify(&q, rows[i].peer, proxies, LINES(rows[i].line));
        struct slice sent = slice_trim(slice_str(strchr(rows[i].line, ':') + 1));
        if (slice_eq(q.r.id, sent) != rows[i].kept) fail_msg("row %zu: %.*s", i, (int)q.r.id.n, q.r.id.p);
        if (!rows[i].kept) assert_int_equal(q.r.id.n, 32);
        if (!q.v[0].drop) fail_msg("row %zu passes", i);
        requested_finish(&q);
    }
}

/* Each one is another. */
static void fresh_ids_differ(void **state)
{
    (void)state;
    char seen[1000][32];
    for (size_t i = 0; i < 1000; i++) {
        struct requested q;
        identify(&q, "203.0.113.1", nobody, LINES("Host: a"));
        memcpy(seen[i], q.r.id.p, 32);
        for (size_t k = 0; k < 32; k++) assert_non_null(strchr("0123456789abcdef", q.r.id.p[k]));
        for (size_t k = 0; k < i; k++)
            assert_memory_not_equal(seen[i], seen[k], 32);
        requested_finish(&q);
    }
}

static const char *sent(struct requested *q)
{
    peer_headers(&q->r, &q->out);
    buf_add_char(&q->out, '\0');
    return q->out.p + strlen("X-Request-Id: ") + q->r.id.n + 2;
}

/* One of each, whatever came. */
static void what_the_api_is_told(void **state)
{
    (void)state;
    struct requested q;
    identify(&q, "203.0.113.1", proxies,
             LINES("X-Forwarded-For: 1.2.3.4", "X-Forwarded-Proto: https", "X-Forwarded-Host: evil",
                   "Forwarded: for=1.2.3.4", "X-Forwarded-Port: 1", "X-Real-IP: 1.2.3.4", "X-Forwarded-Prefix: /x",
                   "x_forwarded_for: 1.2.3.4", "X_Real_IP: 1.2.3.4", "X-Forwarded-User: root", "Cookie: a"));
    assert_string_equal(sent(&q), "X-Forwarded-For: 203.0.113.1\r\nX-Forwarded-Proto: http\r\n"
                                  "X-Forwarded-Host: front.test\r\n");
    for (size_t i = 0; i + 1 < q.head.n; i++)
        if (!q.v[i].drop) fail_msg("%.*s passes", (int)q.v[i].name.n, q.v[i].name.p);
    assert_false(q.v[q.head.n - 1].drop);
    requested_finish(&q);

    identify(&q, "10.0.0.1", proxies,
             LINES("X-Forwarded-For: 1.2.3.4", "X-Forwarded-For: 10.3.3.3", "X-Forwarded-Proto: https",
                   "X-Forwarded-Host: public.test", "Forwarded: for=1.2.3.4", "X-Forwarded-Prefix: /x"));
    assert_string_equal(sent(&q), "X-Forwarded-For: 1.2.3.4, 10.3.3.3, 10.0.0.1\r\nX-Forwarded-Proto: https\r\n"
                                  "X-Forwarded-Host: public.test\r\n");
    assert_true(q.v[0].drop && q.v[1].drop && q.v[2].drop && q.v[3].drop);
    assert_false(q.v[4].drop || q.v[5].drop);
    requested_finish(&q);

    /* two of what there may be one of: ours */
    identify(&q, "10.0.0.1", proxies, LINES("X-Forwarded-Proto: https", "X-Forwarded-Proto: http"));
    q.r.host = SLICE("");
    assert_string_equal(sent(&q), "X-Forwarded-For: 10.0.0.1\r\nX-Forwarded-Proto: http\r\n");
    requested_finish(&q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks),           cmocka_unit_test(client_address),       cmocka_unit_test(request_ids),
        cmocka_unit_test(fresh_ids_differ), cmocka_unit_test(what_the_api_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
