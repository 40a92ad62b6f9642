# input: {"xs": [1, 2, 3], "o": {"a": 1, "b": 2}, "x": 2, "mixed": [1, "1", true, null, [], {}]}
# input: {"xs": [], "o": {}, "x": null}
# input: {"xs": {"k": 5}, "o": [9], "x": 5}
# input: {}
package corpus.every_some_in

all_positive if every x in input.xs { x > 0 }

all_small if every x in input.xs { x < 3 }

every_key if every k, v in input.o {
	is_string(k)
	v > 0
}

every_nested if every x in input.xs { every y in input.xs { x + y > 1 } }

every_of_undefined if every x in input.nowhere { x == 1 }

every_of_a_set if every x in {1, 2} { x in input.xs }

every_of_text if every x in input.text { x == 1 }

not_every if not all_small

some_in if {
	some x in input.xs
	x == input.x
}

member if input.x in input.xs

not_member if not input.x in input.xs

key_member if "a", 1 in input.o

index_member if 0, 1 in input.xs

in_set if input.x in {1, 2, null}

in_text if "a" in input.text

member_value := input.x in input.xs

member_of_mixed := [(input.mixed[i] in ["1", null]) | some i in numbers.range(0, 5)]

some_pattern := [b | some [a, b] in [[1, 2], [1, 3], [2, 4]]; a == 1]

some_literal_pattern := [b | some [1, b] in [[1, 2], [1, 3], [2, 4]]]

some_declared := [i | some i; input.xs[i] == input.x]

some_keys := [k | some k, 2 in input.o]

some_nested := [[i, j] | some i, xs in [[1], [2, 3]]; some j, _ in xs]
