# input: {"values": [null, true, 1, 1.5, "s", [], {}], "x": "1", "y": [1, 2], "z": {"a": 1}}
# input: {"values": [], "x": 5, "y": null, "z": "z"}
# input: {}
package corpus.types

names := [type_name(v) | some v in input.values]

set_name := type_name(set())

arrays := [v | some v in input.values; is_array(v)]

booleans := [v | some v in input.values; is_boolean(v)]

nulls := [v | some v in input.values; is_null(v)]

numbers := [v | some v in input.values; is_number(v)]

objects := [v | some v in input.values; is_object(v)]

texts := [v | some v in input.values; is_string(v)]

sets := [v | some v in [set(), [], {1}]; is_set(v)]

not_array := is_array(input.x)

is_array_undefined := is_array(input.nowhere)

false_is_boolean := is_boolean(false)

as_condition if is_number(input.x)
