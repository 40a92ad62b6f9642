/* What options are refused for: each input with its exact messages. */
#include "refusal.h"

#define ISSUER "issuer: https://i.example, jwks_url: https://i.example/keys, audiences: [a]"

/* A public route stands behind each of these. */
static const struct refusal with_route[] = {
    /* whole numbers: one row, all ways to be wrong */
    {"policy: { timeout_ms: abc }", "c.yaml:1: policy.timeout_ms: \"abc\" given, expected a whole number from 10 to 600000\n"},
    {"policy: { timeout_ms: 9 }", "c.yaml:1: policy.timeout_ms: \"9\" given, expected a whole number from 10 to 600000\n"},
    {"policy: { timeout_ms: 600001 }",
     "c.yaml:1: policy.timeout_ms: \"600001\" given, expected a whole number from 10 to 600000\n"},
    {"policy: { timeout_ms: -5 }", "c.yaml:1: policy.timeout_ms: \"-5\" given, expected a whole number from 10 to 600000\n"},
    {"policy: { timeout_ms: +50 }", "c.yaml:1: policy.timeout_ms: \"+50\" given, expected a whole number from 10 to 600000\n"},
    {"policy: { timeout_ms: 2s }", "c.yaml:1: policy.timeout_ms: \"2s\" given, expected a whole number from 10 to 600000\n"},
    {"policy: { timeout_ms: 2000.0 }",
     "c.yaml:1: policy.timeout_ms: \"2000.0\" given, expected a whole number from 10 to 600000\n"},
    {"policy: { timeout_ms: 0x7d0 }",
     "c.yaml:1: policy.timeout_ms: \"0x7d0\" given, expected a whole number from 10 to 600000\n"},
    {"policy: { timeout_ms: 02000 }",
     "c.yaml:1: policy.timeout_ms: \"02000\" given, expected a whole number from 10 to 600000\n"},
    {"policy: { timeout_ms: 1e3 }", "c.yaml:1: policy.timeout_ms: \"1e3\" given, expected a whole number from 10 to 600000\n"},
    {"policy: { timeout_ms: 99999999999999999999 }",
     "c.yaml:1: policy.timeout_ms: \"99999999999999999999\" given, expected a whole number from 10 to 600000\n"},
    {"policy: { timeout_ms: \"2000\" }",
     "c.yaml:1: policy.timeout_ms: the text \"2000\" given, expected a whole number from 10 to 600000\n"},
    {"policy: { timeout_ms: \"\" }",
     "c.yaml:1: policy.timeout_ms: the text \"\" given, expected a whole number from 10 to 600000\n"},
    {"policy: { timeout_ms: [2000] }",
     "c.yaml:1: policy.timeout_ms: a list given, expected a whole number from 10 to 600000\n"},
    {"policy: { timeout_ms: {a: 1} }",
     "c.yaml:1: policy.timeout_ms: a map given, expected a whole number from 10 to 600000\n"},
    {"policy: { timeout_ms: true }",
     "c.yaml:1: policy.timeout_ms: \"true\" given, expected a whole number from 10 to 600000\n"},
    /* numbers, bools, choices */
    {"decisions: { jitter: 1.1 }", "c.yaml:1: decisions.jitter: \"1.1\" given, expected a number from 0 to 1\n"},
    {"decisions: { jitter: -0.1 }", "c.yaml:1: decisions.jitter: \"-0.1\" given, expected a number from 0 to 1\n"},
    {"decisions: { jitter: 0,1 }", "c.yaml:1: decisions.1: unknown key, expected one of ttl_s, deny_ttl_s, "
                                   "stale_s, revision_grace_s, max_entries, max_bytes, jitter\n"},
    {"decisions: { jitter: .5 }", "c.yaml:1: decisions.jitter: \".5\" given, expected a number from 0 to 1\n"},
    {"decisions: { jitter: 0.1.1 }", "c.yaml:1: decisions.jitter: \"0.1.1\" given, expected a number from 0 to 1\n"},
    {"decisions: { jitter: nan }", "c.yaml:1: decisions.jitter: \"nan\" given, expected a number from 0 to 1\n"},
    {"log: { access: yes }", "c.yaml:1: log.access: \"yes\" given, expected true or false\n"},
    {"log: { access: True }", "c.yaml:1: log.access: \"True\" given, expected true or false\n"},
    {"log: { access: 1 }", "c.yaml:1: log.access: \"1\" given, expected true or false\n"},
    {"log: { access: 'true' }", "c.yaml:1: log.access: the text \"true\" given, expected true or false\n"},
    {"log: { level: trace }", "c.yaml:1: log.level: \"trace\" given, expected debug, info, warn, error or off\n"},
    {"log: { level: [info] }", "c.yaml:1: log.level: a list given, expected debug, info, warn, error or off\n"},
    {"tokens: { anonymous: allow }", "c.yaml:1: tokens.anonymous: \"allow\" given, expected refuse or judge\n"},
    {"tokens: { verify: none }", "c.yaml:1: tokens.verify: \"none\" given, expected keys or upstream\n"},
    {"policy: { on_error: Allow }", "c.yaml:1: policy.on_error: \"Allow\" given, expected deny or allow\n"},
    {"grant: { format: jwt }", "c.yaml:1: grant.format: \"jwt\" given, expected json, base64url or jws\n"},
    {"upstream: { host: keep }", "c.yaml:1: upstream.host: \"keep\" given, expected rewrite or preserve\n"},
    /* keys, sections, YAML */
    {"polcy: { timeout_ms: 5 }", "c.yaml:1: polcy: unknown key, expected one of workers, listen, admin, upstream, upstreams, "
                                 "tokens, context, redis, policy, decisions, breakers, grant, authorize, strip_headers, routes, cors, "
                                 "log, serve\n"},
    {"log: { levle: info }", "c.yaml:1: log.levle: unknown key, expected one of level, access, query\n"},
    {"log:\n  level: info\n  color: true\n", "c.yaml:3: log.color: unknown key, expected one of level, access, query\n"},
    {"log: info", "c.yaml:1: log: a text given, expected a map with level, access, query\n"},
    {"log: [info]", "c.yaml:1: log: a list given, expected a map with level, access, query\n"},
    {"log.level: info", "c.yaml:1: log.level: unknown key, expected one of workers, listen, admin, upstream, upstreams, tokens, "
                        "context, redis, policy, decisions, breakers, grant, authorize, strip_headers, routes, cors, log, serve\n"},
    {"log: { access_file: x }", "c.yaml:1: log.access_file: unknown key, expected one of level, access, query\n"},
    {"upstream: { uri: http://a }", "c.yaml:1: upstream.uri: unknown key, expected one of url, urls, balance, host, connect_timeout_ms, "
                                    "response_timeout_ms, idle_timeout_ms, max_idle, max_inflight, dns_ttl_s, "
                                    "health, tls\n"},
    {"upstream: http://a", "c.yaml:1: upstream: a text given, expected a map\n"},
    {"log: { level: info, level: info }", "c.yaml:1: log.level: given twice (first in line 1), expected once\n"},
    {"log:\n  level: info\nlog:\n  query: true\n", "c.yaml:3: log: given twice (first in line 1), expected once\n"},
    {"log: { level: !!str info }", "c.yaml:1: log.level: YAML tags are not supported, write the plain value\n"},
    {"log: &x { level: info }", "c.yaml:1: log: YAML anchors are not supported, write the value out\n"},
    {"log: { level: *x }", "c.yaml:1: log.level: YAML aliases are not supported, write the value out\n"},
    {"log: { level: \"in\\0fo\" }", "c.yaml:1: log.level: a NUL is in the text, expected none\n"
                                    "c.yaml:1: log.level: \"\" given, expected debug, info, warn, error or off\n"},
    /* addresses */
    {"listen: { address: 3001 }", "c.yaml:1: listen.address: \"3001\" is no address to listen on, expected an IP literal "
                                  "and a port, as 0.0.0.0:3001 or [::]:3001\n"},
    {"listen: { address: \":3001\" }", "c.yaml:1: listen.address: \":3001\" is no address to listen on, expected an IP "
                                       "literal and a port, as 0.0.0.0:3001 or [::]:3001\n"},
    {"listen: { address: \"localhost:3001\" }", "c.yaml:1: listen.address: \"localhost:3001\" is no address to listen on, "
                                                "expected an IP literal and a port, as 0.0.0.0:3001 or [::]:3001\n"},
    {"listen: { address: \"::1:3001\" }", "c.yaml:1: listen.address: \"::1:3001\" is no address to listen on, expected an "
                                          "IP literal and a port, as 0.0.0.0:3001 or [::]:3001\n"},
    {"listen: { address: \"[::1]\" }", "c.yaml:1: listen.address: \"[::1]\" is no address to listen on, expected an IP "
                                       "literal and a port, as 0.0.0.0:3001 or [::]:3001\n"},
    {"listen: { address: \"[127.0.0.1]:1\" }", "c.yaml:1: listen.address: \"[127.0.0.1]:1\" is no address to listen on, "
                                               "expected an IP literal and a port, as 0.0.0.0:3001 or [::]:3001\n"},
    {"listen: { address: \"127.0.0.1:65536\" }", "c.yaml:1: listen.address: \"127.0.0.1:65536\" is no address to listen "
                                                 "on, expected an IP literal and a port, as 0.0.0.0:3001 or [::]:3001\n"},
    {"listen: { address: \"127.0.0.1:\" }", "c.yaml:1: listen.address: \"127.0.0.1:\" is no address to listen on, expected "
                                            "an IP literal and a port, as 0.0.0.0:3001 or [::]:3001\n"},
    {"listen: { address: \"127.1:80\" }", "c.yaml:1: listen.address: \"127.1:80\" is no address to listen on, expected an "
                                          "IP literal and a port, as 0.0.0.0:3001 or [::]:3001\n"},
    {"listen: { address: \"\" }", "c.yaml:1: listen.address: empty, expected address:port\n"},
    {"listen: { hosts: [\"a b\"] }", "c.yaml:1: listen.hosts[0]: \"a b\" is no host, expected host or host:port\n"},
    {"listen:\n  hosts:\n    - good\n    - http://a\n",
     "c.yaml:4: listen.hosts[1]: \"http://a\" is no host, expected host or host:port\n"},
    {"listen: { hosts: [\"a:0\"] }", "c.yaml:1: listen.hosts[0]: \"a:0\" is no host, expected host or host:port\n"},
    {"listen: { hosts: [\"a/b\"] }", "c.yaml:1: listen.hosts[0]: \"a/b\" is no host, expected host or host:port\n"},
    {"listen: { hosts: [\"u@a\"] }", "c.yaml:1: listen.hosts[0]: \"u@a\" is no host, expected host or host:port\n"},
    {"listen: { hosts: [\"\"] }", "c.yaml:1: listen.hosts[0]: an empty text given, expected an entry of a list of hosts\n"},
    {"listen: { hosts: [[a]] }", "c.yaml:1: listen.hosts[0]: a list given, expected an entry of a list of hosts\n"},
    {"listen: { hosts: [~] }", "c.yaml:1: listen.hosts[0]: nothing given, expected an entry of a list of hosts\n"},
    {"listen: { hosts: a }", "c.yaml:1: listen.hosts: \"a\" given, expected a list of hosts\n"},
    {"listen: { hosts: {a: b} }", "c.yaml:1: listen.hosts: a map given, expected a list of hosts\n"},
    {"listen: { trusted_proxies: [0.0.0.0/0] }",
     "c.yaml:1: listen.trusted_proxies[0]: \"0.0.0.0/0\" trusts everybody, expected the addresses of your own proxies\n"},
    {"listen: { trusted_proxies: [\"::/0\"] }",
     "c.yaml:1: listen.trusted_proxies[0]: \"::/0\" trusts everybody, expected the addresses of your own proxies\n"},
    {"listen: { trusted_proxies: [10.0.0.0/33] }",
     "c.yaml:1: listen.trusted_proxies[0]: \"10.0.0.0/33\" has no valid prefix length, expected one like /8\n"},
    {"listen: { trusted_proxies: [10.0.0.0/] }",
     "c.yaml:1: listen.trusted_proxies[0]: \"10.0.0.0/\" has no valid prefix length, expected one like /8\n"},
    {"listen: { trusted_proxies: [10.0.0.1/8] }",
     "c.yaml:1: listen.trusted_proxies[0]: \"10.0.0.1/8\" has bits beyond its prefix length, expected them to be 0\n"},
    {"listen: { trusted_proxies: [\"::ffff:0:0/96\"] }",
     "c.yaml:1: listen.trusted_proxies[0]: \"::ffff:0:0/96\" is IPv4 inside IPv6, expected plain IPv4\n"},
    {"listen: { trusted_proxies: [proxy] }", "c.yaml:1: listen.trusted_proxies[0]: \"proxy\" is no address block, expected "
                                             "one like 10.0.0.0/8 or 2001:db8::/32\n"},
    {"listen: { max_header_bytes: 4096 }",
     "c.yaml:1: listen.max_target_bytes: more than listen.max_header_bytes, expected at most that\n"},
    {"listen: { max_connections: 10, max_connections_per_address: 11 }",
     "c.yaml:1: listen.max_connections_per_address: more than listen.max_connections, expected at most that\n"},
    {"admin: { address: 0.0.0.0:9901 }",
     "c.yaml:1: admin.address: not a loopback address and no admin.token_file, expected 127.0.0.1 or a token\n"},
    {"admin: { address: \"[::]:9901\" }",
     "c.yaml:1: admin.address: not a loopback address and no admin.token_file, expected 127.0.0.1 or a token\n"},
    {"admin: { address: 0.0.0.0:3001, token: 0123456789abcdef }",
     "c.yaml:1: admin.address: the same as listen.address, expected another\n"},
    {"admin: { token: short }", "c.yaml:1: admin.token: 5 bytes long, expected 16 to 1024\n"},
    {"admin: { token: \"0123456789abcde\\n\" }", "c.yaml:1: admin.token: not printable ASCII in one line, expected that\n"},
    {"admin: { token: \" 0123456789abcdef\" }", "c.yaml:1: admin.token: a space at an end, expected none\n"},
    {"admin: { token: [0123456789abcdef] }", "c.yaml:1: admin.token: a list given, expected a secret\n"},
    {"admin: { token: 0123456789abcdef, token_file: secret }",
     "c.yaml:1: admin.token_file: given together with admin.token, expected one of the two\n"},
    {"admin: { token_file: missing }",
     "c.yaml:1: admin.token_file: \"missing\": no such file, expected a file that can be read\n"},
    {"admin: { token_file: empty }",
     "c.yaml:1: admin.token_file: \"empty\": the file is empty, expected a file that can be read\n"},
    {"admin: { token_file: . }", "c.yaml:1: admin.token_file: \".\": not a file, expected a file that can be read\n"},
    {"admin: { token_file: long }",
     "c.yaml:1: admin.token_file: \"long\": the file is too long, expected a file that can be read\n"},
    {"admin: { token_file: [secret] }", "c.yaml:1: admin.token_file: no name of a file given, expected one\n"},
    /* upstreams */
    {"upstream: { url: http://user:pass@api }", "c.yaml:1: upstream.url: user info in the URL, expected none\n"},
    {"upstream: { url: http://api/base?x=1 }", "c.yaml:1: upstream.url: a query in the URL, expected none\n"},
    {"upstream: { url: \"http://api/base#x\" }", "c.yaml:1: upstream.url: a fragment in the URL, expected none\n"},
    {"upstream: { url: http://api:0 }", "c.yaml:1: upstream.url: no valid port in the URL, expected 1 to 65535\n"},
    {"upstream: { url: http://api:70000 }", "c.yaml:1: upstream.url: no valid port in the URL, expected 1 to 65535\n"},
    {"upstream: { url: api:7001 }",
     "c.yaml:1: upstream.url: no URL with a host, expected http://host[:port][/path] or https://...\n"},
    {"upstream: { url: ftp://api }",
     "c.yaml:1: upstream.url: no URL with a host, expected http://host[:port][/path] or https://...\n"},
    {"upstream: { url: http:// }",
     "c.yaml:1: upstream.url: no URL with a host, expected http://host[:port][/path] or https://...\n"},
    {"upstream: { url: \"http://[::1\" }",
     "c.yaml:1: upstream.url: no URL with a host, expected http://host[:port][/path] or https://...\n"},
    {"upstream: { url: \"http://256.1.1.1\" }",
     "c.yaml:1: upstream.url: no URL with a host, expected http://host[:port][/path] or https://...\n"},
    {"upstream: { url: \"http://a b\" }",
     "c.yaml:1: upstream.url: no URL with a host, expected http://host[:port][/path] or https://...\n"},
    {"upstream: { url: \"http://a/b c\" }",
     "c.yaml:1: upstream.url: a character in the URL that must be escaped, expected RFC 3986\n"},
    {"upstream: { url: http://a/x/../y }", "c.yaml:1: upstream.url: a base path that is not normal, expected one without "
                                           "empty, dot or wrongly escaped segments\n"},
    {"upstream: { url: http://a//y }", "c.yaml:1: upstream.url: a base path that is not normal, expected one without "
                                       "empty, dot or wrongly escaped segments\n"},
    {"upstream: { url: \"\" }", "c.yaml:1: upstream.url: empty, expected the URL of the API\n"},
    {"upstreams: [a]", "c.yaml:1: upstreams: a list given, expected a map\n"},
    {"upstreams: { a: http://a }", "c.yaml:1: upstreams.a: a text given, expected a map\n"},
    {"upstreams: { a: { host: preserve } }", "c.yaml:1: upstreams.a: no url, expected one\n"},
    {"upstreams: { default: { url: http://a } }",
     "c.yaml:1: upstreams.default: default is the name of upstream, expected another\n"},
    {"upstreams: { \"a b\": { url: http://a } }",
     "c.yaml:1: upstreams.a b: no name for an upstream, expected letters, digits and -._\n"},
    {"upstreams: { a: { url: http://a, max: 1 } }", "c.yaml:1: upstreams.a.max: unknown key, expected one of url, urls, balance, host, "
                                                    "connect_timeout_ms, response_timeout_ms, idle_timeout_ms, max_idle, max_inflight, "
                                                    "dns_ttl_s, health, tls\n"},
    /* issuers */
    {"tokens: { issuers: { } }", "c.yaml:1: tokens.issuers: a map given, expected a list\n"},
    {"tokens: { issuers: [ a ] }", "c.yaml:1: tokens.issuers[0]: a text given, expected a map\n"},
    {"tokens: { issuers: [ { jwks_url: https://i/k, audiences: [a] } ] }",
     "c.yaml:1: tokens.issuers[0]: no issuer, expected the iss of its tokens\n"},
    {"tokens: { issuers: [ { issuer: i, audiences: [a] } ] }",
     "c.yaml:1: tokens.issuers[0]: no keys, expected one of jwks_url, jwks_file, secret_file\n"},
    {"tokens: { issuers: [ { issuer: i, audiences: [a], jwks_url: https://i/k, jwks_file: jwks.json } ] }",
     "c.yaml:1: tokens.issuers[0]: keys from several places, expected one of jwks_url, jwks_file, secret_file\n"},
    {"tokens: { issuers: [ { issuer: i, audiences: [a], jwks_url: \"\" } ] }",
     "c.yaml:1: tokens.issuers[0]: no keys, jwks_url is empty, expected a URL\n"},
    {"tokens: { issuers: [ { issuer: i, jwks_url: https://i/k } ] }",
     "c.yaml:1: tokens.issuers[0]: no audiences, expected some, or any_audience: true\n"},
    {"tokens: { issuers: [ { issuer: i, jwks_url: https://i/k, audiences: [] } ] }",
     "c.yaml:1: tokens.issuers[0]: no audiences, expected some, or any_audience: true\n"},
    {"tokens: { issuers: [ { issuer: i, jwks_url: https://i/k, audiences: [a], any_audience: true } ] }",
     "c.yaml:1: tokens.issuers[0]: any_audience together with audiences, expected one of the two\n"},
    {"tokens: { issuers: [ { " ISSUER ", algorithms: [none] } ] }",
     "c.yaml:1: tokens.issuers[0].algorithms[0]: \"none\" is no algorithm known here, expected RS, PS, ES or HS with 256, "
     "384 or 512, or EdDSA\n"},
    {"tokens: { issuers: [ { " ISSUER ", algorithms: [rs256] } ] }",
     "c.yaml:1: tokens.issuers[0].algorithms[0]: \"rs256\" is no algorithm known here, expected RS, PS, ES or HS with 256, "
     "384 or 512, or EdDSA\n"},
    {"tokens: { issuers: [ { " ISSUER ", algorithms: [RS256, HS256] } ] }",
     "c.yaml:1: tokens.issuers[0].algorithms[1]: HS256 needs a secret but the issuer has none, expected secret_file or "
     "another algorithm\n"},
    {"tokens: { issuers: [ { issuer: i, audiences: [a], secret_file: secret, algorithms: [HS256, ES256] } ] }",
     "c.yaml:1: tokens.issuers[0].algorithms[1]: ES256 needs keys but the issuer has a secret, expected HS256, HS384 or "
     "HS512\n"},
    {"tokens: { issuers: [ { issuer: i, audiences: [a], secret: 0123456789012345678901234567890 } ] }",
     "c.yaml:1: tokens.issuers[0].secret: 31 bytes long, expected 32 to 4096\n"},
    {"tokens: { issuers: [ { issuer: i, audiences: [a], secret_file: token } ] }",
     "c.yaml:1: tokens.issuers[0].secret_file: 16 bytes long, expected 32 to 4096\n"},
    {"tokens: { issuers: [ { issuer: i, audiences: [a], jwks_url: http://u:p@i/k } ] }",
     "c.yaml:1: tokens.issuers[0].jwks_url: user info in the URL, expected none\n"},
    {"tokens: { issuers: [ { issuer: i, audiences: [a], jwks_url: i/k } ] }",
     "c.yaml:1: tokens.issuers[0].jwks_url: no URL with a host, expected http://host[:port][/path] or https://...\n"},
    {"tokens: { issuers: [ { issuer: i, audiences: [a], jwks_file: missing } ] }",
     "c.yaml:1: tokens.issuers[0].jwks_file: \"missing\": no such file, expected a file that can be read\n"},
    {"tokens:\n  issuers:\n    - { " ISSUER " }\n    - { " ISSUER " }\n",
     "c.yaml:4: tokens.issuers[1]: the same issuer as tokens.issuers[0], expected each once\n"},
    {"tokens: { issuers: [ { " ISSUER ", kid: x } ] }",
     "c.yaml:1: tokens.issuers[0].kid: unknown key, expected one of issuer, jwks_url, jwks_file, secret, secret_file, "
     "audiences, any_audience, algorithms, types, max_stale_s, tls\n"},
    {"tokens: { verify: upstream }",
     "c.yaml:1: tokens.verify: upstream without context.url, expected the URL that is asked\n"},
    {"tokens: { verify: upstream, issuers: [ { " ISSUER " } ] }\ncontext: { url: http://a/p }",
     "c.yaml:1: tokens.verify: upstream together with tokens.issuers, expected keys\n"},
    {"tokens: { api_keys: true }",
     "c.yaml:1: tokens.api_keys: true without context.url, expected the URL that judges them\n"},
    /* context, redis, policy */
    {"context: { url: /user/profile }",
     "c.yaml:1: context.url: no URL with a host, expected http://host[:port][/path] or https://...\n"},
    {"context: { url: http://a/p, service_url: http://a/users/, service_authorization: apikey x }",
     "c.yaml:1: context.service_url: no {name} in the URL, expected one in its path or query\n"},
    {"context: { service_url: \"http://{name}.a/\", service_authorization: apikey x }",
     "c.yaml:1: context.service_url: {name} is in the host, expected it in the path or query\n"},
    {"context: { service_url: \"http://a/{name}\" }",
     "c.yaml:1: context.service_url: no context.service_authorization_file, expected one with it\n"},
    {"context: { service_authorization: apikey x }",
     "c.yaml:1: context.service_authorization: no context.service_url, expected one with it\n"},
    {"context: { shape: missing.jq }",
     "c.yaml:1: context.shape: \"missing.jq\": no such file, expected a file that can be read\n"},
    {"context: { shape: \"builtin:missing.jq\" }", "c.yaml:1: context.shape: \"builtin:missing.jq\": nothing of that name "
                                                   "is built in, expected a file that can be read\n"},
    {"redis: { url: localhost:6379 }", "c.yaml:1: redis.url: no Redis URL, expected redis:// or rediss://[user:password@]host[:port]"
                                       "[/db], or unix:/path[?db=N]\n"},
    {"redis: { url: redis://:hunter2@/0 }", "c.yaml:1: redis.url: no Redis URL, expected redis:// or rediss://[user:password@]host"
                                            "[:port][/db], or unix:/path[?db=N]\n"},
    {"redis: { url: redis://a/x }", "c.yaml:1: redis.url: no Redis URL, expected redis:// or rediss://[user:password@]host[:port][/db], "
                                    "or unix:/path[?db=N]\n"},
    {"redis: { url: \"redis://a:1/2\", cluster: true }",
     "c.yaml:1: redis.url: a database, expected none with redis.cluster\n"},
    {"policy: { url: \"unix:/run/opa.sock\" }",
     "c.yaml:1: policy.url: no socket and path in the URL, expected unix:/path/to.sock:/path\n"},
    {"policy: { query: [\"a b\"] }", "c.yaml:1: policy.query[0]: \"a b\" is no query name, expected letters, digits and "
                                     "-._, synonyms after |\n"},
    {"policy: { query: [\"a|\"] }", "c.yaml:1: policy.query[0]: \"a|\" is no query name, expected letters, digits and -._, "
                                    "synonyms after |\n"},
    {"policy: { query: [\"a|b|c|d|e\"] }", "c.yaml:1: policy.query[0]: \"a|b|c|d|e\" is no query name, expected letters, "
                                           "digits and -._, synonyms after |\n"},
    {"policy: { query: [a, b, \"c|a\"] }", "c.yaml:1: policy.query: a is named twice, expected each name once\n"},
    {"policy: { query: [\"a|a\"] }", "c.yaml:1: policy.query: a is named twice, expected each name once\n"},
    {"policy: { authorization_file: missing }",
     "c.yaml:1: policy.authorization_file: \"missing\": no such file, expected a file that can be read\n"},
    /* grant, headers, cors, the rest */
    {"grant: { format: jws }", "c.yaml:1: grant.format: jws without grant.key_file, expected a private key\n"},
    {"grant: { key_file: key.pem }",
     "c.yaml:1: grant.key: given, but grant.format is not jws, expected both or none\n"},
    {"grant: { format: jws, key_file: secret }", "c.yaml:1: grant.key_file: no private key, expected PEM\n"},
    {"grant: { header: Transfer-Encoding }", "c.yaml:1: grant.header: \"Transfer-Encoding\" has a meaning of its own in "
                                             "HTTP, expected a header of your own\n"},
    {"grant: { header: content_length }", "c.yaml:1: grant.header: \"content_length\" has a meaning of its own in HTTP, "
                                          "expected a header of your own\n"},
    {"grant: { header: x auth }", "c.yaml:1: grant.header: \"x auth\" is no header name, expected a token\n"},
    {"grant: { header: \"x:auth\" }", "c.yaml:1: grant.header: \"x:auth\" is no header name, expected a token\n"},
    {"grant: { max_bytes: 255 }", "c.yaml:1: grant.max_bytes: \"255\" given, expected a whole number from 256 to 65536\n"},
    {"strip_headers: [Authorization]", "c.yaml:1: strip_headers[0]: \"Authorization\" is needed to read the request, "
                                       "expected another header\n"},
    {"strip_headers: [x, Content_Length]", "c.yaml:1: strip_headers[1]: \"Content_Length\" is needed to read the "
                                           "request, expected another header\n"},
    {"strip_headers: [transfer.encoding]", "c.yaml:1: strip_headers[0]: \"transfer.encoding\" is needed to read the "
                                           "request, expected another header\n"},
    {"strip_headers: [\"a b\"]", "c.yaml:1: strip_headers[0]: \"a b\" is no header name, expected a token\n"},
    {"strip_headers: x-user", "c.yaml:1: strip_headers: \"x-user\" given, expected a list of header names\n"},
    {"cors: { origins: [\"*\"], credentials: true }",
     "c.yaml:1: cors.credentials: true together with origins '*', expected the origins by name\n"},
    {"cors: { origins: [\"https://a.example/\"] }", "c.yaml:1: cors.origins[0]: \"https://a.example/\" is no origin, "
                                                    "expected scheme://host[:port] without a path, or *\n"},
    {"cors: { origins: [\"null\"] }", "c.yaml:1: cors.origins[0]: \"null\" is no origin, expected scheme://host[:port] "
                                      "without a path, or *\n"},
    {"cors: { methods: [get] }", "c.yaml:1: cors.methods[0]: \"get\" is no method, expected one in capitals\n"},
    {"cors: { headers: [\"a,b\"] }", "c.yaml:1: cors.headers[0]: \"a,b\" is no header name, expected a token\n"},
    {"serve: { metrics_prefix: 1a }", "c.yaml:1: serve.metrics_prefix: \"1a\" is no prefix of metric names, expected "
                                      "letters, digits and _, no digit first\n"},
    {"serve: { service: \"\" }", "c.yaml:1: serve.service: 0 bytes long, expected 1 to 64\n"},
    {"serve: { service: \"a\\nb\" }",
     "c.yaml:1: serve.service: \"a?b\" has a control character, expected a line of text\n"},
    {"authorize: { path_prefix: x }", "c.yaml:1: authorize.path_prefix: \"x\" is no path, expected a slash and characters "
                                      "that may stand in a path\n"},
    {"authorize: { shape: missing.jq }",
     "c.yaml:1: authorize.shape: \"missing.jq\": no such file, expected a file that can be read\n"},
    /* what failing parts need */
    {"listen: { tls: { certificate_file: key.pem } }",
     "c.yaml:1: listen.tls.certificate_file: without listen.tls.key_file, expected both or none\n"},
    {"listen: { tls: { key_file: missing.pem } }",
     "c.yaml:1: listen.tls.key_file: \"missing.pem\": no such file, expected a file that can be read\n"
     "c.yaml:1: listen.tls.key_file: without listen.tls.certificate_file, expected both or none\n"},
    {"listen: { tls: { certificate_file: key.pem, key_file: key.pem, client_certificates: optional } }",
     "c.yaml:1: listen.tls.client_certificates: without listen.tls.client_ca_file, expected it\n"},
    {"listen: { tls: { certificate_file: key.pem, key_file: key.pem, client_ca_file: key.pem } }",
     "c.yaml:1: listen.tls.client_ca_file: given, but listen.tls.client_certificates is off, expected optional or "
     "required\n"},
    {"upstream: { tls: { certificate_file: key.pem } }",
     "c.yaml:1: upstream.tls: a certificate without its key, expected both\n"},
    {"policy: { tls: { key_file: key.pem } }", "c.yaml:1: policy.tls: a key without its certificate, expected both\n"},
    {"upstreams: { a: { urls: [\"http://a/x\", \"http://b/y\"] } }",
     "c.yaml:1: upstreams.a.urls[1]: another scheme or base path than the first, expected the same for all\n"},
    {"upstreams: { a: { url: http://a, urls: [\"http://a\"] } }",
     "c.yaml:1: upstreams.a.urls: given together with url, expected one of the two\n"},
    {"redis: { url: redis://a, sentinels: [\"s:1\"], cluster: true }",
     "c.yaml:1: redis.cluster: true together with redis.sentinels, expected one of the two\n"},
    {"redis: { url: redis://a, nodes: [\"s:1\"] }", "c.yaml:1: redis.nodes: given, but redis.cluster is not true\n"},
    {"redis: { url: \"unix:/a\", cluster: true }",
     "c.yaml:1: redis.url: no redis:// or rediss:// URL, expected one with redis.sentinels or redis.cluster\n"},
    {"breakers: { rest_ms: 5000, max_rest_ms: 1000 }",
     "c.yaml:1: breakers.rest_ms: more than breakers.max_rest_ms, expected at most that\n"},
    /* ${...} */
    {"log: { level: \"${NOT_SET}\" }",
     "c.yaml:1: log.level: ${NOT_SET} is not set, expected a value in the environment or ${NOT_SET:-default}\n"},
    {"log: { level: \"${NOT_SET\" }",
     "c.yaml:1: log.level: ${ without a name and }, expected ${NAME} or ${NAME:-default}\n"},
    {"log: { level: \"${}\" }", "c.yaml:1: log.level: ${ without a name and }, expected ${NAME} or ${NAME:-default}\n"},
    {"log: { level: \"${1A}\" }", "c.yaml:1: log.level: ${ without a name and }, expected ${NAME} or ${NAME:-default}\n"},
    {"log: { level: \"${A-b}\" }", "c.yaml:1: log.level: ${ without a name and }, expected ${NAME} or ${NAME:-default}\n"},
    {"listen: { hosts: [a, \"${NOT_SET}\"] }",
     "c.yaml:1: listen.hosts[1]: ${NOT_SET} is not set, expected a value in the environment or ${NOT_SET:-default}\n"},
    {"policy: { timeout_ms: \"${NOT_SET:-soon}\" }",
     "c.yaml:1: policy.timeout_ms: \"soon\" given, expected a whole number from 10 to 600000\n"},
    /* all at once, in the order of the options */
    {"workers: 0", "c.yaml:1: workers: \"0\" given, expected a whole number from 1 to 256\n"},
    {"workers: all", "c.yaml:1: workers: \"all\" given, expected auto or a whole number from 1 to 256\n"},
    {"log: { level: loud }\npolicy: { timeout_ms: 1 }\nlisten: { hosts: [\"a b\", \"c d\"] }",
     "c.yaml:3: listen.hosts[0]: \"a b\" is no host, expected host or host:port\n"
     "c.yaml:3: listen.hosts[1]: \"c d\" is no host, expected host or host:port\n"
     "c.yaml:2: policy.timeout_ms: \"1\" given, expected a whole number from 10 to 600000\n"
     "c.yaml:1: log.level: \"loud\" given, expected debug, info, warn, error or off\n"},
};

