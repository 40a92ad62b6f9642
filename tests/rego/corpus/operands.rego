# What is undefined below `not`, and as an operand of `in`. Each member of `holds` is the text of its own body.
# input: {}
# input: {"n": 5, "m": 1, "xs": [1], "o": {"a": 1}}
# input: {"n": 101, "m": 100, "x": 1, "xs": [1, 4], "o": {"a": {"b": 1}, "b": false}, "k": "a", "s": "A", "role": "admin", "user": {"roles": ["admin"]}}
# input: {"n": 1, "xs": {"a": 4}, "x": null, "k": "z", "s": "b", "role": "other", "d": true, "user": {"roles": []}}
# input: {"n": 0, "m": 0, "xs": [{"a": 1}, {}], "x": 4, "k": 0, "s": "a", "role": 7, "d": false, "user": {"roles": {"admin": true}}}
package corpus.operands

above(x) := x > 3

only_above(x) := x if x > 3

listed(x) := x in input.xs

deny if input.d

missing := input.nowhere

roles := {"admin": true}

holds contains `not input.n > 100` if not input.n > 100

holds contains `not input.n == 1` if not input.n == 1

holds contains `not input.n = 1` if not input.n = 1

holds contains `not above(input.n)` if not above(input.n)

holds contains `not only_above(input.n)` if not only_above(input.n)

holds contains `not input.x in input.xs` if not input.x in input.xs

holds contains `not 1 in input.xs` if not 1 in input.xs

holds contains `not input.x in {1, 2}` if not input.x in {1, 2}

holds contains `not input.k, input.x in input.xs` if not input.k, input.x in input.xs

holds contains `not startswith(input.s, "a")` if not startswith(input.s, "a")

holds contains `not startswith(lower(input.s), "a")` if not startswith(lower(input.s), "a")

holds contains `not input.user[input.n]` if not input.user[input.n]

holds contains `not roles[input.role]` if not roles[input.role]

holds contains `not data.corpus.operands.roles[input.role]` if not data.corpus.operands.roles[input.role]

holds contains `not input.a.b.c` if not input.a.b.c

holds contains `not deny` if not deny

holds contains `not deny == true` if not deny == true

holds contains `not missing` if not missing

holds contains `not missing == 1` if not missing == 1

holds contains `not [input.n]` if not [input.n]

holds contains `not [input.n] == [1]` if { not [input.n] == [1] }

holds contains `not [1 | input.n]` if { not [1 | input.n] }

holds contains `not [1 | input.n] == []` if { not [1 | input.n] == [] }

holds contains `not count([1 | not input.n > 3]) > 0` if { not count([1 | not input.n > 3]) > 0 }

holds contains `not input.n + 1 == 2` if not input.n + 1 == 2

holds contains `not input.n + 1` if not input.n + 1

holds contains `x := input.n; not x > 100` if { x := input.n; not x > 100 }

holds contains `x := input.o; not x.a > 100` if { x := input.o; not x.a > 100 }

holds contains `x := input.o; not x.a` if { x := input.o; not x.a }

holds contains `x := input.o; not x[input.n]` if { x := input.o; not x[input.n] }

holds contains `some x in input.xs; not x.a == 1` if { some x in input.xs; not x.a == 1 }

holds contains `every x in input.xs { not x.a == 1` if { every x in input.xs { not x.a == 1 } }

holds contains `not input.n > 100 with input.n as 3` if not input.n > 100 with input.n as 3

holds contains `not input.n > 100 with input.m as 3` if not input.n > 100 with input.m as 3

holds contains `not input.n with input.n as input.nowhere` if not input.n with input.n as input.nowhere

holds contains `not deny with input.d as input.nowhere` if not deny with input.d as input.nowhere

holds contains `not input.m > 1 with input.n as input.nowhere` if not input.m > 1 with input.n as input.nowhere

holds contains `not deny with input.d as above(input.nowhere)` if not deny with input.d as above(input.nowhere)

holds contains `not deny with input as {"d": input.nowhere}` if not deny with input as {"d": input.nowhere}

holds contains `not above(input.n) with above as only_above` if not above(input.n) with above as only_above

holds contains `not (input.n > 100)` if not (input.n > 100)

holds contains `not (input.n > 100) == true` if not (input.n > 100) == true

holds contains `not above(only_above(input.n))` if not above(only_above(input.n))

holds contains `not above(deny)` if not above(deny)

holds contains `not above(4 in input.xs)` if not above(4 in input.xs)

holds contains `not (4 in input.xs) == true` if not (4 in input.xs) == true

holds contains `x := 4 in input.xs; not x` if { x := 4 in input.xs; not x }

holds contains `(4 in input.xs) == false` if (4 in input.xs) == false

holds contains `not listed(4)` if not listed(4)

holds contains `input.k, input.x in input.xs` if input.k, input.x in input.xs

holds contains `not input.n in [input.m]` if not input.n in [input.m]

