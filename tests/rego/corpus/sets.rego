# input: {"a": [1, 2, 3], "b": [2, 3, 4], "x": "text"}
# input: {"a": [], "b": [null, true, "1", 1, 1.0], "x": 1}
# input: {}
package corpus.sets

a := {x | some x in input.a}

b := {x | some x in input.b}

both := a & b

either := a | b

left := a - b

right := b - a

intersected := intersection({a, b})

united := union({a, b})

no_intersection := intersection(set())

no_union := union(set())

same if a == {1, 2, 3}

empty := set()

nested := {{1}, {2}, {1}} | {{3}}

of_an_array := input.a | b

text_minus := input.x - 1

array_minus := input.a - input.b

in_json := {"set": a, "nested": {"s": {a, b}}}

union_of_three := a | b | {9}

precedence := a & b | {9} - {9}

number_identity := {1, 1.0, 1e0, 10e-1}

numbers_and_texts := {1, "1"}

count_of := count(a | b)

sum_of := sum(a)

sorted := sort(a | b)

max_of := max(a | b)

subset := object.subset(a, b)

superset := object.subset(a | b, a)

set_of_sets_sorted := sort({{2}, {1, 3}, {1}, set()})
