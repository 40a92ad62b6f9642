# Where variables have their values from, and `with`.
#
# input: {"a": "x", "b": 1, "n": 1, "p": ["x", "y"], "q": [["x", 1]], "o": {}, "oo": {"x": 1}}
# input: {"a": "x", "n": 3, "p": ["x", 3], "q": [["x", 2], [3, 2]], "o": {"x": true, "y": {"x": 1}}, "oo": {"x": 1, "y": 1}, "pp": {"x": [1]}}
# input: {"a": "y", "n": false, "p": ["y"], "q": [["y", 2]], "o": {"q": false}, "oo": {"a": "y"}, "zz": 1}
# input: {}
package corpus.bindings

same(x) := x

walked_not contains v if {
	walk(input.a, [_, v])
	not input.o[v]
}

answered_not contains v if {
	lower(input.a, v)
	not input.o[v]
}

own_answer_not contains v if {
	same(input.a, v)
	not input.o[v]
}

unified_not contains v if {
	w = input.p[_]
	v = w
	not input.o[v]
}

not_before contains v if {
	not input.o[v]
	v = input.p[_]
}

not_before_index contains v if {
	not input.o[v]
	input.oo[v] = 1
}

not_array contains v if {
	not input.o[[v, 1]]
	v = input.p[_]
}

not_unified contains v if {
	not v = 3
	v = input.p[_]
}

not_unified_array contains v if {
	not [v, 1] = [3, 1]
	v = input.p[_]
}

closure_unified contains v if {
	count([1 | v = 3]) == 0
	v = input.p[_]
}

closure_array contains v if {
	count([1 | [v, 2] = input.q[_]]) == 0
	v = input.p[_]
}

closure_index contains v if {
	count([1 | input.o[v]]) == 0
	v = input.p[_]
}

closure_not contains v if {
	count([1 | not input.o[v]]) == 1
	v = input.p[_]
}

closure_walk contains v if {
	count([1 | walk(input.o, [_, v])]) == 0
	v = input.p[_]
}

every_not contains v if { every x in input.p { not input.o[v][x] }; v = input.p[_] }

every_unified contains v if { every x in [v] { v = x }; v = input.p[_] }

every_array contains v if { every x in input.q { [v, _] = x }; v = input.p[_] }

every_other contains v if { every x in ["x"] { y = x; y == v }; v = input.a }

every_domain contains v if { every x in input.pp[v] { x }; v = input.p[_] }

declared_late contains v if {
	input.p[_]
	some v
	input.oo[v] == 1
}

with_undefined if input.a with input.o as input.zz with input.b as 2

with_undefined_member if input.a with input as {"a": 1, "b": input.zz} with input.b as 2

with_undefined_not if not input.zz with input.o as input.zz with input.b as 2

with_undefined_every if {
	every x in input.p { x } with input.o as input.zz with input.b as 2
}

with_undefined_set contains x if x := input.a with input.o as input.zz with input.b as 2

with_some := [[x, y] | some x in input.p with input.p as [7]; y := input.p]

with_some_twice := [x | some x in input.p with input.p as [7]; some y in input.p; y != 9]

with_function := x if x := input.n with same as 2 with input.n as same(input.a)

with_rule := x if x := input.n with data.corpus.bindings.one as 2 with input.n as one

one := 1

sets[k] contains v if some k, v in input.oo

inner[k].b := v if some k, v in input.oo

both[k][v] := 1 if some k, v in input.oo

below.a[k] contains v if some k, v in input.oo

reads_sets := sets

reads_inner := inner

reads_both := both

reads_below := below

not_sets if not sets

not_sets_empty if not sets == {}
