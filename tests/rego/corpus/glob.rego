# input: {"g": "api.*.com", "m": "api.github.com"}
# input: {"g": "api.*.com", "m": "api.a.b.com"}
# input: {"g": "api.**.com", "m": "api.a.b.com"}
# input: {"g": "*", "m": ""}
# input: {"g": "/offices/*/timeseries", "m": "/offices/SWT/timeseries"}
# input: {"g": "/offices/**", "m": "/offices/SWT/timeseries/1"}
# input: {"g": "{a,b}c", "m": "bc"}
# input: {"g": "[a-c]x", "m": "bx"}
# input: {"g": "[!a-c]x", "m": "dx"}
# input: {"g": "?at", "m": "cat"}
# input: {"g": "?at", "m": "at"}
# input: {"g": "a\\*b", "m": "a*b"}
# input: {"g": "[", "m": "["}
# input: {"g": "é*", "m": "été"}
# input: {"g": "a:b:*", "m": "a:b:c:d"}
# input: {"g": "?", "m": "😀"}
# input: {"g": "{a", "m": "{a"}
# input: {"g": "a/**/b", "m": "a/b"}
# input: {"g": "**", "m": "a/b.c"}
# input: {"g": "[abc]*", "m": "bcd"}
# input: {"g": "{*.com,*.org}", "m": "x.org"}
# input: {"g": 5, "m": "5"}
package corpus.glob

dots := glob.match(input.g, ["."], input.m)

default_delimiters := glob.match(input.g, [], input.m)

no_delimiters := glob.match(input.g, null, input.m)

slashes := glob.match(input.g, ["/"], input.m)

colons := glob.match(input.g, [":"], input.m)

several := glob.match(input.g, ["/", "."], input.m)

long_delimiter := glob.match(input.g, ["::"], input.m)

quoted := glob.quote_meta("*.domain[a]{b}?\\!")

quoted_input := glob.quote_meta(input.g)
