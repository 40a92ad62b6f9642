# input: {"n": 5, "name": "ann", "list": ["a", "b"], "flag": true}
# input: {"n": -1, "name": "", "list": [], "flag": false}
# input: {"n": "5", "name": 7, "list": {"k": "a"}, "flag": null}
# input: {}
package corpus.rules

default allow := false

allow if input.n > 3

default text := "none"

text := upper(input.name)

default object_default := {"a": [1, {"b": null}]}

object_default := input.nowhere

default with_comprehension := []

with_comprehension := input.list if count(input.list) > 0

size := "big" if {
	input.n > 10
} else := "middle" if {
	input.n > 3
} else := "small" if {
	input.n >= 0
} else := "negative"

else_undefined := 1 if {
	input.n > 10
} else := 2 if {
	input.n > 3
}

else_false := 1 if {
	input.flag
} else := false

else_in_function(x) := "a" if {
	x == 1
} else := "b" if {
	x == 2
} else := "c"

elses := [else_in_function(1), else_in_function(2), else_in_function(3)]

default fallback(_) := "default of a function"

fallback(x) := "given" if x > 3

function_defaults := [fallback(1), fallback(4), fallback(input.n)]

by_pattern(1) := "one"

by_pattern("x") := "text"

by_pattern([a, b]) := a + b

patterns := [by_pattern(1), by_pattern("x"), by_pattern([1, 2])]

no_pattern := by_pattern(2)

same_function(x) := 1 if x > 1

same_function(x) := 1 if x > 2

same_values := same_function(5)

same_rule := 1 if input.n

same_rule := 1 if input.name

partial_set contains x if some x in input.list

partial_set contains "always"

partial_object[k] := v if some k, v in input.list

partial_object.fixed := 1

partial_object.also.deep := 2

partial_bool[x] if some x in input.list

deep.er.rule := input.n

deep.er.set contains input.name

deep.other := 1

deep.dynamic[k].x := v if some k, v in input.list

reads_deep := deep

empty_set contains x if some x in input.nowhere

empty_object[k] := 1 if some k in input.nowhere

no_body := 7

value_is_false := false

truthy_null if input.flag == null

refers_to_undefined := [input.nowhere]

object_with_undefined := {"a": input.nowhere}

negation if not input.flag

negated_undefined if not input.nowhere

negated_comparison if not input.n > 100

unify := y if [1, y] = [1, input.n]

unify_both := [x, y] if {
	[x, 2] = [1, y]
}

wildcard := 1 if input.list[_] == "a"

index_out_of_range := input.list[9]

negative_index := input.list[i] if i := -1

index_of_text := input.name[0]

float_index := ["a", "b"][i] if i := 1.0

chained := {"a": [{"b": {"c": 7}}]}.a[0].b.c

call_chain := split("a.b", ".")[1]

dynamic := {"ann": 1, "": 2}[input.name]

set_lookup := {"a", "b"}["a"]

set_lookup_missing := {"a", "b"}["z"]

array_reference := [1, 2, 3][i] if i := 1

raw := `a\n"b"`

multiline := `line
other`

ternary_like := [x | x := "yes"; input.flag][0]

some_rule_value if partial_set.always

traced if trace("note")

printed if {
	print("note", input.nowhere)
	input.flag
}
