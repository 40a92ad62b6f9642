# input: {"t": "Héllo, Wörld", "sep": ",", "n": 3, "list": ["a", "b"]}
# input: {"t": "", "sep": "", "n": -1, "list": []}
# input: {"t": "😀a😀b", "sep": "😀", "n": 1, "list": ["x", 1]}
# input: {"t": "  \t\n padded \u00a0\u2003 ", "sep": " ", "n": 0, "list": "ab"}
# input: {"t": 5, "sep": null, "n": "1", "list": null}
# input: {"t": "\u0000\u001f\"\\/<>&\u2028é\ufffd", "sep": "\\", "n": 2.0, "list": [""]}
# input: {"t": "ǅ ß İ ı ſ Σς ﬁ", "sep": "ς", "n": 1.5, "list": ["ß", "SS"]}
package corpus.strings

echo := input.t

lower_case := lower(input.t)

upper_case := upper(input.t)

has := contains(input.t, input.sep)

starts := startswith(input.t, input.sep)

ends := endswith(input.t, input.sep)

parts := split(input.t, input.sep)

joined := concat(input.sep, input.list)

joined_set := concat("-", {"b", "a"})

index := indexof(input.t, input.sep)

indexes := indexof_n(input.t, input.sep)

index_missing := [indexof("abc", "z"), indexof_n("abc", "z"), indexof("aaa", "a"), indexof_n("aaa", "aa")]

replaced := replace(input.t, input.sep, "_")

replaced_n := strings.replace_n({"a": "1", "b": "2", "l": "L"}, input.t)

replaced_n_overlap := strings.replace_n({"ab": "1", "a": "2", "b": "3"}, "abab")

replaced_empty := replace("abc", "", "-")

reversed := strings.reverse(input.t)

counted := strings.count(input.t, input.sep)

sub := substring(input.t, 0, input.n)

sub_from := substring(input.t, input.n, 2)

sub_rest := substring(input.t, 1, -1)

sub_beyond := substring("abc", 5, 2)

sub_long := substring("abc", 1, 99)

trimmed := trim(input.t, input.sep)

trimmed_left := trim_left(input.t, "H ")

trimmed_right := trim_right(input.t, "d ")

trimmed_prefix := trim_prefix(input.t, "Hé")

trimmed_suffix := trim_suffix(input.t, "ld")

trimmed_space := trim_space(input.t)

trim_several := trim("xyabcyx", "xy")

trim_prefix_once := [trim_prefix("aab", "a"), trim_suffix("baa", "a"), trim_left("aab", "a"), trim_right("baa", "a")]

any_prefix := strings.any_prefix_match(input.t, ["x", "Hé"])

any_suffix := strings.any_suffix_match(input.list, {"b"})

count_of := count(input.t)

escapes := "\u00e9 \n\t\"\\\/ \u0041 \ud83d\ude00"

escapes_raw := `\u00e9`

marshalled := json.marshal(input.t)

concat_numbers := concat(",", input.list)

compare := input.t < "I"