static void make_files(void)
{
    char text[70001];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    write_file("long", text);
    write_file("empty", "\n");
    write_file("token", "0123456789abcdef\n");
    write_file("secret", "0123456789abcdef0123456789abcdef\n");
    write_file("jwks.json", "{\"keys\":[]}");
    write_file("key.pem", "-----BEGIN PRIVATE KEY-----\nAA==\n-----END PRIVATE KEY-----\n");
}

static void test_refused_with_a_public_route(void **state)
{
    (void)state;
    make_files();
    char text[4096];
    EACH(with_route, (snprintf(text, sizeof text, "%s%s", with_route[i].yaml, PUBLIC_ROUTE),
                      check_refusal(text, with_route[i].errors)));
}

/* RFC 9110 7.6.1 and what has a meaning to a proxy or its API may not carry the grant. */
static void test_grant_header_with_a_meaning(void **state)
{
    (void)state;
    static const char *const names[] = {"connection", "keep-alive", "proxy-connection", "te", "trailer",
                                        "transfer-encoding", "upgrade", "content-length", "host", "authorization",
                                        "proxy-authorization", "cookie", "x-request-id", "x-forwarded-for", "forwarded"};
    failed = 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char text[256], expected[256];
        snprintf(text, sizeof text, "grant: { header: %s }%s", names[i], PUBLIC_ROUTE);
        snprintf(expected, sizeof expected, "c.yaml:1: grant.header: \"%s\" has a meaning of its own in HTTP, expected a "
                                            "header of your own\n", names[i]);
        check_refusal(text, expected);
    }
    assert_int_equal(failed, 0);
}

