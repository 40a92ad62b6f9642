# input: {"o": {"a": {"b": 1, "c": null}, "d": [1, {"e": 2}]}, "p": {"a": {"b": 2, "z": 3}, "n": 1}, "ks": ["a", "x"]}
# input: {"o": {}, "p": {"a": 1}, "ks": []}
# input: {"o": {"a": 1}, "p": {}, "ks": {"a": 1}}
# input: {"o": [1], "p": null, "ks": "a"}
# input: {}
package corpus.objects

got := object.get(input.o, "a", "none")

got_path := object.get(input.o, ["a", "b"], "none")

got_path_array := object.get(input.o, ["d", 1, "e"], "none")

got_empty_path := object.get(input.o, [], "none")

got_null := object.get(input.o, ["a", "c"], "none")

got_missing := object.get(input.o, "missing", {"k": [1]})

got_number_key := object.get({1: "one"}, 1, 0)

keys := object.keys(input.o)

united := object.union(input.o, input.p)

united_n := object.union_n([input.o, input.p, {"last": 1}])

united_n_empty := object.union_n([])

removed := object.remove(input.o, input.ks)

removed_set := object.remove(input.o, {"a"})

filtered := object.filter(input.o, input.ks)

filtered_set := object.filter({"a": 1, "b": 2}, {"a"})

subset := object.subset(input.o, input.p)

subset_deep := object.subset({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}})

subset_arrays := [object.subset([1, 2, 3], [2, 3]), object.subset([1, 2, 3], [1, 3]), object.subset([1], [])]

subset_set_of_array := object.subset([1, 2, 3], {1, 3})

same if {"a": 1, "b": 2} == {"b": 2, "a": 1}

number_keys := {1: "a", "1": "b"}

set_key := {{1}: "a"}

null_key := {null: 1, true: 2, [1]: 3}

float_key := {1.0: "a"}[1]

merge_in_order := object.union({"a": 1}, {"a": {"b": 2}})

nested_missing := input.o.a.b.c.d
