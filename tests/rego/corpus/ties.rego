# What belongs together: a value and its body, `every` and the variables it takes from around it, a member that is undefined
# and the others.
# input: {}
# input: {"k": "nobody", "z": "a", "b": 1, "ks": [1], "xs": ["x"], "o": {"a": 2, "b": 1}, "w": {"admin": true}, "deny": {"b": true}}
# input: {"k": "admin", "z": "b", "ks": [1, 2], "xs": ["a", "b"], "o": {"a": 1, "b": 2}, "w": {"admin": "allow", "x": 1}, "deny": {"a": {"b": 1}}}
# input: {"k": 1, "z": "x", "b": false, "ks": [], "xs": ["b", 1], "o": {"x": null}, "w": [true, "allow"], "l": ["x", 1], "g": [{"o": 1}, {"b": 1}]}
# input: {"k": "x", "b": null, "l": [1, "x", null], "g": [{"b": 1}, {"o": "x", "k": 2}, 7], "xs": {"a": "x"}, "w": {"x": false}}
package corpus.ties

value_of_head := input.w[x] if {
	x := input.k
} else := "no"

value_of_call := input.w[x] if {
	x := lower(input.k)
} else := false if {
	input.b
}

value_of_bare := input.w[x] if x := input.k else := false

value_of_else := 1 if {
	input.nowhere
} else := input.w[x] if {
	x := input.k
} else := "none"

value_undefined := input.role if input.k else := "guest"

default verdict := true

verdict := input.verdict if input.k else := false

picked(k) := input.w[x] if {
	x := lower(k)
} else := false

value_of_function := picked(input.k)

blocked(k) := input.w[k] if input.b else := true

not_blocked if not blocked(input.k)

object_value := {
	"a": input.w[x], # a comment
	"b": "é",
} if {
	x := input.k
} else := {"c": [input.b]}

every_late if {
	z := input.z
	x := z
	every k in input.ks { input.o[x] == k }
}

every_not if {
	z := input.z
	x := z
	every k in input.ks { not x == k }
}

every_of_object if {
	z := input.z
	x := z
	every k in {"a": 1, "b": 1} { input.o[x] == k }
}

every_index if every k in input.xs { input.o[k] == 1 }

every_not_index if every k in input.xs { not input.deny[k] }

every_not_below if every k in input.xs { not input.deny[k].b == 1 }

every_both if every i, k in input.xs { input.xs[i] == k }

every_inside if every k in input.xs { every j in [0] { input.xs[j] == k } }

every_in_else := 1 if {
	every k in input.xs { k == "x" }
} else := 2 if {
	every k in input.xs { input.o[k] }
} else := input.z

variable_to_variable if {
	z := input.z
	x := z
	input.o[x] == 2
}

lowered contains lower(x) if some x in input.l

lowered_beside contains lower(x) if {
	some x in input.l
	[1 | true] == [1]
}

lowered_in_brackets contains (lower(x)) if {
	some x in input.l
	[1 | true] == [1]
}

lowered_objects contains {"a": lower(x)} if {
	some x in input.l
	[1 | true] == [1]
}

lowered_all contains lower(input.l[_])

members contains input.g[i].o

members contains 7

members_bare contains x.o if x := input.g[_]

one_member := input.g[i].o

one_of := x.o if some x in input.g

by_key[k] := x.o if some k, x in input.g

by_value[x.o] := k if some k, x in input.g

by_both[input.g[i].o] := input.g[i].o

given(g) := g[_].o

of_function := given(input.g)

denied if count(lowered_beside) > 0

allowed if not denied

spaces.a := 1 if input.nowhere

no_space if not spaces
