# input: {"o": {"a": {"b": [1, 2, {"c": 3}], "x/y": 1, "~t": 2}, "d": null}, "t": "{\"a\": [1, 1.0, 1e3, \"\\u00e9\"]}"}
# input: {"o": {"a": 1}, "t": "not json"}
# input: {"o": [1, [2]], "t": "[1,]"}
# input: {"o": {"<k>": "a&b\u2028\u0000\u007f"}, "t": "\"\\ud83d\\ude00\""}
# input: {"o": "s", "t": " 1 "}
# input: {"o": {}, "t": "{\"a\":1,\"a\":2}"}
# input: {"o": 12345678901234567890, "t": "12345678901234567890.5"}
# input: {"o": {"b": 1, "a": {"z": 1, "y": [true, false, null]}}, "t": "1 2"}
# input: {"o": 1.0, "t": ""}
# input: {"o": null, "t": 5}
# input: {"o": {"a": {"b": 1}}, "t": "\"\\ud83d\""}
# input: {"o": {"a": {"b": {"c": 1}}}, "t": "NaN"}
package corpus.json

marshalled := json.marshal(input.o)

marshalled_set := json.marshal({3, 1, 2, "b", "a"})

marshalled_object_keys := json.marshal({"b": 1, "a": 2, 1: 3, "C": 4})

marshalled_pretty := json.marshal_with_options(input.o, {"pretty": true})

marshalled_indent := json.marshal_with_options({"a": [1]}, {"indent": "  ", "prefix": ">"})

unmarshalled := json.unmarshal(input.t)

valid := json.is_valid(input.t)

filtered := json.filter(input.o, ["a/b"])

filtered_arrays := json.filter(input.o, [["a", "b"], "d"])

filtered_set := json.filter(input.o, {"a/b/0", "a/x~1y"})

removed := json.remove(input.o, ["a/b"])

removed_index := json.remove(input.o, ["a/b/1", ["a", "x/y"]])

removed_all := json.remove(input.o, ["a", "nowhere/b"])

patched_add := json.patch(input.o, [{"op": "add", "path": "/a/n", "value": {"k": 1}}])

patched_append := json.patch(input.o, [{"op": "add", "path": "/a/b/-", "value": 9}])

patched_insert := json.patch({"a": [1, 2]}, [{"op": "add", "path": "/a/1", "value": 9}])

patched_replace := json.patch(input.o, [{"op": "replace", "path": "a", "value": 0}])

patched_remove := json.patch(input.o, [{"op": "remove", "path": "/d"}])

patched_test := json.patch(input.o, [{"op": "test", "path": "/a", "value": 1}])

patched_move := json.patch(input.o, [{"op": "move", "from": "/a", "path": "/moved"}])

patched_copy := json.patch(input.o, [{"op": "copy", "from": "/a", "path": "/copied"}])

patched_missing := json.patch({"a": 1}, [{"op": "remove", "path": "/nowhere"}])

patched_bad := json.patch({"a": 1}, [{"op": "other", "path": "/a"}])

patched_set := json.patch({"s": {1, 2}}, [{"op": "add", "path": ["s", 3], "value": 3}])

patched_none := json.patch(input.o, [])

round_trip if json.unmarshal(json.marshal(input.o)) == input.o
