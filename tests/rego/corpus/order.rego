# input: {"xs": [{"a": 1}, [1], "b", "a", 2, 1.5, true, false, null, {}, [], ""]}
# input: {"xs": ["Z", "a", "é", "z", "A", "aa", "\ud83d\ude00", "\uffff", "10", "9"]}
# input: {"xs": [10, 9, 1e3, -0, -1, 0.1, 12345678901234567890, 1e-7, 9007199254740993, 9007199254740992]}
# input: {"xs": [[1, 2], [1], [2], [1, [0]], [1, "a"], [[]]]}
# input: {"xs": [{"a": 1}, {"a": 0}, {"b": 0}, {"a": 1, "b": 0}, {}]}
package corpus.order

sorted := sort(input.xs)

least := min(input.xs)

greatest := max(input.xs)

set := {x | some x in input.xs}

sorted_with_sets := sort([{1}, [1], {"a": 1}, "a", 1, true, null, {2}, set(), {1, 2}])

less := [[i, j] | some i, x in input.xs; some j, y in input.xs; x < y]

less_or_equal := count([1 | some x in input.xs; some y in input.xs; x <= y])

same := [[i, j] | some i, x in input.xs; some j, y in input.xs; i < j; x == y]

across := [null < false, false < true, true < 0, 0 < "", "" < [], [] < {}, {} < set()]

unequal := ["1" != 1, 1 != 1.0, null != false, [] != {}]

text_order := ["a" < "b", "a" < "B", "" < "a", "a" < "aa", "é" < "z"]

array_order := [[1, 2] < [1, 3], [2] < [1, 1], [] < [0], [1] < [1, 0]]

object_order := [{"a": 1} < {"a": 2}, {"b": 0} < {"a": 9}, {"a": 1} < {"a": 1, "b": 0}]

set_order := [{1} < {2}, {1, 2} < {3}, set() < {0}]

number_order := [1 < 1.5, 1e3 > 999, 0.1 + 0.2 == 0.3, 1e300 > 1e299, 9007199254740993 > 9007199254740992]