holds contains `not input.n == input.m` if not input.n == input.m

holds contains `not regex.match("^a", input.s)` if not regex.match("^a", input.s)

holds contains `not object.get(input, "n", 1) == 2` if not object.get(input, "n", 1) == 2

holds contains `not object.get(input, ["n", input.m], 1) == 2` if not object.get(input, ["n", input.m], 1) == 2

holds contains `not input["n"] == 1` if not input["n"] == 1

holds contains `not input.o["a"]` if not input.o["a"]

holds contains `not input.o[input.k].b` if not input.o[input.k].b

holds contains `not input.o[lower(input.s)]` if not input.o[lower(input.s)]

holds contains `not deny = true` if not deny = true

holds contains `not input.xs[0] == 1` if not input.xs[0] == 1

holds contains `not count(input.xs) == 1` if not count(input.xs) == 1

holds contains `not is_string(input.n)` if not is_string(input.n)

holds contains `not to_number(input.s) == 1` if not to_number(input.s) == 1

holds contains `not {"a": {"b": input.n}}.a.b` if { not {"a": {"b": input.n}}.a.b }

holds contains `not [input.n][0]` if { not [input.n][0] }

holds contains `not [1, input.n][0]` if { not [1, input.n][0] }

holds contains `not above(input.n) == true` if not above(input.n) == true

holds contains `not only_above(input.n) == 4` if not only_above(input.n) == 4

holds contains `not missing in [1]` if not missing in [1]

holds contains `not "admin" in input.user.roles` if not "admin" in input.user.roles

holds contains `not input.user.roles["admin"]` if not input.user.roles["admin"]

holds contains `not input.n > 100; not input.m > 100` if { not input.n > 100; not input.m > 100 }

holds contains `not {x | x := input.nowhere} == set()` if { not {x | x := input.nowhere} == set() }

holds contains `lines` if {
	not startswith(
		lower(input.s), # in small letters
		"a",
	)
	not "x" in
		input.xs
}

holds contains `text last` if {
	not input.s in ["b", input.k]
	not lower(input.s) != "b"
	not "admin" in input.user.roles with input.user.roles as "x" in [input.s]
}

base := {"viewer"}

joined(x) if x == {"v", "admin"}

one(x) if x.a == 1

holds contains `not base | {input.role} == {"viewer", "admin"}` if not base | {input.role} == {"viewer", "admin"}

holds contains `not {"viewer", "admin"} == base | {input.role}` if not {"viewer", "admin"} == base | {input.role}

holds contains `not joined({"v"} | {input.role})` if not joined({"v"} | {input.role})

holds contains `not {1} | {input.n} == {1}` if { not {1} | {input.n} == {1} }

holds contains `not ({1} | {input.n}) == {1}` if not ({1} | {input.n}) == {1}

holds contains `not {1} | {input.n}` if { not {1} | {input.n} }

holds contains `not {1, 5} & {input.n} == set()` if { not {1, 5} & {input.n} == set() }

holds contains `not base | {input.role} == base with input.role as input.s` if {
	not base | {input.role} == base with input.role as input.s
}

holds contains `not {"viewer"} | {input.role} in [base]` if { not {"viewer"} | {input.role} in [base] }

holds contains `{1} | {input.n} in [{1}] == false` if ({1} | {input.n} in [{1}]) == false

holds contains `not one({"b": 1, "a": input.n})` if not one({"b": 1, "a": input.n})

holds contains `not {"b": 1, "a": input.n} in [{"b": 1, "a": 5}]` if not {"b": 1, "a": input.n} in [{"b": 1, "a": 5}]

union_in := base | {input.role} in [base]

object_in := {"b": 1, "a": input.n} in [{"b": 1, "a": 5}]

nothing_else := [x | some x in [base, {1}]; not x | {input.role} == {"viewer", "admin"}]

value := 4 in input.xs

values := [4 in input.xs, "k", "a" in input.xs]

value_in_function := listed(4)

value_in_function_undefined := listed(input.n)

value_of_undefined := input.n in [input.m]

contained contains (4 in input.xs)

key[x] := 1 if x := 4 in input.xs

member[k] := 4 in input.xs if k := "k"

term := [(4 in input.xs) | true]

assigned := {x | x := 4 in input.xs}

field := {"a": 4 in input.xs}

nested := [y | y := (4 in input.xs) in [true, (input.x in input.xs) == true]]

in_else := 1 if { input.never } else := 4 in input.xs

chain := 1 if { input.never } else := 2 if not input.n > 100 else := 3

filtered := [x | some x in [1, 2]; not input.n > x]

mapping := {x: y | some x in [1, 2]; y := x + 1; not input.n > x}

inner := [x | some x in [1, 2]; not count([y | some y in input.xs; not y > input.n]) > x]

pairs := [x | x := input.k, input.x in input.o]

default by_default := 7

by_default := 1 if not input.n > 100
