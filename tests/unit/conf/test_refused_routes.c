/* What a whole document and its routes are refused for: each input with its exact messages. */
#include "refusal.h"

#define ISSUER "issuer: https://i.example, jwks_url: https://i.example/keys, audiences: [a]"
#define KEYS "tokens: { issuers: [ { " ISSUER " } ] }\n"

static const struct refusal alone[] = {
    {"", "c.yaml: routes: none, expected at least one\n"},
    {"# nothing\n", "c.yaml: routes: none, expected at least one\n"},
    {"routes:\n", "c.yaml: routes: none, expected at least one\n"},
    {"routes: []\n", "c.yaml:1: routes: none, expected at least one\n"},
    {"routes: /api\n", "c.yaml:1: routes: a text given, expected a list\n"},
    {"routes: [/api]\n", "c.yaml:1: routes[0]: a text given, expected a map\n"},
    {"- a\n", "c.yaml:1: the document is no map, expected options like \"listen:\"\n"},
    {"text\n", "c.yaml:1: the document is no map, expected options like \"listen:\"\n"},
    {"a: [\n", "c.yaml:2: YAML: while parsing a flow node, did not find expected node content\n"},
    {"log: {}\n  x: 1\n", "c.yaml:2: YAML: while parsing a block mapping, did not find expected key\n"},
    {"log: {}\n---\nlog: {}\n", "c.yaml:2: YAML: a second document, expected one\n"},
    {"? [a]\n: b\n", "c.yaml:1: YAML: a key that is no plain name, expected the name of an option\n"},
    {"\"\": b\n", "c.yaml:1: YAML: a key that is no plain name, expected the name of an option\n"},
    {"\tlog: {}\n", "c.yaml:1: YAML: while scanning for the next token, found character that cannot start any token\n"},
    {"log: \xff\n", "c.yaml: YAML: invalid leading UTF-8 octet, expected UTF-8 text in YAML\n"},
    {"a: [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[x]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]\n",
     "c.yaml:1: a[0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0]: YAML: nested too deep, expected at most 16 levels\n"},
    /* routes */
    {"routes: [ { access: public } ]\n", "c.yaml:1: routes[0]: neither path nor prefix, expected one of the two\n"},
    {"routes: [ { path: /a, prefix: /a, access: public } ]\n",
     "c.yaml:1: routes[0]: path and prefix, expected one of the two\n"},
    {"routes: [ { path: a, access: public } ]\n",
     "c.yaml:1: routes[0].path: \"a\" is no path, expected one that begins with a slash\n"},
    {"routes: [ { path: \"\", access: public } ]\n", "c.yaml:1: routes[0].path: 0 bytes long, expected 1 to 8192\n"},
    {"routes: [ { path: /a//b, access: public } ]\n",
     "c.yaml:1: routes[0].path: \"/a//b\" has an empty segment, expected none\n"},
    {"routes: [ { path: //, access: public } ]\n", "c.yaml:1: routes[0].path: \"//\" has an empty segment, expected none\n"},
    {"routes: [ { path: /a/../b, access: public } ]\n",
     "c.yaml:1: routes[0].path: \"/a/../b\" has a dot segment, expected a normal path\n"},
    {"routes: [ { path: /., access: public } ]\n",
     "c.yaml:1: routes[0].path: \"/.\" has a dot segment, expected a normal path\n"},
    {"routes: [ { path: \"/a?b\", access: public } ]\n",
     "c.yaml:1: routes[0].path: \"/a?b\" has a character that may not stand in a path, expected RFC 3986\n"},
    {"routes: [ { path: \"/a#b\", access: public } ]\n",
     "c.yaml:1: routes[0].path: \"/a#b\" has a character that may not stand in a path, expected RFC 3986\n"},
    {"routes: [ { path: \"/a b\", access: public } ]\n",
     "c.yaml:1: routes[0].path: \"/a b\" has a character that may not stand in a path, expected RFC 3986\n"},
    {"routes: [ { prefix: /a/*, access: public } ]\n",
     "c.yaml:1: routes[0].prefix: \"/a/*\" has a *, expected a plain path; prefix covers everything below\n"},
    {"routes: [ { path: /a%2, access: public } ]\n", "c.yaml:1: routes[0].path: \"/a%2\" has an invalid escape, expected % "
                                                     "and two hexadecimal digits in capitals\n"},
    {"routes: [ { path: /a%c3, access: public } ]\n", "c.yaml:1: routes[0].path: \"/a%c3\" has an invalid escape, expected "
                                                      "% and two hexadecimal digits in capitals\n"},
    {"routes: [ { path: /%61, access: public } ]\n",
     "c.yaml:1: routes[0].path: \"/%61\" escapes a character that needs none, expected it plain\n"},
    {"routes: [ { path: /%2E%2E, access: public } ]\n",
     "c.yaml:1: routes[0].path: \"/%2E%2E\" escapes a character that needs none, expected it plain\n"},
    {"routes: [ { path: /%00, access: public } ]\n",
     "c.yaml:1: routes[0].path: \"/%00\" has an escaped NUL, expected none\n"},
    {"routes: [ { path: /a;b, access: public } ]\n",
     "c.yaml:1: routes[0].path: a ; in the path, expected path_policy.path_parameters: keep with it\n"},
    {"routes: [ { path: /a%3Bb, access: public } ]\n",
     "c.yaml:1: routes[0].path: a ; in the path, expected path_policy.path_parameters: keep with it\n"},
    {"routes: [ { prefix: /a%2Fb, access: public } ]\n",
     "c.yaml:1: routes[0].prefix: an encoded slash in the path, expected path_policy.encoded_slashes: keep with it\n"},
    {"routes: [ { prefix: /a, access: open } ]\n",
     "c.yaml:1: routes[0].access: \"open\" given, expected authorized, authenticated or public\n"},
    {"routes: [ { prefix: /a, access: public, methods: [Get] } ]\n",
     "c.yaml:1: routes[0].methods[0]: \"Get\" is no method, expected one in capitals\n"},
    {"routes: [ { prefix: /a, access: public, methods: GET } ]\n",
     "c.yaml:1: routes[0].methods: \"GET\" given, expected a list of methods\n"},
    {"routes: [ { prefix: /a, access: public, upstream: other } ]\n",
     "c.yaml:1: routes[0].upstream: \"other\" is no upstream, expected default or a name of upstreams\n"},
    {"routes: [ { prefix: /a, access: public, resource: $0 } ]\n",
     "c.yaml:1: routes[0].resource: \"$0\" is no resource, expected a name or $1 to $16\n"},
    {"routes: [ { prefix: /a, access: public, resource: $17 } ]\n",
     "c.yaml:1: routes[0].resource: \"$17\" is no resource, expected a name or $1 to $16\n"},
    {"routes: [ { prefix: /a, access: public, resource: \"a b\" } ]\n",
     "c.yaml:1: routes[0].resource: \"a b\" is no resource, expected a name or $1 to $16\n"},
    {"routes: [ { prefix: /a/b, access: public, strip: /b } ]\n",
     "c.yaml:1: routes[0].strip: \"/b\" is no prefix of the route's path, expected true, false or one\n"},
    {"routes: [ { prefix: /ab, access: public, strip: /a } ]\n",
     "c.yaml:1: routes[0].strip: \"/a\" is no prefix of the route's path, expected true, false or one\n"},
    {"routes: [ { prefix: /a, access: public, decision_ttl_s: 86401 } ]\n",
     "c.yaml:1: routes[0].decision_ttl_s: \"86401\" given, expected a whole number from 0 to 86400\n"},
    {"routes: [ { prefix: /a, access: public, path_policy: keep } ]\n",
     "c.yaml:1: routes[0].path_policy: a text given, expected a map with encoded_slashes, path_parameters\n"},
    {"routes: [ { prefix: /a, access: public, path_policy: { slashes: keep } } ]\n",
     "c.yaml:1: routes[0].path_policy.slashes: unknown key, expected one of encoded_slashes, path_parameters\n"},
    {"routes: [ { prefix: /a, acess: public } ]\n" KEYS "policy: { url: http://a/b }\n",
     "c.yaml:1: routes[0].acess: unknown key, expected one of prefix, path, name, access, methods, upstream, resource, "
     "strip, websocket, source_ip, decision_ttl_s, path_policy\n"},
    {"routes:\n  - { prefix: /a, access: public }\n  - { path: /a, access: public }\n  - { prefix: /a/, access: public }\n",
     "c.yaml:4: routes[2]: the same prefix as routes[0], expected each once\n"},
    {"routes:\n  - { path: /, access: public }\n  - { path: /a, access: public }\n  - { path: /, access: public }\n",
     "c.yaml:4: routes[2]: the same path as routes[0], expected each once\n"},
    /* what a route that is not public needs */
    {"routes: [ { prefix: / } ]\n" KEYS, "c.yaml: policy.url: none, but a route is authorized, expected the URL of a policy, or policy.path\n"},
    {"routes: [ { prefix: / } ]\npolicy: { timeout_ms: 50 }\n" KEYS,
     "c.yaml:2: policy.url: none, but a route is authorized, expected the URL of a policy, or policy.path\n"},
    {"routes: [ { prefix: / } ]\npolicy: { url: http://a/b }\n",
     "c.yaml: tokens.issuers: none, but a route is not public, expected at least one\n"},
    {"routes: [ { prefix: /, access: authenticated } ]\ntokens: { leeway_s: 5 }\n",
     "c.yaml:2: tokens.issuers: none, but a route is not public, expected at least one\n"},
};

static void test_refused_alone(void **state)
{
    (void)state;
    EACH(alone, check_refusal(alone[i].yaml, alone[i].errors));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_refused_alone)};
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
