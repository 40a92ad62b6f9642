# input: {"xs": [3, 1, 2, 3], "o": {"a": 1, "b": 2}, "s": "text", "nested": [[1, 2], [3], []]}
# input: {"xs": [], "o": {}, "nested": []}
# input: {"xs": "no array", "o": null, "nested": {"k": [1]}}
# input: {}
package corpus.comprehensions

arrays := [(x * 2) | some x in input.xs]

array_filtered := [x | some x in input.xs; x > 1]

array_with_index := [[i, x] | some i, x in input.xs]

sets := {x | some x in input.xs}

set_count := count({x | some x in input.xs})

objects := {k: v | some k, v in input.o}

object_inverted := {v: k | some k, v in input.o}

object_same_twice := {k: 1 | some x in input.xs; k := sprintf("%v", [x])}

object_conflict := {"k": x | some x in input.xs}

nested := [y | some x in input.nested; some y in x]

nested_sets := {{y | some y in x} | some x in input.nested}

over_undefined := [x | some x in input.nowhere]

over_text := [x | some x in input.s]

old_style := [x | x := input.xs[_]]

keys := {k | input.o[k]}

in_head := {"all": [x | some x in input.xs], "n": count([x | some x in input.xs])}

closure := [y | some x in input.xs; y := [z | some z in input.xs; z > x]]

walked := {p | walk(input, [p, v]); is_number(v)}

cross := [[a, b] | some a in input.xs; some b in input.xs; a < b]

iterates_sets_in_order := [x | some x in {3, "b", 1, null, true, "a", [1], {"k": 1}, {7}, 2.5, false}]

iterates_objects_in_order := [k | some k, _ in {"b": 1, "a": 2, "C": 3, "é": 4, "10": 5, "9": 6}]

mixed_keys := [k | some k, _ in {1: 1, "a": 2, null: 3, true: 4, [1]: 5}]
