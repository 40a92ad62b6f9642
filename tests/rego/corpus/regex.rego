# input: {"p": "^[a-z]+$", "t": "abc", "u": "/offices/SWT/timeseries"}
# input: {"p": "(", "t": "abc"}
# input: {"p": "\\d{2,}", "t": "a12b345"}
# input: {"p": "(?i)ABC", "t": "xabcx"}
# input: {"p": "a(?=b)", "t": "ab"}
# input: {"p": "\\bw\\w*", "t": "wörld word"}
# input: {"p": "^\\s*$", "t": "\u00a0"}
# input: {"p": ".", "t": "é😀\n"}
# input: {"p": "(a)(b)?", "t": "aab"}
# input: {"p": "\\pL+", "t": "été 12"}
# input: {"p": "[[:alpha:]]+", "t": "abc1"}
# input: {"p": "", "t": "ab"}
# input: {"p": "a**", "t": "ab"}
# input: {"p": "\\z", "t": "ab"}
# input: {"p": "(a+)+$", "t": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaab"}
# input: {"p": "\\1", "t": "1"}
# input: {"p": "(?P<year>\\d{4})", "t": "in 2026"}
# input: {"p": "(?<year>\\d{4})", "t": "in 2026"}
# input: {"p": "x{1001}", "t": "x"}
# input: {"p": "[a-\\d]", "t": "5"}
# input: {"p": "\\Qa.b\\E", "t": "a.b"}
# input: {"p": "[^\\x00-\\x7F]", "t": "aé"}
# input: {"p": "[&&a]", "t": "&"}
# input: {"p": "\\C", "t": "a"}
# input: {"p": "a{,2}", "t": "a{,2}"}
# input: {"p": "(?x) a b", "t": "ab"}
# input: {"p": 5, "t": "5"}
# input: {"p": "x", "t": null}
package corpus.regex

matches := regex.match(input.p, input.t)

matched if regex.match(input.p, input.t)

valid := regex.is_valid(input.p)

pieces := regex.split(input.p, input.t)

found := regex.find_n(input.p, input.t, -1)

found_one := regex.find_n(input.p, input.t, 1)

submatches := regex.find_all_string_submatch_n(input.p, input.t, -1)

replaced := regex.replace(input.t, input.p, "<$0>")

replaced_group := regex.replace(input.t, input.p, "${1}x")

replaced_joined := regex.replace(input.t, input.p, "$1x")

template := regex.template_match("urn:foo:{.*}", "urn:foo:bar", "{", "}")

template_input := regex.template_match("/offices/{[A-Z]+}/timeseries", input.u, "{", "}")

literal := regex.match(`^/offices/[^/]+/timeseries$`, input.u)
