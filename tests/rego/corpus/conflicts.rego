# input: {"a": 1, "b": 2}
# input: {"a": 1}
# input: {"a": 3, "b": 3}
# input: {}
package corpus.conflicts

complete := input.a

complete := input.b

bool if input.a

bool := false if input.b

function(x) := x if input.a

function(_) := input.b

of_function := function(5)

partial[k] := v if {
	k := "k"
	v := input.a
}

partial.k := input.b

else_conflict := 1 if {
	input.a == 1
} else := 2

else_conflict := 3 if input.b == 2

default defaulted := 0

defaulted := input.a

defaulted := input.b

through := complete

through_comprehension := [x | x := complete]

through_negation if not complete

deep.a[k] := input.a if k := "x"

deep.a[k] := input.b if k := "x"

in_every if every x in [1] { x == complete }

caught := object.get({"a": complete}, "a", 1)

constant := 1

constant := 2

literal := {"a": 1, "a": 2}