static void test_no_value_of_a_secret_is_shown(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "admin: { token: hunter2 }", "redis: { url: hunter2 }", "redis: { url: redis://:hunter2@a:b }",
        "policy: { authorization: \"hunter2\\x01\" }", "context: { url: http://hunter2@a, service_authorization: hunter2 }",
        "grant: { key: hunter2 }", "upstream: { url: http://u:hunter2@a }", "policy: { url: https://u:hunter2@a/b }",
        "tokens: { issuers: [ { issuer: i, secret: hunter2, audiences: [a] } ] }", "admin: { token: [hunter2] }",
        "hunter2", "log: [hunter2", "admin: { token: *hunter2 }"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        char text[512];
        snprintf(text, sizeof text, "%s%s", texts[i], PUBLIC_ROUTE);
        struct loaded l = load_text_with(text, NULL);
        assert_null(l.conf);
        assert_null(strstr(l.errors.p, "hunter2"));
        unload(&l);
    }
}

static void test_a_map_has_a_bound(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, NULL);
    failed = 0;
    buf_add_lit(&b, "upstreams:\n");
    for (int i = 0; i < 1025; i++) buf_printf(&b, "  u%d: { url: http://a }\n", i);
    buf_add_char(&b, '\0');
    check_refusal(b.p, "c.yaml:1026: upstreams.u1024: more keys than a map may have, expected at most 1024\n");
    buf_free(&b);
    assert_int_equal(failed, 0);
}

static void test_missing_file(void **state)
{
    (void)state;
    struct loaded l = load_source("nowhere/c.yaml", false, NULL);
    assert_string_equal(l.errors.p, "nowhere/c.yaml: no such file, expected a YAML file\n");
    unload(&l);
    l = load_source(".", false, NULL);
    assert_string_equal(l.errors.p, ".: not a file, expected a YAML file\n");
    unload(&l);
    const char *env[] = {"DOORWARD_CONFIG=elsewhere.yaml", NULL};
    l = load_source(NULL, false, env);
    assert_string_equal(l.errors.p, "elsewhere.yaml: no such file, expected a YAML file\n");
    unload(&l);
    l = load_source(NULL, false, NULL);
    assert_string_equal(l.errors.p, "no configuration: no /etc/doorward/doorward.yaml, expected --config, DOORWARD_CONFIG or "
                                    "--drop-in\n");
    unload(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused_with_a_public_route),
        cmocka_unit_test(test_grant_header_with_a_meaning),
        cmocka_unit_test(test_no_value_of_a_secret_is_shown),
        cmocka_unit_test(test_a_map_has_a_bound),
        cmocka_unit_test(test_missing_file),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
