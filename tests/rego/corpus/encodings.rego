# input: {"t": "héllo wörld & more/+=?", "e": "aMOpbGxv", "y": "a: 1\nb: [x, 2.50, null, true]\n"}
# input: {"t": "", "e": "", "y": ""}
# input: {"t": "a b", "e": "a===", "y": "a: b: c"}
# input: {"t": "\u0000\ud83d\ude00", "e": "_-8", "y": "- yes\n- 0x10\n- 010\n- 2026-03-10\n- ~\n- 1e3\n- '1'\n"}
# input: {"t": 5, "e": 5, "y": 5}
# input: {"t": "%41+b%2", "e": "+/8=", "y": "&a [1]"}
# input: {"t": "a=1&b=2&a=3&c", "e": "aGk", "y": "x: &a {k: 1}\ny: *a\n"}
# input: {"t": "x=%zz", "e": "68c3a9", "y": "---\na: 1\n---\nb: 2\n"}
# input: {"t": "q=a%20b&q=a+b", "e": "aGk=\n", "y": "1: a\ntrue: b\n"}
package corpus.encodings

base64_encoded := base64.encode(input.t)

base64_decoded := base64.decode(input.e)

base64_valid := base64.is_valid(input.e)

base64url_encoded := base64url.encode(input.t)

base64url_no_pad := base64url.encode_no_pad(input.t)

base64url_decoded := base64url.decode(input.e)

hex_encoded := hex.encode(input.t)

hex_decoded := hex.decode(input.e)

hex_odd := hex.decode("abc")

hex_upper := hex.decode("4A4b")

url_encoded := urlquery.encode(input.t)

url_decoded := urlquery.decode(input.t)

url_object := urlquery.encode_object({"b": "x y", "a": ["1", "2"], "c": {"é"}})

url_object_decoded := urlquery.decode_object(input.t)

yaml_read := yaml.unmarshal(input.y)

yaml_valid := yaml.is_valid(input.y)

yaml_written := yaml.marshal({"b": [1, "x", null, true], "a": {"k": "1"}, "e": [], "o": {}, "m": "two\nlines"})

yaml_written_input := yaml.marshal(input.t)

yaml_round if yaml.unmarshal(yaml.marshal(input)) == input
