# input: {"a": 1, "user": {"name": "ann", "roles": ["x"]}}
# input: {"a": {"deep": {"er": 1}}}
# input: {}
package corpus.with_values

rule := input.a

name := input.user.name

base := data.outside.value

twice(x) := x * 2

default guarded := false

guarded if input.user.roles[_] == "admin"

replaces_input := v if v := rule with input as {"a": 2}

replaces_member := v if v := rule with input.a as 7

replaces_deep := v if v := input with input.user.name as "bob"

replaces_below_a_scalar := v if v := input with input.a.b.c as 1

adds_member := v if v := input with input.new.path as [1]

replaces_data := v if v := base with data.outside.value as "v"

replaces_data_twice := x if x := base with data.outside as {"value": 3}

replaces_a_rule := x if x := rule with data.corpus.with_values.rule as "mocked"

replaces_builtin_by_value := x if x := time.now_ns() with time.now_ns as 5

replaces_builtin_in_rule := v if v := day with time.now_ns as 1773145800000000000

day := time.weekday(time.now_ns())

replaces_function := x if x := twice(4) with twice as thrice

replaces_function_by_value := x if x := twice(4) with twice as 1

thrice(x) := x * 3

mock_http(_) := {"status_code": 200}

several := x if x := [rule, name] with input.a as 1 with input.user.name as "kim"

in_comprehension := v if v := [x | some y in [1, 2, 3]; x := rule with input.a as y]

negated if not guarded with input.user.roles as ["admin"]

guarded_by_with if guarded with input.user as {"roles": ["admin"]}

back_again := [x, y, z] if {
	x := rule with input.a as 10
	y := rule with input.a as 11
	z := object.get(input, "a", "none")
}

undefined_value := v if v := rule with input.a as input.nowhere

nested_with := x if x := inner with input.a as 1

inner := v if v := [rule, input.b] with input.b as 2

with_false := x if x := rule with input.a as false
